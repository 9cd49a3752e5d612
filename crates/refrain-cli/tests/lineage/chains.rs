//! Chains: each date reads the date before it.

use crate::call::{assert_fails, executions, run};
use crate::{backfill, in_state, publish_raw, states, two};

fn done(home: &refrain_testkit::program::Home, days: u32) {
    backfill(home, "raw", days, &[]).success();
    backfill(home, "sum", days, &[]).success();
}

#[test]
fn date_11_day_3_before_day_2_is_refused_before_the_task_starts_and_names_what_to_run() {
    let home = two();
    backfill(&home, "raw", 6, &[]).success();
    run(&home, &["sum", "--date", "2013-01-01"], "").published();
    let early = home.run(["run", "sum", "--date", "2013-01-03"]);
    assert_fails(
        &early,
        &[
            "input `prior` of `sum 2013-01-03`: it reads `sum 2013-01-02`, which is not published",
            "publish first what it reads: refrain run sum --date 2013-01-02",
        ],
    );
    let earlier = home.run(["run", "sum", "--date", "2013-01-06"]);
    assert_fails(&earlier, &["reads `sum 2013-01-05`", "refrain backfill sum --from 2013-01-02 --to 2013-01-05"]);
    assert_eq!(executions(&home), 1, "the command was not started");
    let why = home.run(["why", "sum", "--date", "2013-01-03"]).success().stdout;
    assert!(why.contains("would refuse") && why.contains("refrain run sum --date 2013-01-02"), "{why}");
}

#[test]
fn date_11_a_rerun_of_day_1_makes_the_later_days_stale_and_one_backfill_heals_them() {
    let home = two();
    done(&home, 4);
    assert_eq!(home.read("sum/2013-01-04.txt"), "one\n".repeat(4));
    publish_raw(&home, "2013-01-01", "new\n");
    assert_eq!(in_state(&home, "sum", "stale"), ["2013-01-01", "2013-01-02", "2013-01-03", "2013-01-04"]);
    let why = home.run(["why", "sum", "--date", "2013-01-01"]).success().stdout;
    assert!(why.contains("input `raw` was version 1 of `raw 2013-01-01`"), "{why}");
    assert!(why.contains("version 2 stands now"), "{why}");
    let why = home.run(["why", "sum", "--date", "2013-01-04"]).success().stdout;
    assert!(why.contains("`sum 2013-01-03`") && why.contains("is stale itself"), "{why}");
    let heal = "refrain backfill sum --from 2013-01-01 --to 2013-01-04 --if-changed";
    assert!(why.contains(heal), "{why}");

    // Out of order it is not built upon.
    let early = home.run(["run", "sum", "--date", "2013-01-04", "--if-changed"]);
    assert_fails(&early, &["reads `sum 2013-01-03`, which is stale", "--from 2013-01-01 --to 2013-01-03 --if-changed"]);
    assert_eq!(home.read("sum/2013-01-04.txt"), "one\n".repeat(4), "what stood stands");

    backfill(&home, "sum", 4, &["--if-changed", "--jobs", "4"]).success();
    assert_eq!(home.read("sum/2013-01-04.txt"), "new\none\none\none\n");
    assert!(states(&home, "sum").iter().all(|(_, state, version)| state == "published" && *version == 2));
    let before = executions(&home);
    backfill(&home, "sum", 4, &["--if-changed"]).success();
    assert_eq!(executions(&home), before, "nothing is stale any more");
}

#[test]
fn date_11_only_what_is_stale_is_published_again() {
    let home = two();
    done(&home, 4);
    publish_raw(&home, "2013-01-03", "new\n");
    assert_eq!(in_state(&home, "sum", "stale"), ["2013-01-03", "2013-01-04"]);
    backfill(&home, "sum", 4, &["--if-changed"]).success();
    let versions: Vec<_> = states(&home, "sum").into_iter().map(|(_, _, version)| version).collect();
    assert_eq!(versions, [1, 1, 2, 2]);
    assert_eq!(home.read("sum/2013-01-04.txt"), "one\none\nnew\none\n");
}

#[test]
fn date_10_a_catch_up_of_a_chain_runs_each_date_once_and_in_order_however_many_jobs_are_asked_for() {
    let home = two();
    backfill(&home, "raw", 20, &["--jobs", "8"]).success();
    backfill(&home, "sum", 20, &["--jobs", "8"]).success();
    let days: Vec<_> = (1..=20).map(|day| format!("2013-01-{day:02}")).collect();
    assert_eq!(home.read("runs.log").lines().collect::<Vec<_>>(), days);
    assert_eq!(home.read("sum/2013-01-20.txt"), "one\n".repeat(20));
}

#[test]
fn a_stale_input_counts_as_a_change_for_on_change() {
    let home = two();
    let replacing = crate::TWO.replace("in.raw =", "on_change = \"replace\"\nin.raw =");
    home.config(&replacing);
    done(&home, 2);
    publish_raw(&home, "2013-01-01", "new\n");
    run(&home, &["sum", "--date", "2013-01-01"], "").published().says("input `raw` changed");
    run(&home, &["sum", "--date", "2013-01-02"], "").published().says("input `prior` changed");
    assert_eq!(home.read("sum/2013-01-02.txt"), "new\none\n");
    run(&home, &["sum", "--date", "2013-01-02"], "").already_published();
    home.config(&replacing.replace("\"replace\"", "\"refuse\""));
    publish_raw(&home, "2013-01-02", "new\n");
    run(&home, &["sum", "--date", "2013-01-02"], "").nothing(125, "refused").says("input `raw` changed");
}

