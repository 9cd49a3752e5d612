//! Calendar intervals: what a logical date stands for, and the one spelling (the key) under which it is stored.
//!
//! An interval is a stretch of the time line, start included, end excluded. The intervals of one [`Calendar`] tile the
//! time line without gap or overlap, and each has one key:
//!
//! | grain | key | interval |
//! | --- | --- | --- |
//! | hourly | `2025-03-24T05` in UTC, `2025-10-26T02+0200` elsewhere | the instants that share civil hour and offset |
//! | daily | `2025-03-24` | from the first instant of the civil day to that of the next |
//! | weekly | `2025-W13` | the ISO week, from Monday |
//! | monthly | `2025-03` | from the first instant of the month |
//! | yearly | `2025` | from the first instant of the year |
//!
//! So a day has 23 or 25 hours where a clock changes; the two hours of a fold have keys that differ; an hour that a
//! clock change of 30 minutes cuts is two intervals; a day that a zone skipped has no interval. Years are 1 to 9998.
//! Order intervals by `start`: in a fold the order of hourly keys as text is not their order in time.
//!
//! A key depends on the grain, the declared zone and the time zone data that travels with the program. It never
//! depends on the clock, on `TZ` or on the time zone files of the host.

mod spelling;
#[cfg(test)]
mod tests;

use crate::{Error, Result, nearest};
use jiff::civil::{Date, DateTime, ISOWeekDate, Weekday};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan, ZonedDateTime};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How long the interval of a logical date is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grain {
    /// One hour.
    Hourly,
    /// One civil day.
    Daily,
    /// One ISO week, Monday to Sunday.
    Weekly,
    /// One calendar month.
    Monthly,
    /// One calendar year.
    Yearly,
}

impl Grain {
    /// Every grain, the shortest first.
    pub const ALL: [Self; 5] = [Self::Hourly, Self::Daily, Self::Weekly, Self::Monthly, Self::Yearly];

    /// The grain's name in configuration and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hourly => "hourly",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
            Self::Yearly => "yearly",
        }
    }
}

impl fmt::Display for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Grain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let names = Self::ALL.map(Self::as_str);
        Self::ALL.into_iter().find(|grain| grain.as_str() == text).ok_or_else(|| {
            let error = Error::invalid(format!("`{text}` is not a grain; grains are {}", names.join(", ")));
            match nearest(text, names) {
                Some(name) => error.hint(format!("did you mean `{name}`?")),
                None => error,
            }
        })
    }
}

/// One interval of a calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The canonical spelling.
    pub key: String,
    /// The first instant.
    pub start: Timestamp,
    /// The first instant after the interval.
    pub end: Timestamp,
    /// The start as clocks in the calendar's zone show it.
    pub start_civil: ZonedDateTime,
}

/// A grain in a time zone: turns spellings of logical dates into intervals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Declared", into = "Declared")]
pub struct Calendar {
    grain: Grain,
    zone: TimeZone,
}

impl Calendar {
    /// A calendar in UTC.
    pub const fn utc(grain: Grain) -> Self {
        Self { grain, zone: TimeZone::UTC }
    }

    /// A calendar in a zone named by IANA, such as `Europe/Berlin`.
    pub fn new(grain: Grain, zone: &str) -> Result<Self> {
        let known = TimeZoneDatabase::bundled();
        match known.get(zone) {
            // `Etc/UTC`, `Zulu` and their like are one zone, so that they give the same hourly keys.
            Ok(found) if found.primary_iana_name() == Some("UTC") => Ok(Self::utc(grain)),
            Ok(found) if !found.is_unknown() => Ok(Self { grain, zone: found }),
            _ => Err(unknown_zone(zone, &known)),
        }
    }

    /// How long an interval is.
    pub fn grain(&self) -> Grain {
        self.grain
    }

    /// The zone whose civil time cuts the intervals.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The zone's IANA name.
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The interval that `text` names: its key, or another spelling of exactly the same interval.
    ///
    /// A date without an offset is read in the calendar's zone. An instant must be the interval's start. What lies
    /// inside an interval is refused with the candidates, since nobody but the caller knows which is meant. `today`,
    /// `yesterday` and steps back such as `-2d` (`h`, `d`, `w`, `mo`, `y`, as the grain is) need `now`.
    pub fn canonical(&self, text: &str, now: Option<Timestamp>) -> Result<Interval> {
        self.given("", text, now)
    }

    /// The same for a text that was given with a flag such as `--from`: the hint of an error names it.
    pub fn given(&self, flag: &str, text: &str, now: Option<Timestamp>) -> Result<Interval> {
        spelling::interval(self, flag, text, now)
    }

