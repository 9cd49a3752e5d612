//! What the cases share: keys, attempts and runs that read well, and steps that must succeed.

use jiff::Timestamp;
use refrain_core::{
    Acquired, AttemptId, Ending, Granted, Holder, Key, Lease, LeaseRequest, OpenRun, Outcome, OutputSlot, PinnedInput,
    RunId, RunProposal, RunRecord, SlotAddress, StateStore, Token, Want, Window,
};

/// How long leases last in the cases.
pub(super) const TTL_MS: u64 = 10_000;

pub(super) fn key(partition: &str) -> Key {
    key_of("daily", partition)
}

pub(super) fn key_of(task: &str, partition: &str) -> Key {
    Key { task: task.parse().expect("a task's name"), partition: partition.to_owned() }
}

pub(super) fn attempt(number: u128) -> AttemptId {
    AttemptId::from_uuid(format!("aaaaaaaa00000000{number:016x}").parse().expect("a uuid"))
}

pub(super) fn run_id(number: u128) -> RunId {
    RunId::from_uuid(format!("bbbbbbbb00000000{number:016x}").parse().expect("a uuid"))
}

pub(super) fn request(number: u128) -> LeaseRequest {
    LeaseRequest { attempt: attempt(number), process: format!(r#"{{"pid":{number}}}"#), ttl_ms: TTL_MS, dead: None }
}

/// The request of an attempt that saw the holder of this lease dead.
pub(super) fn request_over(number: u128, dead: &Lease) -> LeaseRequest {
    LeaseRequest { dead: Some((dead.attempt, dead.token)), ..request(number) }
}

pub(super) fn granted(store: &dyn StateStore, key: &Key, request: &LeaseRequest) -> Granted {
    match store.acquire(key, request).expect("acquire") {
        Acquired::Granted(granted) => granted,
        Acquired::Held(lease) => panic!("`{key}` is held by {lease:?}"),
    }
}

pub(super) fn held(store: &dyn StateStore, key: &Key, request: &LeaseRequest) -> Lease {
    match store.acquire(key, request).expect("acquire") {
        Acquired::Held(lease) => lease,
        Acquired::Granted(granted) => panic!("`{key}` was granted: {granted:?}"),
    }
}

/// The attempt takes the lease and is its holder.
pub(super) fn lease(store: &dyn StateStore, key: &Key, number: u128) -> Holder {
    let token = granted(store, key, &request(number)).token;
    holder(store, token, number)
}

pub(super) fn holder(store: &dyn StateStore, token: Token, number: u128) -> Holder {
    Holder { store_id: store.identity().expect("identity").store_id, token, attempt: attempt(number) }
}

pub(super) fn proposal(number: u128) -> RunProposal {
    RunProposal {
        run_id: run_id(number),
        inputs: vec![PinnedInput {
            name: "flights".to_owned(),
            location: "data/flights.csv".to_owned(),
            version: format!("blake3:{number:064x}"),
            digest: None,
            bytes: u64::MAX,
            snapshot: None,
            lineage: None,
        }],
        outputs: vec![OutputSlot { name: "delays".to_owned(), slot: slot("delays"), manner: None }],
        restores: None,
    }
}

pub(super) fn slot(name: &str) -> SlotAddress {
    SlotAddress { sink: "memory".to_owned(), location: name.to_owned() }
}

/// A run as a sink's head shows it.
pub(super) fn seen(generation: u64, number: u128) -> RunRecord {
    let RunProposal { run_id, inputs, outputs, restores } = proposal(number);
    RunRecord { generation: refrain_core::Generation::new(generation), run_id, inputs, outputs, restores }
}

/// The holder's run, opened with the proposal of this number if one is to be opened.
pub(super) fn opened(store: &dyn StateStore, key: &Key, holder: &Holder, want: Want, number: u128) -> RunRecord {
    opened_after(store, key, holder, want, None, number)
}

pub(super) fn opened_after(
    store: &dyn StateStore,
    key: &Key,
    holder: &Holder,
    want: Want,
    seen: Option<&RunRecord>,
    number: u128,
) -> RunRecord {
    match store.open_run(key, holder, want, seen, Some(&proposal(number))).expect("open_run") {
        Some(OpenRun::Run(run)) => run,
        other => panic!("no run for {holder:?}: {other:?}"),
    }
}

pub(super) fn ending(outcome: Outcome, window: Window) -> Ending {
    Ending {
        at: Timestamp::UNIX_EPOCH,
        outcome,
        window,
        exit_code: Some(0),
        stopped_by: None,
        error_kind: None,
        message: None,
        retry: None,
    }
}

pub(super) fn published() -> Ending {
    ending(Outcome::Published, Window::Published)
}

pub(super) fn finish(store: &dyn StateStore, key: &Key, holder: &Holder) {
    store.finish(key, holder, &published()).expect("finish");
}
