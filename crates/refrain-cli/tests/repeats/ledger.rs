//! LEDG: the record of what was published.

use crate::call::{executions, home, names, run};
use refrain_testkit::program::Home;
use std::fs;

const SCRIPT: &str = "echo x >> runs.log; echo data > $REFRAIN_OUT";

fn published() -> Home {
    let home = home();
    run(&home, &["job", "--out", "out.csv"], SCRIPT).published();
    home
}

#[test]
fn ledg_01_a_publication_is_known_even_when_the_store_forgot_it() {
    // No entry of a path expires: the head lies beside the data, and the log of attempts is no ledger.
    let home = published();
    let store = home.run(["store", "show"]).success().stdout.trim_end().replace("store ", "");
    for companion in ["state.db", "state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(home.join(".refrain").join(companion)));
    }
    home.run(["store", "init", "--replaces", &store]).success();
    run(&home, &["job", "--out", "out.csv"], SCRIPT).already_published();
    assert_eq!(executions(&home), 1);
}

#[test]
fn ledg_02_the_log_is_bounded_and_the_newest_stays() {
    let home = home();
    // 100 attempts of a key are kept (see `refrain gc`); an attempt that fails is the cheapest.
    for _ in 0..104 {
        home.run(["run", "job", "--out", "out.csv", "--", "false"]).expect_code(1);
    }
    run(&home, &["job", "--out", "out.csv"], SCRIPT).published();
    home.run(["gc"]).success().says("5 log entries");
    let log = home.run(["log", "--json", "-n", "1000"]).success().stdout;
    assert_eq!(log.lines().count(), 100);
    assert!(log.lines().next().unwrap().contains("\"published\""), "{log}");
    run(&home, &["job", "--out", "out.csv"], SCRIPT).already_published();
    assert!(names(&home.join(".refrain/slots")).len() <= 3, "{:?}", names(&home.join(".refrain/slots")));
}

#[test]
fn ledg_07_a_kill_between_the_data_and_the_record_doubles_nothing() {
    for point in ["after-intent", "after-rename", "before-record", "after-record", "after-commit", "before-finish"] {
        let home = home();
        let kill = home.refrain().env("REFRAIN_CRASH_AT", point);
        kill.run(["run", "job", "--out", "out.csv", "--", "sh", "-c", SCRIPT]).expect_signal(9);
        let call = run(&home, &["job", "--out", "out.csv"], SCRIPT).already_published();
        assert_eq!((executions(&home), call.number("generation")), (1, 1), "killed at {point}");
        assert_eq!(home.read("out.csv"), "data\n");
        let log = home.run(["log", "--json"]).success().stdout;
        let applied = log.lines().filter(|line| line.contains("\"outcome\":\"published\"")).count();
        assert_eq!(applied, 1, "exactly one attempt is recorded as published after a kill at {point}\n{log}");
        assert!(!log.contains("\"ending\":null"), "and the dead one is settled\n{log}");
    }
}

#[test]
fn ledg_08_a_deleted_target_is_noticed_and_published_again_on_demand() {
    let home = published();
    fs::remove_file(home.join("out.csv")).unwrap();
    let call = run(&home, &["job", "--out", "out.csv"], SCRIPT).nothing(125, "refused");
    call.says("ledger is ahead of the sink").says("is gone: ").says("refrain run").says("--rerun");
    assert_eq!(executions(&home), 1);
    run(&home, &["job", "--out", "out.csv", "--rerun"], SCRIPT).published();
    assert_eq!(home.read("out.csv"), "data\n");
}

