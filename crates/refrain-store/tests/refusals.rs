//! A state that cannot be used: every case has a kind, names the file and says what helps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports failure by panicking")]

mod support;

use refrain_core::{Error, ErrorKind, StateStore, StoreId};
use refrain_store::{SqliteOptions, SqliteStore};
use refrain_testkit::mounts::Mount;
use std::collections::BTreeSet;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use support::{complete_run, create, granted, key, open, options, request};

#[test]
fn a_missing_state_names_init() {
    let home = tempfile::tempdir().unwrap();
    let error = refused(&home.path().join("state.db"), ErrorKind::Invalid, "there is no state at");
    assert!(error.hint.unwrap().contains("`refrain init`"));
}

#[test]
fn an_interrupted_creation_is_told_and_completed() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    std::fs::write(&state, "").unwrap();
    refused(&state, ErrorKind::Invalid, "is empty");
    create(&state);
    open(&state);
}

#[test]
fn a_second_creation_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    let identity = create(&state).identity().unwrap();
    let error = SqliteStore::create(&state, BTreeSet::new(), options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("already"), "{error}");
    assert_eq!(SqliteStore::identity_of(&state, options()).unwrap(), identity);
}

#[test]
fn of_many_creations_at_once_one_wins() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    let create = || SqliteStore::create(&state, BTreeSet::new(), options()).map(|store| store.identity().unwrap());
    let made: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(create)).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect()
    });
    assert_eq!(made.len(), 1);
    assert_eq!(open(&state).identity().unwrap(), made[0]);
}

#[test]
fn a_newer_format_is_refused_with_both_numbers() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    sql(&state, "UPDATE meta SET format = 3");
    refused(&state, ErrorKind::Unsupported, "state format 3 is newer than this refrain knows (2)");
}

#[test]
fn a_damaged_file_is_told_from_a_file_of_another_kind() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    std::fs::write(&state, "not a database at all, but longer than the header of one: ".repeat(100)).unwrap();
    let error = refused(&state, ErrorKind::Corrupt, "is not a database");
    assert_says_how_to_go_on(&error);
    std::fs::remove_file(&state).unwrap();
    sql(&state, "CREATE TABLE other (id INTEGER)");
    refused(&state, ErrorKind::Invalid, "not a state of refrain");
}

#[test]
fn a_damaged_page_says_how_to_go_on() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    let store = create(&state);
    for number in 0..200 {
        complete_run(&store, &key(&number.to_string()), number);
    }
    drop(store);
    sql(&state, "PRAGMA wal_checkpoint(TRUNCATE)");
    let mut file = std::fs::OpenOptions::new().write(true).open(&state).unwrap();
    for page in 2..40 {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xa5; 4096]).unwrap();
    }
    drop(file);
    let look = || open_result(&state)?.for_each_key(None, &mut |_| Ok(()));
    let error = look().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert!(error.message.contains("state.db"));
    assert_says_how_to_go_on(&error);
}

#[test]
fn a_record_that_is_no_json_is_damage_and_names_its_key() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    let store = create(&state);
    complete_run(&store, &key("2025-03-24"), 1);
    sql(&state, "UPDATE key SET record = '{\"last_token\": -1}'");
    let error = store.key(&key("2025-03-24")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(error.message.contains("`daily 2025-03-24`"), "{error}");
}

