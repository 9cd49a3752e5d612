//! Whether a template keeps the partitions of a calendar apart.

use super::{Piece, Template, format_date};
use crate::{Calendar, Grain, Interval};
use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use std::collections::HashSet;

impl Template {
    /// Whether different keys of the calendar always give different texts, the parameters being equal.
    ///
    /// Proved from the fields where their text has a fixed width; otherwise checked by rendering intervals that lie an
    /// hour, a day, a week, a month and years apart, with both hours of a fold among them.
    pub fn distinguishes(&self, calendar: &Calendar) -> bool {
        if !self.depends_on_partition() {
            return false;
        }
        self.is_one_key() || self.has_telling_fields(calendar) || self.keeps_samples_apart(calendar)
    }

    /// The key alone varies: the text differs as the key does.
    fn is_one_key(&self) -> bool {
        let mut varying = self.pieces.iter().filter(|piece| !matches!(piece, Piece::Literal(_) | Piece::Param(_)));
        matches!(varying.next(), Some(Piece::Date | Piece::Partition)) && varying.next().is_none()
    }

    /// Every varying field has a fixed width, so that the text can be taken apart again, and the fields tell the key.
    fn has_telling_fields(&self, calendar: &Calendar) -> bool {
        let mut fields = Vec::new();
        let mut whole_key = false;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(_) | Piece::Param(_) => {}
                Piece::DateFormat(format) => match telling_fields(format) {
                    Some(found) => fields.extend(found),
                    None => return false,
                },
                Piece::Date | Piece::Partition => whole_key = true,
            }
        }
        if whole_key {
            // The key tells itself. Its width is fixed but for hours with an offset, which may have seconds.
            return calendar.grain() != Grain::Hourly || *calendar.zone() == TimeZone::UTC;
        }
        let has = |wanted: &[char]| wanted.iter().all(|field| fields.contains(field));
        let day = has(&['F']) || has(&['Y', 'm', 'd']) || has(&['Y', 'j']) || has(&['G', 'V', 'u']);
        match calendar.grain() {
            // In UTC the clock face tells the hour; elsewhere it does so together with the offset. An offset may have
            // seconds: the length of the text tells that, when it stands there once.
            Grain::Hourly if *calendar.zone() == TimeZone::UTC => day && has(&['H']) && !has(&['z']),
            Grain::Hourly => day && has(&['H']) && fields.iter().filter(|field| **field == 'z').count() == 1,
            _ if has(&['z']) => false,
            Grain::Daily => day,
            Grain::Weekly => day || has(&['G', 'V']),
            Grain::Monthly => has(&['F']) || has(&['Y', 'm']) || has(&['Y', 'j']),
            Grain::Yearly => has(&['F']) || has(&['Y']),
        }
    }

    fn keeps_samples_apart(&self, calendar: &Calendar) -> bool {
        let mut seen = HashSet::new();
        samples(calendar).all(|interval| match self.varying_text(&interval) {
            Some(text) => seen.insert(text),
            // A format that cannot print a date refuses it when it is rendered, so that nothing is overwritten.
            None => true,
        })
    }

    /// The text for an interval, with parameters replaced by one letter.
    fn varying_text(&self, interval: &Interval) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Param(_) => text.push('x'),
                Piece::Date | Piece::Partition => text.push_str(&interval.key),
                Piece::DateFormat(format) => text.push_str(&format_date(format, &interval.start_civil).ok()?),
            }
        }
        Some(text)
    }
}

/// The conversions of a format, when all print at one width for the years 1 to 9998, the offset `%z` aside.
fn telling_fields(format: &str) -> Option<Vec<char>> {
    let mut fields = Vec::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '%' {
            match chars.next()? {
                '%' => {}
                field if "FYmdjGVuHMSz".contains(field) => fields.push(field),
                _ => return None,
            }
        }
    }
    Some(fields)
}

/// Intervals among which a template that mixes up keys mixes up two: all of a stretch of years with a month of another century, and
/// for hours all of two years with one more hour of every day around them.
fn samples(calendar: &Calendar) -> impl Iterator<Item = Interval> {
    let (from, to) = match calendar.grain() {
        Grain::Hourly => (date(2024, 1, 1), date(2026, 1, 1)),
        Grain::Daily => (date(2000, 1, 1), date(2040, 1, 1)),
        Grain::Weekly | Grain::Monthly => (date(1970, 1, 1), date(2060, 1, 1)),
        Grain::Yearly => (date(1900, 1, 1), date(2200, 1, 1)),
    };
    let whole = walk(calendar, from, to);
    let sparse = if calendar.grain() == Grain::Hourly {
        days(date(2000, 1, 1), from).chain(days(to, date(2040, 1, 1)))
    } else {
        days(to, to).chain(days(to, to))
    };
    let hour_of = move |day: Date| calendar.containing(start_of(calendar, day)).ok();
    // A year of two digits comes again after a hundred years, with the same weekdays after four hundred.
    let centuries_later = walk(calendar, date(2425, 1, 1), date(2425, 2, 1));
    whole.chain(sparse.filter_map(hour_of)).chain(centuries_later)
}

fn walk(calendar: &Calendar, from: Date, to: Date) -> impl Iterator<Item = Interval> {
    let end = start_of(calendar, to);
    let first = calendar.containing(start_of(calendar, from)).ok();
    std::iter::successors(first, |interval| calendar.next(interval).ok()).take_while(move |it| it.start < end)
}

fn days(from: Date, to: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(from), |day| day.tomorrow().ok()).take_while(move |day| *day < to)
}

fn start_of(calendar: &Calendar, day: Date) -> Timestamp {
    calendar.zone().to_ambiguous_timestamp(day.at(0, 0, 0, 0)).compatible().unwrap_or_default()
}
