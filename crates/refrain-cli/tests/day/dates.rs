//! DATE-01, DATE-02: which interval a date names, from the command line to the command's environment.

use crate::call::{Call, executions, home, names, run, run_as};
use refrain_testkit::program::Home;

const SHOW: &str = "echo x >> runs.log; echo $REFRAIN_DATE $REFRAIN_DATE_START $REFRAIN_DATE_END > $REFRAIN_OUT";

fn dated(home: &Home, grain: &str, zone: &str, date: &str) -> Call {
    run(home, &["job", "--grain", grain, "--timezone", zone, "--date", date, "--out", "o/{date}.txt"], SHOW)
}

#[test]
fn every_grain_takes_its_spellings_and_echoes_its_key() {
    for (grain, zone, dates, key, start, end) in [
        (
            "hourly",
            "UTC",
            &["2025-03-24T05", "20250324T05", "2025-03-24T05:00:00Z", "2025-03-24T07:00+02:00"][..],
            "2025-03-24T05",
            "2025-03-24T05:00:00Z",
            "2025-03-24T06:00:00Z",
        ),
        (
            "hourly",
            "Europe/Berlin",
            &["2025-10-26T02+0100", "2025-10-26T01Z", "2025-10-26T01:00:00Z"],
            "2025-10-26T02+0100",
            "2025-10-26T01:00:00Z",
            "2025-10-26T02:00:00Z",
        ),
        (
            "daily",
            "Europe/Berlin",
            &["2025-03-30", "20250330", "2025-03-29T23:00:00Z"],
            "2025-03-30",
            "2025-03-29T23:00:00Z",
            "2025-03-30T22:00:00Z",
        ),
        (
            "daily",
            "Asia/Beirut",
            &["2025-03-30", "2025-03-30T00:00"],
            "2025-03-30",
            "2025-03-29T22:00:00Z",
            "2025-03-30T21:00:00Z",
        ),
        (
            "weekly",
            "UTC",
            &["2025-W13", "2025W13", "2025-03-24"],
            "2025-W13",
            "2025-03-24T00:00:00Z",
            "2025-03-31T00:00:00Z",
        ),
        ("weekly", "UTC", &["2026-W53", "2026-12-28"], "2026-W53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"),
        (
            "monthly",
            "America/New_York",
            &["2025-03", "2025-03-01"],
            "2025-03",
            "2025-03-01T05:00:00Z",
            "2025-04-01T04:00:00Z",
        ),
        ("yearly", "UTC", &["2025", "2025-01-01"], "2025", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
    ] {
        let home = home();
        for date in dates {
            let call = dated(&home, grain, zone, date);
            assert_eq!(call.text("partition"), key, "{date}");
            assert!(call.output.stderr.contains(&format!("job {key}: version 1")), "{}", call.output);
        }
        assert_eq!(home.read(format!("o/{key}.txt")), format!("{key} {start} {end}\n"));
        assert_eq!(executions(&home), 1, "one key, one execution: {dates:?}");
    }
}

#[test]
fn dates_relative_to_now_are_read_in_every_grain() {
    for (grain, now, before) in
        [("hourly", "-0h", "-1h"), ("weekly", "-0w", "-1w"), ("monthly", "-0mo", "-1mo"), ("yearly", "-0y", "-1y")]
    {
        let home = home();
        let (now, before) = (dated(&home, grain, "UTC", now), dated(&home, grain, "UTC", before));
        assert!(before.text("partition") < now.text("partition"), "{grain}");
    }
}

#[test]
fn the_hours_of_a_day_with_a_clock_change_are_25_or_23_files() {
    for (day, next, hours) in
        [("2025-10-26T00+0200", "2025-10-26T23+0100", 25), ("2025-03-30T00+0100", "2025-03-30T23+0200", 23)]
    {
        let home = home();
        home.config(
            "[task.h]\npartition = \"hourly\"\ntimezone = \"Europe/Berlin\"\ncommand = \"echo x > $REFRAIN_OUT\"\n\
             out.o = \"o/{date}.txt\"\n",
        );
        let list = home.run(["backfill", "h", "--from", day, "--to", next, "--dry-run"]).success().stdout;
        assert_eq!(list.lines().count(), hours);
        home.run(["-q", "backfill", "h", "--from", day, "--to", next, "--jobs", "4"]).success();
        assert_eq!(names(&home.join("o")).len(), hours);
        let grid = home.run(["status", "h", "--grid", "--from", day, "--to", next]).success().stdout;
        assert!(grid.contains(&format!("+ {hours} published")) && !grid.contains("missing"), "{grid}");
    }
}

#[test]
fn date_01_with_the_logical_clock_a_task_that_asks_for_today_gets_its_own_date() {
    let home = home();
    home.config(
        "[task.job]\npartition = \"daily\"\nclock = \"logical\"\ncommand = \"date +%F > $REFRAIN_OUT\"\n\
         out.o = \"o/{date}.txt\"\n",
    );
    home.run(["-q", "backfill", "job", "--from", "2013-01-01", "--to", "2013-01-05"]).success();
    for day in 1..=5 {
        assert_eq!(home.read(format!("o/2013-01-0{day}.txt")), format!("2013-01-0{day}\n"));
    }
}

#[test]
fn date_01_a_task_that_asks_for_today_cannot_publish_outside_of_its_partition() {
    let home = home();
    // With the host's clock it believes that it works for today; what it publishes is its own slot and no other.
    let script = "mkdir -p $(dirname $REFRAIN_OUT)/dt=$(date +%F) && echo data > $REFRAIN_OUT && \
                  echo stray > $(dirname $REFRAIN_OUT)/dt=$(date +%F)/data";
    let call = run(&home, &["job", "--date", "2013-01-01", "--out", "lake/dt={date}.csv"], script);
    call.nothing(123, "refused");
    assert!(!home.exists("lake/dt=2013-01-01.csv"), "what lies beside the output is a failed guard");
    assert!(names(&home.join("lake")).is_empty());
}

#[test]
fn date_02_the_end_of_an_interval_is_the_start_of_the_next_and_its_middle_is_refused() {
    let home = home();
    let at = |date: &str| dated(&home, "daily", "UTC", date);
    at("2025-03-23").published();
    at("2025-03-25").published();
    let (before, after) = (home.read("o/2025-03-23.txt"), home.read("o/2025-03-25.txt"));
    at("2025-03-24T12:00:00Z").nothing(125, "error").says("give 2025-03-24").says("or 2025-03-25");
    at("2025-03-24T00:00:00Z").published();
    at("2025-03-25T00:00:00Z").already_published();
    assert_eq!(names(&home.join("o")), ["2025-03-23.txt", "2025-03-24.txt", "2025-03-25.txt"]);
    assert_eq!(
        (home.read("o/2025-03-23.txt"), home.read("o/2025-03-25.txt")),
        (before, after),
        "no neighbour is touched"
    );
    assert_eq!(executions(&home), 3);
}

#[test]
fn the_seed_is_of_the_task_and_the_partition_alone() {
    let seed = |home: &Home, task: &str, date: &str, zone: &str| {
        let caller = home.refrain().env("TZ", zone).env("REFRAIN_PARAM_X", "1");
        let flags = [task, "--rerun", "--date", date, "--out", "o/{date}.txt", "--param", &format!("zone={zone}")];
        run_as(home, &caller, &flags, "echo $REFRAIN_SEED > seed; echo data > $REFRAIN_OUT").published();
        home.read("seed")
    };
    let (one, other) = (home(), home());
    let first = seed(&one, "a", "2025-03-24", "UTC");
    assert_eq!(first, seed(&other, "a", "2025-03-24", "Asia/Tokyo"), "another home, zone and parameter");
    assert_ne!(first, seed(&one, "a", "2025-03-25", "UTC"));
    assert!(first.trim().parse::<u32>().unwrap() < 1 << 31);
    let of_another_task = seed(&home(), "b", "2025-03-24", "UTC");
    assert_ne!(first, of_another_task);
}
