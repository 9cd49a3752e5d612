//! A backfill and what its commands leave behind, signals, another backfill, and its own death.

use crate::call::{executions, home, names};
use refrain_testkit::freeze::{descendants, is_alive, kill, send, wait_for, wait_for_path};
use refrain_testkit::program::{Home, Running};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;

fn daily(command: &str) -> Home {
    let home = home();
    home.config(&format!("[task.job]\npartition = \"daily\"\ncommand = {command:?}\nout.out = \"out/{{date}}.csv\"\n"));
    home
}

fn range(days: u32, jobs: &'static str) -> Vec<String> {
    let to = format!("2025-03-{days:02}");
    ["backfill", "job", "--from", "2025-03-01", "--to", &to, "--jobs", jobs].map(str::to_owned).to_vec()
}

fn published(home: &Home) -> BTreeMap<String, String> {
    names(&home.join("out")).into_iter().map(|name| (name.clone(), home.read(format!("out/{name}")))).collect()
}

fn pids(home: &Home, prefix: &str) -> Vec<u32> {
    let files = names(home.path()).into_iter().filter(|name| name.starts_with(prefix));
    files.filter_map(|file| home.read(file).trim().parse().ok()).collect()
}

/// Every published file is what was sealed.
fn assert_undisturbed(home: &Home, days: usize) {
    let text = home.run(["status", "job", "--json"]).success().stdout;
    let entries: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let published = entries.iter().filter(|entry| entry["state"] == "published");
    assert_eq!((published.count(), entries.len()), (days, days), "{text}");
}

/// Waits for what the first line of its command writes, for each of `count` dates.
fn wait_for_started(home: &Home, count: usize) {
    wait_for("the commands run", || pids(home, "started-").len() == count);
}

/// Waits for `go`, at most as long as there is a home.
const WAITS: &str = "echo x >> runs.log; echo $$ > started-$REFRAIN_DATE; \
                     while [ ! -e go ] && [ ! -e go-$REFRAIN_DATE ] && [ -e refrain.toml ]; do sleep 0.01; done; echo $REFRAIN_DATE > $REFRAIN_OUT";

#[test]
fn what_the_commands_of_a_parallel_backfill_leave_behind_is_ended_and_noted_and_publishes_nothing() {
    // A child without the environment, in a session of its own, with a descriptor of the output: the worst kind.
    let left = "exec 3>>$REFRAIN_OUT; echo $REFRAIN_DATE >&3; \
         env -i PATH=$PATH setsid sh -c 'echo $$ > left-'$REFRAIN_DATE'.new; mv left-'$REFRAIN_DATE'.new left-'$REFRAIN_DATE'; \
           while :; do echo late >&3; sleep 0.005; done' & \
         while [ ! -e left-$REFRAIN_DATE ]; do sleep 0.005; done";
    let home = home();
    home.config(&format!(
        "[task.job]\npartition = \"daily\"\ngrace = \"10ms\"\ncommand = {left:?}\nout.out = \"out/{{date}}.csv\"\n"
    ));
    let output = home.run(range(8, "4")).says("0 published, 0 already published, 8 failed");
    let noted = output.stderr.matches("left behind was still writing to its output 10ms later: sh -c echo").count();
    assert_eq!(noted, 8, "{output}");
    let left = pids(&home, "left-");
    assert_eq!(left.len(), 8);
    for pid in left {
        assert!(!is_alive(pid), "{pid} outlived the seal");
    }
    assert!(!home.exists("out"));
}

fn a_signal_ends_a_backfill(signal: Signal, code: i32) {
    let home = daily(WAITS);
    let mut running = home.spawn(range(5, "2"));
    wait_for_started(&home, 2);
    send(running.pid(), signal);
    wait_for("the backfill ends", || running.has_ended());
    let output = running.wait().expect_code(code);
    assert!(output.stderr.contains("0 published, 0 already published, 2 failed, 3 not begun"), "{output}");
    let go_on = output.stderr.lines().find_map(|line| line.strip_prefix("to go on: refrain ")).expect("how to go on");
    assert_eq!(go_on, "backfill job --from 2025-03-01 --to 2025-03-05 --jobs 2", "{output}");
    for pid in pids(&home, "started-") {
        assert!(!is_alive(pid), "{pid} outlived the backfill");
    }
    assert_eq!((published(&home).len(), executions(&home)), (0, 2));
    home.write("go", "");
    home.run(go_on.split(' ')).success().says("5 published");
    assert_eq!((published(&home).len(), executions(&home)), (5, 7));
}

#[test]
fn sigterm_ends_a_backfill_with_its_runs_and_a_repeat_finishes() {
    a_signal_ends_a_backfill(Signal::TERM, 143);
}

#[test]
fn sigint_ends_a_backfill_with_its_runs_and_a_repeat_finishes() {
    a_signal_ends_a_backfill(Signal::INT, 130);
}

#[test]
fn two_backfills_at_once_execute_every_date_once_and_a_repeat_finds_all_published() {
    let home = daily("echo x >> runs.log; echo $REFRAIN_DATE > $REFRAIN_OUT");
    let both = [home.spawn(range(10, "2")), home.spawn(range(10, "2"))].map(Running::wait);
    for output in both {
        // A date that the other works on is held, also at the second try; nothing may fail.
        assert!(matches!(output.code, Some(0 | 120)), "{output}");
        assert!(output.stderr.contains("already published, 0 failed"), "{output}");
    }
    assert_eq!((published(&home).len(), executions(&home)), (10, 10));
    home.run(range(10, "2")).success().says("0 published, 10 already published, 0 failed");
    assert_undisturbed(&home, 10);
}

