//! Keys, spellings and the odd days of real zones.

use super::{Calendar, Grain, Interval};
use jiff::Timestamp;
use proptest::prelude::*;

const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"];

fn calendar(grain: Grain, zone: &str) -> Calendar {
    Calendar::new(grain, zone).unwrap()
}

fn utc(grain: Grain) -> Calendar {
    Calendar::utc(grain)
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn key(calendar: &Calendar, text: &str) -> String {
    calendar.canonical(text, None).unwrap_or_else(|error| panic!("{text}: {error}")).key
}

fn refusal(calendar: &Calendar, text: &str) -> String {
    let error = calendar.canonical(text, None).expect_err(text);
    assert!(error.hint.as_deref().unwrap_or("give it as `").starts_with("give it as `"), "{error} {:?}", error.hint);
    error.message
}

fn hours(interval: &Interval) -> f64 {
    interval.end.duration_since(interval.start).as_secs_f64() / 3600.0
}

fn bounds(calendar: &Calendar, key: &str) -> (String, String) {
    let interval = calendar.interval_of_key(key).unwrap();
    (interval.start.to_string(), interval.end.to_string())
}

#[test]
fn equal_spellings_of_a_day_give_one_key() {
    let daily = utc(Grain::Daily);
    for text in [
        "2025-03-24",
        "20250324",
        "2025-03-24T00:00:00Z",
        "2025-03-24T00:00:00+00:00",
        "2025-03-24T00:00:00.000000+00:00",
        "2025-03-24t00:00:00z",
        "2025-03-24 00:00",
        "2025-03-24 00:00:00+00",
        "2025-03-24T00",
        "2025-03-24T00Z",
        "20250324T000000",
        "20250324T0000Z",
        "2025-03-24T09:00:00+09:00",
        "2025-03-23T19:00:00-0500",
        "2025-03-24T05:45+0545",
    ] {
        assert_eq!(key(&daily, text), "2025-03-24", "{text}");
    }
}

#[test]
fn in_another_zone_the_instant_must_be_the_start_of_the_day_there() {
    let daily = calendar(Grain::Daily, "Europe/Berlin");
    for text in ["2025-03-24", "2025-03-24 00:00", "2025-03-24T00:00:00+01:00", "2025-03-23T23:00:00Z"] {
        assert_eq!(key(&daily, text), "2025-03-24", "{text}");
    }
    assert_eq!(
        refusal(&daily, "2025-03-24T00:00:00Z"),
        "`2025-03-24T00:00:00Z` lies inside the daily interval 2025-03-24 in Europe/Berlin; give 2025-03-24 (the \
         interval it is in) or 2025-03-25 (the next one)"
    );
}

#[test]
fn an_instant_inside_an_interval_is_refused_with_both_candidates() {
    let cases = [
        (Grain::Hourly, "2025-03-24T05:30Z", "2025-03-24T05", "2025-03-24T06"),
        (Grain::Daily, "2025-03-24T05:00:00Z", "2025-03-24", "2025-03-25"),
        (Grain::Daily, "2025-03-24T00:00:00.000000001Z", "2025-03-24", "2025-03-25"),
        (Grain::Daily, "2025-12-31T23:59:59Z", "2025-12-31", "2026-01-01"),
        (Grain::Weekly, "2025-03-26", "2025-W13", "2025-W14"),
        (Grain::Weekly, "2024-12-31", "2025-W01", "2025-W02"),
        (Grain::Monthly, "2025-12-02", "2025-12", "2026-01"),
        (Grain::Yearly, "2025-03-01", "2025", "2026"),
    ];
    for (grain, text, current, next) in cases {
        let expected = format!(
            "`{text}` lies inside the {grain} interval {current}; give {current} (the interval it is in) or {next} \
             (the next one)"
        );
        assert_eq!(refusal(&utc(grain), text), expected);
    }
}

#[test]
fn each_grain_has_its_key_and_takes_the_first_date() {
    for (grain, text, expected) in [
        (Grain::Hourly, "2025-03-24T05", "2025-03-24T05"),
        (Grain::Hourly, "2025-03-24T05:00:00+00:00", "2025-03-24T05"),
        (Grain::Hourly, "2025-03-24 06:00+01", "2025-03-24T05"),
        (Grain::Hourly, "2025-03-24T06+0100", "2025-03-24T05"),
        (Grain::Weekly, "2025-W13", "2025-W13"),
        (Grain::Weekly, "2025W13", "2025-W13"),
        (Grain::Weekly, "2025-03-24", "2025-W13"),
        (Grain::Weekly, "2024-12-30", "2025-W01"),
        (Grain::Weekly, "2026-W53", "2026-W53"),
        (Grain::Monthly, "2025-03", "2025-03"),
        (Grain::Monthly, "2025-03-01", "2025-03"),
        (Grain::Yearly, "2025", "2025"),
        (Grain::Yearly, "2025-01-01T00:00Z", "2025"),
    ] {
        assert_eq!(key(&utc(grain), text), expected, "{text}");
    }
}

#[test]
fn another_grain_is_refused_with_the_right_form() {
    for (grain, text, what, example) in [
        (Grain::Hourly, "2025-03-24", "a day", "2025-03-24T00"),
        (Grain::Daily, "2025-03", "a month", "2025-03-01"),
        (Grain::Daily, "2025", "a year", "2025-01-01"),
        (Grain::Daily, "2025-W13", "a week", "2025-03-24"),
        (Grain::Monthly, "2025-W13", "a week", "2025-03"),
        (Grain::Yearly, "2025-03", "a month", "2025"),
    ] {
        let message = refusal(&utc(grain), text);
        assert!(message.contains(&format!("names {what}, the grain is {grain}")), "{message}");
        assert!(message.ends_with(&format!("write it like `{example}`")), "{message}");
    }
    assert!(refusal(&calendar(Grain::Hourly, "Europe/Berlin"), "2025-07-01").ends_with("`2025-07-01T00+0200`"));
}

#[test]
fn malformed_dates_are_refused_with_the_reason() {
    for (text, reason) in [
        ("", "empty"),
        ("garbage", "four digits"),
        ("25-3-4", "four digits"),
        ("2025-3-4", "month is not two digits"),
        ("2025-02-30", "2025-02 has 28 days"),
        ("2025-02-00", "2025-02 has 28 days"),
        ("2025-13-01", "no month 13"),
        ("2025-00-01", "no month 00"),
        ("2025-03-24T24:00", "not below 24"),
        ("2025-03-24T05:60", "not below 60"),
        ("2025-03-24T00:00:60Z", "not below 60"),
        ("2025-03-24T00:00:00.Z", "one to nine digits"),
        ("2025-03-24T00:00:00+25:00", "not below 24"),
        ("2025-03-24T00:00:00Z[UTC]", "left over"),
        ("2025-03-24x", "left over"),
        ("2025-03-24 ", "hour is not two digits"),
        (" 2025-03-24", "four digits"),
        ("2025/03/24", "month is not two digits"),
        ("202503", "four digits"),
        ("2025-W54", "no week 54"),
        ("2025-W53", "no week 53"),
        ("2025-\u{663}\u{663}-24", "month is not two digits"),
        ("2025-0\u{e9}", "month is not two digits"),
        ("0000-01-01", "out of range"),
        ("9999-01-01", "out of range"),
        ("+2025-03-24", "four digits"),
        ("-0001-01-01", "steps back"),
        ("-1", "steps back"),
        ("-99999999999d", "number up to"),
        ("-1h", "counts hourly intervals"),
        ("today", "no meaning here"),
        ("tomorrow", "four digits"),
        ("1742774400", "four digits"),
    ] {
        let message = refusal(&utc(Grain::Daily), text);
        assert!(message.contains(&format!("`{text}`")) && message.contains(reason), "{message}");
    }
}

#[test]
fn the_edges_of_the_calendar_are_refused_and_not_wrapped() {
    for (grain, first, last) in [
        (Grain::Hourly, "0001-01-01T00", "9998-12-31T23"),
        (Grain::Daily, "0001-01-01", "9998-12-31"),
        (Grain::Weekly, "0001-W01", "9998-W53"),
        (Grain::Monthly, "0001-01", "9998-12"),
        (Grain::Yearly, "0001", "9998"),
    ] {
        let calendar = utc(grain);
        let (first, last) = (calendar.interval_of_key(first).unwrap(), calendar.interval_of_key(last).unwrap());
        assert!(calendar.previous(&first).is_err(), "{grain}");
        assert!(calendar.next(&last).is_err(), "{grain}");
        assert_eq!(calendar.range(&last, &last).unwrap().count(), 1);
    }
    assert!(utc(Grain::Daily).canonical("9998-12-31T05:00Z", None).is_err());
    assert!(calendar(Grain::Daily, "Pacific/Kiritimati").canonical("0001-01-01", None).is_ok());
}

#[test]
fn relative_dates_follow_the_given_now_in_the_zone() {
    let now = Some(at("2025-03-24T23:30:00Z"));
    let relative = |grain, zone, text| calendar(grain, zone).canonical(text, now).unwrap().key;
    assert_eq!(relative(Grain::Daily, "UTC", "today"), "2025-03-24");
    assert_eq!(relative(Grain::Daily, "Europe/Berlin", "today"), "2025-03-25");
    assert_eq!(relative(Grain::Daily, "UTC", "yesterday"), "2025-03-23");
    assert_eq!(relative(Grain::Daily, "UTC", "-1d"), "2025-03-23");
    assert_eq!(relative(Grain::Daily, "UTC", "-0d"), "2025-03-24");
    assert_eq!(relative(Grain::Hourly, "UTC", "-1h"), "2025-03-24T22");
    assert_eq!(relative(Grain::Weekly, "UTC", "-2w"), "2025-W11");
    assert_eq!(relative(Grain::Monthly, "UTC", "-3mo"), "2024-12");
    assert_eq!(relative(Grain::Yearly, "UTC", "-1y"), "2024");
    assert!(utc(Grain::Weekly).canonical("today", now).unwrap_err().message.contains("the grain is weekly"));
}

#[test]
fn days_of_a_clock_change_have_23_or_25_hours() {
    let daily = calendar(Grain::Daily, "Europe/Berlin");
    let length = |key| hours(&daily.interval_of_key(key).unwrap());
    assert_eq!(
        [length("2025-03-30"), length("2025-03-31"), length("2025-10-26")].map(f64::to_bits),
        [23.0_f64, 24.0, 25.0].map(f64::to_bits)
    );
    let hourly = calendar(Grain::Hourly, "Europe/Berlin");
    let day = daily.interval_of_key("2025-10-26").unwrap();
    let (first, last) = (hourly.containing(day.start).unwrap(), key(&hourly, "2025-10-26T23"));
    let keys: Vec<_> =
        hourly.range(&first, &hourly.interval_of_key(&last).unwrap()).unwrap().map(|hour| hour.key).collect();
    assert_eq!(keys.len(), 25);
    assert_eq!(keys[2..4], ["2025-10-26T02+0200", "2025-10-26T02+0100"]);
}

#[test]
fn an_hour_of_a_fold_or_gap_needs_its_offset() {
    let berlin = calendar(Grain::Hourly, "Europe/Berlin");
    assert_eq!(key(&berlin, "2025-03-24T05"), "2025-03-24T05+0100");
    assert_eq!(
        refusal(&berlin, "2025-10-26T02"),
        "`2025-10-26T02` happens twice in Europe/Berlin; give 2025-10-26T02+0200 or 2025-10-26T02+0100"
    );
    assert_eq!(
        refusal(&berlin, "2025-03-30T02:00"),
        "`2025-03-30T02:00` is skipped by the clocks in Europe/Berlin; give 2025-03-30T01+0100 or 2025-03-30T03+0200"
    );
    assert_eq!(key(&berlin, "2025-10-26T00:00Z"), "2025-10-26T02+0200");
    assert_eq!(key(&berlin, "2025-10-26T01Z"), "2025-10-26T02+0100");
    assert!(berlin.interval_of_key("2025-03-30T02+0100").is_err());
    assert!(berlin.interval_of_key("2025-03-24T05").is_err());
}

#[test]
fn a_change_of_half_an_hour_cuts_the_hour() {
    let lord_howe = calendar(Grain::Hourly, "Australia/Lord_Howe");
    let two = |key| bounds(&lord_howe, key);
    assert_eq!(two("2025-04-06T01+1100"), ("2025-04-05T14:00:00Z".into(), "2025-04-05T15:00:00Z".into()));
    assert_eq!(two("2025-04-06T01+1030"), ("2025-04-05T15:00:00Z".into(), "2025-04-05T15:30:00Z".into()));
    assert_eq!(two("2025-10-05T02+1100"), ("2025-10-04T15:30:00Z".into(), "2025-10-04T16:00:00Z".into()));
    assert!(refusal(&lord_howe, "2025-04-06T01").contains("give 2025-04-06T01+1100 or 2025-04-06T01+1030"));
    assert_eq!(key(&lord_howe, "2025-10-05T02"), "2025-10-05T02+1100");
    let kathmandu = calendar(Grain::Hourly, "Asia/Kathmandu");
    assert_eq!(key(&kathmandu, "2025-03-24T00:15Z"), "2025-03-24T06+0545");
    assert!(refusal(&kathmandu, "2025-03-24T00:00Z").contains("lies inside"));
}

#[test]
fn days_without_or_with_two_midnights_begin_at_their_first_instant() {
    let sao_paulo = calendar(Grain::Daily, "America/Sao_Paulo");
    assert_eq!(bounds(&sao_paulo, "2018-11-04"), ("2018-11-04T03:00:00Z".into(), "2018-11-05T02:00:00Z".into()));
    assert_eq!(sao_paulo.interval_of_key("2018-11-04").unwrap().start_civil.hour(), 1);
    assert_eq!(key(&sao_paulo, "2018-11-04 00:00"), "2018-11-04");
    let havana = calendar(Grain::Daily, "America/Havana");
    assert_eq!(bounds(&havana, "2025-11-02"), ("2025-11-02T04:00:00Z".into(), "2025-11-03T05:00:00Z".into()));
    // Clocks went back over midnight one minute after it: the old date was shown again.
    let st_johns = calendar(Grain::Daily, "America/St_Johns");
    let day = st_johns.interval_of_key("2006-10-29").unwrap();
    assert_eq!(day.start, at("2006-10-29T02:30:00Z"));
    assert_eq!(st_johns.containing(at("2006-10-29T02:40:00Z")).unwrap(), day);
    // The gap began half an hour before midnight.
    let toronto = calendar(Grain::Daily, "America/Toronto").interval_of_key("1919-03-31").unwrap();
    assert_eq!(toronto.start_civil.datetime().to_string(), "1919-03-31T00:30:00");
}

#[test]
fn a_day_that_a_zone_skipped_has_no_interval() {
    let apia = calendar(Grain::Daily, "Pacific/Apia");
    let message = apia.canonical("2011-12-30", None).unwrap_err().message;
    assert!(message.ends_with("skips it; give 2011-12-29 or 2011-12-31"), "{message}");
    let before = apia.interval_of_key("2011-12-29").unwrap();
    assert_eq!(apia.next(&before).unwrap().key, "2011-12-31");
    assert_eq!(apia.previous(&apia.next(&before).unwrap()).unwrap(), before);
}

#[test]
fn offsets_with_seconds_are_kept() {
    let paris = calendar(Grain::Hourly, "Europe/Paris");
    let hour = paris.containing(at("1905-01-01T12:00:00Z")).unwrap();
    assert_eq!(hour.key, "1905-01-01T12+000921");
    assert_eq!(paris.interval_of_key(&hour.key).unwrap(), hour);
}

#[test]
fn ranges_include_both_ends_and_refuse_to_run_backwards() {
    let daily = utc(Grain::Daily);
    let day = |key| daily.interval_of_key(key).unwrap();
    let keys =
        |from, to| -> Vec<String> { daily.range(&day(from), &day(to)).unwrap().map(|interval| interval.key).collect() };
    assert_eq!(keys("2024-02-28", "2024-03-01"), ["2024-02-28", "2024-02-29", "2024-03-01"]);
    assert_eq!(keys("2025-03-24", "2025-03-24"), ["2025-03-24"]);
    let error = daily.range(&day("2025-03-25"), &day("2025-03-24")).unwrap_err();
    assert_eq!(error.message, "the range is reversed: 2025-03-25 is after 2025-03-24");
    assert_eq!(error.hint.unwrap(), "give `--from 2025-03-24 --to 2025-03-25`");
}

#[test]
fn an_interval_is_open_until_its_end() {
    let daily = utc(Grain::Daily);
    let day = daily.interval_of_key("2025-03-24").unwrap();
    for (now, open) in [("2025-03-23T00:00Z", true), ("2025-03-24T23:59:59.999Z", true), ("2025-03-25T00:00Z", false)] {
        assert_eq!(daily.is_open(&day, at(now)), open, "{now}");
    }
}

#[test]
fn zones_are_known_by_their_iana_names() {
    assert_eq!(calendar(Grain::Daily, "europe/berlin").zone_name(), "Europe/Berlin");
    for name in ["UTC", "utc", "Etc/UTC", "Zulu", "Etc/UCT"] {
        assert_eq!(calendar(Grain::Hourly, name), utc(Grain::Hourly), "{name}");
    }
    for (name, hint) in [("Berlin", "Europe/Berlin"), ("Europe/Berln", "Europe/Berlin"), ("xyzzyx-nowhere", "UTC")] {
        let error = Calendar::new(Grain::Daily, name).unwrap_err();
        assert!(error.message.contains(&format!("`{name}`")) && error.hint.unwrap().contains(hint));
    }
    for name in ["", "Etc/Unknown", "../../etc/passwd"] {
        assert!(Calendar::new(Grain::Daily, name).is_err(), "{name}");
    }
}

#[test]
fn grains_and_calendars_are_written_in_lower_case() {
    for grain in Grain::ALL {
        assert_eq!(grain.as_str().parse::<Grain>().unwrap(), grain);
        assert_eq!(serde_json::to_value(grain).unwrap(), grain.as_str());
    }
    let error = "dayly".parse::<Grain>().unwrap_err();
    assert_eq!(error.hint.unwrap(), "did you mean `daily`?");
    let berlin = calendar(Grain::Weekly, "Europe/Berlin");
    let json = serde_json::json!({"grain": "weekly", "timezone": "Europe/Berlin"});
    assert_eq!(serde_json::to_value(&berlin).unwrap(), json);
    assert_eq!(serde_json::from_value::<Calendar>(json).unwrap(), berlin);
    assert!(serde_json::from_value::<Calendar>(serde_json::json!({"grain": "daily", "zone": "UTC"})).is_err());
}

/// Walks four years of a calendar and checks that the intervals tile it and that keys and intervals are one to one.
fn check_four_years(calendar: &Calendar) {
    let mut interval = calendar.containing(at("2024-01-01T00:00:00Z")).unwrap();
    let mut keys = std::collections::HashSet::new();
    while interval.start < at("2028-01-01T00:00:00Z") {
        assert!(interval.start < interval.end, "{interval:?}");
        assert!(keys.insert(interval.key.clone()), "{} comes twice in {calendar}", interval.key);
        assert_eq!(calendar.interval_of_key(&interval.key).unwrap(), interval);
        assert_eq!(calendar.containing(interval.start).unwrap(), interval);
        let next = calendar.next(&interval).unwrap();
        assert_eq!(next.start, interval.end, "a gap after {} in {calendar}", interval.key);
        assert_eq!(calendar.previous(&next).unwrap(), interval);
        interval = next;
    }
}

#[test]
fn every_interval_of_four_years_tiles_and_has_its_own_key() {
    for zone in ZONES {
        for grain in Grain::ALL {
            check_four_years(&calendar(grain, zone));
        }
    }
}

fn any_calendar() -> impl Strategy<Value = Calendar> {
    let odd = ["America/St_Johns", "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Africa/Casablanca"];
    let zones: Vec<&'static str> = ZONES.into_iter().chain(odd).collect();
    (proptest::sample::select(Grain::ALL.to_vec()), proptest::sample::select(zones))
        .prop_map(|(grain, zone)| calendar(grain, zone))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_instant_lies_in_the_interval_that_its_key_names(
        calendar in any_calendar(),
        second in -2_000_000_000_i64..4_000_000_000,
        nanosecond in 0_i32..1_000_000_000,
    ) {
        let instant = Timestamp::new(second, nanosecond).unwrap();
        let interval = calendar.containing(instant).unwrap();
        prop_assert!(interval.start <= instant && instant < interval.end);
        prop_assert_eq!(&calendar.interval_of_key(&interval.key).unwrap(), &interval);
        prop_assert_eq!(&calendar.canonical(&interval.start.to_string(), None).unwrap(), &interval);
        let next = calendar.next(&interval).unwrap();
        prop_assert_eq!(next.start, interval.end);
        prop_assert_eq!(calendar.previous(&next).unwrap(), interval);
    }

    #[test]
    fn no_text_makes_the_reader_panic(calendar in any_calendar(), text in "[0-9TWZ:+\\-. dhmoy\u{e9}]{0,24}|.{0,12}") {
        if let Ok(interval) = calendar.canonical(&text, Some(Timestamp::UNIX_EPOCH)) {
            prop_assert_eq!(calendar.interval_of_key(&interval.key).unwrap(), interval);
        }
    }
}

/// The environment of a test process cannot be changed safely, so the test runs itself again under other zones.
#[test]
fn keys_do_not_depend_on_the_zone_of_the_process() {
    let report = || {
        let spellings = ["2025-03-24", "2025-03-24 00:00", "2025-03-23T23:00:00Z", "today"];
        let berlin = calendar(Grain::Daily, "Europe/Berlin");
        let keys = spellings.map(|text| berlin.canonical(text, Some(at("2025-03-24T12:00:00Z"))).unwrap().key);
        let hours =
            ["2025-10-26T02+0200", "2025-10-26T02+0100"].map(|it| key(&calendar(Grain::Hourly, "Europe/Berlin"), it));
        format!("{keys:?} {hours:?} {}", key(&utc(Grain::Daily), "2025-03-24T09:00:00+09:00"))
    };
    if std::env::var_os("REFRAIN_TEST_PRINT_KEYS").is_some() {
        println!("keys: {}", report());
        return;
    }
    for zone in ["UTC", "Asia/Tokyo", "America/New_York", "nonsense"] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "grain::tests::keys_do_not_depend_on_the_zone_of_the_process", "--nocapture"])
            .env("REFRAIN_TEST_PRINT_KEYS", "1")
            .env("TZ", zone)
            .env("TZDIR", "/nonexistent")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("keys: {}", report())), "under TZ={zone}: {text}");
    }
}

