//! Every interval of four years in zones that do odd things: keys and intervals are one to one, and the intervals tile
//! the time line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports failure by panicking")]

use jiff::civil::ISOWeekDate;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use refrain_core::{Calendar, Grain, Interval, check_name};
use std::collections::HashSet;
use std::thread;

/// UTC; a whole hour at 01:00 UTC; one across the ocean; half an hour; an offset of three quarters.
const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"];

/// Days that begin at 01:00; a change around Ramadan; a zone that has given up changing.
const MORE_ZONES: [&str; 4] = ["Asia/Beirut", "Africa/Cairo", "Africa/Casablanca", "America/Sao_Paulo"];

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Every interval that has an instant between the two.
fn intervals(calendar: &Calendar, from: Timestamp, to: Timestamp) -> Vec<Interval> {
    let (first, last) = (calendar.containing(from).unwrap(), calendar.containing(to).unwrap());
    calendar.range(&first, &last).unwrap().collect()
}

/// What must hold of each interval alone: its key is a name, stands for it and for nothing else, and every instant of it
/// is its own.
fn assert_whole(calendar: &Calendar, interval: &Interval) {
    let key = &interval.key;
    check_name(key).unwrap();
    assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+".contains(&byte)), "{key}: a plain file name");
    assert!(interval.start < interval.end, "{interval:?}");
    assert_eq!(calendar.interval_of_key(key).unwrap(), *interval, "{calendar}: key to interval");
    let middle = interval.start + (interval.end.duration_since(interval.start) / 2);
    for instant in [interval.start, middle, interval.end - NANOSECOND] {
        assert_eq!(calendar.containing(instant).unwrap(), *interval, "{calendar}: {instant}");
    }
}

/// Other spellings of the start name the same interval.
fn assert_spelled(calendar: &Calendar, interval: &Interval) {
    for text in [interval.start.to_string(), interval.start_civil.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()] {
        assert_eq!(calendar.canonical(&text, None).unwrap(), *interval, "{calendar}: {text}");
    }
}

#[test]
fn four_years_of_every_grain_are_tiled_and_each_key_is_used_once() {
    let (from, to) = (at("2024-01-01T00:00:00Z"), at("2028-01-01T00:00:00Z"));
    let tiled = |zone: &str, grain: Grain| {
        let calendar = Calendar::new(grain, zone).unwrap();
        let all = intervals(&calendar, from, to);
        for pair in all.windows(2) {
            assert_eq!(pair[0].end, pair[1].start, "{calendar}: no gap and no overlap at {}", pair[0].key);
        }
        assert!(all[0].start <= from && to < all[all.len() - 1].end, "{calendar}");
        let keys: HashSet<_> = all.iter().map(|interval| interval.key.as_str()).collect();
        assert_eq!(keys.len(), all.len(), "{calendar}: a key is used twice");
        for (index, interval) in all.iter().enumerate() {
            assert_whole(&calendar, interval);
            // Every hour of the day comes up, for 7 and 24 have no common divisor.
            if grain != Grain::Hourly || index % 7 == 0 {
                assert_spelled(&calendar, interval);
            }
        }
    };
    thread::scope(|scope| {
        for zone in ZONES {
            scope.spawn(move || Grain::ALL.map(|grain| tiled(zone, grain)));
        }
        for zone in MORE_ZONES {
            scope.spawn(move || Grain::ALL[1..].iter().for_each(|grain| tiled(zone, *grain)));
        }
    });
}

#[test]
fn every_hour_lies_in_one_interval_of_each_longer_grain() {
    for zone in ZONES {
        let hourly = Calendar::new(Grain::Hourly, zone).unwrap();
        let hours = intervals(&hourly, at("2024-01-01T00:00:00Z"), at("2028-01-01T00:00:00Z"));
        for grain in [Grain::Daily, Grain::Weekly, Grain::Monthly, Grain::Yearly] {
            let calendar = Calendar::new(grain, zone).unwrap();
            let mut current = calendar.containing(hours[0].start).unwrap();
            for hour in &hours {
                if hour.start >= current.end {
                    current = calendar.next(&current).unwrap();
                }
                let lies_in = current.start <= hour.start && hour.end <= current.end;
                assert!(lies_in, "{calendar}: {} is cut by {}", hour.key, current.key);
            }
        }
    }
}

