//! Further attempts of one call: which failures, how many, with which pins, and what a report says of a repeat.

use crate::call::{assert_fails, executions, home, run};
use refrain_testkit::freeze::{is_alive, send, wait_for, wait_for_some};
use refrain_testkit::program::Home;
use rustix::process::Signal;
use serde_json::{Value, json};

fn task(retry: &str, command: &str) -> Home {
    let home = home();
    home.write("in", "one\n");
    home.config(&format!("[task.t]\nin.i = \"in\"\nout.o = \"o\"\n{retry}\ncommand = {command:?}\n"));
    home
}

fn attempts(home: &Home) -> Vec<Value> {
    let text = home.run(["log", "--json"]).success().stdout;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_listed_failure_is_tried_again_with_the_same_run_and_the_same_pins() {
    // The first attempt changes the input, so that a later one with other pins would publish something else.
    let home = task(
        "retry = { attempts = 3, backoff = \"1ms..2ms\" }\nretry_on = [75]",
        "echo x >> runs.log; echo two > in; test $(wc -l < runs.log) -ge 3 || exit 75; cat $REFRAIN_IN_I > $REFRAIN_OUT",
    );
    let call = run(&home, &["t"], "").published();
    for line in ["Next try (2 of 3) in ", "Next try (3 of 3) in "] {
        assert!(call.output.stderr.contains(line), "{}", call.output);
    }
    assert!(
        call.output.stderr.contains("failed with exit code 75: Nothing was published. Next try"),
        "{}",
        call.output
    );
    assert_eq!((home.read("o").as_str(), executions(&home)), ("one\n", 3));
    let attempts = attempts(&home);
    assert_eq!(attempts.len(), 3);
    assert!(attempts.iter().all(|attempt| attempt["run"] == attempts[0]["run"]), "{attempts:?}");
    assert_eq!(attempts.iter().map(|attempt| &attempt["token"]).collect::<Vec<_>>(), [&json!(3), &json!(2), &json!(1)]);
    assert_eq!(attempts[2]["ending"]["retry"], "later");
    assert_eq!(call.report["retry"], "never", "it is published");
}

#[test]
fn an_unlisted_failure_is_not_tried_again_and_the_report_says_never() {
    let home =
        task("retry = { attempts = 3, backoff = \"0s\" }\nretry_on = [75, \"80..90\"]", "echo x >> runs.log; exit 3");
    let call = run(&home, &["t"], "").nothing(3, "task_failed");
    assert_eq!((executions(&home), &call.report["retry"]), (1, &json!("never")));
    assert!(call.output.stderr.contains("exit code 3 is not in the task's `retry_on`"), "{}", call.output);
}

#[test]
fn the_flag_gives_further_attempts_and_the_last_failure_is_the_answer() {
    let home = task(
        "retry = { backoff = \"1ms\" }\nretry_on = [\"70..79\", \"timeout\", \"signal\"]",
        "echo x >> runs.log; exit 71",
    );
    let call = run(&home, &["t", "--retries", "2"], "").nothing(71, "task_failed");
    assert_eq!((executions(&home), &call.report["retry"]), (3, &json!("later")));
    let call = run(&home, &["t", "--retries", "1"], "echo x >> runs.log; kill -9 $$").nothing(137, "task_failed");
    assert_eq!((executions(&home), &call.report["retry"]), (5, &json!("later")));
    run(&home, &["t", "--retries", "1", "--timeout", "50ms"], "echo x >> runs.log; sleep 60").nothing(124, "timed_out");
    assert_eq!(executions(&home), 7);
}

#[test]
fn a_replacement_that_is_tried_again_stays_one_generation() {
    let home = task(
        "retry = { attempts = 4, backoff = \"1ms\" }\nretry_on = [75]",
        "echo x >> runs.log; test $(wc -l < runs.log) != 2 || exit 75; cat $REFRAIN_IN_I > $REFRAIN_OUT",
    );
    run(&home, &["t"], "").published();
    let call = run(&home, &["t", "--rerun"], "").published();
    assert_eq!((call.number("generation"), executions(&home)), (2, 3));
}

#[test]
fn a_key_that_is_held_is_tried_again() {
    let home = task(
        "retry = { attempts = 1000, backoff = \"1ms..5ms\" }",
        "echo x >> runs.log; while [ ! -e go ] && [ -e refrain.toml ]; do sleep 0.01; done; echo x > $REFRAIN_OUT",
    );
    let first = home.spawn(["run", "t"]);
    wait_for("the first runs", || executions(&home) == 1);
    let second = home.spawn(["run", "t"]);
    wait_for("the second waits", || second.stderr_so_far().contains("Next try (4 of 1000)"));
    home.write("go", "");
    first.wait().success();
    second.wait().success().says("already published");
    assert_eq!(executions(&home), 1);
}

#[test]
fn a_signal_ends_the_pause_at_once_and_no_lease_is_held_meanwhile() {
    let home = task("retry = { attempts = 2, backoff = \"1h\" }\nretry_on = [\"failed\"]", "exit 5");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut running = home.spawn(["run", "t", "--report", "report.json"]);
        wait_for("it pauses", || running.stderr_so_far().contains("Next try (2 of 2) in 1h"));
        // The key is free.
        run(&home, &["t", "--retries", "0"], "").nothing(5, "task_failed");
        send(running.pid(), signal);
        let pid = running.pid();
        wait_for("it ends", || running.has_ended());
        assert!(!is_alive(pid));
        let output = running.wait().expect_code(code);
        assert!(output.stderr.contains("while it waited to try again"), "{output}");
        assert_eq!(output.stderr.lines().last(), Some("Nothing was published."), "{output}");
        let report: Value = serde_json::from_str(&home.read("report.json")).unwrap();
        assert_eq!((&report["window"], &report["retry"]), (&json!("nothing_published"), &json!("later")));
    }
}

