//! The store in a bucket: answers that are lost, clocks, racers, servers that die, stores that keep no promise, histories
//! that move.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod support;

use refrain_core::{
    Acquired, AttemptFilter, Ending, ErrorKind, Foldable, Holder, Outcome, StateStore, Token, Want, Window,
};
use refrain_object::{Address, Environment, Settings};
use refrain_store::{BucketOptions, BucketStore, ManualClock};
use refrain_testkit::freeze::wait_for;
use refrain_testkit::object::{Bucket, Fault, HttpProxy, Kind, Server, When};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use support::{complete_run, granted, holder, key, opened, proposal, published, request, run_id};

const AREA: &str = "_refrain/";

/// What is done to one request.
const FAULTS: [Fault; 9] = [
    Fault::CutBefore,
    Fault::CutAfter,
    Fault::CutUpload,
    Fault::AnswerBefore(503),
    Fault::AnswerAfter(503),
    Fault::AnswerAfter(412),
    Fault::TwiceFirst,
    Fault::TwiceSecond,
    Fault::Later,
];

fn place(bucket: &Bucket) -> (Address, Settings) {
    let settings = Settings { environment: Environment::of(bucket.environment()), ..Settings::default() };
    (BucketStore::address_of(&bucket.url(AREA)).unwrap(), settings)
}

fn options() -> BucketOptions {
    // Nothing that is decided may hang on the wall clock: it stands still.
    BucketOptions { clock: Arc::new(ManualClock::new()) }
}

fn try_create(bucket: &Bucket) -> refrain_core::Result<BucketStore> {
    let (address, settings) = place(bucket);
    BucketStore::create(&address, &settings, BTreeSet::new(), options())
}

fn create(bucket: &Bucket) -> BucketStore {
    try_create(bucket).unwrap()
}

fn find(bucket: &Bucket) -> BucketStore {
    let (address, settings) = place(bucket);
    BucketStore::find(&address, &settings, options()).unwrap().unwrap()
}

/// A step of one attempt, known by its number: what it needs before, what it does, and what must be so after it, whatever
/// the network did to it.
struct Step {
    name: &'static str,
    prepare: fn(&BucketStore, u128) -> Option<Holder>,
    act: fn(&BucketStore, u128, Option<Holder>),
    check: fn(&BucketStore, u128),
}

fn key_of(number: u128) -> refrain_core::Key {
    key(&number.to_string())
}

fn leased(store: &BucketStore, number: u128) -> Holder {
    let token = granted(store, &key_of(number), &request(number)).token;
    assert_eq!(token, Token::new(1));
    holder(store, token, number)
}

fn has_lease(store: &BucketStore, number: u128) {
    let state = store.key(&key_of(number)).unwrap().unwrap();
    let lease = state.lease.unwrap();
    assert_eq!((lease.attempt, lease.token), (request(number).attempt, Token::new(1)));
    assert_eq!(attempts(store, number).len(), 1);
}

fn attempts(store: &BucketStore, number: u128) -> Vec<refrain_core::AttemptRecord> {
    let key = key_of(number);
    let filter = AttemptFilter { task: Some(key.task), partition: Some(key.partition), ..AttemptFilter::default() };
    store.attempts(&filter).unwrap()
}

const STEPS: [Step; 4] = [
    Step {
        name: "acquire",
        prepare: |_, _| None,
        act: |store, number, _| {
            leased(store, number);
        },
        check: has_lease,
    },
    Step {
        name: "open_run",
        prepare: |store, number| Some(leased(store, number)),
        act: |store, number, holder| {
            let run = opened(store, &key_of(number), &holder.unwrap(), Want::Continue, number);
            assert_eq!((run.run_id, run.generation.get()), (run_id(number), 1));
        },
        check: |store, number| {
            has_lease(store, number);
            let run = store.key(&key_of(number)).unwrap().unwrap().run.unwrap();
            assert_eq!((run.run_id, run.inputs), (run_id(number), proposal(number).inputs));
            assert_eq!(attempts(store, number)[0].run, Some(run_id(number)));
        },
    },
    Step {
        name: "renew",
        prepare: |store, number| Some(leased(store, number)),
        act: |store, number, holder| assert!(store.renew(&key_of(number), &holder.unwrap(), 60_000).unwrap()),
        check: has_lease,
    },
    Step {
        name: "finish",
        prepare: |store, number| Some(leased(store, number)),
        act: |store, number, holder| store.finish(&key_of(number), &holder.unwrap(), &published()).unwrap(),
        check: |store, number| {
            assert_eq!(store.key(&key_of(number)).unwrap().unwrap().lease, None);
            assert_eq!(attempts(store, number)[0].ending, Some(published()));
        },
    },
];

