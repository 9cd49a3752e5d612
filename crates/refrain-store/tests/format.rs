//! States that released versions wrote are read by this one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports failure by panicking")]

mod support;

use refrain_core::{AttemptFilter, Generation, Outcome, StateStore, Token, Want, Window};
use rusqlite::Connection;
use std::path::Path;
use support::{attempt, complete_run, granted, holder, key, open, opened, request, run_id};

/// As `sqlite3 state.db .dump` shows a state of format 1. Never edited: a change that needs it edited is a new format.
const FORMAT_1: &str = include_str!("fixtures/state-1.sql");

#[test]
fn a_state_of_format_1_is_read_and_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    Connection::open(&state).unwrap().execute_batch(FORMAT_1).unwrap();
    let store = open(&state);
    let identity = store.identity().unwrap();
    assert_eq!(identity.store_id.to_string(), "5e000000-0000-4000-8000-000000000001");
    assert_eq!(identity.ancestors.len(), 1);

    let published = store.key(&key("2025-03-24")).unwrap().unwrap();
    let run = published.run.unwrap();
    assert_eq!((run.generation, run.run_id), (Generation::new(1), run_id(7)));
    assert_eq!((run.inputs, run.outputs), (support::proposal(7).inputs, support::proposal(7).outputs));
    assert_eq!(published.lease, None);
    let ending = published.last_attempt.unwrap().ending.unwrap();
    assert_eq!((ending.outcome, ending.window), (Outcome::Published, Window::Published));

    let leased = store.key(&key("2025-03-25")).unwrap().unwrap();
    let lease = leased.lease.unwrap();
    assert_eq!((lease.attempt, lease.token), (attempt(2), Token::new(1)));
    assert_eq!(lease.expires.epoch, "0b000000-0000-4000-8000-000000000001");
    assert_eq!(store.attempts(&AttemptFilter::default()).unwrap().len(), 2);

    // The lease is of another boot, so that it has ended; the run goes on with its pins.
    let next = granted(&store, &key("2025-03-25"), &request(3));
    assert_eq!((next.token, next.unclean.map(|lease| lease.attempt)), (Token::new(2), Some(attempt(2))));
    let holder = holder(&store, next.token, 3);
    assert_eq!(opened(&store, &key("2025-03-25"), &holder, Want::Continue, 9).run_id, run_id(8));
    assert!(complete_run(&store, &key("2025-03-24"), 4) > Token::new(1));
}

#[test]
fn what_is_written_today_has_the_columns_of_format_1() {
    let home = tempfile::tempdir().unwrap();
    let (old, new) = (home.path().join("old.db"), home.path().join("new.db"));
    Connection::open(&old).unwrap().execute_batch(FORMAT_1).unwrap();
    drop(support::create(&new));
    assert_eq!(schema(&new), schema(&old));
}

fn schema(state: &Path) -> Vec<String> {
    let connection = Connection::open(state).unwrap();
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}
