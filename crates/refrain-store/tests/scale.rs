//! A hundred thousand keys, two hundred thousand attempts: answers stay right, memory and files stay small (`cargo xtask bench` has the times).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports failure by panicking")]

mod support;

use jiff::{SignedDuration, Timestamp};
use refrain_core::{AttemptFilter, Foldable, StateStore};
use refrain_testkit::program::Output;
use rusqlite::{Connection, params};
use std::path::Path;
use support::{child, complete_run, create, key, open};

const KEYS: u32 = 100_000;

#[test]
fn played_child() {
    support::play_child(&[("status", |state| {
        let store = open(state);
        let mut published = 0;
        let task = key("").task;
        store
            .for_each_key(Some(&task), &mut |summary| {
                published += u32::from(summary.last_attempt.is_some_and(|attempt| attempt.ending.is_some()));
                Ok(())
            })
            .unwrap();
        assert_eq!(published, KEYS);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
        let peak: u64 = peak.trim_end_matches(" kB").parse().unwrap();
        assert!(peak < 32 * 1024, "{peak} kB at the peak");
    })]);
}

#[test]
fn ledg_02_a_hundred_thousand_keys_are_listed_in_little_memory_and_one_is_found_among_them() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    seed(&state, KEYS, 2);
    drop(Output::of(&mut child("status", &state), &[]).success());

    assert!(open(&state).key(&key("050000")).unwrap().is_some());
    assert!(complete_run(&open(&state), &key("050000"), u128::MAX).get() > 0);
    let of_key =
        AttemptFilter { task: Some(key("").task), partition: Some("050000".to_owned()), ..AttemptFilter::default() };
    assert_eq!(open(&state).attempts(&of_key).unwrap().len(), 3);
    let newest = AttemptFilter { task: Some(key("").task), limit: Some(20), ..AttemptFilter::default() };
    assert_eq!(open(&state).attempts(&newest).unwrap().len(), 20);
    let unfinished = AttemptFilter { unfinished: true, ..AttemptFilter::default() };
    assert!(open(&state).attempts(&unfinished).unwrap().is_empty());
}

#[test]
fn ledg_02_attempts_are_bounded_by_compaction_in_batches() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    seed(&state, 100, 2000);
    let store = open(&state);
    let before = store.key(&key("000042")).unwrap().unwrap();
    let forgotten = store.compact_attempts(10, 5000).unwrap();
    assert_eq!(forgotten, 100 * 1990);
    assert_eq!(store.key(&key("000042")).unwrap().unwrap(), before, "the newest attempt of a key stays");
    assert_eq!(store.attempts(&AttemptFilter::default()).unwrap().len(), 1000);
    assert_eq!(store.compact_attempts(10, 5000).unwrap(), 0);
    drop(store);
    // The room is used again: the file does not grow by what is forgotten later.
    let size = std::fs::metadata(&state).unwrap().len();
    let store = open(&state);
    for number in 0..2000 {
        complete_run(&store, &key("000042"), 1 << 100 | number);
    }
    assert_eq!(store.compact_attempts(10, 100).unwrap(), 2000);
    assert!(std::fs::metadata(&state).unwrap().len() <= size);
}

#[test]
fn ledg_02_a_hundred_thousand_dates_are_folded_and_their_room_is_given_back() {
    const LEFT: usize = 1000;
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    seed(&state, KEYS, 2);
    let size = || std::fs::metadata(&state).unwrap().len();
    let before = size();
    let store = open(&state);
    let mut foldable = Vec::new();
    store
        .for_each_key(None, &mut |summary| {
            let day = i64::try_from(foldable.len()).unwrap();
            foldable.push(Foldable {
                partition: summary.key.partition,
                ends_at: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * day),
                run: Some(support::run_id(1)), // all records are copies of one
                last_attempt: summary.last_attempt.map(|attempt| attempt.attempt),
            });
            Ok(())
        })
        .unwrap();
    foldable.truncate(foldable.len() - LEFT);
    let task = key("").task;
    let stay = foldable.chunks(1000).flat_map(|batch| store.fold(&task, batch).unwrap()).count();
    assert_eq!(stay, 0);
    store.reclaim().unwrap();
    assert!(size() * 20 < before, "{} of {before} bytes are left", size());
    let log = std::fs::metadata(home.path().join("state.db-wal")).unwrap().len();
    assert!(log < 1 << 20, "the log has {log} bytes");
    // The rest is as it was, and a folded key starts above its former tokens.
    assert_eq!(store.attempts(&AttemptFilter::default()).unwrap().len(), 2 * LEFT);
    assert!(complete_run(&store, &key("000001"), u128::MAX).get() > 1);
    assert!(complete_run(&open(&state), &key("099999"), u128::MAX - 1).get() > 0);
}

/// Keys with so many attempts each, as complete runs leave them, written at once.
fn seed(state: &Path, keys: u32, attempts: u32) {
    let store = create(state);
    complete_run(&store, &key("template"), 1);
    let mut connection = Connection::open(state).unwrap();
    let transaction = connection.transaction().unwrap();
    let record: String = transaction.query_row("SELECT record FROM key", [], |row| row.get(0)).unwrap();
    let ending: String = transaction.query_row("SELECT ending FROM attempt", [], |row| row.get(0)).unwrap();
    transaction.execute_batch("DELETE FROM key; DELETE FROM attempt").unwrap();
    {
        let mut insert_key = transaction.prepare(
            "INSERT INTO key (id, task, partition, generation, run, leased, last_attempt, record) VALUES (?, 'daily', ?, 1, ?, 0, ?, ?)",
        ).unwrap();
        let mut insert_attempt = transaction.prepare(
            "INSERT INTO attempt (seq, attempt, key, token, run, generation, process, started_at, settled, ending) \
             VALUES (?, ?, ?, ?, ?, 1, '{\"boot\":\"00000000-0000-0000-0000-000000000000\",\"pid\":12345,\"start\":123456}', '2025-03-24T00:00:00Z', 1, ?)",
        ).unwrap();
        for key in 0..keys {
            let run = support::run_id(u128::from(key)).to_string();
            for number in 0..attempts {
                let seq = key * attempts + number + 1;
                // Random ids, as the program draws them.
                let attempt = support::attempt(u128::from(seq).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
                    .to_string();
                insert_attempt.execute(params![seq, attempt, key, number + 1, run, ending]).unwrap();
            }
            insert_key.execute(params![key, format!("{key:06}"), run, (key + 1) * attempts, record]).unwrap();
        }
    }
    transaction.commit().unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}
