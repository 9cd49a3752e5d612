//! States that released versions wrote are read by this one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports failure by panicking")]

mod support;

use refrain_core::{AttemptFilter, Generation, Outcome, StateStore, Token, Want, Window};
use rusqlite::Connection;
use std::path::Path;
use support::{attempt, complete_run, granted, holder, key, open, opened, request, run_id};

/// As `sqlite3 state.db .dump` shows a state of format 1. Never edited: a change that needs it edited is a new format.
const FORMAT_1: &str = include_str!("fixtures/state-1.sql");
const FORMAT_2: &str = include_str!("fixtures/state-2.sql");

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
fn a_state_of_format_2_has_its_watermark() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    Connection::open(&state).unwrap().execute_batch(FORMAT_2).unwrap();
    let store = open(&state);
    let watermark = store.watermark(&key("").task).unwrap().unwrap();
    assert_eq!((watermark.through.as_str(), watermark.folded), ("2025-03-23", 82));
    assert_eq!(watermark.ends_at.to_string(), "2025-03-24T00:00:00Z");
    assert_eq!(granted(&store, &key("2025-03-20"), &request(3)).token, Token::new(10), "above the floor");
}

#[test]
fn what_is_written_today_has_the_columns_of_format_2() {
    let home = tempfile::tempdir().unwrap();
    let [old, older, new] = ["old.db", "older.db", "new.db"].map(|name| home.path().join(name));
    Connection::open(&old).unwrap().execute_batch(FORMAT_2).unwrap();
    Connection::open(&older).unwrap().execute_batch(FORMAT_1).unwrap();
    drop(open(&older));
    drop(support::create(&new));
    assert_eq!(schema(&new), schema(&old));
    assert_eq!(schema(&older), schema(&old), "brought up to date");
}

fn schema(state: &Path) -> Vec<String> {
    let connection = Connection::open(state).unwrap();
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}
