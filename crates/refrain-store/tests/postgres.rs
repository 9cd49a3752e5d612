//! The store in a database: answers that are lost, first starts at once, and histories that are long.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use jiff::Timestamp;
use refrain_core::{
    Acquired, AttemptFilter, AttemptId, Ending, Generation, Holder, Key, LeaseRequest, OpenRun, Outcome, OutputSlot,
    RunId, RunProposal, SlotAddress, StateStore, Token, Want, Window,
};
use refrain_store::postgres::Link;
use refrain_store::{ManualClock, PostgresOptions, PostgresStore};
use refrain_testkit::postgres::{Database, Proxy, Server, Version};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

/// Where a statement is in whose answer the connection is lost, and whether the server has done it.
const CUTS: [(&[u8], bool); 6] = [
    (b"BEGIN", false),
    (b"BEGIN", true),
    (b"FOR UPDATE", true),
    (b"UPDATE refrain.key", true),
    (b"COMMIT; ", false),
    (b"COMMIT; ", true),
];

fn options() -> PostgresOptions {
    PostgresOptions { clock: Arc::new(ManualClock::new()), name: "refrain test".to_owned() }
}

fn link(url: &str) -> Link {
    Link::parse(url).unwrap()
}

fn key(partition: &str) -> Key {
    Key { task: "daily".parse().unwrap(), partition: partition.to_owned() }
}

fn attempt(number: u64) -> AttemptId {
    AttemptId::from_uuid(format!("aaaaaaaa00000000{number:016x}").parse().unwrap())
}

fn request(number: u64, ttl_ms: u64) -> LeaseRequest {
    LeaseRequest { attempt: attempt(number), process: "{}".to_owned(), ttl_ms, dead: None }
}

fn proposal(number: u64) -> RunProposal {
    RunProposal {
        run_id: RunId::from_uuid(format!("bbbbbbbb00000000{number:016x}").parse().unwrap()),
        inputs: Vec::new(),
        outputs: vec![OutputSlot {
            name: "out".to_owned(),
            slot: SlotAddress { sink: "memory".to_owned(), location: "out".to_owned() },
            manner: None,
        }],
        restores: None,
    }
}

fn published() -> Ending {
    Ending {
        at: Timestamp::UNIX_EPOCH,
        outcome: Outcome::Published,
        window: Window::Published,
        exit_code: Some(0),
        stopped_by: None,
        error_kind: None,
        message: None,
        retry: None,
    }
}

/// A database with a store, and the store by way of a proxy.
fn behind_a_proxy() -> (Database, Proxy, PostgresStore) {
    let database = Server::shared(Version::V15).database();
    PostgresStore::create(&link(&database.url()), BTreeSet::new(), options()).unwrap();
    let proxy = Proxy::start(database.server().port());
    let store = PostgresStore::find(&link(&proxy.url(&database)), options()).unwrap().unwrap();
    (database, proxy, store)
}

#[test]
fn pgx_01_every_method_may_lose_its_answer() {
    let (database, proxy, store) = behind_a_proxy();
    let store_id = store.identity().unwrap().store_id;
    for (number, (needle, done)) in (1..).zip(CUTS) {
        let cut = || if done { proxy.cut_after(needle) } else { proxy.cut_before(needle) };
        let key = key(&format!("day {number}"));
        // A predecessor that said nothing: its end is to be told although the answer is lost.
        assert!(matches!(store.acquire(&key, &request(100 + number, 0)).unwrap(), Acquired::Granted(_)));
        cut();
        let Acquired::Granted(granted) = store.acquire(&key, &request(number, 60_000)).unwrap() else {
            panic!("held by nobody")
        };
        assert_eq!(granted.token, Token::new(2), "{needle:?}");
        assert_eq!(granted.unclean.map(|lease| lease.attempt), Some(attempt(100 + number)), "{needle:?} {done}");
        let mut holder = Holder { store_id, token: granted.token, attempt: attempt(number) };
        cut();
        assert!(store.renew(&key, &holder, 60_000).unwrap(), "{needle:?} {done}");
        cut();
        let raised = store.raise(&key, &holder, Token::new(10)).unwrap();
        assert_eq!(raised, Some(Token::new(11)), "{needle:?} {done}");
        holder.token = Token::new(11);
        cut();
        let run = store.open_run(&key, &holder, Want::Continue, None, Some(&proposal(number))).unwrap();
        assert!(matches!(run, Some(OpenRun::Run(run)) if run.run_id == proposal(number).run_id));
        cut();
        let from = Generation::new(1);
        let run = store.open_run(&key, &holder, Want::Rerun { from }, None, Some(&proposal(50 + number))).unwrap();
        assert!(matches!(run, Some(OpenRun::Run(run)) if run.generation == Generation::new(2)), "one wish, one run");
        cut();
        store.finish(&key, &holder, &published()).unwrap();
        let state = store.key(&key).unwrap().unwrap();
        assert_eq!((state.lease, state.last_attempt.unwrap().ending), (None, Some(published())));
    }
    assert!(proxy.cuts() >= 30, "{} cuts", proxy.cuts());
    assert_eq!(database.psql("SELECT count(*), count(DISTINCT attempt) FROM refrain.attempt"), "12|12");
}

