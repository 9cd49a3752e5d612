//! Spellings of a logical date: what is read, and which interval it names.
//!
//! Reading is strict and done here, not by jiff's parser, whose leniency (annotations, signed years, leap seconds,
//! missing minutes) would let one text mean what its author did not.

use super::{Calendar, Grain, Interval, check_year, later, monday_of_week, out_of_range};
use crate::{Error, Result};
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset};
use jiff::{SignedDuration, Timestamp};

/// Steps back are walked one by one; so many are surely a mistake.
const MOST_STEPS: u32 = 100_000;

/// What a text says, before the calendar is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// `2025`
    Year(i16),
    /// `2025-03`, as its first day.
    Month(Date),
    /// `2025-W13`, as its Monday.
    Week(Date),
    /// `2025-03-24`
    Day(Date),
    /// `2025-03-24T05`, with or without an offset: names an hour, not an instant.
    Hour(DateTime, Option<Offset>),
    /// `2025-03-24T05:00`, a clock face in the calendar's zone.
    Clock(DateTime),
    /// `2025-03-24T05:00Z`
    Instant(Timestamp),
    /// `today`, `yesterday`, `-2d`: steps back from now, and the grain that the unit belongs to.
    Back(u32, Grain),
}

/// The interval of `calendar` that `text` names, given with `flag` if that is not empty.
pub(super) fn interval(calendar: &Calendar, flag: &str, text: &str, now: Option<Timestamp>) -> Result<Interval> {
    let request = Request { calendar, flag, text };
    let spelling = parse(text).map_err(|reason| request.malformed(&reason))?;
    match (spelling, calendar.grain) {
        (Spelling::Year(year), Grain::Yearly) => calendar.civil_interval(Date::new(year, 1, 1).map_err(out_of_range)?),
        (Spelling::Month(first), Grain::Monthly) | (Spelling::Week(first), Grain::Weekly) => {
            calendar.civil_interval(first)
        }
        (Spelling::Year(_), _) => Err(request.wrong_grain("a year")),
        (Spelling::Month(_), _) => Err(request.wrong_grain("a month")),
        (Spelling::Week(_), _) => Err(request.wrong_grain("a week")),
        (Spelling::Day(_), Grain::Hourly) => Err(request.wrong_grain("a day")),
        (Spelling::Day(date), _) => request.civil_start(date.at(0, 0, 0, 0)),
        (Spelling::Hour(hour, offset), Grain::Hourly) => request.hour(hour, offset),
        (Spelling::Clock(shown), Grain::Hourly) => request.hourly_clock(shown),
        (Spelling::Hour(hour, Some(offset)), _) => request.start(offset.to_timestamp(hour).map_err(out_of_range)?),
        (Spelling::Hour(shown, None) | Spelling::Clock(shown), _) => request.civil_start(shown),
        (Spelling::Instant(instant), _) => request.start(instant),
        (Spelling::Back(steps, grain), _) => request.back(steps, grain, now),
    }
}

/// One text to be understood in one calendar.
struct Request<'a> {
    calendar: &'a Calendar,
    flag: &'a str,
    text: &'a str,
}