/// The odd days of the whole database, not only of the zones somebody thought of.
#[test]
fn every_clock_change_of_every_zone_leaves_the_tiling_whole() {
    let nanosecond = jiff::SignedDuration::from_nanos(1);
    for name in jiff::tz::TimeZoneDatabase::bundled().available() {
        if name.as_str() == "Etc/Unknown" {
            continue;
        }
        for grain in [Grain::Hourly, Grain::Daily, Grain::Monthly] {
            let calendar = calendar(grain, name.as_str());
            let changes = calendar.zone().following(at("1800-01-01T00:00:00Z")).map(|it| it.timestamp());
            for change in changes.take_while(|it| *it < at("2040-01-01T00:00:00Z")) {
                for instant in [change - nanosecond, change] {
                    let interval = calendar.containing(instant).unwrap();
                    assert!(interval.start <= instant && instant < interval.end, "{instant} {interval:?}");
                    assert_eq!(calendar.interval_of_key(&interval.key).unwrap(), interval);
                    assert_eq!(calendar.next(&interval).unwrap().start, interval.end, "{interval:?}");
                }
            }
        }
    }
}

#[test]
fn a_bound_of_another_grain_is_what_has_a_part_in_it() {
    use Grain::{Daily, Hourly, Monthly, Weekly, Yearly};
    for (grain, zone, text, first, last) in [
        (Hourly, "UTC", "2025-03-24", "2025-03-24T00", "2025-03-24T23"),
        (Hourly, "Europe/Berlin", "2025-10-26", "2025-10-26T00+0200", "2025-10-26T23+0100"),
        (Hourly, "UTC", "2025-02", "2025-02-01T00", "2025-02-28T23"),
        (Daily, "UTC", "2025-03-24", "2025-03-24", "2025-03-24"),
        (Daily, "UTC", "2025-03-24T05", "2025-03-24", "2025-03-24"),
        (Daily, "UTC", "2025-W13", "2025-03-24", "2025-03-30"),
        (Daily, "UTC", "-1mo", "2025-02-01", "2025-02-28"),
        (Hourly, "UTC", "yesterday", "2025-03-23T00", "2025-03-23T23"),
        (Weekly, "UTC", "2025-03-26", "2025-W13", "2025-W13"),
        (Monthly, "UTC", "2025-03-24", "2025-03", "2025-03"),
        (Monthly, "UTC", "2025", "2025-01", "2025-12"),
        (Yearly, "UTC", "2025-03-24", "2025", "2025"),
    ] {
        let (from, to) = calendar(grain, zone).touched("", text, Some(at("2025-03-24T05:00:00Z"))).unwrap();
        assert_eq!((from.key.as_str(), to.key.as_str()), (first, last), "{grain} {zone} {text}");
    }
    assert!(utc(Daily).touched("", "24.3.2025", None).is_err());
}