#[test]
fn days_have_as_many_hours_as_the_zone_gives_them() {
    let odd = |zone: &str, year: i16| -> Vec<(String, usize)> {
        let daily = Calendar::new(Grain::Daily, zone).unwrap();
        let hourly = Calendar::new(Grain::Hourly, zone).unwrap();
        let days = intervals(&daily, at(&format!("{year}-01-02T00:00:00Z")), at(&format!("{year}-12-30T00:00:00Z")));
        let hours = |day: &Interval| intervals(&hourly, day.start, day.end - NANOSECOND).len();
        days.iter().map(|day| (day.key.clone(), hours(day))).filter(|(_, hours)| *hours != 24).collect()
    };
    let days =
        |pairs: &[(&str, usize)]| pairs.iter().map(|(day, hours)| ((*day).to_owned(), *hours)).collect::<Vec<_>>();
    assert_eq!(odd("Europe/Berlin", 2025), days(&[("2025-03-30", 23), ("2025-10-26", 25)]));
    assert_eq!(odd("America/New_York", 2026), days(&[("2026-03-08", 23), ("2026-11-01", 25)]));
    assert_eq!(odd("Asia/Beirut", 2025), days(&[("2025-03-30", 23), ("2025-10-25", 25)]));
    // Half an hour more is an interval more; half an hour less takes none away.
    assert_eq!(odd("Australia/Lord_Howe", 2025), days(&[("2025-04-06", 25)]));
    assert!(odd("UTC", 2025).is_empty() && odd("Asia/Kathmandu", 2025).is_empty());
    assert!(odd("America/Sao_Paulo", 2025).is_empty());
    assert_eq!(odd("America/Sao_Paulo", 2018), days(&[("2018-02-17", 25), ("2018-11-04", 23)]));
}

#[test]
fn a_day_whose_midnight_is_skipped_begins_when_it_begins() {
    for (zone, day, start) in [
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),
        ("America/Sao_Paulo", "2017-10-15", "2017-10-15T03:00:00Z"),
        ("Asia/Beirut", "2024-03-31", "2024-03-30T22:00:00Z"),
        ("Africa/Cairo", "2025-04-25", "2025-04-24T22:00:00Z"),
    ] {
        let daily = Calendar::new(Grain::Daily, zone).unwrap();
        let interval = daily.interval_of_key(day).unwrap();
        assert_eq!((interval.start, interval.start_civil.hour()), (at(start), 1), "{zone}");
        assert_eq!(daily.canonical(&format!("{day} 00:00"), None).unwrap(), interval, "midnight names the day");
        assert_whole(&daily, &interval);
        assert_spelled(&daily, &interval);
        let hourly = Calendar::new(Grain::Hourly, zone).unwrap();
        let skipped = hourly.canonical(&format!("{day}T00"), None).unwrap_err().message;
        assert!(skipped.contains("is skipped by the clocks"), "{zone}: {skipped}");
    }
}

#[test]
fn weeks_belong_to_the_year_that_has_their_thursday() {
    let weekly = Calendar::utc(Grain::Weekly);
    for interval in intervals(&weekly, at("2014-12-20T00:00:00Z"), at("2034-01-10T00:00:00Z")) {
        let monday = interval.start_civil.date();
        let thursday = monday.checked_add(jiff::Span::new().days(3)).unwrap();
        let number = (thursday.day_of_year() - 1) / 7 + 1;
        assert_eq!(interval.key, format!("{:04}-W{number:02}", thursday.year()));
        assert_eq!(interval.end.duration_since(interval.start), SignedDuration::from_hours(7 * 24));
    }
    for (monday, key) in [
        ("2018-12-31", "2019-W01"),
        ("2020-12-28", "2020-W53"),
        ("2021-01-04", "2021-W01"),
        ("2024-12-30", "2025-W01"),
        ("2026-12-28", "2026-W53"),
        ("2027-01-04", "2027-W01"),
    ] {
        assert_eq!(weekly.canonical(monday, None).unwrap().key, key);
    }
    let long_years = (2015..2034).filter(|year| ISOWeekDate::new(*year, 53, jiff::civil::Weekday::Monday).is_ok());
    for year in long_years {
        assert!(weekly.interval_of_key(&format!("{year}-W53")).is_ok());
    }
    assert!(weekly.interval_of_key("2025-W53").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn two_instants_share_an_interval_exactly_when_they_share_its_key(
        zone in proptest::sample::select([&ZONES[..], &MORE_ZONES].concat()),
        grain in proptest::sample::select(Grain::ALL.to_vec()),
        one in 1_704_067_200_i64..1_830_297_600,
        apart in -200_000_i64..200_000,
    ) {
        let calendar = Calendar::new(grain, zone).unwrap();
        let instant = |second| Timestamp::from_second(second).unwrap();
        let (first, second) = (instant(one), instant(one + apart));
        let (here, there) = (calendar.containing(first).unwrap(), calendar.containing(second).unwrap());
        prop_assert_eq!(here.key == there.key, here.start <= second && second < here.end);
        prop_assert_eq!(here.key == there.key, here == there);
    }

    #[test]
    fn a_step_back_is_the_interval_before(
        zone in proptest::sample::select([&ZONES[..], &MORE_ZONES].concat()),
        grain in proptest::sample::select(Grain::ALL.to_vec()),
        now in 1_704_067_200_i64..1_830_297_600,
        steps in 0_u32..60,
    ) {
        let calendar = Calendar::new(grain, zone).unwrap();
        let now = Timestamp::from_second(now).unwrap();
        let unit = match grain {
            Grain::Hourly => "h",
            Grain::Daily => "d",
            Grain::Weekly => "w",
            Grain::Monthly => "mo",
            Grain::Yearly => "y",
        };
        let back = calendar.canonical(&format!("-{steps}{unit}"), Some(now)).unwrap();
        let range = calendar.range(&back, &calendar.containing(now).unwrap()).unwrap();
        prop_assert_eq!(range.count(), steps as usize + 1);
    }
}