/// Every step × every request of it × every fault.
fn lost_answers(kind: Kind) {
    let bucket = Server::shared(kind).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    let direct = create(&bucket);
    let (mut number, mut met) = (0, 0);
    for step in &STEPS {
        for fault in FAULTS {
            for nth in 1.. {
                number += 1;
                let store = find(&bucket.through(proxy.port()));
                let held = (step.prepare)(&store, number);
                let faults = proxy.faults();
                proxy.on(When::any().nth(nth), fault);
                (step.act)(&store, number, held);
                proxy.forget_rules();
                let is_met = proxy.faults() > faults;
                (step.check)(&direct, number);
                // What comes late finds another version, and changes nothing.
                proxy.deliver();
                (step.check)(&direct, number);
                if !is_met {
                    assert!(nth > 1, "{} sends nothing", step.name);
                    break;
                }
                met += 1;
            }
        }
    }
    // Reading and writing for the lease, writing for the rest.
    assert!(met >= FAULTS.len() * (2 + 1 + 1 + 1), "{met} faults");
}

#[test]
fn obj_01_lost_answers_of_every_request_with_s3() {
    lost_answers(Kind::MiniStack);
}

#[test]
fn obj_01_lost_answers_of_every_request_with_gcs() {
    lost_answers(Kind::Gcs);
}

#[test]
fn obj_01_lost_answers_of_every_request_with_azure() {
    lost_answers(Kind::Azurite);
}

#[test]
fn an_attempt_costs_two_requests_for_the_lease_and_one_for_each_step() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    create(&bucket);
    let store = find(&bucket.through(proxy.port()));
    complete_run(&store, &key("a"), 1);
    proxy.take_requests();
    let cost = |what: &str| {
        let requests: Vec<_> = proxy.take_requests().into_iter().map(|request| request.method).collect();
        (what.to_owned(), requests.join(" "))
    };
    let key = key("a");
    let token = granted(&store, &key, &request(2)).token;
    assert_eq!(cost("acquire").1, "GET PUT");
    let holder = holder(&store, token, 2);
    assert_eq!(cost("identity").1, "GET");
    assert!(store.renew(&key, &holder, 60_000).unwrap());
    assert_eq!(cost("renew").1, "PUT");
    let want = Want::Rerun { from: refrain_core::Generation::new(1) };
    store.open_run(&key, &holder, want, None, None).unwrap();
    assert_eq!(cost("a question for a proposal").1, "");
    opened(&store, &key, &holder, want, 2);
    assert_eq!(cost("open_run").1, "PUT");
    store.finish(&key, &holder, &published()).unwrap();
    assert_eq!(cost("finish").1, "PUT");
}

#[test]
fn the_clock_is_the_servers() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    let store = create(&bucket);
    granted(&store, &key("a"), &request(1));
    let other = find(&bucket.through(proxy.port()));
    assert!(matches!(other.acquire(&key("a"), &request(2)).unwrap(), Acquired::Held(_)));
    // The lease lasts 60 s, and two more for what an answer leaves open.
    proxy.shift_clock(55);
    assert!(matches!(other.acquire(&key("a"), &request(2)).unwrap(), Acquired::Held(_)));
    proxy.shift_clock(75);
    let second = granted(&other, &key("a"), &request(2));
    assert_eq!((second.token, second.unclean.unwrap().attempt), (Token::new(2), request(1).attempt));
}

#[test]
fn lease_14_of_32_racers_one_wins_wherever() {
    const RACERS: u128 = 32;
    for kind in Kind::ALL {
        let bucket = Server::shared(kind).bucket();
        create(&bucket);
        // Contended writes wait for each other by the second there.
        let racers = if kind == Kind::SeaweedFs { 8 } else { RACERS };
        let (start, winners) = (Barrier::new(usize::try_from(racers).unwrap()), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for number in 0..racers {
                let (bucket, start, winners) = (&bucket, &start, &winners);
                scope.spawn(move || {
                    let store = find(bucket);
                    start.wait();
                    if let Acquired::Granted(granted) = store.acquire(&key("a"), &request(number)).unwrap() {
                        winners.lock().unwrap().push((number, granted.token));
                    }
                });
            }
        });
        let winners = winners.into_inner().unwrap();
        assert_eq!(winners.len(), 1, "{kind:?}: {winners:?}");
        assert_eq!(winners[0].1, Token::new(1));
    }
}