impl Request<'_> {
    /// The interval that begins at `instant`.
    fn start(&self, instant: Timestamp) -> Result<Interval> {
        let interval = self.calendar.containing(instant)?;
        if interval.start == instant { Ok(interval) } else { Err(self.inside(&interval)) }
    }

    /// The interval whose first civil date begins at the clock face `shown`.
    ///
    /// Midnight names the day even where the zone's clocks skip it or show it twice.
    fn civil_start(&self, shown: DateTime) -> Result<Interval> {
        let first = self.calendar.first_date(shown.date());
        let interval = self.calendar.civil_interval(first)?;
        if shown == first.at(0, 0, 0, 0) { Ok(interval) } else { Err(self.inside(&interval)) }
    }

    /// The hour that clocks show as `hour`.
    ///
    /// With an offset it may be a key, which a change of the clock inside the hour makes begin later than `hour`, or an
    /// instant told with a foreign offset. The key comes first: what is stored must be read back as it was meant.
    fn hour(&self, hour: DateTime, offset: Option<Offset>) -> Result<Interval> {
        check_year(hour.year())?;
        let Some(offset) = offset else { return self.hourly_clock(hour) };
        let nominal = offset.to_timestamp(hour).map_err(out_of_range)?;
        let mut interval = self.calendar.containing(nominal)?;
        let own = self.calendar.key_of_hour(hour, offset);
        let limit = later(nominal, SignedDuration::from_hours(1))?;
        while interval.start < limit {
            if interval.key == own {
                return Ok(interval);
            }
            interval = self.calendar.next(&interval)?;
        }
        self.start(nominal)
    }

    /// The hour that a clock face without an offset names, when there is exactly one.
    fn hourly_clock(&self, shown: DateTime) -> Result<Interval> {
        check_year(shown.year())?;
        let zone = &self.calendar.zone;
        let nearby = zone.to_ambiguous_timestamp(shown).compatible().map_err(out_of_range)?;
        if shown.minute() != 0 || shown.second() != 0 || shown.subsec_nanosecond() != 0 {
            return self.start(nearby);
        }
        let hours = self.hours_shown_as(shown, nearby)?;
        match hours.as_slice() {
            [hour] => Ok(hour.clone()),
            [first, second, ..] => Err(self.candidates("happens twice", first, second)),
            [] => {
                let after = self.calendar.containing(nearby)?;
                let before = self.calendar.previous(&after)?;
                Err(self.candidates("is skipped by the clocks", &before, &after))
            }
        }
    }

    /// Every hour whose clock face is `shown`; all lie within a day of `nearby`, for no clock was ever set back further.
    fn hours_shown_as(&self, shown: DateTime, nearby: Timestamp) -> Result<Vec<Interval>> {
        if !matches!(self.calendar.zone.to_ambiguous_timestamp(shown).offset(), AmbiguousOffset::Unambiguous { .. })
            || self.offset_changes_within_the_hour(nearby)?
        {
            let limit = later(nearby, SignedDuration::from_hours(25))?;
            let mut interval = self.calendar.containing(later(nearby, SignedDuration::from_hours(-25))?)?;
            let mut found = Vec::new();
            while interval.start < limit {
                let civil = interval.start_civil.datetime();
                if civil.date() == shown.date() && civil.hour() == shown.hour() {
                    found.push(interval.clone());
                }
                interval = self.calendar.next(&interval)?;
            }
            return Ok(found);
        }
        Ok(vec![self.calendar.containing(nearby)?])
    }

    /// A change within the hour can show its face again, later than the full hour that was asked for.
    fn offset_changes_within_the_hour(&self, start: Timestamp) -> Result<bool> {
        let zone = &self.calendar.zone;
        Ok(zone.to_offset(start) != zone.to_offset(later(start, SignedDuration::from_hours(1))?))
    }

    fn back(&self, steps: u32, grain: Grain, now: Option<Timestamp>) -> Result<Interval> {
        if grain != self.calendar.grain {
            return Err(self.malformed(&format!("it counts {} intervals, the grain is {}", grain, self.calendar.grain)));
        }
        let Some(now) = now else {
            return Err(self.malformed("a date relative to now has no meaning here"));
        };
        let mut interval = self.calendar.containing(now)?;
        for _ in 0..steps {
            interval = self.calendar.previous(&interval)?;
        }
        Ok(interval)
    }

    fn inside(&self, interval: &Interval) -> Error {
        let grain = self.calendar.grain;
        let Ok(next) = self.calendar.next(interval) else {
            return self.malformed(&format!("it lies inside the {grain} interval {}", interval.key));
        };
        Error::invalid(format!(
            "`{}` lies inside the {grain} interval {}{}; give {} (the interval it is in) or {} (the next one)",
            self.text,
            interval.key,
            self.in_zone(),
            interval.key,
            next.key
        ))
        .hint(self.give(&interval.key))
    }

    fn candidates(&self, what: &str, first: &Interval, second: &Interval) -> Error {
        Error::invalid(format!("`{}` {what}{}; give {} or {}", self.text, self.in_zone(), first.key, second.key))
            .hint(self.give(&first.key))
    }

    fn wrong_grain(&self, what: &str) -> Error {
        self.malformed(&format!("it names {what}, the grain is {}", self.calendar.grain))
    }

    fn malformed(&self, reason: &str) -> Error {
        let example = self.example();
        Error::invalid(format!(
            "`{}` is not a logical date of the {} grain: {reason}; write it like `{example}`",
            self.text, self.calendar.grain
        ))
        .hint(format!("{}, or {}", self.give(&example), self.words()))
    }

    /// A right spelling, as near to the text as can be: the first interval of the year, month or day that it names.
    fn example(&self) -> String {
        let date = match parse(self.text) {
            Ok(Spelling::Month(date) | Spelling::Week(date) | Spelling::Day(date)) => date,
            Ok(Spelling::Year(year)) => Date::new(year, 1, 1).unwrap_or(Date::constant(2025, 3, 24)),
            _ => Date::constant(2025, 3, 24),
        };
        let nearest = self.calendar.first_instant(date).and_then(|start| self.calendar.containing(start));
        nearest.map_or_else(|_| "2025-03-24".to_owned(), |interval| interval.key)
    }

    fn give(&self, key: &str) -> String {
        format!("give it as `{}`", format!("{} {key}", self.flag).trim_start())
    }

    /// What counts from now, in words.
    fn words(&self) -> &'static str {
        match self.calendar.grain {
            Grain::Hourly => "so many hours back, as `-1h`",
            Grain::Daily => "`today`, `yesterday`, or so many days back, as `-2d`",
            Grain::Weekly => "so many weeks back, as `-1w`",
            Grain::Monthly => "so many months back, as `-1mo`",
            Grain::Yearly => "so many years back, as `-1y`",
        }
    }

    fn in_zone(&self) -> String {
        match self.calendar.zone_name() {
            "UTC" => String::new(),
            zone => format!(" in {zone}"),
        }
    }
}