#[test]
fn of_many_who_begin_at_once_one_makes_the_store_and_all_work_with_it() {
    for version in Version::ALL {
        let database = Server::shared(version).database();
        let link = link(&database.url());
        let made: usize = thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| PostgresStore::create(&link, BTreeSet::new(), options()).is_ok()))
                .collect();
            makers.into_iter().map(|maker| usize::from(maker.join().unwrap())).sum()
        });
        assert_eq!(made, 1);
        assert!(PostgresStore::find(&link, options()).unwrap().is_some());
    }
}

#[test]
fn date_10_a_hundred_threads_take_few_connections() {
    let database = Server::shared(Version::V15).database();
    let store = PostgresStore::create(&link(&database.url()), BTreeSet::new(), options()).unwrap();
    let sessions = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'refrain test'",
        database.name()
    );
    let most = thread::scope(|scope| {
        for number in 0..100 {
            let store = &store;
            scope.spawn(move || store.acquire(&key(&number.to_string()), &request(number, 60_000)).unwrap());
        }
        (0..20).map(|_| database.psql(&sessions).parse::<u32>().unwrap()).max().unwrap()
    });
    assert!(most <= 4, "{most} connections");
    refrain_testkit::freeze::wait_for("one stays open", || database.psql(&sessions) == "1");
    assert_eq!(store.attempts(&AttemptFilter::default()).unwrap().len(), 100);
    drop(store);
    refrain_testkit::freeze::wait_for("none stays open", || database.psql(&sessions) == "0");
}

#[test]
fn a_long_history_is_looked_up_by_its_indexes() {
    let database = Server::shared(Version::V18).database();
    let store = PostgresStore::create(&link(&database.url()), BTreeSet::new(), options()).unwrap();
    // 100,000 keys of 10 tasks, each with an attempt; the store has made one of each, which shows what a row holds.
    store.acquire(&key("first"), &request(1, 0)).unwrap();
    database.psql(
        "INSERT INTO refrain.key SELECT 'task' || n % 10, lpad(n::text, 6, '0'), NULL, NULL, false, replace(record, \
         'lease', 'former') FROM refrain.key, generate_series(1, 100000) AS n; \
         INSERT INTO refrain.attempt (attempt, task, partition, token, process, started_at, settled, ending) SELECT \
         gen_random_uuid()::text, 'task' || n % 10, lpad(n::text, 6, '0'), 1, '{}', started_at, true, NULL FROM \
         refrain.attempt, generate_series(1, 100000) AS n; ANALYZE refrain.key, refrain.attempt",
    );
    let scans =
        || database.psql("SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('key', 'attempt')");
    let read = || database.psql("SELECT pg_stat_force_next_flush(); SELECT pg_stat_clear_snapshot()");
    read();
    let before = scans();
    let (task, one) = ("task3".parse().unwrap(), "000013".to_owned());
    let known = Key { task, partition: one };
    assert!(store.key(&known).unwrap().is_some());
    let of_key = AttemptFilter {
        task: Some(known.task.clone()),
        partition: Some(known.partition.clone()),
        ..AttemptFilter::default()
    };
    assert_eq!(store.attempts(&of_key).unwrap().len(), 1);
    let newest = AttemptFilter { limit: Some(50), ..AttemptFilter::default() };
    assert_eq!(store.attempts(&newest).unwrap().len(), 50);
    let unfinished = AttemptFilter { unfinished: true, ..AttemptFilter::default() };
    assert_eq!(store.attempts(&unfinished).unwrap().len(), 1);
    store.acquire(&known, &request(2, 60_000)).unwrap();
    let mut walked = 0;
    store
        .for_each_key(Some(&known.task), &mut |summary| {
            assert_eq!(summary.key.task, known.task);
            walked += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(walked, 10_000);
    drop(store); // what a session has read is counted at its end, at the latest
    let sessions = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'refrain test'",
        database.name()
    );
    refrain_testkit::freeze::wait_for("the session has ended", || database.psql(&sessions) == "0");
    read();
    assert_eq!(scans(), before, "rows were read that no index led to");
}
