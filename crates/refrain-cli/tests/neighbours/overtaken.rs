//! Rollbacks that meet somebody else: a rerun that publishes meanwhile, one that died, the removal of old versions.

use crate::call::{NOTHING, PUBLISHED, assert_closes, home, run};
use crate::{crashing, heads, killed_at};
use refrain_testkit::freeze::{state, wait_for, wake};
use refrain_testkit::program::{Home, Running};
use std::fs;

/// A task that is published by such commands, one after the other, and keeps so many versions.
fn declared(versions: u32, contents: &[&str]) -> Home {
    let home = home();
    home.config(&format!(
        "[task.job]\ncommand = \"cat content > $REFRAIN_OUT; touch executed\"\nout.out = \"out.csv\"\n\
         keep = {{ versions = {versions}, grace = \"0s\" }}\n"
    ));
    for content in contents {
        write(&home, content);
        run(&home, &["job", "--rerun"], "").published();
    }
    fs::remove_file(home.join("executed")).unwrap();
    home
}

fn write(home: &Home, content: &str) {
    home.write("content", format!("{content}\n"));
}

#[track_caller]
fn rolls_nothing_back(rollback: Running, phrases: &[&str]) {
    let ended = rollback.wait().expect_code(121);
    for phrase in phrases {
        assert!(ended.stderr.contains(phrase), "{ended}");
    }
    assert_closes(&ended, NOTHING);
}

/// A call that stands still at the point.
fn stopped(home: &Home, point: &str, arguments: &[&str]) -> Running {
    let running = home.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop")).spawn(arguments);
    wait_for(point, || state(running.pid()) == Some('T'));
    running
}

#[test]
fn a_version_that_an_unfinished_rollback_needs_is_kept_until_the_next_run_finishes_it() {
    let home = declared(1, &["one", "two"]);
    crashing(&home, "after-open-run").run(["rollback", "job"]).expect_signal(9);
    let config = home.read("refrain.toml");
    home.write("refrain.toml", config.replace("versions = 1", "versions = 0"));
    home.run(["gc"]).success().says("a rollback to version 1 is not finished");
    run(&home, &["job"], "").published().says("finishing a rollback to version 1");
    assert_eq!((home.read("out.csv"), home.exists("executed")), ("one\n".into(), false));
}

#[test]
fn a_rollback_whose_version_was_removed_before_its_lease_leaves_nothing_that_cannot_be_finished() {
    let home = declared(1, &["one", "two"]);
    write(&home, "three");
    let rerun = stopped(&home, "after-task", &["run", "job", "--rerun"]);
    let rollback = stopped(&home, "before-acquire", &["rollback", "job", "--to", "1"]);
    wake(rerun.pid());
    rerun.wait().success();
    wake(rollback.pid());
    rolls_nothing_back(rollback, &["version 1 of `job` is not kept any more", "refrain log job"]);
    run(&home, &["job"], "").already_published();
    assert_eq!(home.read("out.csv"), "three\n");
}

#[test]
fn a_rollback_that_lost_its_version_names_the_way_that_needs_none() {
    let home = declared(1, &["one", "two"]);
    crashing(&home, "after-open-run").run(["rollback", "job"]).expect_signal(9);
    fs::remove_dir_all(home.join(".refrain/versions")).unwrap();
    let call = run(&home, &["job"], "").nothing(125, "error");
    call.says("there is no version 1").says("refrain run job --rerun");
    run(&home, &["job", "--rerun"], "").published();
}

#[test]
fn a_rollback_is_not_done_by_a_rerun_that_was_faster() {
    let home = declared(3, &["one", "two", "three"]);
    let rollback = stopped(&home, "before-acquire", &["rollback", "job"]);
    write(&home, "four");
    run(&home, &["job", "--rerun"], "").published();
    wake(rollback.pid());
    rolls_nothing_back(rollback, &["a later version of `job` was published meanwhile"]);
    assert_eq!(home.read("out.csv"), "four\n");
    // Nor is it left open.
    run(&home, &["job"], "").already_published();
}

#[test]
fn a_rollback_that_meets_a_dead_rerun_says_so_and_leaves_it_to_the_next_run() {
    let home = declared(3, &["one", "two"]);
    let rollback = stopped(&home, "before-acquire", &["rollback", "job"]);
    write(&home, "three");
    killed_at(&home, "before-task", &["job", "--rerun"], "");
    wake(rollback.pid());
    rolls_nothing_back(rollback, &["version 3 of `job` was begun meanwhile", "refrain run job"]);
    run(&home, &["job"], "").published();
    assert_eq!(home.read("out.csv"), "three\n");
}

#[test]
fn a_rollback_that_meets_a_dead_one_to_another_version_does_not_do_that_ones_work() {
    let home = declared(3, &["one", "two", "three"]);
    let rollback = stopped(&home, "before-acquire", &["rollback", "job", "--to", "1"]);
    crashing(&home, "after-open-run").run(["rollback", "job", "--to", "2"]).expect_signal(9);
    wake(rollback.pid());
    rolls_nothing_back(rollback, &["version 4 of `job` was begun meanwhile"]);
    assert_eq!(home.read("out.csv"), "three\n");
    run(&home, &["job"], "").published().says("finishing a rollback to version 2");
    assert_eq!(home.read("out.csv"), "two\n");
}

#[test]
fn gc_goes_on_when_the_head_of_a_key_that_was_rolled_back_cannot_be_read() {
    let home = declared(3, &["one", "two"]);
    home.run(["rollback", "job"]).success();
    let heads = heads(&home);
    assert_eq!(heads.len(), 1, "{heads:?}");
    fs::write(&heads[0], "damaged\n").unwrap();
    let gc = home.run(["gc"]);
    gc.says("versions of `job`: ");
}

#[test]
fn a_rollback_that_finishes_a_dead_rerun_of_two_outputs_denies_nothing_of_it() {
    let home = home();
    let flags = ["job", "--out", "a=a.csv", "--out", "b=b.csv", "--rerun"];
    let script = |word: &str| format!("echo {word} > $REFRAIN_OUT_A; echo {word} > $REFRAIN_OUT_B");
    for word in ["one", "two"] {
        run(&home, &flags, &script(word)).published();
    }
    let rollback = stopped(&home, "before-acquire", &["rollback", "job"]);
    killed_at(&home, "after-commit", &flags, &script("three"));
    wake(rollback.pid());
    let ended = rollback.wait().expect_code(121);
    assert_closes(&ended, PUBLISHED);
    assert_eq!([home.read("a.csv"), home.read("b.csv")], ["three\n", "three\n"]);
    home.run(["rollback", "job"]).success();
    assert_eq!([home.read("a.csv"), home.read("b.csv")], ["two\n", "two\n"]);
}
