//! What a run costs in syncs, and what is left after a kill or a power cut.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports failure by panicking")]

mod support;

use refrain_core::{AttemptFilter, Generation, StateStore, Token, Want};
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::{Output, Running};
use refrain_testkit::{freeze, strace};
use std::path::Path;
use support::{child, complete_run, create, create_or_open, granted, holder, key, open, opened, request};

#[test]
fn played_child() {
    support::play_child(&[
        ("run", |state| {
            complete_run(&open(state), &key("2025-03-24"), 2);
        }),
        ("read", |state| {
            let store = open(state);
            store.key(&key("2025-03-24")).unwrap();
            store.attempts(&AttemptFilter::default()).unwrap();
            store.for_each_key(None, &mut |_| Ok(())).unwrap();
        }),
        ("open-run", |state| {
            let store = open(state);
            let token = granted(&store, &key("2025-03-24"), &request(1)).token;
            opened(&store, &key("2025-03-24"), &holder(&store, token, 1), Want::Continue, 7);
        }),
        ("one-of-many", |state| {
            // Everybody at once, in the order of nobody: each has a key of its own.
            freeze::wait_for_path(&state.with_file_name("go"));
            let number = u128::from(std::process::id());
            complete_run(&open(state), &key(&number.to_string()), number);
        }),
        ("first-of-many", |state| {
            freeze::wait_for_path(&state.with_file_name("go"));
            let number = u128::from(std::process::id());
            // Whoever does not make it finds it whole.
            let store = if state.exists() { open(state) } else { create_or_open(state) };
            complete_run(&store, &key(&number.to_string()), number);
        }),
        ("for-ever", |state| {
            let store = open(state);
            for number in 1.. {
                complete_run(&store, &key(&format!("{}", number % 50)), number);
            }
        }),
    ]);
}

#[test]
fn a_complete_run_costs_one_sync_and_a_look_none() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    let counts = strace::count_syscalls(&child("run", &state), &["fsync", "fdatasync"]);
    assert_eq!(counts.values().sum::<u64>(), 1, "{counts:?}");
    let counts = strace::count_syscalls(&child("run", &state), &["fsync", "fdatasync"]);
    assert_eq!(counts.values().sum::<u64>(), 1, "{counts:?}");
    let trace = strace::trace(&child("read", &state), &["fsync", "fdatasync", "pwrite64"]);
    // The index of the log is shared memory, made anew by whoever comes first; it holds nothing of its own.
    let calls: Vec<_> = trace.of_first().filter(|call| !call.args.contains("state.db-shm")).collect();
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
fn many_runs_cost_little_more_than_a_sync_each() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    // Long enough for several checkpoints.
    let store = open(&state);
    for number in 0..300 {
        complete_run(&store, &key(&number.to_string()), number);
    }
    drop(store);
    let log = std::fs::metadata(home.path().join("state.db-wal")).unwrap().len();
    assert!(log < 8 << 20, "the log has {log} bytes");
    for _ in 0..3 {
        let counts = strace::count_syscalls(&child("run", &state), &["fsync", "fdatasync"]);
        assert!(counts.values().sum::<u64>() <= 6, "{counts:?}");
    }
}

#[test]
fn many_processes_that_open_the_state_at_once_all_get_their_turn() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    let running: Vec<_> = (0..48).map(|_| Running::start(&mut child("one-of-many", &state), &[])).collect();
    std::fs::write(home.path().join("go"), "").unwrap();
    for process in running {
        process.wait().success();
    }
    assert_sound(&state);
    let attempts = open(&state).attempts(&AttemptFilter::default()).unwrap();
    assert_eq!(attempts.len(), 48);
    assert!(attempts.iter().all(|attempt| attempt.run.is_some() && attempt.ending == Some(support::published())));
}

#[test]
fn many_processes_that_make_the_state_at_once_all_find_it_whole() {
    for _ in 0..10 {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state.db");
        let running: Vec<_> = (0..12).map(|_| Running::start(&mut child("first-of-many", &state), &[])).collect();
        std::fs::write(home.path().join("go"), "").unwrap();
        for process in running {
            process.wait().success();
        }
        assert_eq!(open(&state).attempts(&AttemptFilter::default()).unwrap().len(), 12);
    }
}