#[test]
fn a_signal_to_the_command_s_refrain_is_not_tried_again() {
    let home = task(
        "retry = { attempts = 9, backoff = \"1ms\" }\nretry_on = [\"failed\", \"signal\"]",
        "echo x >> runs.log; sleep 60",
    );
    let running = home.spawn(["run", "t"]);
    wait_for("the command runs", || executions(&home) == 1);
    send(running.pid(), Signal::TERM);
    running.wait().expect_code(143);
    assert_eq!(executions(&home), 1);
}

#[test]
fn a_backfill_tries_its_dates_again() {
    let home = home();
    home.config(
        "[task.t]\npartition = \"daily\"\nout.o = \"o/{date}\"\nretry_on = [75]\nretry.backoff = \"1ms\"\n\
         command = \"echo $REFRAIN_DATE >> runs.log; test $(grep -c $REFRAIN_DATE runs.log) = 2 || exit 75; echo x > $REFRAIN_OUT\"\n",
    );
    let range = ["backfill", "t", "--from", "2025-03-01", "--to", "2025-03-03", "--jobs", "2", "--retries", "1"];
    home.run(range).success().says("3 published, 0 already published, 0 failed").says("retry: t 2025-03-02: ");
    assert_eq!(executions(&home), 6);
}

#[test]
fn the_report_says_whether_a_repeat_is_worthwhile() {
    let word = |home: &Home, flags: &[&str], script: &str| run(home, flags, script).report["retry"].clone();
    let home = home();
    assert_eq!(word(&home, &["a", "--out", "a"], "echo x > $REFRAIN_OUT"), "never", "published");
    assert_eq!(word(&home, &["a", "--out", "a"], "echo x > $REFRAIN_OUT"), "never", "already published");
    assert_eq!(word(&home, &["b", "--out", "b"], "exit 3"), "later", "nobody said what the code means");
    assert_eq!(word(&home, &["c", "--out", "c"], ": > $REFRAIN_OUT"), "never", "a guard");
    assert_eq!(word(&home, &["d", "--out", "d", "--date", "nonsense"], "true"), "never", "a wrong call");
    home.run(["run", "e", "--out", "e", "--report", "e.json", "--", "/no/such/command"]).expect_code(127);
    let report: Value = serde_json::from_str(&home.read("e.json")).unwrap();
    assert_eq!(report["retry"], "never", "a wrong command");
    let holder = home.spawn([
        "run",
        "f",
        "--out",
        "f",
        "--",
        "sh",
        "-c",
        "touch held; while [ ! -e go ]; do sleep 0.01; done; echo x > $REFRAIN_OUT",
    ]);
    wait_for_some("the lease", || home.exists("held").then_some(()));
    assert_eq!(word(&home, &["f", "--out", "f"], "true"), "later", "held");
    home.write("go", "");
    holder.wait().success();
}

#[test]
fn a_place_that_cannot_be_reached_is_tried_again() {
    let home = home();
    // The staging directory of another filesystem lies on the home's: that filesystem is not mounted.
    home.write("mount/nothing is mounted here", "");
    home.config(
        "staging = [\"mount/staging\"]\n[task.t]\nout.o = \"mount/o\"\ncommand = \"echo x > $REFRAIN_OUT\"\n\
         retry = { attempts = 3, backoff = \"1ms\" }\n",
    );
    let call = run(&home, &["t"], "").nothing(125, "error");
    assert_eq!((&call.report["error"]["kind"], &call.report["retry"]), (&json!("unavailable"), &json!("later")));
    assert_eq!(call.output.stderr.matches("Next try (").count(), 2, "{}", call.output);
}

#[test]
fn what_cannot_be_read_of_the_keys_is_named() {
    let home = home();
    for (line, phrases) in [
        ("retry = { attempts = 0 }", &["`task.t.retry.attempts`", "at least 1"][..]),
        ("retry = { attempt = 3 }", &["unknown key `task.t.retry.attempt`", "did you mean `task.t.retry.attempts`?"]),
        ("retry = { backoff = \"5m..10s\" }", &["`task.t.retry.backoff`", "ends before it begins"]),
        ("retry = { backoff = \"soon\" }", &["`task.t.retry.backoff`", "not a duration"]),
        ("retry_on = [\"timeot\"]", &["`task.t.retry_on`", "did you mean \"timeout\"?"]),
        ("retry_on = [0]", &["`task.t.retry_on`", "1 to 255"]),
        ("retry_on = 75", &["`task.t.retry_on`", "a list"]),
    ] {
        home.config(&format!("[task.t]\nout.o = \"o\"\ncommand = \"true\"\n{line}\n"));
        assert_fails(&home.run(["run", "t"]), phrases);
    }
}
