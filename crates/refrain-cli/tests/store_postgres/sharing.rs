//! Several homes on several hosts share one store.

use crate::hosts::Host;
use crate::scene::{Shared, run_on, spawn_on};
use refrain_testkit::freeze::{wait_for, wait_for_path};
use refrain_testkit::program::Running;
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::process::Command;

#[test]
fn a_publication_of_one_host_is_known_on_the_other() {
    let shared = Shared::new();
    let [one, two] = ["etl-1", "etl-2"].map(Host::start);
    let [first, second] = [(), ()].map(|()| shared.home(&shared.url(), "60s", ""));
    run_on(&one, &first, &["run", "day", "--date", "2025-03-01"]).success().says("published");
    run_on(&two, &second, &["run", "day", "--date", "2025-03-01"]).success().says("already published");
    run_on(&two, &second, &["backfill", "day", "--from", "2025-03-01", "--to", "2025-03-04"]).success();
    assert_eq!(shared.executions(), 4);
    assert_eq!(shared.read("out/2025-03-04.txt"), "2025-03-04\n");
    let status = run_on(&one, &first, &["status", "day", "--list", "--from", "2025-03-01", "--to", "2025-03-05"]);
    let status = status.stdout;
    assert!(status.starts_with("day: 4 published, 1 missing"), "{status}");
    let log = run_on(&one, &first, &["log", "day", "--json"]).success().stdout;
    let hosts: Vec<_> = ["etl-1", "etl-2"].map(|name| log.matches(name).count()).into();
    assert_eq!(log.lines().count(), 4, "{log}");
    assert!(hosts[0] >= 1 && hosts[1] >= 3, "each attempt is told with its host\n{log}");
    assert_eq!(second.run(["store", "show"]).success().stdout, first.run(["store", "show"]).success().stdout);
    shared.has_no_leftover();
}

#[test]
fn a_repeated_call_takes_few_round_trips() {
    let shared = Shared::new();
    let proxy = refrain_testkit::postgres::Proxy::start(shared.database.server().port());
    let home = shared.home(&proxy.url(&shared.database), "60s", "");
    home.run(["run", "day", "--date", "2025-03-01"]).success();
    // What a call sends last is counted by the end of its session.
    shared.has_no_leftover();
    let before = (proxy.requests(), proxy.connections());
    home.run(["run", "day", "--date", "2025-03-01"]).success().says("already published");
    shared.has_no_leftover();
    let (requests, connections) = (proxy.requests() - before.0, proxy.connections() - before.1);
    assert_eq!(connections, 1);
    // Who the store is, the key, and what is not settled: each one BEGIN, one statement of five messages, one ROLLBACK. And
    // the end.
    assert!(requests <= 22, "{requests} messages");
}

#[test]
fn lease_14_of_64_calls_on_two_hosts_one_executes() {
    let shared = Shared::new();
    let hosts = ["etl-1", "etl-2"].map(Host::start);
    let homes = [(), ()].map(|()| shared.home(&shared.url(), "60s", ""));
    let (go, mut calls) = (Barrier::new(&shared), Vec::new());
    for call in 0..64 {
        let (host, home) = (&hosts[call % 2], &homes[call % 2]);
        calls.push(go.start(call, host, &home.refrain().command(["run", "day", "--date", "2025-03-01"])));
    }
    let released = go.release(calls.len());
    let ends: Vec<_> = calls.into_iter().map(Running::wait).collect();
    drop(released);
    assert_eq!(shared.executions(), 1);
    for end in &ends {
        let published = end.code == Some(0) && end.stderr.contains("published: ");
        assert!(published || end.code == Some(120), "{end}");
    }
    assert!(ends.iter().any(|end| end.code == Some(0)));
    assert_eq!(shared.read("out/2025-03-01.txt"), "2025-03-01\n");
    let tokens = shared.sql("SELECT token FROM refrain.attempt ORDER BY seq");
    let tokens: Vec<u64> = tokens.lines().map(|token| token.parse().unwrap()).collect();
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    let winners = shared.sql("SELECT count(*) FROM refrain.attempt WHERE ending LIKE '%\"outcome\":\"published\"%'");
    assert_eq!(winners, "1");
    shared.has_no_leftover();
}

