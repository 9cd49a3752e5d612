//! Runs that are decided at their first output while the second cannot follow, and reruns that were killed.

use crate::call::{PUBLISHED, assert_closes, executions, finish, home, names, run, start, wait_for_a_slots_lock};
use crate::{heads, killed_at, status};
use refrain_testkit::freeze::send;
use refrain_testkit::program::Home;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

const FLAGS: [&str; 5] = ["job", "--out", "a=a.csv", "--out", "b=b.csv"];
const SCRIPT: &str = "echo x >> runs.log; echo one > $REFRAIN_OUT_A; echo one > $REFRAIN_OUT_B";
const SECOND: &str = "echo x >> runs.log; echo two > $REFRAIN_OUT_A; echo two > $REFRAIN_OUT_B";

/// A run that is decided: `a` is published, `b` is sealed and still to follow.
fn decided() -> Home {
    let home = home();
    killed_at(&home, "after-commit", &FLAGS, SCRIPT);
    assert_eq!((home.read("a.csv"), home.exists("b.csv")), ("one\n".into(), false));
    home
}

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&FLAGS[..], more].concat()
}

fn lose_sealed_data(home: &Home) {
    let slots = home.join(".refrain/slots");
    let staging: Vec<_> = names(&slots).into_iter().filter(|name| name.ends_with(".1")).collect();
    assert_eq!(staging.len(), 1, "{staging:?}");
    fs::remove_dir_all(slots.join(&staging[0])).unwrap();
}

#[test]
fn without_the_second_outputs_sealed_data_run_is_refused_and_rerun_heals_both_outputs() {
    let home = decided();
    lose_sealed_data(&home);
    for _ in 0..2 {
        let call = run(&home, &FLAGS, SECOND);
        let call = call.says("the sealed output for").says("--rerun");
        assert_eq!(call.output.code, Some(125), "{}", call.output);
        // It is decided, and to deny that would be false.
        assert_closes(&call.output, PUBLISHED);
        assert_eq!((home.read("a.csv"), home.exists("b.csv")), ("one\n".into(), false));
    }
    assert!(!home.run(["recover"]).stderr.contains("is finished"));
    let call = run(&home, &flags(&["--rerun"]), SECOND).published();
    assert_eq!(call.number("generation"), 2);
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("two\n".into(), "two\n".into()));
    run(&home, &FLAGS, SECOND).already_published();
    assert_eq!(status(&home, "job").0, "published");
    home.run(["recover"]).success().says("nothing to recover");
}

#[test]
fn a_rerun_that_gives_up_lost_data_and_fails_leaves_what_stands_and_the_next_rerun_heals() {
    let home = decided();
    lose_sealed_data(&home);
    let call = run(&home, &flags(&["--rerun"]), "exit 9");
    assert_eq!((call.output.code, home.read("a.csv")), (Some(9), "one\n".to_owned()), "{}", call.output);
    run(&home, &flags(&["--rerun"]), SECOND).published();
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("two\n".into(), "two\n".into()));
}

#[test]
fn an_output_that_is_still_to_follow_is_told_as_that_and_not_as_gone() {
    let home = decided();
    let (state, version, note) = status(&home, "job");
    assert_eq!((state.as_str(), version), ("unsettled", Some(1)));
    let told = "version 1 is published at its first output, and another output is still to follow; `refrain run job` finishes it";
    assert_eq!(note, told);
    for asked in [&["path", "job"][..], &["path", "job", "b"], &["path", "job", "--version", "1"]] {
        let path =
            home.run(asked).expect_code(125).says("output `b` of `job` is not there yet").says("still to follow");
        let path = path.says("hint: to finish it: refrain run job, or refrain recover job");
        assert!(!path.stderr.contains("--rerun"), "{path}");
    }
    assert_eq!(home.run(["path", "job", "a"]).success().stdout.trim_end(), home.join("a.csv").display().to_string());
    // What stands is looked at all the same.
    home.write("a.csv", "by hand\n");
    assert!(status(&home, "job").2.contains("was changed by hand"));
    home.write("a.csv", "one\n");
    home.run(["recover", "job"]).success();
    assert_eq!(home.run(["path", "job"]).success().stdout.lines().count(), 2);
}

#[test]
fn with_the_sealed_data_in_place_even_rerun_first_finishes_what_was_decided() {
    let home = decided();
    run(&home, &flags(&["--rerun"]), "exit 9").nothing(9, "task_failed");
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("one\n".into(), "one\n".into()));
}