/// Reads a text; the error is the reason alone.
fn parse(text: &str) -> Result<Spelling, String> {
    match text {
        "" => return Err("it is empty".to_owned()),
        "today" => return Ok(Spelling::Back(0, Grain::Daily)),
        "yesterday" => return Ok(Spelling::Back(1, Grain::Daily)),
        _ => {}
    }
    if let Some(steps) = text.strip_prefix('-') {
        return parse_steps(steps);
    }
    let mut reader = Reader(text);
    let spelling = reader.spelling()?;
    if reader.0.is_empty() { Ok(spelling) } else { Err(format!("`{}` is left over after the date", reader.0)) }
}

fn parse_steps(text: &str) -> Result<Spelling, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let grain = match unit {
        "h" => Grain::Hourly,
        "d" => Grain::Daily,
        "w" => Grain::Weekly,
        "mo" => Grain::Monthly,
        "y" => Grain::Yearly,
        _ => return Err("steps back are a number and one of h, d, w, mo and y, as in `-1d`".to_owned()),
    };
    match number.parse() {
        Ok(steps) if steps <= MOST_STEPS => Ok(Spelling::Back(steps, grain)),
        _ => Err(format!("the steps back are not a number up to {MOST_STEPS}")),
    }
}

/// The rest of a text; every method takes from its front.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn spelling(&mut self) -> Result<Spelling, String> {
        let year = self.year()?;
        if self.0.is_empty() {
            return Ok(Spelling::Year(year));
        }
        let extended = self.take('-');
        if self.take('W') || self.take('w') {
            let week = self.two_digits("the week")?;
            let monday = i8::try_from(week).ok().and_then(|week| monday_of_week(year, week));
            return monday.map(Spelling::Week).ok_or_else(|| format!("the year {year} has no week {week}"));
        }
        let month = self.two_digits("the month")?;
        if extended && self.0.is_empty() {
            return date(year, month, 1).map(Spelling::Month);
        }
        if extended && !self.take('-') {
            return Err(format!("after the month comes `-` and the day, not `{}`", self.0));
        }
        let day = self.two_digits("the day")?;
        let date = date(year, month, day)?;
        if self.0.is_empty() { Ok(Spelling::Day(date)) } else { self.time_of(date) }
    }

    fn time_of(&mut self, date: Date) -> Result<Spelling, String> {
        if !(self.take('T') || self.take('t') || self.take(' ')) {
            return Err(format!("`{}` is left over after the date", self.0));
        }
        let hour = self.below(24, "the hour")?;
        if self.0.is_empty() || self.at_offset() {
            return Ok(Spelling::Hour(date.at(hour, 0, 0, 0), self.offset()?));
        }
        let separated = self.take(':');
        let minute = self.below(60, "the minute")?;
        let has_seconds = if separated { self.take(':') } else { self.at_digit() };
        let second = if has_seconds { self.below(60, "the second")? } else { 0 };
        let nanosecond = if has_seconds { self.fraction()? } else { 0 };
        let shown = date.at(hour, minute, second, nanosecond);
        match self.offset()? {
            None => Ok(Spelling::Clock(shown)),
            Some(offset) => {
                offset.to_timestamp(shown).map(Spelling::Instant).map_err(|_| "it is out of range".to_owned())
            }
        }
    }

    fn offset(&mut self) -> Result<Option<Offset>, String> {
        if self.take('Z') || self.take('z') {
            return Ok(Some(Offset::UTC));
        }
        let sign = match self.0.chars().next() {
            Some('+') => 1,
            Some('-') => -1,
            _ => return Ok(None),
        };
        self.0 = &self.0[1..];
        let mut seconds = i32::from(self.below(24, "the hour of the offset")?) * 3600;
        for (unit, name) in [(60, "the minute of the offset"), (1, "the second of the offset")] {
            if self.take(':') || self.at_digit() {
                seconds += i32::from(self.below(60, name)?) * unit;
            }
        }
        Offset::from_seconds(sign * seconds).map(Some).map_err(|_| "the offset is out of range".to_owned())
    }

    fn year(&mut self) -> Result<i16, String> {
        let digits = self.digits();
        // Eight digits are year, month and day run together.
        if !matches!(digits.len(), 4 | 8) {
            return Err("a date begins with a year of four digits".to_owned());
        }
        let (year, rest) = self.0.split_at(4);
        self.0 = rest;
        let year = year.parse().map_err(|_| "a date begins with a year of four digits".to_owned())?;
        check_year(year).map_err(|error| error.message)?;
        Ok(year)
    }

    fn fraction(&mut self) -> Result<i32, String> {
        if !self.take('.') && !self.take(',') {
            return Ok(0);
        }
        let digits = self.digits();
        if digits.is_empty() || digits.len() > 9 {
            return Err("a fraction of a second has one to nine digits".to_owned());
        }
        self.0 = &self.0[digits.len()..];
        format!("{digits:0<9}").parse().map_err(|_| "the fraction of a second is not a number".to_owned())
    }

    fn below(&mut self, limit: u8, what: &str) -> Result<i8, String> {
        let number = self.two_digits(what)?;
        match i8::try_from(number) {
            Ok(small) if number < limit => Ok(small),
            _ => Err(format!("{what} is {number}, not below {limit}")),
        }
    }

    fn two_digits(&mut self, what: &str) -> Result<u8, String> {
        let number = self.0.get(..2).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let number = number.and_then(|text| text.parse().ok()).ok_or_else(|| format!("{what} is not two digits"))?;
        self.0 = &self.0[2..];
        Ok(number)
    }

    fn digits(&self) -> &'a str {
        &self.0[..self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len())]
    }

    fn at_digit(&self) -> bool {
        self.0.starts_with(|c: char| c.is_ascii_digit())
    }

    fn at_offset(&self) -> bool {
        self.0.starts_with(['Z', 'z', '+', '-'])
    }

    fn take(&mut self, c: char) -> bool {
        let rest = self.0.strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}

fn date(year: i16, month: u8, day: u8) -> Result<Date, String> {
    let (month, day) = (i8::try_from(month).unwrap_or(99), i8::try_from(day).unwrap_or(99));
    let first = Date::new(year, month, 1).map_err(|_| format!("there is no month {month:02}"))?;
    let days = first.days_in_month();
    Date::new(year, month, day).map_err(|_| format!("{year:04}-{month:02} has {days} days, not a day {day:02}"))
}