#[test]
fn after_a_kill_at_any_write_the_state_is_whole_and_tokens_rise() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    complete_run(&open(&state), &key("2025-03-24"), 1);
    let mut kills = 0;
    let mut last = Token::default();
    for when in 1.. {
        let before = open(&state).key(&key("2025-03-24")).unwrap().and_then(|state| state.run).unwrap();
        let output =
            strace::inject_everywhere(&child("run", &state), &format!("pwrite64,fdatasync:signal=KILL:when={when}"));
        let store = open(&state);
        assert_sound(&state);
        let after = store.key(&key("2025-03-24")).unwrap().and_then(|state| state.run).unwrap();
        assert!(after.generation == before.generation || after.generation == before.generation.next());
        // Another attempt takes over from the dead one.
        let mut next = request(100 + u128::from(u32::try_from(when).unwrap()));
        next.dead = store
            .key(&key("2025-03-24"))
            .unwrap()
            .and_then(|state| state.lease)
            .map(|lease| (lease.attempt, lease.token));
        let token = granted(&store, &key("2025-03-24"), &next).token;
        assert!(token > last, "token {token} does not rise above {last}");
        last = token;
        let holder = refrain_core::Holder { token, attempt: next.attempt, ..holder(&store, token, 1) };
        store.finish(&key("2025-03-24"), &holder, &support::published()).unwrap();
        if output.signal.is_none() {
            output.success();
            break;
        }
        kills += 1;
    }
    assert!(kills > 5, "only {kills} writes were cut");
}

#[test]
fn after_a_kill_in_the_middle_of_many_runs_the_state_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    for _ in 0..5 {
        let running = Running::start(&mut child("for-ever", &state), &[]);
        let store = open(&state);
        let before = store.attempts(&AttemptFilter::default()).unwrap().len();
        freeze::wait_for("a few runs", || store.attempts(&AttemptFilter::default()).unwrap().len() > before + 20);
        drop(store);
        let output: Output = running.kill();
        assert_eq!(output.signal, Some(9), "{output}");
        assert_sound(&state);
        // The same attempts are granted again: identities repeat, tokens do not.
        let store = open(&state);
        let unfinished = AttemptFilter { unfinished: true, ..AttemptFilter::default() };
        assert!(store.attempts(&unfinished).unwrap().len() <= 5);
        for attempt in store.attempts(&unfinished).unwrap() {
            let holder = refrain_core::Holder {
                store_id: store.identity().unwrap().store_id,
                token: attempt.token,
                attempt: attempt.attempt,
            };
            store.finish(&attempt.key, &holder, &support::published()).unwrap();
        }
    }
}

#[test]
fn after_a_power_cut_an_opened_run_has_its_pins() {
    for mut disk in [Mount::ext4(64), Mount::xfs(300)] {
        let state = disk.path().join("state.db");
        drop(create(&state));
        Output::of(&mut child("open-run", &state), &[]).success();
        disk.power_cut();
        let store = open(&state);
        assert_sound(&state);
        let run = store.key(&key("2025-03-24")).unwrap().and_then(|state| state.run).expect("the run");
        assert_eq!(run.inputs, support::proposal(7).inputs);
        assert_eq!(run.generation, Generation::new(1));
    }
}

#[test]
fn after_a_power_cut_without_a_sync_the_key_can_be_leased_at_once() {
    let mut disk = Mount::ext4(64);
    let state = disk.path().join("state.db");
    drop(create(&state));
    let store = open(&state);
    granted(&store, &key("2025-03-24"), &request(1));
    drop(store);
    disk.cut();
    disk.restore();
    let store = open(&state);
    assert_sound(&state);
    assert_eq!(store.key(&key("2025-03-24")).unwrap(), None, "the lease was synced: this test proves nothing");
    let token = granted(&store, &key("2025-03-24"), &request(2)).token;
    let holder = holder(&store, token, 2);
    // The slot bears the dead holder's claim with this very token: the protocol raises above it (4.3).
    assert_eq!(store.raise(&key("2025-03-24"), &holder, token).unwrap(), Some(token.next()));
}

#[test]
fn a_created_state_survives_a_power_cut() {
    for mut disk in [Mount::ext4(64), Mount::xfs(300)] {
        let state = disk.path().join("state.db");
        let identity = create(&state).identity().unwrap();
        disk.power_cut();
        assert_eq!(open(&state).identity().unwrap(), identity);
    }
}

#[test]
fn a_log_that_someone_deleted_is_made_durable_again() {
    let mut disk = Mount::ext4(64);
    let state = disk.path().join("state.db");
    drop(create(&state));
    // What `sqlite3 state.db` does when it is the last to close.
    let other = rusqlite::Connection::open(&state).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(other);
    assert!(!disk.path().join("state.db-wal").exists());
    let trace = strace::trace(&child("open-run", &state), &["fsync", "fdatasync"]);
    let directory = format!("<{}>", disk.path().display());
    assert!(trace.of_first().any(|call| call.args.ends_with(&directory)), "{:?}", trace.calls);
    disk.power_cut();
    assert!(open(&state).key(&key("2025-03-24")).unwrap().and_then(|state| state.run).is_some());
}

#[test]
fn a_failed_sync_is_no_answer() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    let output = strace::inject_everywhere(&child("open-run", &state), "fdatasync:error=EIO:when=1");
    output.expect_code(101).says("cannot make the state");
    // The run is there, but nobody has been told so; asking again syncs it before it answers.
    Output::of(&mut child("open-run", &state), &[]).success();
}

fn assert_sound(state: &Path) {
    let connection = rusqlite::Connection::open(state).unwrap();
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}
