//! What the log and `show` tell of attempts: nothing that did not happen, and ids by any part of them.

use crate::call::{assert_fails, home, run};
use crate::killed_at;
use refrain_testkit::freeze::wait_for;
use refrain_testkit::program::Home;
use serde_json::Value;

const FLAGS: [&str; 3] = ["job", "--out", "out.csv"];

/// The attempts, newest first.
fn log(home: &Home) -> Vec<Value> {
    let text = home.run(["log", "--json"]).success().stdout;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_killed_attempt_has_no_exit_code_and_its_recovery_is_told_as_one() {
    let home = home();
    run(&home, &FLAGS, "echo one > $REFRAIN_OUT").published();
    killed_at(&home, "before-commit", &[&FLAGS[..], &["--rerun"]].concat(), "echo two > $REFRAIN_OUT");
    home.run(["recover"]).success().says("version 1 stands");
    let log = log(&home);
    assert_eq!(
        (&log[0]["ending"]["outcome"], &log[0]["ending"]["message"]),
        (&"recovered".into(), &"version 1 stands".into())
    );
    assert_eq!((&log[1]["ending"]["outcome"], &log[1]["ending"]["exit_code"]), (&"error".into(), &Value::Null));
    let story = home.run(["log", "job", "--story"]).success().stdout;
    assert!(story.contains("job recovered, ") && story.contains("job ended without a word, "), "{story}");
    // As a word: attempts' ids hold any digits.
    let has_code = story.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == "125");
    assert!(!has_code && !story.contains("already published"), "{story}");
    let killed = home.run(["show", log[1]["attempt"].as_str().unwrap()]).success().stdout;
    assert!(killed.contains("ended without a word") && !killed.contains("version "), "{killed}");
}

#[test]
fn an_attempt_that_got_sigterm_is_told_as_ended_by_it() {
    let home = home();
    let arguments = [&["run"], &FLAGS[..], &["--", "sh", "-c", "touch started; sleep 60"]].concat();
    let running = home.spawn(arguments);
    wait_for("the command runs", || home.exists("started"));
    let pid = rustix::process::Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    running.wait().expect_code(143);
    let story = home.run(["log", "--story"]).success().stdout;
    assert!(story.contains("job ended by SIGTERM sent to refrain (exit code 143)"), "{story}");
    assert_eq!(log(&home)[0]["ending"]["stopped_by"], 15);
}

#[test]
fn an_id_is_found_by_its_end_and_several_are_listed_and_refused() {
    let home = home();
    run(&home, &FLAGS, "exit 3").nothing(3, "task_failed");
    run(&home, &["other", "--out", "other.csv"], "echo one > $REFRAIN_OUT").published();
    let log = log(&home);
    let id = log[1]["attempt"].as_str().unwrap();
    let shown = home.run(["show", &id[id.len() - 6..]]).success().stdout;
    assert!(shown.starts_with(&format!("attempt {id}\n")) && !shown.contains("  version "), "{shown}");
    let several = home.run(["show", &id[..4]]);
    assert_fails(&several, &["is part of several ids", id, log[0]["attempt"].as_str().unwrap(), "their ends differ"]);
    assert_eq!(several.stdout, "");
    let run_id = log[1]["run"].as_str().unwrap();
    run(&home, &FLAGS, "exit 3").nothing(3, "task_failed");
    let both = home.run(["show", run_id]).success().stdout;
    assert_eq!((both.matches("attempt ").count(), both.matches("\n\nattempt ").count()), (2, 1), "{both}");
}

#[test]
fn a_process_is_an_object_in_json() {
    let home = home();
    run(&home, &FLAGS, "echo one > $REFRAIN_OUT").published();
    let log = log(&home);
    assert!(log[0]["process"]["pid"].is_u64(), "{:?}", log[0]);
    let shown = home.run(["show", log[0]["attempt"].as_str().unwrap(), "--json"]).success().stdout;
    assert!(serde_json::from_str::<Value>(&shown).unwrap()[0]["process"]["pid"].is_u64(), "{shown}");
}

#[test]
fn a_rollback_is_marked_in_the_log() {
    let home = home();
    for content in ["one", "two"] {
        run(&home, &[&FLAGS[..], &["--rerun"]].concat(), &format!("echo {content} > $REFRAIN_OUT")).published();
    }
    home.run(["rollback", "job"]).success();
    assert_eq!(log(&home)[0]["ending"]["message"], "rolled back to version 1");
}
