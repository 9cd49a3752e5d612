//! Objects of a state that somebody damaged, or deleted.

use crate::scene::Shared;
use refrain_testkit::program::{Home, Output};

const BAD: &str = "_refrain/key/day/2025-03-02.json";

/// A home that published three days, of which the record of one is no record any more.
fn damaged() -> (Shared, Home) {
    let shared = Shared::new();
    let home = shared.home("test $REFRAIN_DATE != 2025-03-03 || exit 3");
    let fill = ["backfill", "day", "--from", "2025-03-01", "--to", "2025-03-03"];
    shared.run(&home, &fill).expect_code(3);
    shared.bucket.put(BAD, b"{ no record");
    (shared, home)
}

#[track_caller]
fn names_it(shared: &Shared, output: &Output) {
    output.clone().says(&shared.bucket.url(BAD)).says("cannot be read").says("refrain store restored");
}

#[test]
fn one_key_that_cannot_be_read_hides_no_other_from_status() {
    let (shared, home) = damaged();
    for arguments in
        [&["status"][..], &["status", "day", "--list"], &["status", "--from", "2025-03-01", "--to", "2025-03-04"]]
    {
        let status = shared.run(&home, arguments).expect_code(125);
        names_it(&shared, &status);
        assert!(status.stdout.contains("1 unreadable") && status.stdout.contains("1 published"), "{status}");
        assert!(status.stdout.contains("1 failed"), "{status}");
        let line = status.stdout.lines().find(|line| line.contains("2025-03-02")).unwrap_or_default();
        assert!(line.contains("unreadable") && line.contains("cannot be read"), "{status}");
    }
    let json = shared.run(&home, &["status", "--json"]).expect_code(125);
    let states = |state: &str| json.stdout.matches(&format!("\"state\": \"{state}\"")).count();
    assert_eq!((states("published"), states("failed"), states("unreadable")), (1, 1, 1), "{json}");
}

#[test]
fn one_key_that_cannot_be_read_keeps_nothing_else_from_being_tended() {
    let (shared, home) = damaged();
    // An attempt of another key that ended without a word.
    let open = shared.bucket.get("_refrain/key/day/2025-03-03.json").unwrap();
    let mut open: serde_json::Value = serde_json::from_slice(&open).unwrap();
    open["attempts"][0].as_object_mut().unwrap().remove("ending");
    shared.bucket.put("_refrain/key/day/2025-03-03.json", open.to_string().as_bytes());
    let recovered = shared.run(&home, &["recover"]).expect_code(122);
    names_it(&shared, &recovered);
    recovered.says("day 2025-03-03: nothing of the attempts was published").says("day 2025-03-02: cannot be settled");
    let collected = shared.run(&home, &["gc"]).expect_code(125);
    names_it(&shared, &collected);
    collected.says("gc: removed");
    let restored = shared.run(&home, &["store", "restored"]).expect_code(125);
    names_it(&shared, &restored);
    assert!(restored.stdout.starts_with("store ") && restored.stdout.contains("replaces "), "{restored}");
    // The object goes, and what is published is known from its head.
    shared.bucket.delete(BAD);
    shared.run(&home, &["store", "restored"]).success();
    shared.run(&home, &["status"]).success();
    shared.run(&home, &["run", "day", "--date", "2025-03-02"]).success().says("already published");
    shared.run(&home, &["run", "day", "--date", "2025-03-02", "--rerun"]).success().says("published");
}
