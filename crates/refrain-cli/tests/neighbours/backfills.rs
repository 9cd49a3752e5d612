//! A backfill and what its commands leave behind, signals, another backfill, and its own death.

use crate::call::{executions, home, names};
use refrain_testkit::freeze::{descendants, is_alive, kill, send, wait_for, wait_for_path, wait_for_some};
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
const WAITS: &str = "echo $$ > started-$REFRAIN_DATE; echo x >> runs.log; \
                     while [ ! -e go ] && [ -e refrain.toml ]; do sleep 0.01; done; echo $REFRAIN_DATE > $REFRAIN_OUT";

#[test]
fn what_the_commands_of_a_parallel_backfill_leave_behind_is_ended_and_noted_and_writes_nothing_later() {
    // A child without the environment, in a session of its own, with a descriptor of the output: the worst kind.
    let home = daily(
        "exec 3>>$REFRAIN_OUT; echo $REFRAIN_DATE >&3; \
         env -i PATH=$PATH setsid sh -c 'echo $$ > left-'$REFRAIN_DATE'.new; mv left-'$REFRAIN_DATE'.new left-'$REFRAIN_DATE'; \
           while :; do echo late >&3; sleep 0.005; done' & \
         while [ ! -e left-$REFRAIN_DATE ]; do sleep 0.005; done",
    );
    let output = home.run(range(8, "4")).success().says("8 published, 0 already published, 0 failed");
    let noted = output.stderr.matches("ended a process that the command left behind: sh -c echo").count();
    assert_eq!(noted, 8, "{output}");
    let before = published(&home);
    assert_eq!(before.len(), 8);
    let left = pids(&home, "left-");
    assert_eq!(left.len(), 8);
    for pid in left {
        assert!(!is_alive(pid), "{pid} outlived the seal");
    }
    for (name, content) in &before {
        assert!(content.starts_with(name.trim_end_matches(".csv")), "{name}: {content}");
    }
    assert_undisturbed(&home, 8);
    assert_eq!(published(&home), before);
    home.run(range(8, "4")).success().says("0 published, 8 already published, 0 failed");
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
        // A date that the other works on is held; nothing else may fail.
        assert!(matches!(output.code, Some(0 | 120)), "{output}");
        assert_eq!(
            output.stderr.matches("error: ").count(),
            output.stderr.matches("is being run by").count(),
            "{output}"
        );
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
fn a_backfill_that_is_killed_leaves_no_half_date_and_a_repeat_finishes() {
    let home = daily(WAITS);
    let running = home.spawn(range(4, "2"));
    wait_for_started(&home, 2);
    let runs = descendants(running.pid());
    kill(running.pid());
    running.wait().expect_signal(9);
    home.write("go", "");
    // Its runs either end on their own or died with it; a repeat while they work is told so.
    let last = wait_for_some("a repeat that finds nothing held", || {
        let output = home.run(range(4, "2"));
        (output.code != Some(120)).then_some(output)
    });
    last.success();
    for pid in runs {
        wait_for("its runs end", || !is_alive(pid));
    }
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
    assert!(output.stderr.contains("failed: 2025-03-01"), "{output}");
    home.run(range(2, "1")).success().says("1 published, 1 already published, 0 failed");
    assert_eq!(published(&home).len(), 2);
}
