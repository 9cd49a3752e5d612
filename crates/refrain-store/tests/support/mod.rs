//! What the tests of the file share: a home, identities that read well, and this program as a child.

#![allow(dead_code, reason = "each test program uses a part of it")]

use jiff::Timestamp;
use refrain_core::{
    Acquired, AttemptId, Ending, Generation, Granted, Holder, Key, LeaseRequest, OpenRun, Outcome, OutputSlot,
    PinnedInput, RunId, RunProposal, RunRecord, SlotAddress, StateStore, Token, Want, Window,
};
use refrain_store::{BootClock, ManualClock, SqliteOptions, SqliteStore};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Tells the child which step to take, and on which state.
const STEP: &str = "STORE_TEST_STEP";
const STATE: &str = "STORE_TEST_STATE";

pub(crate) fn options() -> SqliteOptions {
    SqliteOptions {
        clock: Arc::new(ManualClock::new()),
        store_clock: Arc::new(BootClock::new().expect("read the boot's identity")),
        busy_timeout: Duration::from_secs(30),
    }
}

pub(crate) fn create(path: &Path) -> SqliteStore {
    SqliteStore::create(path, BTreeSet::new(), options()).expect("create the state")
}

/// What a first run does that finds no state: another one may make it meanwhile.
pub(crate) fn create_or_open(path: &Path) -> SqliteStore {
    SqliteStore::create(path, BTreeSet::new(), options()).unwrap_or_else(|_| open(path))
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, options()).expect("open the state")
}

pub(crate) fn key(partition: &str) -> Key {
    Key { task: "daily".parse().expect("a task's name"), partition: partition.to_owned() }
}

pub(crate) fn attempt(number: u128) -> AttemptId {
    AttemptId::from_uuid(format!("{number:032x}").parse().expect("a uuid"))
}

pub(crate) fn run_id(number: u128) -> RunId {
    RunId::from_uuid(format!("{number:032x}").parse().expect("a uuid"))
}

pub(crate) fn request(number: u128) -> LeaseRequest {
    LeaseRequest { attempt: attempt(number), process: r#"{"pid":1}"#.to_owned(), ttl_ms: 60_000, dead: None }
}

pub(crate) fn proposal(number: u128) -> RunProposal {
    RunProposal {
        run_id: run_id(number),
        inputs: vec![PinnedInput {
            name: "flights".to_owned(),
            location: "data/flights/2025-03-24.csv".to_owned(),
            version: format!("blake3:{number:064x}"),
            digest: None,
            bytes: 4096,
            snapshot: Some(format!("pins/{number:032x}")),
            lineage: None,
        }],
        outputs: vec![OutputSlot {
            name: "delays".to_owned(),
            slot: SlotAddress { sink: "file".to_owned(), location: "/data/delays/2025-03-24.csv".to_owned() },
            manner: None,
        }],
        restores: None,
    }
}

pub(crate) fn published() -> Ending {
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

pub(crate) fn granted(store: &dyn StateStore, key: &Key, request: &LeaseRequest) -> Granted {
    match store.acquire(key, request).expect("acquire") {
        Acquired::Granted(granted) => granted,
        Acquired::Held(lease) => panic!("the lease of {key} is held by {lease:?}"),
    }
}

pub(crate) fn holder(store: &dyn StateStore, token: Token, number: u128) -> Holder {
    Holder { store_id: store.identity().expect("identity").store_id, token, attempt: attempt(number) }
}

pub(crate) fn opened(store: &dyn StateStore, key: &Key, holder: &Holder, want: Want, number: u128) -> RunRecord {
    match store.open_run(key, holder, want, None, Some(&proposal(number))).expect("open the run") {
        Some(OpenRun::Run(run)) => run,
        other => panic!("no run was opened: {other:?}"),
    }
}

/// A complete run of a key, as one attempt walks it; returns its token.
pub(crate) fn complete_run(store: &dyn StateStore, key: &Key, number: u128) -> Token {
    let token = granted(store, key, &request(number)).token;
    let holder = holder(store, token, number);
    let from =
        store.key(key).expect("key").and_then(|state| state.run).map_or(Generation::default(), |run| run.generation);
    assert!(store.renew(key, &holder, 60_000).expect("renew"));
    opened(store, key, &holder, Want::Rerun { from }, number);
    store.finish(key, &holder, &published()).expect("finish");
    token
}

/// This test program as a child that takes one step on a state: see [`play_child`].
pub(crate) fn child(step: &str, state: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "played_child", "--nocapture", "--test-threads=1", "--quiet"])
        .env(STEP, step)
        .env(STATE, state);
    command
}

/// A step's name, and what the child does with the state.
pub(crate) type Step<'a> = (&'a str, fn(&Path));

/// Takes the step that the parent asked for; does nothing in the parent itself.
pub(crate) fn play_child(steps: &[Step<'_>]) {
    let (Ok(step), Ok(state)) = (std::env::var(STEP), std::env::var(STATE)) else {
        return;
    };
    let (_, play) = steps.iter().find(|(name, _)| *name == step).expect("a step of this program");
    play(Path::new(&state));
}
