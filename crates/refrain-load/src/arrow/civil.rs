//! Dates, times and intervals as PostgreSQL reads them, whatever `DateStyle` and `IntervalStyle` are.
//!
//! Own calendar arithmetic, for the years of a date in Parquet and in PostgreSQL go far beyond the 9999 of the calendar library.

use arrow_schema::TimeUnit;

const DAY_SECONDS: i64 = 86_400;

/// How a point in time is spelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `2013-01-01 10:00:00+00`.
    Sql,
    /// `2013-01-01T10:00:00+00:00`, inside JSON.
    Iso,
}

/// The units of a number in a second, and the digits of a fraction of it.
pub(super) fn scale(unit: TimeUnit) -> (i64, usize) {
    match unit {
        TimeUnit::Second => (1, 0),
        TimeUnit::Millisecond => (1000, 3),
        TimeUnit::Microsecond => (1_000_000, 6),
        TimeUnit::Nanosecond => (1_000_000_000, 9),
    }
}

/// Appends the date that many days after 1970-01-01.
#[inline]
pub(super) fn date(days: i64, out: &mut Vec<u8>) {
    let is_before_christ = push_date(days, out);
    if is_before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Appends the point in time that many units after 1970-01-01 00:00, with a mark of UTC where it has a zone.
#[inline]
pub(super) fn timestamp(value: i64, unit: TimeUnit, has_zone: bool, style: Style, out: &mut Vec<u8>) {
    let (per_second, digits) = scale(unit);
    let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let is_before_christ = push_date(seconds.div_euclid(DAY_SECONDS), out);
    out.push(if style == Style::Iso { b'T' } else { b' ' });
    clock(seconds.rem_euclid(DAY_SECONDS), fraction, digits, out);
    match (has_zone, style) {
        (false, _) => {}
        (true, Style::Sql) => out.extend_from_slice(b"+00"),
        (true, Style::Iso) => out.extend_from_slice(b"+00:00"),
    }
    if is_before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a time of day; nothing for what is none.
pub(super) fn time(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let (per_second, digits) = scale(unit);
    clock(value.div_euclid(per_second), value.rem_euclid(per_second), digits, out);
}

/// Appends an interval in the ISO 8601 format with designators.
pub(super) fn interval(months: i32, days: i32, time: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    use super::number::whole;
    out.push(b'P');
    for (value, designator) in [(months, b'M'), (days, b'D')] {
        if value != 0 {
            whole(value, out);
            out.push(designator);
        }
    }
    out.push(b'T');
    let (per_second, digits) = scale(unit);
    if time < 0 {
        out.push(b'-');
    }
    let per_second = per_second.unsigned_abs();
    whole(time.unsigned_abs() / per_second, out);
    push_fraction(time.unsigned_abs() % per_second, digits, out);
    out.push(b'S');
}

#[inline]
fn clock(seconds: i64, fraction: i64, digits: usize, out: &mut Vec<u8>) {
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (hour, minute, second) = (two(hour), two(minute), two(second));
    out.extend_from_slice(&[hour[0], hour[1], b':', minute[0], minute[1], b':', second[0], second[1]]);
    push_fraction(fraction.unsigned_abs(), digits, out);
}

/// Appends a point and that many digits, nothing for zero.
#[inline]
fn push_fraction(mut fraction: u64, digits: usize, out: &mut Vec<u8>) {
    if fraction == 0 {
        return;
    }
    let start = out.len();
    out.push(b'.');
    out.resize(start + 1 + digits, b'0');
    for digit in out[start + 1..].iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
}

/// Appends year, month and day; true for years before Christ, which are counted from 1 and have a mark behind.
#[inline]
fn push_date(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(days);
    let is_before_christ = year <= 0;
    let year = if is_before_christ { 1 - year } else { year };
    if year < 10_000 {
        let (century, rest) = (two(year / 100), two(year % 100));
        out.extend_from_slice(&[century[0], century[1], rest[0], rest[1]]);
    } else {
        super::number::whole(year, out);
    }
    let (month, day) = (two(month), two(day));
    out.extend_from_slice(&[b'-', month[0], month[1], b'-', day[0], day[1]]);
    is_before_christ
}

/// Two digits of a number from 0 to 99.
#[inline]
fn two(value: i64) -> [u8; 2] {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of two digits")]
    let value = value as u8;
    [b'0' + value / 10, b'0' + value % 10]
}

/// Year, month and day in the proleptic Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
#[inline]
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{Style, civil_from_days, date, interval, time, timestamp};
    use arrow_schema::TimeUnit;
    use jiff::civil::Date;
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = vec![];
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn days_are_those_of_the_calendar(days in -4_000_000_i64..2_900_000) {
            let expected = Date::constant(1970, 1, 1).checked_add(jiff::SignedDuration::from_hours(days * 24)).unwrap();
            let (year, month, day) = civil_from_days(days);
            prop_assert_eq!((year, month, day), (expected.year().into(), expected.month().into(), expected.day().into()));
        }
    }

    #[test]
    fn dates_far_away() {
        assert_eq!(text(|out| date(0, out)), "1970-01-01");
        assert_eq!(text(|out| date(-719_528, out)), "0001-01-01 BC");
        assert_eq!(text(|out| date(2_932_897, out)), "10000-01-01");
        assert_eq!(text(|out| date(i64::from(i32::MAX), out)), "5881580-07-11");
    }

    #[test]
    fn points_in_time() {
        let read = |value, unit, zone, style| text(|out| timestamp(value, unit, zone, style, out));
        assert_eq!(read(1_357_034_400, TimeUnit::Second, true, Style::Sql), "2013-01-01 10:00:00+00");
        assert_eq!(read(1_357_034_400_007, TimeUnit::Millisecond, true, Style::Iso), "2013-01-01T10:00:00.007+00:00");
        assert_eq!(read(-1, TimeUnit::Microsecond, false, Style::Sql), "1969-12-31 23:59:59.999999");
        assert_eq!(read(1, TimeUnit::Nanosecond, false, Style::Sql), "1970-01-01 00:00:00.000000001");
        assert_eq!(read(-62_167_219_200, TimeUnit::Second, true, Style::Sql), "0001-01-01 00:00:00+00 BC");
    }

    #[test]
    fn times_and_intervals() {
        assert_eq!(text(|out| time(86_399_999_999, TimeUnit::Microsecond, out)), "23:59:59.999999");
        assert_eq!(text(|out| time(61, TimeUnit::Second, out)), "00:01:01");
        assert_eq!(text(|out| interval(14, -3, -1_500, TimeUnit::Millisecond, out)), "P14M-3DT-1.500S");
        assert_eq!(text(|out| interval(0, 0, 0, TimeUnit::Second, out)), "PT0S");
    }
}