#[test]
fn a_foreign_file_at_the_second_output_is_told_every_time_and_adopt_heals() {
    let home = decided();
    home.write("b.csv", "theirs\n");
    for _ in 0..2 {
        let call = run(&home, &FLAGS, SECOND).ends(118, "decided", "published").says("--adopt");
        assert_eq!((call.text("retry"), call.report["error"]["kind"].as_str()), ("never", Some("conflict")));
        assert!(call.report["token"].is_null(), "the attempt is the one that decided: {}", call.report);
        assert_closes(&call.output, PUBLISHED);
        assert_eq!((home.read("a.csv"), home.read("b.csv")), ("one\n".into(), "theirs\n".into()));
        let recover = home.run(["recover"]);
        assert_ne!(recover.code, Some(0), "{recover}");
        assert!(recover.stderr.contains("job: cannot be settled"), "{recover}");
        assert_closes(&recover, PUBLISHED);
        assert_eq!((status(&home, "job").0, status(&home, "job").1), ("unsettled".to_owned(), Some(1)));
    }
    run(&home, &flags(&["--adopt"]), SECOND).already_published();
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("one\n".into(), "one\n".into()));
    assert_eq!(executions(&home), 1, "rolled forward, not run again");
    assert_eq!(status(&home, "job").0, "published");
    home.run(["recover"]).success().says("nothing to recover");
}

/// Outcome, window, exit code and message of every attempt, the oldest first.
fn told(home: &Home) -> Vec<(String, String, u64, String)> {
    let log = home.run(["log", "job", "--json"]).success().stdout;
    let told = |line: &str| {
        let ending = serde_json::from_str::<Value>(line).unwrap()["ending"].take();
        let word = |field: &str| ending[field].as_str().unwrap_or_default().to_owned();
        (word("outcome"), word("window"), ending["exit_code"].as_u64().unwrap(), word("message"))
    };
    log.lines().rev().map(told).collect()
}

#[test]
fn what_attempts_said_of_a_decided_run_stays_in_the_log_and_recover_says_118_while_it_cannot_finish() {
    let home = home();
    let script = format!("{SCRIPT}; echo theirs > b.csv");
    run(&home, &FLAGS, &script).ends(118, "decided", "published");
    let recover = home.run(["recover"]).expect_code(118).says("job: cannot be settled");
    assert_closes(&recover, PUBLISHED);
    let before = told(&home);
    for (outcome, window, code, message) in &before {
        assert_eq!((outcome.as_str(), window.as_str(), *code), ("decided", "published", 118), "{message}");
        assert!(message.contains("still to follow") && !message.contains("found out"), "{message}");
    }
    run(&home, &FLAGS, SECOND).ends(118, "decided", "published");
    assert_eq!(told(&home)[..2], before[..]);
    fs::remove_file(home.join("b.csv")).unwrap();
    let why = home.run(["why", "job"]).success().stdout;
    assert!(why.contains("`run` would finish what an earlier attempt left open"), "{why}");
    assert!(why.contains("the last attempt: ") && !why.contains("without a word"), "{why}");
    run(&home, &FLAGS, SECOND).already_published();
    let after = told(&home);
    let ends: Vec<_> =
        after.iter().map(|(outcome, window, code, _)| (outcome.as_str(), window.as_str(), *code)).collect();
    let found = ("already_published", "published", 118);
    let all = [("published", "published", 118), found, found, ("already_published", "published", 0)];
    assert_eq!(ends, all);
    for (_, _, _, message) in &after[..3] {
        assert!(message.contains("still to follow") && message.contains("found out; settled by attempt"), "{message}");
    }
}

#[test]
fn a_second_output_that_cannot_be_claimed_takes_nothing_back_of_what_is_decided() {
    let home = home();
    let flags = ["job", "--out", "a=a.csv", "--out", "b=sub/b.csv"];
    killed_at(&home, "after-commit", &flags, SCRIPT);
    let in_the_way = |home: &Home| fs::write(home.join("sub"), "in the way").unwrap();
    in_the_way(&home);
    for _ in 0..2 {
        let recover = home.run(["recover"]).expect_code(118).says("nothing can lie below");
        assert_closes(&recover, PUBLISHED);
    }
    fs::remove_file(home.join("sub")).unwrap();
    let call = run(&home, &flags, SECOND).already_published();
    assert_eq!((home.read("a.csv"), home.read("sub/b.csv")), ("one\n".into(), "one\n".into()), "{}", call.output);
}

#[test]
fn a_run_that_cannot_claim_the_second_output_denies_nothing_of_what_is_decided() {
    let home = decided();
    // The lock of the second slot, whose head tells of no commit, is in the hands of somebody who hangs.
    let second: Vec<_> =
        heads(&home).into_iter().filter(|head| !fs::read_to_string(head).unwrap().contains("\"intent\"")).collect();
    assert_eq!(second.len(), 1, "{second:?}");
    let held = fs::File::open(second[0].with_extension("lock")).unwrap();
    held.lock().unwrap();
    let running = start(&home, &FLAGS, SECOND);
    wait_for_a_slots_lock(running.0.pid());
    send(running.0.pid(), Signal::TERM);
    let call = finish(running).ends(118, "decided", "published");
    assert_closes(&call.output, PUBLISHED);
    call.says("refrain got SIGTERM while process");
    drop(held);
    run(&home, &FLAGS, SECOND).already_published();
    assert_eq!((home.read("b.csv"), crate::call::executions(&home)), ("one\n".into(), 1));
}