#[test]
fn two_first_uses_at_once_make_one_store() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let start = Barrier::new(6);
    let made: Vec<_> = thread::scope(|scope| {
        let first = |_| {
            scope.spawn(|| {
                start.wait();
                try_create(&bucket).map(|store| store.identity().unwrap())
            })
        };
        (0..6).map(first).collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let stands = find(&bucket).identity().unwrap();
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
    assert!(made.iter().flatten().all(|made| *made == stands));
    assert!(bucket.keys(&format!("{AREA}canary/")).is_empty(), "a canary was left");
}

#[test]
fn a_server_that_is_killed_and_comes_back_in_the_middle_costs_no_lease_and_grants_none_twice() {
    const KEYS: u128 = 40;
    let server = Server::start(Kind::MiniStack);
    let bucket = server.bucket();
    create(&bucket);
    let won: Mutex<BTreeMap<u128, Vec<Token>>> = Mutex::default();
    thread::scope(|scope| {
        for worker in 0..4_u128 {
            let (bucket, won) = (&bucket, &won);
            scope.spawn(move || {
                let store = find(bucket);
                for number in 0..KEYS {
                    let asked = request(1000 * (worker + 1) + number);
                    if let Acquired::Granted(granted) = store.acquire(&key_of(number), &asked).unwrap() {
                        won.lock().unwrap().entry(number).or_default().push(granted.token);
                    }
                }
            });
        }
        refrain_testkit::freeze::wait_for("work is underway", || won.lock().unwrap().len() >= 5);
        server.kill();
        server.restart();
    });
    let won = won.into_inner().unwrap();
    assert_eq!(won.len(), 40);
    assert!(won.values().all(|tokens| *tokens == [Token::new(1)]), "{won:?}");
}

#[test]
fn obj_04_a_store_that_ignores_conditions_is_refused() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    proxy.on(When::method("PUT").each(), Fault::StripConditions);
    let error = try_create(&bucket.through(proxy.port())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.message.contains("If-None-Match"), "{error}");
    assert!(bucket.keys("").is_empty(), "nothing was begun, and nothing is left");
}

#[test]
fn obj_11_a_right_that_is_missing_is_named_before_the_store_is_begun() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    for (when, right) in [
        (When::method("POST").query("delete"), "deleting an object"),
        (When::method("PUT"), "creating an object"),
        (When::method("GET").query("list-type"), "listing objects"),
        (When::method("POST").query("uploads"), "beginning an upload in parts"),
        (When::method("DELETE").query("uploadId"), "aborting an upload in parts"),
    ] {
        proxy.on(when.each(), Fault::AnswerBefore(403));
        let error = try_create(&bucket.through(proxy.port())).unwrap_err();
        proxy.forget_rules();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.message.contains(right), "{right}: {error}");
        assert_eq!(bucket.get("_refrain/store.json"), None);
    }
}

#[test]
fn a_fold_that_died_is_completed_by_the_next_and_counts_each_key_once() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    let store = create(&bucket);
    let foldable = |number: u128| Foldable {
        partition: number.to_string(),
        ends_at: jiff::Timestamp::from_second(i64::try_from(number).unwrap()).unwrap(),
        run: Some(run_id(number)),
        last_attempt: Some(request(number).attempt),
    };
    for number in 1..=5 {
        complete_run(&store, &key_of(number), number);
    }
    let task = key("").task;
    let keys: Vec<_> = (1..=5).map(foldable).collect();
    let dying = find(&bucket.through(proxy.port()));
    proxy.on(When::method("PUT").path("/3.json").each(), Fault::AnswerBefore(403));
    dying.fold(&task, &keys[..4]).unwrap_err();
    proxy.forget_rules();
    assert_eq!(store.watermark(&task).unwrap().unwrap().through, "4", "raised before anything is forgotten");
    assert_eq!(store.fold(&task, &keys[4..]).unwrap(), [""; 0]);
    let stands = store.watermark(&task).unwrap().unwrap();
    assert_eq!((stands.folded, stands.through.as_str()), (5, "5"));
    assert_eq!(bucket.keys("_refrain/key/").len(), 5, "the counters stay");
    for number in 1..=5 {
        assert_eq!(store.key(&key_of(number)).unwrap(), None);
        assert_eq!(granted(&store, &key_of(number), &request(100 + number)).token, Token::new(2));
    }
}

