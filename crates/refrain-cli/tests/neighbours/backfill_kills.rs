//! A backfill of 31 real days, killed anywhere and run again: every day is right, and published exactly once.

use crate::call::{home, names};
use refrain_testkit::freeze::{descendants, is_alive, kill, wait_for, wait_for_path};
use refrain_testkit::program::Home;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MONTH: [&str; 8] = ["backfill", "daily_delays", "--from", "2013-01-01", "--to", "2013-01-31", "--jobs", "2"];

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flights")
}

/// A home with the flights of a month.
fn flights() -> Home {
    let home = home();
    for file in ["refrain.toml", "delays.awk"] {
        home.write(file, fs::read(example().join(file)).unwrap());
    }
    for day in names(&example().join("data")) {
        home.write(format!("data/{day}"), fs::read(example().join("data").join(&day)).unwrap());
    }
    home
}

/// Every file that readers see, by its path.
fn seen(home: &Home) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for day in names(&home.join("reports")) {
        files.insert(format!("reports/{day}"), home.read(format!("reports/{day}")));
    }
    for day in names(&home.join("warehouse/delays")) {
        for file in names(&home.join("warehouse/delays").join(&day)) {
            let path = format!("warehouse/delays/{day}/{file}");
            files.insert(path.clone(), home.read(path));
        }
    }
    files
}

/// What an undisturbed backfill publishes.
fn expected() -> BTreeMap<String, String> {
    let home = flights();
    home.run(MONTH).success().says("31 published, 0 already published, 0 failed");
    let files = seen(&home);
    assert_eq!(names(&home.join("reports")).len(), 31);
    files
}

/// Everything is there, right, published once, and nothing is left to collect.
#[track_caller]
fn assert_whole(home: &Home, expected: &BTreeMap<String, String>) {
    assert!(seen(home) == *expected, "the month is not what an undisturbed backfill publishes");
    let text = home.run(["status", "daily_delays", "--json"]).success().stdout;
    let days: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(days.len(), 31);
    for day in &days {
        assert_eq!((&day["state"], &day["generation"]), (&"published".into(), &1.into()), "{day}");
    }
    let log = home.run(["log", "--json", "-n", "100000"]).success().stdout;
    let attempts = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut publications: BTreeMap<String, u32> = BTreeMap::new();
    for attempt in attempts.filter(|attempt| attempt["ending"]["outcome"] == "published") {
        *publications.entry(attempt["key"]["partition"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(publications.len() == 31 && publications.values().all(|count| *count == 1), "{publications:?}");
    let collected = home.run(["gc"]).success();
    assert!(collected.stderr.contains("0 versions"), "{collected}");
    home.run(MONTH).success().says("0 published, 31 already published, 0 failed");
}

/// Kills the backfill itself and waits until nothing that it started is left.
fn kill_whole(home: &Home, after: Duration) {
    let mut running = home.spawn(MONTH);
    // No event marks a moment that is as good as any other.
    std::thread::sleep(after);
    let below = descendants(running.pid());
    if !running.has_ended() {
        kill(running.pid());
    }
    drop(running.wait());
    for pid in below {
        wait_for("everything that it started ends", || !is_alive(pid));
    }
}

#[test]
fn a_backfill_that_is_killed_at_any_moment_publishes_each_day_once_in_the_end() {
    let expected = expected();
    let home = flights();
    for round in 0..12_u64 {
        // Spread over the start, the first commands and the middle.
        kill_whole(&home, Duration::from_millis(3 + 37 * round % 240));
    }
    home.run(MONTH).success();
    assert_whole(&home, &expected);
}

#[test]
fn a_worker_that_is_killed_at_any_step_costs_its_day_only_until_the_next_backfill() {
    let expected = expected();
    let home = flights();
    for point in [
        "after-acquire",
        "after-claim",
        "before-task",
        "after-task",
        "after-seal",
        "after-intent",
        "after-rename",
        "after-commit",
        "before-finish",
    ] {
        // Every worker dies at its second date, so that one date of each is in the log as killed in the middle.
        let crashing = home.refrain().env("REFRAIN_CRASH_AT", format!("{point}#2"));
        let output = crashing.run([&MONTH[..], &["--max-failures", "2"]].concat());
        assert!(matches!(output.code, Some(0 | 122)), "{point}: {output}");
    }
    home.run(MONTH).success();
    assert_whole(&home, &expected);
}

#[test]
fn two_backfills_of_the_same_month_share_it() {
    let expected = expected();
    let home = flights();
    let both = [home.spawn(MONTH), home.spawn(MONTH)].map(refrain_testkit::program::Running::wait);
    for output in both {
        assert!(matches!(output.code, Some(0 | 120)), "{output}");
    }
    assert_whole(&home, &expected);
}

#[test]
fn a_backfill_from_the_last_day_to_the_first_publishes_the_same() {
    let expected = expected();
    let home = flights();
    let mut running = home.spawn([&MONTH[..], &["--order", "desc"]].concat());
    wait_for_path(&home.join("reports/2013-01-31.csv"));
    assert!(!home.exists("reports/2013-01-01.csv"), "it began with the last day");
    wait_for("the backfill ends", || running.has_ended());
    running.wait().success();
    assert_whole(&home, &expected);
}
