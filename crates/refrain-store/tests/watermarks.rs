//! Folding under kills, in a state of every age, and how much room it gives back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports failure by panicking")]

mod support;

use jiff::{SignedDuration, Timestamp};
use refrain_core::{Foldable, Key, StateStore, TaskName};
use refrain_store::SqliteStore;
use refrain_testkit::strace;
use rusqlite::Connection;
use std::path::Path;
use support::{child, complete_run, create, granted, key, open, request};

const KEYS: i64 = 8;
const BATCH: usize = 3;
const FORMAT_1: &str = include_str!("fixtures/state-1.sql");
/// Calls that write a state.
const WRITES: &str = "pwrite64,fdatasync,fsync,ftruncate";

#[test]
fn played_child() {
    support::play_child(&[
        ("fold", |state| {
            let store = open(state);
            for batch in foldable(&store).chunks(BATCH) {
                assert!(store.fold(&task(), batch).unwrap().is_empty());
            }
        }),
        ("open", |state| drop(open(state))),
    ]);
}

#[test]
fn keys_that_are_folded_count_as_published() {
    let home = tempfile::tempdir().unwrap();
    let store = create(&home.path().join("state.db"));
    assert_eq!(store.published_keys().unwrap(), 0);
    for day in 0..KEYS {
        complete_run(&store, &key(&name(day)), number(day));
    }
    let published = store.published_keys().unwrap();
    assert_eq!(published, KEYS.unsigned_abs());
    assert!(store.fold(&task(), &foldable(&store)).unwrap().is_empty());
    assert_eq!(store.published_keys().unwrap(), published);
}

#[test]
fn ledg_02_after_a_kill_at_any_write_every_key_is_whole_or_below_the_watermark() {
    let mut kills = 0;
    for when in 1.. {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state.db");
        drop(create(&state));
        for day in 0..KEYS {
            complete_run(&open(&state), &key(&name(day)), number(day));
        }
        let output = strace::inject_everywhere(&child("fold", &state), &format!("{WRITES}:signal=KILL:when={when}"));
        assert_sound(&state);
        let store = open(&state);
        let watermark = store.watermark(&task()).unwrap();
        let folded: Vec<i64> = (0..KEYS).filter(|day| store.key(&key(&name(*day))).unwrap().is_none()).collect();
        assert_eq!(watermark.as_ref().map_or(0, |it| it.folded), u64::try_from(folded.len()).unwrap());
        assert!(
            folded.len().is_multiple_of(BATCH) || folded.len() == usize::try_from(KEYS).unwrap(),
            "whole batches: {folded:?}"
        );
        for day in &folded {
            assert!(ends_at(*day) <= watermark.as_ref().unwrap().ends_at, "the watermark covers what is gone");
        }
        for day in (0..KEYS).filter(|day| !folded.contains(day)) {
            let kept = store.key(&key(&name(day))).unwrap().unwrap();
            assert!(kept.run.is_some() && kept.last_attempt.is_some(), "{kept:?}");
        }
        // Repeating it goes on, and no token comes twice.
        for batch in foldable(&store).chunks(BATCH) {
            assert!(store.fold(&task(), batch).unwrap().is_empty());
        }
        assert_eq!(store.watermark(&task()).unwrap().unwrap().folded, u64::try_from(KEYS).unwrap());
        assert!(granted(&store, &key(&name(0)), &request(1000)).token.get() > 1);
        if output.signal.is_none() {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 3, "{kills} kills");
}

#[test]
fn a_state_of_format_1_is_brought_up_to_date_whole_or_not_at_all() {
    let mut kills = 0;
    for when in 1.. {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state.db");
        let connection = Connection::open(&state).unwrap();
        connection.execute_batch(&format!("PRAGMA journal_mode = WAL; {FORMAT_1}")).unwrap();
        drop(connection);
        let output = strace::inject_everywhere(&child("open", &state), &format!("{WRITES}:signal=KILL:when={when}"));
        let connection = Connection::open(&state).unwrap();
        let format: i64 = connection.query_row("SELECT format FROM meta", [], |row| row.get(0)).unwrap();
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'watermark'";
        let tables: i64 = connection.query_row(tables, [], |row| row.get(0)).unwrap();
        assert_eq!(format, 1 + tables, "both or neither");
        drop(connection);
        assert!(open(&state).key(&key("2025-03-24")).unwrap().unwrap().run.is_some());
        if output.signal.is_none() {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 1, "{kills} kills");
}

fn task() -> TaskName {
    key("").task
}

fn name(day: i64) -> String {
    format!("2025-03-{:02}", day + 1)
}

fn number(day: i64) -> u128 {
    u128::try_from(day + 1).unwrap()
}

fn ends_at(day: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * (day + 1))
}

/// All keys that are left, as they stand.
fn foldable(store: &SqliteStore) -> Vec<Foldable> {
    let state = |day| store.key(&Key { task: task(), partition: name(day) }).unwrap();
    (0..KEYS)
        .filter_map(|day| {
            let state = state(day)?;
            Some(Foldable {
                partition: name(day),
                ends_at: ends_at(day),
                run: state.run.map(|run| run.run_id),
                last_attempt: state.last_attempt.map(|attempt| attempt.attempt),
            })
        })
        .collect()
}

fn assert_sound(state: &Path) {
    let connection = Connection::open(state).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}
