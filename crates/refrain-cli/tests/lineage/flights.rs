//! The example: a month of flights, its running totals and its sum.

use crate::backfill;
use crate::call::{home, run};
use crate::{in_state, states};
use refrain_testkit::program::Home;
use std::fs;
use std::path::Path;

/// The example in a fresh home, which reads the flights where they are.
fn totals() -> Home {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap();
    let home = home();
    let config = fs::read_to_string(examples.join("totals/refrain.toml")).unwrap();
    home.config(&config.replace("../flights", examples.join("flights").to_str().unwrap()));
    for script in ["counts.awk", "add.awk"] {
        home.write(script, fs::read(examples.join("totals").join(script)).unwrap());
    }
    home
}

/// The sum of a column of a table.
fn sum(table: &str, column: usize) -> u64 {
    table.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn date_11_the_totals_of_a_month_go_on_from_day_to_day_and_heal_when_a_day_is_corrected() {
    let home = totals();
    backfill(&home, "daily_counts", 31, &["--jobs", "2"]).success();
    backfill(&home, "running_totals", 31, &["--jobs", "2"]).success();
    run(&home, &["monthly_counts", "--date", "2013-01"], "").published();
    let month = home.read("warehouse/months/2013-01.csv");
    assert_eq!(month, home.read("warehouse/totals/2013-01-31.csv"), "two ways to the same sum");
    assert_eq!(sum(&month, 1), 27_004, "the flights of the files");

    // A correction of one day: half of its flights were listed twice, say.
    let corrected = "awk -F, -v OFS=, 'NR > 1 { $2 *= 2 } 1' warehouse/counts/2013-01-30.csv > \"$REFRAIN_OUT\"";
    run(&home, &["daily_counts", "--date", "2013-01-30", "--rerun"], corrected).published();
    assert_eq!(in_state(&home, "running_totals", "stale"), ["2013-01-30", "2013-01-31"]);
    assert_eq!(in_state(&home, "monthly_counts", "stale"), ["2013-01"]);
    let why = home.run(["why", "monthly_counts", "--date", "2013-01"]).success().stdout;
    assert!(why.contains("input `days` was version 1 of `daily_counts 2013-01-30`"), "{why}");
    backfill(&home, "running_totals", 31, &["--if-changed"]).success().says("2 published, 29 already published");
    run(&home, &["monthly_counts", "--date", "2013-01", "--if-changed"], "").published();
    let month = home.read("warehouse/months/2013-01.csv");
    assert_eq!(month, home.read("warehouse/totals/2013-01-31.csv"));
    let day = home.read("warehouse/counts/2013-01-30.csv");
    assert_eq!(sum(&month, 1), 27_004 + sum(&day, 1) / 2);
    assert!(states(&home, "running_totals").iter().all(|(_, state, _)| state == "published"));
}

#[test]
fn show_names_every_publication_that_was_read_and_the_run_that_made_it() {
    let home = totals();
    backfill(&home, "daily_counts", 31, &["--jobs", "2"]).success();
    let counts = run(&home, &["daily_counts", "--date", "2013-01-07"], "").already_published();
    let call = run(&home, &["monthly_counts", "--date", "2013-01"], "").published();
    let read = format!("`daily_counts 2013-01-07` output `counts` version 1 (run {})", counts.text("run"));
    for what in ["warehouse/months/2013-01.csv", call.text("run"), call.text("attempt")] {
        let shown = home.run(["show", what]).success().stdout;
        assert!(shown.contains(&read) && shown.matches("`daily_counts ").count() == 31, "{shown}");
        let json = home.run(["show", what, "--json"]).success().stdout;
        assert!(json.contains(counts.text("run")), "{json}");
    }
    assert!(call.report["inputs"][0]["version"].as_str().unwrap().starts_with("31 publications of daily_counts"));
}

#[test]
fn a_month_with_a_missing_day_is_refused_and_names_the_days() {
    let home = totals();
    backfill(&home, "daily_counts", 28, &["--jobs", "2"]).success();
    let flags = ["monthly_counts", "--date", "2013-01"];
    run(&home, &flags, "")
        .nothing(125, "refused")
        .says("reads `daily_counts 2013-01-29`, `daily_counts 2013-01-30`, `daily_counts 2013-01-31`, which are not published")
        .says("refrain backfill daily_counts --from 2013-01-29 --to 2013-01-31");
    backfill(&home, "daily_counts", 31, &[]).success();
    let why = home.run(["why", "monthly_counts", "--date", "2013-01"]).success().stdout;
    assert!(why.contains("input `days` would be 31 publications of daily_counts"), "{why}");
    run(&home, &flags, "").published();
}