#[test]
fn a_history_goes_over_once_and_a_copy_that_died_is_repeated() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    let directory = tempfile::tempdir().unwrap();
    let old = support::create(&directory.path().join("state.db"));
    for number in 1..=20 {
        complete_run(&old, &key_of(number), number);
    }
    complete_run(&old, &key_of(1), 101);
    let dead = granted(&old, &key_of(2), &request(102)).token;
    let copy = |bucket: &Bucket, is_dead: bool| {
        let (address, settings) = place(bucket);
        BucketStore::take_over(&address, &settings, &old, &|_| is_dead, options())
    };
    assert_eq!(copy(&bucket, false).unwrap_err().kind, ErrorKind::Held, "an attempt is at work");
    proxy.on(When::method("PUT").path("/7.json").each(), Fault::AnswerBefore(403));
    copy(&bucket.through(proxy.port()), true).unwrap_err();
    let (address, settings) = place(&bucket);
    let error = BucketStore::find(&address, &settings, options()).unwrap_err();
    assert!(error.message.contains("being copied"), "nobody goes on with a half: {error}");
    let copied = copy(&bucket, true).unwrap();
    assert_eq!((copied.keys, copied.attempts), (20, 22));
    assert!(copied.identity.ancestors.contains(&old.identity().unwrap().store_id));
    let store = find(&bucket);
    assert_eq!(store.identity().unwrap(), copied.identity);
    assert!(granted(&store, &key_of(2), &request(500)).token > dead);
    assert_eq!(store.key(&key_of(1)).unwrap().unwrap().run.unwrap().generation.get(), 2);
    let error = copy(&bucket, true).unwrap_err();
    assert!(error.message.contains("knows keys already"), "{error}");
}

/// A store with one key whose only attempt failed.
fn unpublished(bucket: &Bucket) -> BucketStore {
    let store = create(bucket);
    let token = granted(&store, &key_of(1), &request(1)).token;
    let ending = Ending { outcome: Outcome::TaskFailed, window: Window::NothingPublished, ..published() };
    store.finish(&key_of(1), &holder(&store, token, 1), &ending).unwrap();
    store
}

#[test]
fn a_store_that_gives_way_to_a_history_is_whole_again_when_it_cannot() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    let directory = tempfile::tempdir().unwrap();
    let old = support::create(&directory.path().join("state.db"));
    complete_run(&old, &key_of(7), 7);
    let store = unpublished(&bucket);
    let identity = store.identity().unwrap();
    let copy = |bucket: &Bucket| {
        let (address, settings) = place(bucket);
        BucketStore::take_over(&address, &settings, &old, &|_| false, options())
    };
    // An attempt begins between the look at the keys and the write that takes the store's place.
    proxy.on(When::method("PUT").path("/store.json"), Fault::HoldBefore);
    let by_proxy = bucket.through(proxy.port());
    let token = thread::scope(|scope| {
        let copying = scope.spawn(|| copy(&by_proxy));
        wait_for("the copy writes its identity", || proxy.held() == 1);
        let token = granted(&store, &key_of(1), &request(2)).token;
        proxy.release();
        let error = copying.join().unwrap().unwrap_err();
        assert!(error.message.contains("knows keys already"), "{error}");
        token
    });
    assert_eq!(find(&bucket).identity().unwrap(), identity);
    assert!(store.renew(&key_of(1), &holder(&store, token, 2), 60_000).unwrap(), "the attempt goes on");
    let failed = Ending { outcome: Outcome::TaskFailed, window: Window::NothingPublished, ..published() };
    store.finish(&key_of(1), &holder(&store, token, 2), &failed).unwrap();
    // One that dies while it takes the keys away is repeated.
    proxy.on(When::method("PUT").path("/store.json").nth(2), Fault::AnswerBefore(403));
    proxy.on(When::method("POST").path("").query("delete").nth(2).each(), Fault::AnswerBefore(403));
    copy(&by_proxy).unwrap_err();
    let (address, settings) = place(&bucket);
    BucketStore::find(&address, &settings, options()).unwrap_err();
    assert_eq!(bucket.keys("_refrain/key/").len(), 1);
    let copied = copy(&bucket).unwrap();
    assert_eq!((copied.keys, copied.attempts), (1, 1));
    assert!(copied.identity.ancestors.contains(&identity.store_id));
    assert_eq!(find(&bucket).key(&key_of(1)).unwrap(), None);
}

#[test]
fn what_cannot_be_reached_or_is_not_there_is_told_with_its_name() {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let (mut address, settings) = place(&bucket);
    address.bucket = "nobodys".to_owned();
    let error = BucketStore::find(&address, &settings, options()).unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("no bucket `nobodys`"), "{error}");
    bucket.put("_refrain/store.json", b"{\"format\":99}");
    let (address, settings) = place(&bucket);
    let error = BucketStore::find(&address, &settings, options()).unwrap_err();
    assert!(error.kind == ErrorKind::Unsupported && error.message.contains("format 99"), "{error}");
    bucket.put("_refrain/store.json", b"{");
    let error = BucketStore::find(&address, &settings, options()).unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt && error.message.contains("store.json"), "{error}");
}
