//! The reader dies at every step, and the task that it reads publishes anew before it is repeated.

use crate::call::{names, run};
use crate::{backfill, in_state, publish_raw, two};
use refrain::core::CrashPoint;

const DAY: [&str; 3] = ["sum", "--date", "2013-01-01"];

#[test]
fn ledg_10_whatever_step_kills_the_reader_its_run_reads_one_version() {
    for point in reached() {
        let home = two();
        backfill(&home, "raw", 1, &[]).success();
        let run_day = [&["run"], &DAY[..]].concat();
        home.refrain().env("REFRAIN_CRASH_AT", point.name()).run(run_day).expect_signal(9);
        publish_raw(&home, "2013-01-01", "two\n");
        home.run(["gc"]).success();
        let call = run(&home, &DAY, "");
        assert_eq!(call.output.code, Some(0), "{point}: {}", call.output);
        // Only a run that was recorded has pins.
        let expected = if point < CrashPoint::AfterOpenRun { "two\n" } else { "one\n" };
        assert_eq!(home.read("sum/2013-01-01.txt"), expected, "{point}");
        let stale = in_state(&home, "sum", "stale");
        assert_eq!(stale.is_empty(), expected == "two\n", "{point}: {stale:?}");
        home.run(["gc"]).success();
        assert_eq!(names(&home.join(".refrain/pins")), Vec::<String>::new(), "{point}");
    }
}

/// The points that a run of the reader passes, in order.
fn reached() -> Vec<CrashPoint> {
    let home = two();
    backfill(&home, "raw", 1, &[]).success();
    let told = home.refrain().env("REFRAIN_CRASH_AT", "?").run([&["run"], &DAY[..]].concat()).success().stderr;
    let passed = |point: &CrashPoint| told.lines().any(|line| line.ends_with(&format!("reached {point}")));
    let points: Vec<_> = CrashPoint::ALL.iter().copied().filter(passed).collect();
    assert!(points.contains(&CrashPoint::AfterPin) && points.len() > 15, "{told}");
    points
}

#[test]
fn date_11_a_chain_that_dies_at_any_step_goes_on_to_the_same_end() {
    for point in reached() {
        let home = two();
        backfill(&home, "raw", 3, &[]).success();
        backfill(&home, "sum", 1, &[]).success();
        let day = ["run", "sum", "--date", "2013-01-02"];
        home.refrain().env("REFRAIN_CRASH_AT", point.name()).run(day).expect_signal(9);
        backfill(&home, "sum", 3, &[]).success();
        assert_eq!(home.read("sum/2013-01-03.txt"), "one\n".repeat(3), "{point}");
        assert_eq!(in_state(&home, "sum", "published").len(), 3, "{point}");
    }
}

#[test]
fn a_reader_takes_one_whole_version_whatever_step_killed_the_task_that_it_reads() {
    for point in reached() {
        let home = two();
        backfill(&home, "raw", 1, &[]).success();
        home.write("source", "two\n");
        let again = ["run", "raw", "--date", "2013-01-01", "--rerun"];
        home.refrain().env("REFRAIN_CRASH_AT", point.name()).run(again).expect_signal(9);
        let call = run(&home, &DAY, "").published();
        let version = call.report["inputs"][0]["version"].as_str().unwrap_or_default().to_owned();
        let expected = if version.contains("version 2 ") { "two\n" } else { "one\n" };
        assert_eq!(home.read("sum/2013-01-01.txt"), expected, "{point}: {version}");
        assert_eq!(home.read("raw/2013-01-01.txt"), expected, "{point}: what stood was read");
        // The next run settles the dead one, and the reader follows.
        home.run(again).success();
        run(&home, &[&DAY[..], &["--if-changed"]].concat(), "").published();
        assert_eq!(home.read("sum/2013-01-01.txt"), "two\n", "{point}");
    }
}
