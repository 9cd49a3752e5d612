//! What one value looks like by itself.

use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// How a time is written; only times of the same shape are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeShape {
    Instant,
    Civil,
    Date,
    TimeOfDay,
    Epoch,
}

/// A time and how it is written.
pub(super) fn time(text: &str) -> Option<(TimeShape, i128)> {
    let text = text.trim();
    if !(6..=48).contains(&text.len()) || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return epoch(text).map(|nanoseconds| (TimeShape::Epoch, nanoseconds));
    }
    let has_zone = text.ends_with(['Z', 'z']) || text.get(10..).is_some_and(|rest| rest.contains(['+', '-']));
    if has_zone && let Ok(instant) = text.parse::<Timestamp>() {
        return Some((TimeShape::Instant, instant.as_nanosecond()));
    }
    let civil_text = underscore_to_t(text);
    if let Ok(instant) = civil_text.parse::<civil::DateTime>() {
        let is_date = !civil_text.contains(':') && civil_text.len() <= 10;
        let shape = if is_date { TimeShape::Date } else { TimeShape::Civil };
        return nanoseconds(instant).map(|value| (shape, value));
    }
    if let Ok(time) = text.parse::<civil::Time>()
        && text.contains(':')
    {
        let since: SignedDuration = time.duration_since(civil::Time::midnight());
        return Some((TimeShape::TimeOfDay, since.as_nanos()));
    }
    written_out(text).and_then(nanoseconds).map(|value| (TimeShape::Civil, value))
}

/// `20250324_101500` and `20250324-101500`, as file names have it.
fn underscore_to_t(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_compact = bytes.len() >= 13
        && matches!(bytes[8], b'_' | b'-')
        && bytes[..8].iter().chain(&bytes[9..13]).all(u8::is_ascii_digit);
    if is_compact { format!("{}T{}", &text[..8], &text[9..]) } else { text.to_owned() }
}

fn nanoseconds(time: civil::DateTime) -> Option<i128> {
    TimeZone::UTC.to_timestamp(time).ok().map(Timestamp::as_nanosecond)
}

/// The forms of `date`, of mail and web headers, and of logs.
const FORMS: [&str; 6] = [
    "%a %b %e %H:%M:%S %Y",
    "%a, %d %b %Y %H:%M:%S GMT",
    "%a, %d %b %Y %H:%M:%S %z",
    "%d/%b/%Y:%H:%M:%S %z",
    "%Y/%m/%d %H:%M:%S",
    "%d %b %Y %H:%M:%S",
];