#[test]
fn once_the_foreign_file_is_moved_away_a_plain_run_finishes() {
    let home = decided();
    home.write("b.csv", "theirs\n");
    run(&home, &FLAGS, SECOND).ends(118, "decided", "published");
    fs::rename(home.join("b.csv"), home.join("theirs.csv")).unwrap();
    run(&home, &FLAGS, SECOND).already_published();
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("one\n".into(), "one\n".into()));
    home.run(["recover"]).success().says("nothing to recover");
}

#[test]
fn recover_after_a_killed_rerun_says_that_version_1_stands_and_status_shows_it() {
    for point in ["after-open-run", "before-task", "before-commit", "before-intent"] {
        let home = home();
        let flags = ["job", "--out", "out.csv"];
        run(&home, &flags, "echo one > $REFRAIN_OUT").published();
        killed_at(&home, point, &["job", "--out", "out.csv", "--rerun"], "echo two > $REFRAIN_OUT");
        let (state, version, note) = status(&home, "job");
        assert_eq!((state.as_str(), version), ("unsettled", Some(1)), "{point}: {note}");
        let recover = home.run(["recover"]).success();
        let line = "job: nothing of the attempts was published, and nothing will be; version 1 stands";
        assert!(recover.stderr.contains(line), "{point}\n{recover}");
        assert!(!recover.stderr.contains("job: published"), "{point}\n{recover}");
        let (state, version, note) = status(&home, "job");
        assert_eq!(version, Some(1), "{point}: {state}: {note}");
        assert!(note.contains("version 1 stands"), "{point}: {note}");
        assert_eq!(home.read("out.csv"), "one\n");
        let published = home.run(["path", "job"]).success().stdout;
        assert_eq!(published.trim_end(), home.join("out.csv").display().to_string());
    }
}

#[test]
fn a_key_whose_directory_was_removed_after_a_crash_is_published_again_by_a_rerun() {
    let flags = ["job", "--out", "out=sub/out.csv", "--out", "tree=sub/tree/"];
    let script = |word: &str| {
        format!("echo {word} > $REFRAIN_OUT_OUT; mkdir -p $REFRAIN_OUT_TREE; echo {word} > $REFRAIN_OUT_TREE/it")
    };
    for point in ["after-rename", "before-record", "after-rename#2"] {
        let home = home();
        killed_at(&home, point, &flags, &script("one"));
        fs::remove_dir_all(home.join("sub")).unwrap();
        // What was published is told to be gone, and nothing that is decided keeps anybody.
        let call = run(&home, &flags, &script("two"));
        let recover = home.run(["recover"]);
        assert!(!recover.stderr.contains("No such file"), "{point}\n{recover}");
        assert!(!call.output.stderr.contains("No such file"), "{point}\n{}", call.output);
        run(&home, &[&flags[..], &["--rerun"]].concat(), &script("two")).published();
        assert_eq!([home.read("sub/out.csv"), home.read("sub/tree/it")], ["two\n", "two\n"], "{point}");
        run(&home, &flags, "exit 9").already_published();
    }
}

#[test]
fn what_became_visible_is_not_denied_when_the_version_before_cannot_be_kept_aside() {
    let home = home();
    let flags = ["job", "--out", "out.csv"];
    for word in ["one", "two"] {
        run(&home, &[&flags[..], &["--rerun"]].concat(), &format!("echo {word} > $REFRAIN_OUT")).published();
    }
    killed_at(&home, "after-intent", &[&flags[..], &["--rerun"]].concat(), "echo three > $REFRAIN_OUT");
    assert_eq!(home.read("out.csv"), "two\n");
    let (versions, aside) = (home.join(".refrain/versions"), home.join("aside"));
    fs::rename(&versions, &aside).unwrap();
    fs::write(&versions, "in the way").unwrap();
    for _ in 0..2 {
        let call = run(&home, &flags, "exit 9").ends(118, "decided", "published");
        assert_closes(&call.output, PUBLISHED);
        call.says("a step of it may still be to follow");
        assert_eq!(home.read("out.csv"), "three\n");
        home.run(["recover"]).expect_code(118);
    }
    fs::remove_file(&versions).unwrap();
    fs::rename(&aside, &versions).unwrap();
    run(&home, &flags, "exit 9").already_published();
    home.run(["rollback", "job"]).success().says("published: job: version 4");
    assert_eq!(home.read("out.csv"), "two\n");
}