    /// The first and the last interval that have a part in what `text` names: an interval of this calendar or, where it names none
    /// of these, one of another grain in the same zone.
    pub fn touched(&self, flag: &str, text: &str, now: Option<Timestamp>) -> Result<(Interval, Interval)> {
        let unread = match self.given(flag, text, now) {
            Ok(own) => return Ok((own.clone(), own)),
            Err(error) => error,
        };
        // A day that begins a week or a month is meant as a day.
        let grains = [Grain::Daily, Grain::Weekly, Grain::Monthly, Grain::Yearly, Grain::Hourly];
        let read = |grain| Self { grain, zone: self.zone.clone() }.given(flag, text, now).ok();
        let Some(named) = grains.into_iter().find_map(read) else { return Err(unread) };
        Ok((self.containing(named.start)?, self.containing(just_before(named.end)?)?))
    }

    /// The interval of a stored key. Refuses every other spelling: a key is stored in one form.
    pub fn interval_of_key(&self, key: &str) -> Result<Interval> {
        let interval = spelling::interval(self, "", key, None)?;
        if interval.key == key {
            return Ok(interval);
        }
        Err(Error::invalid(format!("`{key}` is not the key of a {} interval; its key is {}", self.grain, interval.key)))
    }

    /// The interval that `instant` lies in.
    pub fn containing(&self, instant: Timestamp) -> Result<Interval> {
        if self.grain == Grain::Hourly {
            return self.hour_containing(instant);
        }
        let mut first = self.first_date(self.zone.to_datetime(instant).date());
        // A clock set back over midnight shows the old date again while the new interval has already begun.
        loop {
            let following = self.following_date(first)?;
            if instant < self.first_instant(following)? {
                return self.civil_interval(first);
            }
            first = following;
        }
    }

    /// The interval that begins where this one ends.
    pub fn next(&self, interval: &Interval) -> Result<Interval> {
        self.containing(interval.end)
    }

    /// The interval that ends where this one begins.
    pub fn previous(&self, interval: &Interval) -> Result<Interval> {
        self.containing(just_before(interval.start)?)
    }

    /// The intervals from `from` to `to`, both included, in order of time. A reversed range is refused.
    pub fn range(&self, from: &Interval, to: &Interval) -> Result<Intervals> {
        if from.start > to.start {
            return Err(Error::invalid(format!("the range is reversed: {} is after {}", from.key, to.key))
                .hint(format!("give `--from {} --to {}`", to.key, from.key)));
        }
        Ok(Intervals { calendar: self.clone(), next: Some(from.clone()), last: to.start })
    }

    /// Whether data for the interval may still arrive: its end has not come, or it lies in the future.
    pub fn is_open(&self, interval: &Interval, now: Timestamp) -> bool {
        now < interval.end
    }

    /// The interval whose first civil date is `first`.
    fn civil_interval(&self, first: Date) -> Result<Interval> {
        let key = self.key_of_date(first);
        let start = self.first_instant(first)?;
        let end = self.first_instant(self.following_date(first)?)?;
        if start >= end {
            let (before, after) = (self.containing(just_before(start)?)?, self.containing(start)?);
            return Err(Error::invalid(format!(
                "{key} has no instant in {}: the calendar there skips it; give {} or {}",
                self.zone_name(),
                before.key,
                after.key
            )));
        }
        Ok(self.interval_at(key, start, end))
    }

    /// Cuts the civil hour around `instant` at every change of offset, so that equal clock faces stay apart.
    fn hour_containing(&self, instant: Timestamp) -> Result<Interval> {
        let offset = self.zone.to_offset(instant);
        let shown = offset.to_datetime(instant);
        let full_hour = shown.date().at(shown.hour(), 0, 0, 0);
        check_year(full_hour.year())?;
        let nominal = offset.to_timestamp(full_hour).map_err(out_of_range)?;
        let nominal_end = later(nominal, SignedDuration::from_hours(1))?;
        let changes =
            |at: &Timestamp| just_before(*at).is_ok_and(|it| self.zone.to_offset(it) != self.zone.to_offset(*at));
        let start =
            (self.zone.preceding(later(instant, SignedDuration::from_nanos(1))?).map(|change| change.timestamp()))
                .take_while(|at| *at > nominal)
                .find(changes);
        let end = (self.zone.following(instant).map(|change| change.timestamp()))
            .take_while(|at| *at < nominal_end)
            .find(changes);
        let key = self.key_of_hour(full_hour, offset);
        Ok(self.interval_at(key, start.unwrap_or(nominal), end.unwrap_or(nominal_end)))
    }

    fn interval_at(&self, key: String, start: Timestamp, end: Timestamp) -> Interval {
        let start_civil = start.to_zoned_datetime(self.zone.clone());
        Interval { key, start, end, start_civil }
    }

    /// The first date of the interval that `date` belongs to.
    fn first_date(&self, date: Date) -> Date {
        match self.grain {
            Grain::Hourly | Grain::Daily => date,
            Grain::Weekly => date.saturating_sub(i64::from(date.weekday().to_monday_zero_offset()).days()),
            Grain::Monthly => date.first_of_month(),
            Grain::Yearly => date.first_of_year(),
        }
    }