fn written_out(text: &str) -> Option<civil::DateTime> {
    if !text.bytes().any(|byte| byte.is_ascii_alphabetic() || byte == b'/') {
        return None;
    }
    // `date` puts the zone's abbreviation before the year, which says nothing that two runs on one machine differ in.
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_date_output = words.len() == 6 && words[4].bytes().all(|byte| byte.is_ascii_uppercase());
    let shortened = if is_date_output { [&words[..4], &words[5..]].concat().join(" ") } else { text.to_owned() };
    FORMS
        .iter()
        .find_map(|form| jiff::fmt::strtime::parse(form, &shortened).ok().and_then(|parsed| parsed.to_datetime().ok()))
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, of this century up to 2100.
fn epoch(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.contains('.') {
        return None;
    }
    let value: i128 = whole.parse().ok()?;
    let unit = [1_000_000_000, 1_000_000, 1000, 1]
        .into_iter()
        .find(|unit| (946_684_800_000_000_000..4_102_444_800_000_000_000).contains(&value.saturating_mul(*unit)))?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Some(value * unit + digits.parse::<i128>().ok()? * unit / 1_000_000_000)
}

/// The version of a UUID.
pub(super) fn uuid_version(text: &str) -> Option<char> {
    let text = text.trim_matches(['{', '}']);
    let bytes = text.as_bytes();
    let is_uuid = bytes.len() == 36
        && bytes.iter().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    is_uuid.then(|| char::from(bytes[14]))
}

/// A number, with a point.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let starts_well =
        text.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.'));
    if !starts_well {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether a number is written as the result of a computation with a point.
pub(super) fn is_fraction(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// A whole number.
pub(super) fn integer(text: &str) -> Option<i128> {
    text.trim().parse().ok()
}

/// Whether `text` means that there is no value.
pub(super) fn is_nothing(text: Option<&str>) -> bool {
    const WORDS: [&str; 9] = ["", "null", "nan", "none", "na", "n/a", "nil", "nat", "\\n"];
    text.is_none_or(|text| WORDS.contains(&text.trim().to_ascii_lowercase().as_str()))
}

/// Whether `text` holds a path below a directory for temporary files, or with a component of `mktemp`'s shape.
pub(super) fn is_temporary_path(text: &str) -> bool {
    const PLACES: [&str; 6] = ["/tmp/", "/var/tmp/", "/dev/shm/", "/var/folders/", "/run/user/", "/scratch/"];
    is_absolute_path(text)
        && (PLACES.iter().any(|place| text.contains(place)) || text.split('/').any(|part| part.starts_with("tmp")))
}

/// Whether `text` is an absolute path.
pub(super) fn is_absolute_path(text: &str) -> bool {
    let text = text.strip_prefix("file://").unwrap_or(text);
    text.len() > 1 && text.starts_with('/') && !text.starts_with("//") && !text.contains(char::is_whitespace)
}

/// Whether `text` could be the name of a host.
pub(super) fn is_host_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.len() <= 63 && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= 253 && text.bytes().any(|byte| byte.is_ascii_alphabetic()) && text.split('.').all(is_part)
}

/// Whether `text` has no meaning that shows: letters and digits mixed, long enough to be unique.
pub(super) fn is_token(text: &str) -> bool {
    text.len() >= 8
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+' | b'/' | b'='))
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::{TimeShape, is_temporary_path, is_token, number, time, uuid_version};

    #[test]
    fn times_are_known_in_the_forms_that_programs_write() {
        let all = [
            ("2025-03-24T10:15:00Z", TimeShape::Instant),
            ("2025-03-24T10:15:00.123456+01:00", TimeShape::Instant),
            ("2025-03-24 10:15:00.123456", TimeShape::Civil),
            ("20250324_101500", TimeShape::Civil),
            ("20250324T101500", TimeShape::Civil),
            ("Mon Nov 30 01:05:59 UTC 2026", TimeShape::Civil),
            ("Mon Nov 30 01:05:59 2026", TimeShape::Civil),
            ("Mon, 24 Mar 2025 10:15:00 GMT", TimeShape::Civil),
            ("2025/03/24 10:15:00", TimeShape::Civil),
            ("2025-03-24", TimeShape::Date),
            ("10:15:00", TimeShape::TimeOfDay),
            ("1742811300", TimeShape::Epoch),
            ("1742811300.25", TimeShape::Epoch),
            ("1742811300123456789", TimeShape::Epoch),
        ];
        for (text, shape) in all {
            assert_eq!(time(text).map(|(shape, _)| shape), Some(shape), "{text}");
        }
        for text in ["", "20250324", "5", "abcdef", "1.5.7.9", "12345678901234567890123456789012345678", "2025-13-45"] {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(time("1742811300").map(|(_, value)| value), time("2025-03-24T10:15:00Z").map(|(_, value)| value));
    }

    #[test]
    fn other_shapes() {
        assert_eq!(uuid_version("6fa459ea-ee8a-4ca4-894e-db77e160355e"), Some('4'));
        assert_eq!(uuid_version("6fa459ea-ee8a-4ca4-894e-db77e160355"), None);
        assert_eq!(uuid_version("äöüäöüäöüäöüäöüäöü"), None);
        assert!(is_temporary_path("/home/a/tmpx7/part.csv") && !is_temporary_path("/home/a/part.csv"));
        assert!(is_token("a91bc33de012") && !is_token("unfinished") && !is_token("12345678"));
        assert_eq!(number("inf"), None);
        assert_eq!(number("-1.5e3"), Some(-1500.0));
    }
}