#[test]
fn a_first_date_has_an_empty_input_and_an_earlier_one_is_refused() {
    let home = two();
    backfill(&home, "raw", 1, &[]).success();
    let flags = ["sum", "--date", "2013-01-01"];
    let first = home.refrain().env("REFRAIN_IN_PRIOR", "/etc/passwd");
    let script = "echo \"<$REFRAIN_IN_PRIOR>\" > \"$REFRAIN_OUT\"";
    let call = crate::call::run_as(&home, &first, &flags, script).published();
    assert_eq!(home.read("sum/2013-01-01.txt"), "<>\n", "nothing of the caller's gets in");
    assert_eq!(call.report["inputs"][1]["version"], "nothing", "{}", call.report);
    home.run(["run", "raw", "--date", "2012-12-31"]).success();
    let early = home.run(["run", "sum", "--date", "2012-12-31"]);
    assert_fails(&early, &["2012-12-31 lies before the start of the chain, 2013-01-01"]);
}

#[test]
fn a_producer_that_was_rolled_back_makes_its_readers_stale_and_a_reader_that_was_is_fresh() {
    let home = two();
    home.config(&crate::TWO.replace("versions = 0", "versions = 3"));
    done(&home, 2);
    publish_raw(&home, "2013-01-01", "new\n");
    backfill(&home, "sum", 2, &["--if-changed"]).success();
    home.run(["rollback", "raw", "--date", "2013-01-01"]).success();
    assert_eq!(home.read("raw/2013-01-01.txt"), "one\n");
    assert_eq!(in_state(&home, "sum", "stale"), ["2013-01-01", "2013-01-02"]);
    home.run(["rollback", "sum", "--date", "2013-01-01"]).success();
    assert_eq!(home.read("sum/2013-01-01.txt"), "one\n");
    assert_eq!(in_state(&home, "sum", "stale"), ["2013-01-02"], "a person chose the version of day 1");
    run(&home, &["sum", "--date", "2013-01-01", "--if-changed"], "").already_published();
    backfill(&home, "sum", 2, &["--if-changed"]).success();
    assert_eq!(home.read("sum/2013-01-02.txt"), "one\none\n");
    publish_raw(&home, "2013-01-01", "late\n");
    assert_eq!(in_state(&home, "sum", "stale"), ["2013-01-01", "2013-01-02"]);
}

#[test]
fn a_task_that_reads_what_it_replaces_starts_from_nothing_and_is_never_stale_by_itself() {
    let home = crate::call::home();
    home.config(
        "[task.log]\ncommand = 'cat ${REFRAIN_IN_BEFORE:+\"$REFRAIN_IN_BEFORE\"} source > \"$REFRAIN_OUT\"'\n\
         in.before = { task = \"self\", version = \"previous\" }\nout.log = \"log.txt\"\n",
    );
    home.write("source", "a\n");
    run(&home, &["log"], "").published();
    run(&home, &["log", "--if-changed"], "").already_published();
    home.write("source", "b\n");
    run(&home, &["log", "--rerun"], "exit 3").nothing(3, "task_failed");
    let call = run(&home, &["log", "--rerun"], "").published();
    assert_eq!(home.read("log.txt"), "a\nb\n");
    assert!(call.report["inputs"][0]["version"].as_str().unwrap().starts_with("log log version 1 run "));
    run(&home, &["log", "--if-changed"], "").already_published().never_says("changed");
    assert_eq!(in_state(&home, "log", "published").len(), 1);
    home.run(["rollback", "log"]).success();
    run(&home, &["log", "--if-changed"], "").already_published().never_says("changed");
    assert_eq!(home.read("log.txt"), "a\n");
}

#[test]
fn an_input_is_replaced_for_one_call_on_purpose() {
    let home = two();
    backfill(&home, "raw", 2, &[]).success();
    home.write("seed", "seed\n");
    run(&home, &["sum", "--date", "2013-01-02", "--in", "prior=seed"], "").published();
    assert_eq!(home.read("sum/2013-01-02.txt"), "seed\none\n");
}

/// A date whose run failed once, with what it had pinned replaced since.
fn begun_and_left(home: &refrain_testkit::program::Home, day: &str, replaced: &str) {
    run(home, &["sum", "--date", day, "--rerun"], "exit 9").nothing(9, "task_failed");
    publish_raw(home, replaced, "new\n");
}

#[test]
fn date_11_one_backfill_heals_a_chain_of_which_a_date_was_begun_and_left() {
    for (begun, replaced) in [("2013-01-03", "2013-01-02"), ("2013-01-04", "2013-01-04"), ("2013-01-03", "2013-01-01")]
    {
        let home = two();
        done(&home, 4);
        begun_and_left(&home, begun, replaced);
        backfill(&home, "sum", 4, &["--if-changed"]).success().says("changed since version 2 was begun");
        assert_eq!(in_state(&home, "sum", "stale"), Vec::<String>::new(), "{begun} {replaced}");
        let lines = home.read("sum/2013-01-04.txt");
        assert_eq!(lines.matches("new").count(), 1, "{begun} {replaced}: {lines}");
    }
}

#[test]
fn ledg_10_without_if_changed_a_date_that_was_begun_is_finished_from_what_it_pinned() {
    let home = two();
    done(&home, 4);
    begun_and_left(&home, "2013-01-04", "2013-01-04");
    run(&home, &["sum", "--date", "2013-01-04"], "").published().says("version 2 stands now");
    assert_eq!(home.read("sum/2013-01-04.txt"), "one\n".repeat(4));
    // A pinned version that still stands is no reason for another run.
    run(&home, &["sum", "--date", "2013-01-02", "--rerun"], "exit 9").nothing(9, "task_failed");
    let call = run(&home, &["sum", "--date", "2013-01-02", "--if-changed"], "").published();
    assert_eq!(call.report["generation"], 2, "the run that was begun goes on");
}