    /// The first date of the next interval.
    fn following_date(&self, first: Date) -> Result<Date> {
        let length = match self.grain {
            Grain::Hourly | Grain::Daily => 1.day(),
            Grain::Weekly => 1.week(),
            Grain::Monthly => 1.month(),
            Grain::Yearly => 1.year(),
        };
        check_year(if self.grain == Grain::Weekly { first.iso_week_date().year() } else { first.year() })?;
        first.checked_add(length).map_err(out_of_range)
    }

    /// The first instant at which a clock in the zone shows `date` or a later date.
    fn first_instant(&self, date: Date) -> Result<Timestamp> {
        let midnight = date.at(0, 0, 0, 0);
        match self.zone.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(midnight).map_err(out_of_range)
            }
            AmbiguousOffset::Gap { before, .. } => {
                let inside = before.to_timestamp(midnight).map_err(out_of_range)?;
                let mut changes = self.zone.preceding(later(inside, SignedDuration::from_nanos(1))?);
                Ok(changes.next().map_or(inside, |change| change.timestamp()))
            }
        }
    }

    fn key_of_date(&self, first: Date) -> String {
        let (year, month) = (first.year(), first.month());
        match self.grain {
            Grain::Hourly | Grain::Daily => format!("{year:04}-{month:02}-{:02}", first.day()),
            Grain::Weekly => {
                let week = first.iso_week_date();
                format!("{:04}-W{:02}", week.year(), week.week())
            }
            Grain::Monthly => format!("{year:04}-{month:02}"),
            Grain::Yearly => format!("{year:04}"),
        }
    }

    fn key_of_hour(&self, hour: DateTime, offset: Offset) -> String {
        let text = format!("{:04}-{:02}-{:02}T{:02}", hour.year(), hour.month(), hour.day(), hour.hour());
        if self.zone == TimeZone::UTC { text } else { text + &numeric_offset(offset) }
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.grain, self.zone_name())
    }
}

/// The intervals of a range, in order of time. Made by [`Calendar::range`].
#[derive(Clone, Debug)]
pub struct Intervals {
    calendar: Calendar,
    next: Option<Interval>,
    last: Timestamp,
}

impl Iterator for Intervals {
    type Item = Interval;

    fn next(&mut self) -> Option<Interval> {
        let current = self.next.take()?;
        if current.start < self.last {
            // Cannot fail: `last` is the start of an interval, so every interval before it exists.
            self.next = self.calendar.next(&current).ok().filter(|next| next.start <= self.last);
        }
        Some(current)
    }
}

/// A calendar as it is written in configuration and records.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    grain: Grain,
    #[serde(default = "utc_name")]
    timezone: String,
}

fn utc_name() -> String {
    "UTC".to_owned()
}

impl TryFrom<Declared> for Calendar {
    type Error = Error;

    fn try_from(declared: Declared) -> Result<Self> {
        Self::new(declared.grain, &declared.timezone)
    }
}

impl From<Calendar> for Declared {
    fn from(calendar: Calendar) -> Self {
        Self { grain: calendar.grain, timezone: calendar.zone_name().to_owned() }
    }
}

fn unknown_zone(zone: &str, known: &TimeZoneDatabase) -> Error {
    let names: Vec<String> = known.available().map(|name| name.to_string()).collect();
    let names = || names.iter().map(String::as_str);
    let city = |name: &str| name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    // People write the city alone, so a match of the last part is a better guess than the distance of the whole.
    let guess = names().find(|name| city(name) == city(zone)).or_else(|| nearest(zone, names()));
    let error = Error::invalid(format!("`{zone}` is not a time zone of the IANA database"));
    match guess {
        Some(name) => error.hint(format!("did you mean `{name}`?")),
        None => error.hint("give a name such as `UTC` or `Europe/Berlin`"),
    }
}

/// `+0200`; zones before standard time also have seconds.
fn numeric_offset(offset: Offset) -> String {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.unsigned_abs();
    let text = format!("{sign}{:02}{:02}", seconds / 3600, seconds / 60 % 60);
    if seconds.is_multiple_of(60) { text } else { format!("{text}{:02}", seconds % 60) }
}

/// The edges keep four digits in every key and leave room for the interval's end and any offset.
fn check_year(year: i16) -> Result<()> {
    if (1..=9998).contains(&year) {
        return Ok(());
    }
    Err(Error::invalid(format!("the year {year} is out of range; years are 0001 to 9998")))
}

fn monday_of_week(year: i16, week: i8) -> Option<Date> {
    ISOWeekDate::new(year, week, Weekday::Monday).ok().map(ISOWeekDate::date)
}

fn just_before(instant: Timestamp) -> Result<Timestamp> {
    instant.checked_sub(SignedDuration::from_nanos(1)).map_err(out_of_range)
}

fn later(instant: Timestamp, by: SignedDuration) -> Result<Timestamp> {
    instant.checked_add(by).map_err(out_of_range)
}

fn out_of_range(cause: jiff::Error) -> Error {
    Error::invalid("the date is out of range; years are 0001 to 9998").because(cause)
}
