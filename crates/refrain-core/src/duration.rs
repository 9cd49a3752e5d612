//! Durations as people write them: `60s`, `10m`, `1h30m`, `500ms`, `2d`.
//!
//! jiff's friendly format is not used: it refuses days for an absolute duration and takes words, commas, fractions
//! and `ago`, so that one duration would have many spellings. Here a duration is whole numbers with units, the larger
//! unit first. A day is 24 hours and knows no time zone.

use crate::{Error, Result};
use std::time::Duration;

/// Units, the largest first, with their length in nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a duration such as `1h30m`.
///
/// Every unit is given at most once and the larger first; `0s` is a duration.
pub fn parse_duration(text: &str) -> Result<Duration> {
    parse_nanoseconds(text).and_then(from_nanoseconds).map_err(|reason| {
        Error::invalid(format!("`{text}` is not a duration: {reason}"))
            .hint("write it like `500ms`, `60s`, `10m`, `1h30m` or `2d`")
    })
}

/// Prints a duration in the form that [`parse_duration`] reads.
pub fn format_duration(duration: Duration) -> String {
    let mut left = duration.as_nanos();
    if left == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, length) in UNITS {
        if left >= length {
            text.push_str(&(left / length).to_string());
            text.push_str(unit);
            left %= length;
        }
    }
    text
}

fn parse_nanoseconds(text: &str) -> Result<u128, String> {
    refuse_common_mistakes(text)?;
    let mut rest = text;
    let mut smaller = &UNITS[..];
    let mut total = 0_u128;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit());
        let (unit, next) = split_while(after, |c| !c.is_ascii_digit());
        if number.is_empty() {
            return Err(format!("a number is missing before `{rest}`"));
        }
        let place = place_of(unit, smaller, number)?;
        let number: u64 = number.parse().map_err(|_| format!("{number} is too large"))?;
        total += u128::from(number) * smaller[place].1;
        smaller = &smaller[place + 1..];
        rest = next;
    }
    Ok(total)
}

/// Where `unit` stands among the units that may still follow.
fn place_of(unit: &str, smaller: &[(&str, u128)], number: &str) -> Result<usize, String> {
    if unit.is_empty() {
        return Err(format!("the number {number} has no unit"));
    }
    if let Some(place) = smaller.iter().position(|(name, _)| *name == unit) {
        return Ok(place);
    }
    if UNITS.iter().any(|(name, _)| *name == unit) {
        return Err(format!("`{unit}` comes twice or after a smaller unit; the larger unit comes first"));
    }
    Err(match unit {
        "w" => "weeks are not a unit here; give days".to_owned(),
        "mo" | "M" | "y" | "Y" => format!("`{unit}` is a calendar unit without a fixed length; give days"),
        _ => format!("`{unit}` is not a unit; units are d, h, m, s, ms, us and ns"),
    })
}

fn refuse_common_mistakes(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.starts_with('-') {
        return Err("it is negative".to_owned());
    }
    if text.contains(['.', ',']) {
        return Err("it takes whole numbers; give a smaller unit instead of a fraction".to_owned());
    }
    if text.chars().any(char::is_whitespace) {
        return Err("it takes no spaces".to_owned());
    }
    Ok(())
}

fn from_nanoseconds(total: u128) -> Result<Duration, String> {
    let seconds = u64::try_from(total / 1_000_000_000).map_err(|_| "it is too long".to_owned())?;
    let nanoseconds = u32::try_from(total % 1_000_000_000).map_err(|_| "it is too long".to_owned())?;
    Ok(Duration::new(seconds, nanoseconds))
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::{format_duration, parse_duration};
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn durations_in_use_are_read() {
        for (text, milliseconds) in [
            ("60s", 60_000),
            ("10m", 600_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("2d", 172_800_000),
            ("0s", 0),
            ("90m", 5_400_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(milliseconds), "{text}");
        }
        assert_eq!(format_duration(Duration::from_mins(90)), "1h30m");
        assert_eq!(format_duration(Duration::from_millis(1500)), "1s500ms");
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }

    #[test]
    fn a_refusal_names_the_text_and_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("-1h", "negative"),
            ("60", "no unit"),
            ("h", "number is missing"),
            ("1mo", "calendar unit"),
            ("1y", "calendar unit"),
            ("1w", "give days"),
            ("1.5h", "whole numbers"),
            ("1h 30m", "no spaces"),
            ("30m1h", "larger unit comes first"),
            ("1h1h", "comes twice"),
            ("1hour", "not a unit"),
            ("99999999999999999999s", "too large"),
            ("18446744073709551615d", "too long"),
            ("1\u{b5}s", "not a unit"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.message.contains(&format!("`{text}`")), "{error}");
            assert!(error.message.contains(reason), "{error}");
            assert!(error.hint.as_deref().unwrap().contains("1h30m"));
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(seconds in any::<u64>(), nanoseconds in 0_u32..1_000_000_000) {
            let duration = Duration::new(seconds, nanoseconds);
            prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }
    }
}