#[test]
fn lease_16_three_spellings_of_a_date_are_one_key() {
    let shared = Shared::new();
    let hosts = ["etl-1", "etl-2"].map(Host::start);
    let homes = [(), ()].map(|()| shared.home(&shared.url(), "60s", ""));
    let (go, mut calls) = (Barrier::new(&shared), Vec::new());
    for (call, date) in ["2026-03-01", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00+00:00"].iter().enumerate() {
        let (host, home) = (&hosts[call % 2], &homes[call % 2]);
        calls.push(go.start(call, host, &home.refrain().command(["run", "day", "--date", date, "--wait"])));
    }
    let released = go.release(calls.len());
    for call in calls {
        call.wait().success();
    }
    drop(released);
    assert_eq!(shared.executions(), 1);
    assert_eq!(shared.sql("SELECT partition FROM refrain.key"), "2026-03-01");
    shared.has_no_leftover();
}

#[test]
fn lease_08_a_living_holder_of_another_host_is_never_taken_for_dead() {
    let shared = Shared::new();
    let [one, two] = ["etl-1", "etl-2"].map(Host::start);
    let held = format!("while [ -e {} ]; do sleep 0.05; done", shared.path("hold").display());
    let [first, second] = [(), ()].map(|()| shared.home(&shared.url(), "60s", &held));
    File::create(shared.path("hold")).unwrap();
    let holder = spawn_on(&one, &first, &["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    // The other host has neither that process nor that boot.
    run_on(&two, &second, &["run", "day", "--date", "2025-03-01"]).expect_code(120).says("etl-1");
    run_on(&two, &second, &["recover"]).says("still being run");
    let status = run_on(&two, &second, &["status", "day", "--list"]).stdout;
    assert!(status.contains("running"), "{status}");
    fs::remove_file(shared.path("hold")).unwrap();
    holder.wait().success();
    assert_eq!(shared.executions(), 1);
    shared.has_no_leftover();
}

#[test]
fn lease_08_a_dead_holder_of_another_host_is_waited_for_and_one_of_this_host_is_not() {
    let shared = Shared::new();
    let [one, two] = ["etl-1", "etl-2"].map(Host::start);
    let held = format!("while [ -e {} ]; do sleep 0.05; done", shared.path("hold").display());
    let [first, second] = [(), ()].map(|()| shared.home(&shared.url(), "4s", &held));
    File::create(shared.path("hold")).unwrap();
    let holder = spawn_on(&one, &first, &["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    kill_refrain(&holder, Signal::KILL);
    fs::remove_file(shared.path("hold")).unwrap();
    run_on(&two, &second, &["run", "day", "--date", "2025-03-01"]).expect_code(120);
    run_on(&two, &second, &["run", "day", "--date", "2025-03-01", "--wait"]).success();
    assert_eq!(shared.executions(), 2);
    File::create(shared.path("hold")).unwrap();
    let holder = spawn_on(&one, &first, &["run", "day", "--date", "2025-03-02", "--ttl", "1h"]);
    wait_for("it runs", || shared.executions() == 3);
    kill_refrain(&holder, Signal::KILL);
    fs::remove_file(shared.path("hold")).unwrap();
    run_on(&one, &first, &["run", "day", "--date", "2025-03-02"]).success().says("published");
    shared.has_no_leftover();
}

/// Signals the program itself, which is a child of the one that entered the host.
fn kill_refrain(running: &Running, signal: Signal) {
    let inside = crate::hosts::children(running.pid());
    assert_eq!(inside.len(), 1);
    refrain_testkit::freeze::send(inside[0], signal);
    wait_for("it is dead", || !refrain_testkit::freeze::is_alive(inside[0]));
}

/// Calls that wait for one word and begin at once.
struct Barrier {
    fifo: std::path::PathBuf,
    ready: std::path::PathBuf,
}

impl Barrier {
    fn new(shared: &Shared) -> Self {
        let [fifo, ready] = ["go", "ready"].map(|name| shared.path(name));
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        fs::create_dir(&ready).unwrap();
        Self { fifo, ready }
    }

    /// Opening the pipe waits for whoever opens its other end.
    fn start(&self, number: usize, host: &Host, command: &Command) -> Running {
        let mut waiting = Command::new("sh");
        waiting.args(["-c", ": > \"$1/$2\" && : < \"$3\" && shift 3 && exec \"$@\"", "sh"]);
        waiting.arg(&self.ready).arg(number.to_string()).arg(&self.fifo);
        waiting.arg(command.get_program()).args(command.get_args());
        waiting.current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => waiting.env(name, value),
                None => waiting.env_remove(name),
            };
        }
        host.spawn(&waiting)
    }

    /// Releases them; who comes late goes on at once while the answer is kept.
    fn release(&self, calls: usize) -> File {
        wait_for("all are ready", || fs::read_dir(&self.ready).unwrap().count() == calls);
        OpenOptions::new().write(true).open(&self.fifo).unwrap()
    }
}
