//! LEASE-01, 02, 04: a holder that was frozen and wakes up is refused by the sink, not by its own clock.

use crate::call::{Call, assert_fails, executions, finish, home, names, run, start, wait_for_a_slots_lock};
use refrain_testkit::freeze::{kill, send, state, stop_tree, wait_for, wait_for_path, wake, wake_all};
use refrain_testkit::program::{Home, Running};
use refrain_testkit::reader::{Observation, Reader};
use rustix::process::Signal;

const FLAGS: [&str; 3] = ["job", "--out", "out.csv"];
const SLOW: &str =
    "echo x >> runs.log; touch started; while [ ! -e go ]; do sleep 0.01; done; echo paused > $REFRAIN_OUT";
const SECOND: &str = "echo x >> runs.log; echo second > $REFRAIN_OUT";

fn short(flags: &[&'static str]) -> Vec<&'static str> {
    [flags, &["--ttl", "1s"]].concat()
}

/// The competitor: waits until the lease of the frozen one is over.
fn second(home: &Home) -> Call {
    run(home, &[&FLAGS[..], &["--wait"]].concat(), SECOND)
}

/// Starts a call that freezes itself at a crash point, and returns once it stands still there.
fn frozen_at(home: &Home, point: &str, flags: &[&str], script: &str) -> (Running, String) {
    let place = home.join("frozen.json").display().to_string();
    let arguments = [&["run"], flags, &["--report", &place, "--", "sh", "-c", script]].concat();
    let running = home.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop")).spawn(arguments);
    wait_for(&format!("refrain freezes at {point}"), || state(running.pid()) == Some('T'));
    (running, place)
}

fn assert_no_staging_after_gc(home: &Home) {
    home.run(["gc"]).success();
    let left = names(&home.join(".refrain/slots")).into_iter().filter(|name| name.ends_with(".0"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn lease_01_a_frozen_attempt_that_wakes_is_fenced_and_the_later_publication_stands() {
    let home = home();
    let paused = start(&home, &short(&FLAGS), SLOW);
    wait_for_path(&home.join("started"));
    let frozen = stop_tree(paused.0.pid());
    let reader = Reader::start(home.join("out.csv"));
    let second = second(&home).published();
    assert_eq!(second.number("token"), 2);
    home.write("go", "");
    wake_all(&frozen);
    finish(paused).nothing(121, "fenced").says("was fenced");
    reader.stop().assert_only(&[Observation::Missing, Observation::file("second\n")]);
    assert_eq!((home.read("out.csv"), executions(&home)), ("second\n".to_owned(), 2));
    assert_no_staging_after_gc(&home);
}

#[test]
fn lease_01_frozen_in_a_check_it_is_fenced_as_in_its_command() {
    let home = home();
    let check = "test -e go || { touch started; exec sleep 1000; }";
    home.config(&format!(
        "[task.job]\ncommand = 'echo data > \"$REFRAIN_OUT\"'\nout.out = {{ path = \"out.csv\", check = '{check}' }}\n"
    ));
    let paused = start(&home, &short(&["job"]), "");
    wait_for_path(&home.join("started"));
    let frozen = stop_tree(paused.0.pid());
    home.write("go", "");
    run(&home, &["job", "--wait"], "").published();
    wake_all(&frozen);
    finish(paused).nothing(121, "fenced").says("was fenced");
}

#[test]
fn lease_01_frozen_with_everything_sealed_it_is_refused_by_the_sink_itself() {
    // It passed its last look at the lease: only the sink can refuse it now.
    for script in ["echo paused > $REFRAIN_OUT", "mkdir $REFRAIN_OUT/d; echo paused > $REFRAIN_OUT/d/f"] {
        let home = home();
        let target = if script.contains("mkdir") { "tree/" } else { "out.csv" };
        let flags = ["job", "--out", target];
        let frozen = frozen_at(&home, "before-commit", &short(&["job", "--out", target]), script);
        let other = script.replace("paused", "second");
        run(&home, &[&flags[..], &["--wait"]].concat(), &other).published();
        wake(frozen.0.pid());
        let call = finish(frozen).nothing(121, "fenced").says("(token 2) took over at the sink");
        assert_eq!(call.number("token"), 1);
        let read = if target == "tree/" { "tree/d/f" } else { "out.csv" };
        assert_eq!(home.read(read), "second\n");
        assert_no_staging_after_gc(&home);
    }
}

#[test]
fn lease_01_two_outputs_are_refused_together() {
    let home = home();
    let flags = ["job", "--out", "a=a.csv", "--out", "b=b.csv"];
    let script = |content: &str| format!("echo {content} > $REFRAIN_OUT_A; echo {content} > $REFRAIN_OUT_B");
    let frozen =
        frozen_at(&home, "before-commit", &short(&["job", "--out", "a=a.csv", "--out", "b=b.csv"]), &script("paused"));
    run(&home, &[&flags[..], &["--wait"]].concat(), &script("second")).published();
    wake(frozen.0.pid());
    finish(frozen).nothing(121, "fenced");
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("second\n".into(), "second\n".into()));
}

#[test]
fn lease_01_frozen_between_two_outputs_the_next_one_finishes_what_was_decided() {
    let home = home();
    let flags = ["job", "--out", "a=a.csv", "--out", "b=b.csv"];
    let script =
        |content: &str| format!("echo x >> runs.log; echo {content} > $REFRAIN_OUT_A; echo {content} > $REFRAIN_OUT_B");
    let frozen =
        frozen_at(&home, "after-commit", &short(&["job", "--out", "a=a.csv", "--out", "b=b.csv"]), &script("paused"));
    assert!(home.exists("a.csv") && !home.exists("b.csv"));
    let finished = run(&home, &[&flags[..], &["--wait"]].concat(), &script("second")).already_published();
    assert_eq!((home.read("a.csv"), home.read("b.csv"), executions(&home)), ("paused\n".into(), "paused\n".into(), 1));
    wake(frozen.0.pid());
    let published = finish(frozen).published();
    assert_eq!(finished.report["attempt"], published.report["attempt"]);
    assert!(finished.report["token"].is_null(), "its own is not that attempt's: {}", finished.report);
    assert_eq!(home.read("b.csv"), "paused\n");
}

#[test]
fn lease_02_frozen_inside_the_final_step_nobody_gets_past_its_lock() {
    // The slot's lock is held over check and rename, so that nothing can happen between them; whoever wants in is told
    // which process to continue or to end. That takes the lock's patience of half a minute, once for all three.
    let scenes = ["before-intent", "after-intent", "after-rename"].map(|point| {
        let home = home();
        let frozen = frozen_at(&home, point, &short(&FLAGS), "echo x >> runs.log; echo paused > $REFRAIN_OUT");
        let second = start(&home, &[&FLAGS[..], &["--wait"]].concat(), SECOND);
        (point, home, frozen, second)
    });
    for (point, home, frozen, blocked) in scenes {
        let pid = frozen.0.pid();
        let call = finish(blocked);
        // What is visible already is not denied.
        let call =
            if point == "after-rename" { call.ends(118, "decided", "published") } else { call.nothing(125, "error") };
        call.says("has held the lock").says(&format!("process {pid}")).says(&format!("kill -9 {pid}"));
        wake(pid);
        finish(frozen).published();
        assert_eq!(home.read("out.csv"), "paused\n", "frozen at {point}");
        second(&home).already_published();
        assert_eq!(executions(&home), 1);
    }
}

#[test]
fn proc_05_a_signal_ends_the_wait_for_the_lock_of_a_frozen_process() {
    let home = home();
    let frozen = frozen_at(&home, "before-intent", &short(&FLAGS), "echo x >> runs.log; echo paused > $REFRAIN_OUT");
    let blocked = start(&home, &[&FLAGS[..], &["--wait"]].concat(), SECOND);
    let waiter = blocked.0.pid();
    wait_for_a_slots_lock(waiter);
    send(waiter, Signal::TERM);
    let call = finish(blocked).nothing(143, "task_failed");
    call.says("refrain got SIGTERM while process").says("has held the lock").says("kill -9");
    wake(frozen.0.pid());
    finish(frozen).published();
    assert_eq!((home.read("out.csv").as_str(), executions(&home)), ("paused\n", 1));
}

#[test]
fn lease_02_frozen_inside_the_final_step_and_killed_the_next_one_goes_on() {
    for (point, content, executed) in
        [("before-intent", "second\n", 2), ("after-intent", "paused\n", 1), ("after-rename", "paused\n", 1)]
    {
        let home = home();
        let frozen = frozen_at(&home, point, &short(&FLAGS), "echo x >> runs.log; echo paused > $REFRAIN_OUT");
        kill(frozen.0.pid());
        drop(frozen);
        let call = second(&home);
        assert_eq!(call.output.code, Some(0), "{}", call.output);
        assert_eq!((home.read("out.csv").as_str(), executions(&home)), (content, executed), "killed at {point}");
    }
}

#[test]
fn lease_04_after_a_sleep_with_nobody_else_the_holder_goes_on_with_the_same_token() {
    let home = home();
    home.config(&format!("[task.job]\ncommand = {SLOW:?}\nout.out = \"out.csv\"\nlease = {{ ttl = \"1s\" }}\n"));
    let paused = start(&home, &["job"], "");
    wait_for_path(&home.join("started"));
    let frozen = stop_tree(paused.0.pid());
    // The end of the lease shows in the status, which does not touch it.
    wait_for("the lease is over", || home.run(["status", "--json"]).success().stdout.contains("unsettled"));
    home.write("go", "");
    wake_all(&frozen);
    let call = finish(paused).published();
    assert_eq!((call.number("token"), home.read("out.csv")), (1, "paused\n".to_owned()));
}

#[test]
fn lease_04_after_a_sleep_with_somebody_else_at_work_the_holder_is_fenced_at_once() {
    let home = home();
    let paused = start(&home, &short(&FLAGS), "touch started; while true; do sleep 0.01; done");
    wait_for_path(&home.join("started"));
    let frozen = stop_tree(paused.0.pid());
    let script = "touch second-started; while [ ! -e go ]; do sleep 0.01; done; echo second > $REFRAIN_OUT";
    let second = start(&home, &[&FLAGS[..], &["--wait"]].concat(), script);
    wait_for_path(&home.join("second-started"));
    wake_all(&frozen);
    // Its task would run for ever: only the lost lease ends it, and it does while the other is still at work.
    finish(paused).nothing(121, "fenced");
    home.write("go", "");
    finish(second).published();
    assert_eq!(home.read("out.csv"), "second\n");
}

#[test]
fn a_frozen_holder_is_reported_by_recover_and_left_alone() {
    let home = home();
    let paused = start(&home, &short(&FLAGS), SLOW);
    wait_for_path(&home.join("started"));
    let frozen = stop_tree(paused.0.pid());
    home.run(["recover"]).success().says("still being run by attempt ");
    home.write("go", "");
    wake_all(&frozen);
    finish(paused).published();
}

#[test]
fn a_frozen_attempt_of_an_older_generation_never_overwrites_a_newer_one() {
    let home = home();
    run(&home, &FLAGS, "echo first > $REFRAIN_OUT").published();
    let mut flags = short(&FLAGS);
    flags.push("--rerun");
    let frozen = frozen_at(&home, "before-commit", &flags, "echo frozen > $REFRAIN_OUT");
    for content in ["second", "third"] {
        let script = format!("echo {content} > $REFRAIN_OUT");
        run(&home, &[&FLAGS[..], &["--rerun", "--wait"]].concat(), &script).published();
    }
    wake(frozen.0.pid());
    let call = finish(frozen);
    assert_eq!(call.output.code, Some(121), "{}", call.output);
    assert_eq!(home.read("out.csv"), "third\n");
    assert_fails(&home.run(["path", "job", "--version", "9"]), &["version 9"]);
}

#[test]
fn why_does_not_say_of_a_stopped_attempt_that_it_ended() {
    let home = home();
    let (running, _) = frozen_at(&home, "before-task", &short(&FLAGS), SECOND);
    let mut why = String::new();
    wait_for("its lease is over", || {
        why = home.run(["why", "job"]).success().stdout;
        !why.contains("it is being run")
    });
    assert!(
        why.contains("has not renewed its lease in time") && why.contains(&format!("pid {}", running.pid())),
        "{why}"
    );
    assert!(!why.contains("ended without a word; the next"), "{why}");
    wake(running.pid());
    drop(running.wait());
}
