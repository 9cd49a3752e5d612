//! LEDG: history that is compacted, and what is never applied again because of it.

use crate::call::{assert_fails, executions, finish, home, run, start};
use refrain_testkit::freeze;
use refrain_testkit::program::Home;
use refrain_testkit::strace;
use std::fs;

/// A daily task whose executions are counted.
const DAILY: &str = r#"
[task.job]
partition = "daily"
command = "echo x >> runs.log; echo $REFRAIN_DATE > $REFRAIN_OUT"
out.row = "rows/{date}.csv"
"#;

fn published(days: u32) -> Home {
    let home = home();
    home.config(DAILY);
    home.run(["backfill", "job", "--from", "2025-01-01", "--to", &format!("2025-01-{days:02}")]).success();
    home
}

fn day(day: u32) -> [String; 3] {
    ["job".to_owned(), "--date".to_owned(), format!("2025-01-{day:02}")]
}

#[track_caller]
fn run_day(home: &Home, number: u32, more: &[&str]) -> crate::call::Call {
    let day = day(number);
    let flags: Vec<&str> = day.iter().map(String::as_str).chain(more.iter().copied()).collect();
    run(home, &flags, "")
}

fn log(home: &Home) -> usize {
    home.run(["log", "job", "--json", "-n", "1000"]).success().stdout.lines().count()
}

#[test]
fn ledg_01_what_is_neither_known_nor_published_is_never_applied_below_the_watermark() {
    let home = published(5);
    home.run(["compact", "job", "--before", "2025-01-04"]).success().says("forgot 3 dates").says("2025-01-03");
    // Published elsewhere from now on: nothing there tells that these dates were ever applied.
    home.config(&DAILY.replace("rows/", "elsewhere/"));
    run_day(&home, 2, &[]).nothing(125, "refused").says("watermark").says("2025-01-03").says("--rerun");
    run_day(&home, 2, &["--if-changed"]).nothing(125, "refused");
    assert_eq!(executions(&home), 5);
    let why = home.run(["why", "job", "--date", "2025-01-02"]).success().stdout;
    assert!(why.contains("would refuse") && why.contains("--rerun"), "{why}");
    let status = home.run(["status", "job", "--from", "2025-01-01", "--to", "2025-01-04", "--json"]).success().stdout;
    assert_eq!(status.matches("\"state\": \"compacted\"").count(), 3, "{status}");
    run_day(&home, 2, &["--rerun"]).published();
    assert_eq!(executions(&home), 6);
    // Above the watermark a date without an entry was never applied.
    run_day(&home, 9, &[]).published();
}

#[test]
fn ledg_01_what_was_published_answers_as_before_and_is_not_written_to_the_store_again() {
    let home = published(5);
    run_day(&home, 2, &["--rerun"]).published();
    home.run(["compact", "--before", "2025-01-04"]).success().says("forgot 3 dates");
    assert_eq!(log(&home), 2);
    let call = run_day(&home, 2, &[]).already_published();
    assert_eq!((call.number("generation"), log(&home)), (2, 2));
    for (args, text) in [
        (&["path", "job", "--date", "2025-01-02"][..], "rows/2025-01-02.csv"),
        (&["path", "job", "--date", "2025-01-02", "--version", "1"], "/1-"),
        (&["show", "rows/2025-01-02.csv"], "version      2"),
        (&["why", "job", "--date", "2025-01-02"], "would do nothing"),
        (&["status", "job", "--from", "2025-01-01", "--to", "2025-01-05"], "published before the watermark"),
    ] {
        let told = home.run(args).success().stdout;
        assert!(told.contains(text), "{args:?}: {told}");
    }
    let grid = home.run(["status", "job", "--grid"]).success().stdout;
    assert!(grid.contains("2025-01  = = = + +"), "{grid}");
    for form in ["--grid", "--list"] {
        let status = home.run(["status", "job", form]).success().stdout;
        assert!(status.contains("3 compacted") && status.contains("compacted: 3 dates up to 2025-01-03"), "{status}");
    }
    let log = home.run(["log", "job", "--date", "2025-01-02"]).success().stdout;
    assert!(log.contains("were compacted") && log.contains("what stands: version 2"), "{log}");
    home.run(["rollback", "job", "--date", "2025-01-02"]).success();
    assert_eq!(executions(&home), 6);
    // A replacement that is asked for goes on with the next generation.
    assert_eq!(run_day(&home, 2, &["--rerun"]).published().number("generation"), 4);
    assert_eq!(run_day(&home, 1, &["--rerun"]).published().number("generation"), 2);
}

