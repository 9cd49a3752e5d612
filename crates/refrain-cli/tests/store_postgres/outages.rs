//! Servers that die, links that break, clients that freeze: shorter and longer than a lease lasts.

use crate::call::{self, NOTHING};
use crate::hosts::Host;
use crate::scene::{Shared, run_on};
use refrain_testkit::freeze::{send, stop, wait_for, wait_for_path, wake};
use refrain_testkit::postgres::{Proxy, Server, Version};
use rustix::process::Signal;
use std::fs::{self, File};

/// Work that lasts as long as the file `hold` is there.
fn held(shared: &Shared) -> String {
    File::create(shared.path("hold")).unwrap();
    format!("while [ -e {} ]; do sleep 0.05; done", shared.path("hold").display())
}

fn let_go(shared: &Shared) {
    fs::remove_file(shared.path("hold")).unwrap();
}

#[test]
fn a_server_killed_during_the_task_and_back_within_the_ttl_harms_nothing() {
    let shared = Shared::of(Server::start(Version::V15).database());
    let home = shared.home(&shared.url(), "60s", &held(&shared));
    let running = home.spawn(["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    shared.database.server().kill();
    // The command ends while there is no server: the end is recorded when it is back.
    let_go(&shared);
    shared.database.server().restart();
    running.wait().success().says("published");
    assert_eq!((shared.executions(), shared.read("out/2025-03-01.txt")), (1, "2025-03-01\n".to_owned()));
    home.run(["run", "day", "--date", "2025-03-01"]).success().says("already published");
    shared.has_no_leftover();
}

#[test]
fn a_call_that_begins_while_the_server_restarts_waits_for_it() {
    let shared = Shared::of(Server::start(Version::V18).database());
    let home = shared.home(&shared.url(), "60s", "");
    home.run(["run", "day", "--date", "2025-03-01"]).success();
    shared.database.server().kill();
    let running = home.spawn(["run", "day", "--date", "2025-03-02"]);
    shared.database.server().restart();
    running.wait().success().says("published");
    shared.has_no_leftover();
}

#[test]
fn a_server_that_stays_away_is_told_with_its_address_and_nothing_is_published() {
    let shared = Shared::of(Server::start(Version::V15).database());
    let home = shared.home(&shared.database.url(), "60s", "");
    shared.database.server().kill();
    let end = home.run(["run", "day", "--date", "2025-03-01"]).expect_code(125);
    let address = format!("127.0.0.1:{}", shared.database.server().port());
    assert!(end.stderr.contains(&address) && end.stderr.trim_end().ends_with(NOTHING), "{end}");
    assert!(end.stderr.contains("hint: "), "{end}");
}

#[test]
fn renewals_go_on_over_broken_connections() {
    let shared = Shared::new();
    let proxy = Proxy::start(shared.database.server().port());
    let home = shared.home(&proxy.url(&shared.database), "3s", &held(&shared));
    let running = home.spawn(["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    let renewed = || shared.sql("SELECT record::json #>> '{lease,expires,ms}' FROM refrain.key");
    for _ in 0..4 {
        let before = renewed();
        proxy.cut_all();
        wait_for("the lease is renewed", || renewed() != before);
    }
    let_go(&shared);
    running.wait().success().says("published");
    assert_eq!(shared.executions(), 1);
    shared.has_no_leftover();
}

#[test]
fn a_link_that_is_down_for_longer_than_the_ttl_fences_and_nothing_is_doubled() {
    let shared = Shared::new();
    let proxy = Proxy::start(shared.database.server().port());
    let two = Host::start("etl-2");
    let first = shared.home(&proxy.url(&shared.database), "2s", &held(&shared));
    let second = shared.home(&shared.url(), "2s", "");
    let (running, place) = call::start(&first, &["day", "--date", "2025-03-01"], "");
    wait_for_path(&shared.path("executions"));
    drop(proxy);
    run_on(&two, &second, &["run", "day", "--date", "2025-03-01", "--wait"]).success().says("published");
    let end = call::finish((running, place));
    assert_eq!(end.output.code, Some(121), "{}", end.output);
    assert_eq!(end.text("window"), "nothing_published");
    let end = end.says("could not be asked to renew the lease").says("look whether the state store runs");
    assert!(!end.output.stderr.contains("took"), "nobody was seen to take it\n{}", end.output);
    assert_eq!(shared.executions(), 2);
    assert_eq!(shared.read("out/2025-03-01.txt"), "2025-03-01\n");
    let log = second.run(["log", "day", "--json"]).success().stdout;
    assert_eq!(log.matches("\"outcome\":\"published\"").count(), 1, "{log}");
    shared.has_no_leftover();
}

#[test]
fn a_store_that_accepts_and_never_answers_is_told_and_not_waited_for() {
    let shared = Shared::new();
    let proxy = Proxy::start(shared.database.server().port());
    let home = shared.home(&proxy.url(&shared.database), "60s", "");
    home.run(["run", "day", "--date", "2025-03-01"]).success();
    for _ in 0..50 {
        proxy.hold(b"BEGIN");
    }
    let end = home.run(["status"]).expect_code(125).says("has not answered for").says("hint: ");
    assert!(end.stderr.trim_end().ends_with(NOTHING), "{end}");
    proxy.release();
    home.run(["status"]).success();
    shared.has_no_leftover();
}

#[test]
fn lease_04_a_holder_that_was_frozen_past_its_ttl_is_fenced_when_it_wakes() {
    let shared = Shared::new();
    let home = shared.home(&shared.url(), "2s", &held(&shared));
    let other = shared.home(&shared.url(), "2s", "");
    let host = Host::start("etl-2");
    let running = home.spawn(["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    stop(running.pid());
    run_on(&host, &other, &["run", "day", "--date", "2025-03-01", "--wait"]).success().says("published");
    let_go(&shared);
    wake(running.pid());
    // The heartbeat asks the store and the commit asks the sink, whichever is first: both name the one that took over.
    let end = running.wait().expect_code(121).says(" was fenced: ");
    let log = other.run(["log", "day", "--json"]).success().stdout;
    let taker = log.lines().find(|line| line.contains("\"outcome\":\"published\"")).expect("the one that published");
    let taker: serde_json::Value = serde_json::from_str(taker).unwrap();
    let attempt = taker["attempt"].as_str().unwrap();
    assert!(end.stderr.contains(&format!("attempt {attempt}")), "{end}{taker}");
    assert_eq!(shared.executions(), 2);
    shared.has_no_leftover();
}

#[test]
fn a_lease_that_a_restored_store_has_voided_is_told_as_void() {
    let shared = Shared::new();
    let home = shared.home(&shared.url(), "2s", &held(&shared));
    let running = home.spawn(["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    home.run(["store", "restored"]).success();
    let end = running.wait().expect_code(121).says("its lease is void: the state store was restored");
    assert!(end.stderr.trim_end().ends_with(NOTHING), "{end}");
    let_go(&shared);
}

#[test]
fn lease_05_a_store_that_is_silent_for_most_of_the_ttl_fences_nobody() {
    let shared = Shared::new();
    let proxy = Proxy::start(shared.database.server().port());
    let home = shared.home(&proxy.url(&shared.database), "10s", &held(&shared));
    let running = home.spawn(["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    // Every question from now on is kept, on whatever connection.
    for _ in 0..50 {
        proxy.hold(b"BEGIN");
    }
    let rest = "SELECT (record::json #>> '{lease,expires,ms}')::bigint - (EXTRACT(epoch FROM clock_timestamp()) * 1000)::bigint \
                FROM refrain.key";
    wait_for("three quarters of the ttl are over", || shared.sql(rest).parse::<i64>().unwrap() < 2_500);
    proxy.release();
    wait_for("the lease is renewed", || shared.sql(rest).parse::<i64>().unwrap() > 7_000);
    let_go(&shared);
    running.wait().success().says("published");
    assert_eq!(shared.executions(), 1);
    shared.has_no_leftover();
}

#[test]
fn pgx_14_a_client_that_freezes_inside_its_transaction_does_not_keep_its_locks() {
    let shared = Shared::new();
    let proxy = Proxy::start(shared.database.server().port());
    let home = shared.home(&proxy.url(&shared.database), "60s", "");
    let other = shared.home(&shared.url(), "60s", "");
    home.run(["run", "day", "--date", "2025-03-01"]).success();
    // It has the key's row and is about to save it.
    proxy.hold(b"UPDATE refrain.key");
    let frozen = home.spawn(["run", "day", "--date", "2025-03-01", "--rerun"]);
    wait_for("the row is locked", || proxy.held() == 1);
    send(frozen.pid(), Signal::STOP);
    let end = other.run(["run", "day", "--date", "2025-03-01", "--rerun"]).success();
    assert!(end.stderr.contains("published: "), "{end}");
    proxy.release();
    wake(frozen.pid());
    let end = frozen.wait();
    assert!(matches!(end.code, Some(0 | 120 | 121)), "{end}");
    assert_eq!(shared.sql("SELECT count(*) FROM refrain.key WHERE leased"), "0");
    let twice = shared.sql("SELECT count(*) - count(DISTINCT token) FROM refrain.attempt");
    assert_eq!(twice, "0");
}

#[test]
fn pgx_13_two_calls_through_a_pooler_never_overlap_and_leave_no_lock() {
    let shared = Shared::new();
    let first = shared.home(&shared.url(), "60s", "");
    first.run(["status"]).success();
    let pooler = refrain_testkit::postgres::PgBouncer::start(&shared.database);
    let work = format!(
        "mkdir {0} || echo overlap >> {1}\nrmdir {0}",
        shared.path("inside").display(),
        shared.path("overlaps").display()
    );
    let homes = [(), ()].map(|()| shared.home(&pooler.url(), "60s", &work));
    for _ in 0..5 {
        let calls =
            homes.each_ref().map(|home| home.spawn(["run", "day", "--date", "2025-03-01", "--rerun", "--wait"]));
        for call in calls {
            call.wait().success();
        }
    }
    assert!(!shared.path("overlaps").exists(), "{}", shared.read("overlaps"));
    drop(pooler);
    shared.has_no_leftover();
    let locks = shared.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
    assert_eq!(locks, "0");
}