#[test]
fn ledg_08_an_edited_target_is_noticed_everywhere_and_kept_when_it_is_replaced() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo x >> runs.log; echo data > $REFRAIN_OUT\"\nout.out = \"out.csv\"\n");
    run(&home, &["job"], "").published();
    home.write("out.csv", "data\nby hand\n");
    assert!(home.run(["status"]).success().stdout.contains("changed by hand"));
    let why = home.run(["why", "job"]).success().stdout;
    assert!(why.contains("would refuse") && why.contains("--rerun"), "{why}");
    run(&home, &["job"], "").nothing(125, "refused").says("was changed by hand: `").says("--rerun");
    assert_eq!(home.read("out.csv"), "data\nby hand\n", "noticed, not touched");
    let call = run(&home, &["job", "--rerun"], "").published();
    assert_eq!(home.read("out.csv"), "data\n");
    let kept = home.run(["path", "job", "--version", "1"]).success().stdout;
    assert_eq!(fs::read_to_string(kept.trim_end()).unwrap(), "data\nby hand\n", "what was there is kept");
    let told = format!("was changed by hand after it was published; the changed one is kept: {}", kept.trim_end());
    call.says(&format!("note: version 1 of {} {told}", home.join("out.csv").display()));
    run(&home, &["job", "--rerun"], "").published().never_says("by hand");
}

#[test]
fn ledg_08_an_edit_that_a_run_which_goes_on_replaces_is_told_and_kept() {
    let home = published();
    run(&home, &["job", "--out", "out.csv", "--rerun"], "exit 3").nothing(3, "task_failed");
    home.write("out.csv", "by hand\n");
    let call = run(&home, &["job", "--out", "out.csv"], SCRIPT).published();
    let kept = home.run(["path", "job", "--version", "1"]).success().stdout;
    assert_eq!(fs::read_to_string(kept.trim_end()).unwrap(), "by hand\n");
    call.says("version 1 of ").says("was changed by hand").says(kept.trim_end());
}

#[test]
fn ledg_08_an_edit_of_the_same_size_is_noticed() {
    let home = published();
    home.write("out.csv", "DATA\n");
    run(&home, &["job", "--out", "out.csv"], SCRIPT).nothing(125, "refused").says("was changed by hand: ");
}

#[test]
fn ledg_08_a_directory_that_was_changed_inside_is_noticed_and_kept() {
    let home = home();
    let script = "echo a > $REFRAIN_OUT/a; mkdir $REFRAIN_OUT/sub; echo b > $REFRAIN_OUT/sub/b";
    run(&home, &["job", "--out", "tree/"], script).published();
    home.write("tree/sub/b", "by hand");
    run(&home, &["job", "--out", "tree/"], script).nothing(125, "refused").says("--rerun");
    run(&home, &["job", "--out", "tree/", "--rerun"], script).published();
    assert_eq!(home.read("tree/sub/b"), "b\n");
    let kept = home.run(["path", "job", "--version", "1"]).success().stdout;
    assert_eq!(fs::read_to_string(format!("{}/sub/b", kept.trim_end().trim_end_matches('/'))).unwrap(), "by hand");
}

#[test]
fn ledg_08_one_of_two_outputs_gone_is_noticed_and_named() {
    let home = home();
    let flags = ["job", "--out", "a=a.csv", "--out", "b=b.csv"];
    let script = "echo a > $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B";
    run(&home, &flags, script).published();
    fs::remove_file(home.join("b.csv")).unwrap();
    let gone = home.join("b.csv").display().to_string();
    run(&home, &flags, script).nothing(125, "refused").says(&gone);
    assert!(!home.exists("b.csv"));
    run(&home, &[&flags[..], &["--rerun"]].concat(), script).published();
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("a\n".into(), "b\n".into()));
}

#[test]
fn ledg_08_a_call_that_finished_one_output_and_finds_another_changed_says_that_it_is_published() {
    let home = home();
    home.config(
        "[task.job]\ncommand = \"echo x >> runs.log; echo $REFRAIN_PARAM_N | tee $REFRAIN_OUT_A > $REFRAIN_OUT_B\"\n\
         param.n = 1\nout.a = \"a.csv\"\nout.b = \"b.csv\"\n",
    );
    run(&home, &["job"], "").published();
    let next = ["run", "job", "--rerun", "--param", "n=2"];
    home.refrain().env("REFRAIN_CRASH_AT", "after-commit").run(next);
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("2\n".into(), "1\n".into()));
    home.write("a.csv", "by hand");
    let end = home.run(["run", "job"]).expect_code(125).says("was changed by hand");
    assert!(end.stderr.trim_end().ends_with("The output is published."), "{end}");
    assert_eq!(home.read("b.csv"), "2\n");
}