#[test]
fn a_date_that_another_backfill_works_on_is_held_and_published_once() {
    let home = daily(WAITS);
    let first = home.spawn(range(2, "2"));
    wait_for_started(&home, 2);
    let second = home.run(range(2, "2")).expect_code(120).says("is being run by");
    assert!(second.stderr.contains("to go on: refrain backfill job"), "{second}");
    home.write("go", "");
    first.wait().success().says("2 published");
    assert_eq!((published(&home).len(), executions(&home)), (2, 2));
}

#[test]
fn a_killed_backfill_ends_its_workers_and_their_commands_and_a_repeat_finishes() {
    let home = daily(WAITS);
    let running = home.spawn(range(4, "2"));
    wait_for_started(&home, 2);
    let below = descendants(running.pid());
    assert!(below.len() >= 4, "two workers and two commands at least: {below:?}");
    kill(running.pid());
    running.wait().expect_signal(9);
    // Nothing tells the commands to go on: they end because nobody is left to count what they do.
    for pid in below {
        wait_for("everything that it started ends", || !is_alive(pid));
    }
    assert_eq!(published(&home).len(), 0);
    home.write("go", "");
    home.run(range(4, "2")).success().says("4 published, 0 already published, 0 failed");
    let contents = published(&home);
    assert_eq!(contents.len(), 4);
    for (name, content) in contents {
        assert_eq!(content.trim_end(), name.trim_end_matches(".csv"));
    }
    assert_undisturbed(&home, 4);
}

#[test]
fn a_backfill_whose_runs_are_killed_names_them_and_a_repeat_finishes() {
    let home = daily(WAITS);
    let running = home.spawn(range(2, "1"));
    wait_for_path(&home.join("started-2025-03-01"));
    let run = fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid())).unwrap();
    let run = run.split_whitespace().next().map(|pid| pid.parse().unwrap());
    let run = run.or_else(|| descendants(running.pid()).first().copied()).unwrap();
    kill(run);
    home.write("go", "");
    let output = running.wait();
    assert_ne!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("1 published, 0 already published, 1 failed"), "{output}");
    let unknown = "failed: 2025-03-01. It is unknown whether the output was published; `refrain recover` decides.";
    assert!(output.stderr.contains(unknown), "{output}");
    assert!(output.stderr.contains("the process that worked on it was ended by signal 9"), "{output}");
    home.run(range(2, "1")).success().says("1 published, 1 already published, 0 failed");
    assert_eq!(published(&home).len(), 2);
}

#[test]
fn date_07_and_lease_13_a_date_that_another_attempt_has_is_tried_again_when_nothing_else_is_left() {
    let home = daily(&format!("{WAITS}; echo $REFRAIN_DATE >> order.log"));
    // The scheduled run of the first date.
    let scheduled = home.spawn(["run", "job", "--date", "2025-03-01"]);
    wait_for_started(&home, 1);
    let mut backfill = home.spawn(range(3, "1"));
    wait_for_path(&home.join("started-2025-03-02"));
    home.write("go-2025-03-01", "");
    scheduled.wait().success();
    home.write("go", "");
    wait_for("the backfill ends", || backfill.has_ended());
    backfill.wait().success().says("2 published, 1 already published, 0 failed");
    assert_eq!((published(&home).len(), executions(&home)), (3, 3));
    assert_undisturbed(&home, 3);
}

#[test]
fn with_wait_a_date_that_another_attempt_has_is_waited_for() {
    let home = daily(WAITS);
    let first = home.spawn(range(2, "2"));
    wait_for_started(&home, 2);
    let mut arguments = range(2, "2");
    arguments.push("--wait".to_owned());
    let mut second = home.spawn(arguments);
    wait_for("both dates are waited for", || descendants(second.pid()).len() == 2);
    assert!(!second.has_ended());
    home.write("go", "");
    first.wait().success().says("2 published");
    second.wait().success().says("0 published, 2 already published, 0 failed");
    assert_eq!(executions(&home), 2);
}

#[test]
fn date_10_a_catch_up_of_many_dates_stays_within_its_jobs_and_publishes_each_once() {
    // Every command counts how many run beside it, itself included.
    let home = daily(
        "mkdir -p now; touch now/$REFRAIN_DATE; ls now | wc -l >> beside.log; echo x >> runs.log; \
         echo $REFRAIN_DATE > $REFRAIN_OUT; rm now/$REFRAIN_DATE",
    );
    let flags = ["backfill", "job", "--from", "2024-01-01", "--to", "2024-12-31", "--jobs", "3"];
    home.run(flags).success().says("366 published, 0 already published, 0 failed");
    assert_eq!((published(&home).len(), executions(&home)), (366, 366));
    let most = home.read("beside.log").lines().map(|line| line.trim().parse::<u32>().unwrap()).max();
    assert!(most <= Some(3), "{most:?} commands at once");
    let collected = home.run(["gc"]).success();
    assert!(collected.stderr.contains("0 staging, 0 pinned inputs, 0 versions"), "{collected}");
    assert_undisturbed(&home, 366);
}
