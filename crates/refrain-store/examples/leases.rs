//! Takes leases, opens runs and finishes them, one key after the other: `leases URL TASK KEYS`. For measuring a store in
//! PostgreSQL, which is made where there is none.

use jiff::Timestamp;
use refrain_core::{
    Acquired, AttemptId, Clock, Ending, Error, Holder, Key, LeaseRequest, Outcome, OutputSlot, Result, RunId,
    RunProposal, SlotAddress, StateStore, Want, Window,
};
use refrain_store::postgres::Link;
use refrain_store::{PostgresOptions, PostgresStore};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// Every attempt begins at the same moment: the store measures leases by the server's clock.
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, task, keys] = arguments.as_slice() else { return Err(Error::invalid("usage: leases URL TASK KEYS")) };
    let keys: u32 = keys.parse().map_err(|_| Error::invalid(format!("`{keys}` is no number of keys")))?;
    let options = PostgresOptions { clock: Arc::new(Standing), name: "leases".to_owned() };
    let link = Link::parse(url)?;
    let store = match PostgresStore::find(&link, options.clone())? {
        Some(store) => store,
        None => PostgresStore::create(&link, BTreeSet::new(), options)?,
    };
    let store_id = store.identity()?.store_id;
    for number in 0..keys {
        let key = Key { task: task.parse()?, partition: format!("{number:05}") };
        let attempt = AttemptId::from_uuid(Uuid::new_v4());
        let request = LeaseRequest { attempt, process: "{}".to_owned(), ttl_ms: 60_000, dead: None };
        let Acquired::Granted(granted) = store.acquire(&key, &request)? else {
            return Err(Error::invalid(format!("{key} is held by somebody else")));
        };
        let holder = Holder { store_id, token: granted.token, attempt };
        store.open_run(&key, &holder, Want::Continue, None, Some(&proposal()))?;
        store.finish(&key, &holder, &ending())?;
    }
    Ok(())
}

fn proposal() -> RunProposal {
    let slot = SlotAddress { sink: "file".to_owned(), location: "out/row".to_owned() };
    RunProposal {
        run_id: RunId::from_uuid(Uuid::new_v4()),
        inputs: vec![],
        outputs: vec![OutputSlot { name: "row".to_owned(), slot, manner: None }],
        restores: None,
    }
}

fn ending() -> Ending {
    Ending {
        at: Standing.now(),
        outcome: Outcome::Published,
        window: Window::Published,
        exit_code: Some(0),
        stopped_by: None,
        error_kind: None,
        message: None,
        retry: None,
    }
}