#[test]
fn a_field_of_a_later_version_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    let store = create(&state);
    complete_run(&store, &key("2025-03-24"), 1);
    sql(&state, "UPDATE key SET record = json_set(record, '$.weather', json('{\"wind\": 18446744073709551615}'))");
    complete_run(&store, &key("2025-03-24"), 2);
    let connection = rusqlite::Connection::open(&state).unwrap();
    let record: String = connection.query_row("SELECT record FROM key", [], |row| row.get(0)).unwrap();
    assert!(record.contains(r#""weather":{"wind":18446744073709551615}"#), "{record}");
}

#[test]
fn a_read_only_filesystem_is_told() {
    let disk = Mount::ext4(64);
    let state = disk.path().join("state.db");
    drop(create(&state));
    disk.set_read_only(true);
    let error = refused(&state, ErrorKind::Invalid, "cannot be opened for writing");
    assert!(error.hint.unwrap().contains("writable"));
    let error = SqliteStore::create(&disk.path().join("other.db"), BTreeSet::new(), options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.contains("cannot make the state"), "{error}");
    disk.set_read_only(false);
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let disk = Mount::ext4(32);
    let state = disk.path().join("state.db");
    let store = create(&state);
    let token = complete_run(&store, &key("2025-03-24"), 1);
    let filler = disk.fill();
    let error = (2..2000)
        .find_map(|number| store.acquire(&key(&format!("other {number}")), &request(number)).err())
        .expect("an error on a full disk");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
    assert!(error.message.contains("no space"), "{error}");
    std::fs::remove_file(filler).unwrap();
    assert!(complete_run(&store, &key("2025-03-24"), 5000) > token);
}

#[test]
fn lease_10_a_state_works_where_only_fuse_is_and_on_memory() {
    let below = tempfile::tempdir().unwrap();
    for disk in [Mount::bindfs(below.path()), Mount::tmpfs(16)] {
        let state = disk.path().join("state.db");
        complete_run(&create(&state), &key("2025-03-24"), 1);
        complete_run(&open(&state), &key("2025-03-24"), 2);
    }
}

#[test]
fn a_locked_state_is_unavailable_after_the_patience_and_names_the_file() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    drop(create(&state));
    let other = rusqlite::Connection::open(&state).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let impatient = SqliteOptions { busy_timeout: Duration::from_millis(50), ..options() };
    let store = SqliteStore::open(&state, impatient).unwrap();
    let error = store.acquire(&key("2025-03-24"), &request(1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("state.db") && error.message.contains("locked"), "{error}");
    // Who only looks does not wait.
    assert_eq!(store.key(&key("2025-03-24")).unwrap(), None);
    other.execute_batch("ROLLBACK").unwrap();
    granted(&store, &key("2025-03-24"), &request(1));
}

#[test]
fn a_heartbeat_does_not_wait_for_a_long_look() {
    let home = tempfile::tempdir().unwrap();
    let store = create(&home.path().join("state.db"));
    for number in 0..3 {
        complete_run(&store, &key(&number.to_string()), number);
    }
    let token = granted(&store, &key("0"), &request(9)).token;
    let holder = support::holder(&store, token, 9);
    let heart = store.reopen().unwrap();
    let mut beats = 0;
    store
        .for_each_key(None, &mut |_| {
            // From the middle of the walk, over both connections.
            assert!(heart.renew(&key("0"), &holder, 1000)?);
            assert!(store.renew(&key("0"), &holder, 1000)?);
            beats += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(beats, 3);
}

#[test]
fn the_state_and_its_companions_are_private() {
    let home = tempfile::tempdir().unwrap();
    let store = create(&home.path().join("state.db"));
    complete_run(&store, &key("2025-03-24"), 1);
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let mode = std::fs::metadata(home.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_path_of_strange_letters_is_only_a_path() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("file:st ate%20?mode=ro&x='\"#.db");
    drop(create(&state));
    complete_run(&open(&state), &key("2025-03-24"), 1);
    assert!(state.exists());
}

#[test]
fn a_restored_backup_has_a_fresh_identity_and_no_lease() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state.db");
    let elder = StoreId::from_uuid("00000000-0000-0000-0000-00000000000e".parse().unwrap());
    let store = SqliteStore::create(&state, BTreeSet::from([elder]), options()).unwrap();
    let old = store.identity().unwrap();
    let token = granted(&store, &key("2025-03-24"), &request(1)).token;
    // A backup by SQLite's own means is no write-ahead-log database; opening makes it one again.
    let backup = home.path().join("backup.db");
    sql(&state, &format!("VACUUM INTO '{}'", backup.display()));
    let restored = SqliteStore::mark_restored(&backup, options()).unwrap();
    assert_ne!(restored.store_id, old.store_id);
    assert_eq!(restored.ancestors, BTreeSet::from([elder, old.store_id]));
    let store = open(&backup);
    assert_eq!(store.identity().unwrap(), restored);
    assert_eq!(store.key(&key("2025-03-24")).unwrap().unwrap().lease, None);
    assert!(granted(&store, &key("2025-03-24"), &request(2)).token > token);
}

fn open_result(state: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(state, options())
}

fn refused(state: &Path, kind: ErrorKind, says: &str) -> Error {
    let error = open_result(state).expect_err("a refusal");
    assert_eq!(error.kind, kind, "{error:?}");
    assert!(error.message.contains(says), "`{error}` does not say `{says}`");
    error
}

fn assert_says_how_to_go_on(error: &Error) {
    let hint = error.hint.as_deref().unwrap_or_default();
    for part in ["safe in the sinks", "refrain store init --replaces OLD_ID", "refrain store restored"] {
        assert!(hint.contains(part), "`{hint}` does not name `{part}`");
    }
}

fn sql(state: &Path, text: &str) {
    let connection = rusqlite::Connection::open(state).unwrap();
    connection.execute_batch(text).unwrap();
}