#[test]
fn ledg_02_nothing_is_compacted_past_what_is_not_settled() {
    let home = published(3);
    let refused = |date: &str| {
        let before = log(&home);
        assert_fails(&home.run(["compact", "job", "--before", "2025-01-20"]), &[date, "refrain recover job"]);
        assert_eq!(log(&home), before, "nothing was forgotten");
    };
    let killed = home.refrain().env("REFRAIN_CRASH_AT", "before-commit");
    killed.run(["run", "job", "--date", "2025-01-05"]).expect_signal(9);
    refused("2025-01-05");
    home.run(["recover", "job"]).success();
    // It never was published, so that its next attempt is still the retry of the run that was begun.
    home.run(["compact", "job", "--before", "2025-01-20"]).success().says("forgot 3 dates").says("kept job 2025-01-05");
    run_day(&home, 5, &[]).published();
    let running = start(
        &home,
        &["job", "--date", "2025-01-06"],
        "touch started; while [ ! -e go ]; do sleep 0.05; done; echo > $REFRAIN_OUT",
    );
    freeze::wait_for_path(&home.join("started"));
    refused("2025-01-06");
    home.write("go", "");
    finish(running).published();
    home.run(["compact", "job", "--before", "2025-01-20"]).success().says("forgot 2 dates");
}

#[test]
fn ledg_02_nothing_is_compacted_past_a_run_that_is_decided_and_not_carried_out() {
    let home = home();
    home.config("[task.job]\npartition = \"daily\"\ncommand = \"echo a > $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B\"\nout.a = \"a/{date}\"\nout.b = \"b/{date}\"\n");
    let killed = home.refrain().env("REFRAIN_CRASH_AT", "after-commit");
    killed.run(["run", "job", "--date", "2025-01-01"]).expect_signal(9);
    assert!(home.exists("a/2025-01-01") && !home.exists("b/2025-01-01"));
    assert_fails(&home.run(["compact", "--before", "2025-02-01"]), &["2025-01-01", "refrain recover job"]);
    home.run(["recover"]).success();
    assert!(home.exists("b/2025-01-01"));
    home.run(["compact", "--before", "2025-02-01"]).success().says("forgot 1 date");
}

#[test]
fn ledg_02_only_dates_that_are_over_and_tasks_that_have_dates_are_compacted() {
    let home = published(2);
    assert_fails(&home.run(["compact", "job", "--before", "2099-01-01"]), &["lies in the future", "--before "]);
    assert_fails(&home.run(["compact", "job", "--before", "soon"]), &["soon"]);
    assert_fails(&home.run(["compact", "jop", "--before", "2025-01-02"]), &["did you mean `job`?"]);
    home.config(
        "[task.job]\npartition = { values = [\"a\", \"b\"] }\ncommand = \"true\"\nout.row = \"rows/{partition}\"\n",
    );
    assert_fails(&home.run(["compact", "job", "--before", "2025-01-02"]), &["a list of partitions"]);
    assert_fails(&home.run(["compact", "--before", "2025-01-02"]), &["no task of refrain.toml has dates"]);
}

#[test]
fn ledg_02_a_dry_run_changes_nothing_and_two_at_once_forget_every_date_once() {
    let home = published(12);
    home.run(["compact", "--before", "2025-01-11", "--dry-run"]).success().says("would forget 10 dates");
    assert_eq!(log(&home), 12);
    let both = [1, 2].map(|_| home.spawn(["compact", "--before", "2025-01-11"]));
    let newer = home.spawn(["backfill", "job", "--from", "2025-01-13", "--to", "2025-01-16"]);
    for process in both {
        process.wait().success();
    }
    newer.wait().success();
    assert_eq!(log(&home), 6);
    home.run(["compact", "--before", "2025-01-11"]).success().says("forgot 0 dates").says("2025-01-10");
    let again = home.run(["backfill", "job", "--from", "2025-01-01", "--to", "2025-01-16"]);
    again.success().says("16 already published");
    assert_eq!(executions(&home), 16);
}

#[test]
fn ledg_02_a_compaction_that_is_killed_at_any_write_loses_no_date() {
    for when in 1.. {
        let home = published(3);
        let command = home.refrain().command(["compact", "--before", "2025-01-03"]);
        let calls = "pwrite64,fdatasync,fsync,ftruncate,unlink,unlinkat";
        let output = strace::inject_everywhere(&command, &format!("{calls}:signal=KILL:when={when}"));
        for date in 1..=3 {
            run_day(&home, date, &[]).already_published();
        }
        home.run(["compact", "--before", "2025-01-03"]).success().says("the watermark is 2025-01-02");
        assert_eq!((log(&home), executions(&home)), (1, 3));
        if output.signal.is_none() {
            assert!(when > 2, "{when}");
            break;
        }
    }
}

#[test]
fn ledg_02_replaced_versions_beyond_what_is_kept_go_before_their_date_does() {
    let home = home();
    home.config(&format!("{DAILY}keep = {{ versions = 1, grace = \"1h\" }}\n"));
    for flags in [&[][..], &["--rerun"], &["--rerun"]] {
        run_day(&home, 1, flags).published();
    }
    home.run(["compact", "--before", "2025-01-03"]).success().says("forgot 0 dates").says("refrain gc");
    home.config(&format!("{DAILY}keep = {{ versions = 1, grace = \"0s\" }}\n"));
    home.run(["gc"]).success();
    home.run(["compact", "--before", "2025-01-03"]).success().says("forgot 1 date");
    let kept = home.run(["path", "job", "--date", "2025-01-01", "--version", "2"]).success().stdout;
    assert_eq!(fs::read_to_string(kept.trim_end()).unwrap(), "2025-01-01\n", "what is kept stays");
}
