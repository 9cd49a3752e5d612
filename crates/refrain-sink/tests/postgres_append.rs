//! Rows added to tables of PostgreSQL: once for each run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

#[path = "support/tables.rs"]
mod tables;

use refrain_core::{Adopt, CommitAnswer, ErrorKind, Sink};
use refrain_sink::postgres::{Manner, Mode};
use tables::{STRICT, Tables, fails, manner, on_each, run_id};

const EVENTS: &str = "CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY, what text, run uuid)";

#[test]
fn rows_of_a_key_are_added_once_and_another_generation_is_refused() {
    on_each(|version| {
        let tables = Tables::new(version, EVENTS);
        let events = manner(Mode::Append, "events");
        tables.psql("INSERT INTO events (what) VALUES ('of others')");
        let schema = tables.schema();
        let attempt = tables.attempt(&events, 1);
        let request = attempt.prepare(&tables, "what\na\nb\n").unwrap();
        attempt.commit(&request).unwrap();
        attempt.commit(&request).unwrap();
        let zombie = tables.attempt(&events, 1);
        zombie.claim();
        assert_eq!(attempt.sink.commit(&attempt.slot, &request, &STRICT).unwrap(), CommitAnswer::Rejected);
        assert_eq!(tables.psql("SELECT what FROM events ORDER BY id"), "of others\na\nb");
        assert_eq!(tables.schema(), schema);
        let why = fails(ErrorKind::Refused, tables.publish(&events, 2, "what\na\n"));
        assert!(why.contains("appended") && why.contains("run_column"), "{why}");
        let later = tables.attempt(&events, 2);
        let request = later.prepare(&tables, "what\na\n").unwrap();
        fails(ErrorKind::Refused, later.commit(&request));
        assert_eq!(tables.psql("SELECT count(*) FROM events"), "3");
        // Another partition is another key.
        let other = tables.attempt_for("q", &events, 1);
        let request = other.prepare(&tables, "what\nc\n").unwrap();
        other.commit(&request).unwrap();
        assert_eq!(tables.psql("SELECT count(*) FROM events"), "4");
    });
}

#[test]
fn with_a_column_for_the_run_another_generation_takes_the_former_rows_away() {
    on_each(|version| {
        let tables = Tables::new(version, EVENTS);
        let events = Manner { run_column: Some("run".to_owned()), ..manner(Mode::Append, "events") };
        tables.psql("INSERT INTO events (what) VALUES ('of others')");
        let other = tables.attempt_for("q", &events, 1);
        let request = other.prepare(&tables, "what\nq\n").unwrap();
        other.commit(&request).unwrap();
        tables.publish(&events, 1, "what\na\nb\n").unwrap();
        tables.publish(&events, 2, "what\na\nc\nd\n").unwrap();
        let rows = tables.psql("SELECT what, run FROM events ORDER BY id");
        let (p, q) = (run_id("p", 2), run_id("q", 1));
        assert_eq!(rows, format!("of others|\nq|{q}\na|{p}\nc|{p}\nd|{p}"));
    });
}

#[test]
fn a_trigger_that_drops_rows_is_noticed() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            "CREATE TABLE t (v int); CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER dropping BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.v = 13) EXECUTE FUNCTION drop_row()",
        );
        let why = fails(ErrorKind::Guard, tables.publish(&manner(Mode::Append, "t"), 1, "v\n1\n13\n"));
        assert!(why.contains("2 rows were staged and 1 appended"), "{why}");
        assert_eq!(tables.psql("SELECT count(*) FROM t"), "0");
    });
}

#[test]
fn rows_that_were_appended_without_the_column_are_not_left_beside_a_later_generation() {
    on_each(|version| {
        let tables = Tables::new(version, "CREATE TABLE counts (id int UNIQUE, hits int, run text)");
        let plain = manner(Mode::Append, "counts");
        let appended = Manner { run_column: Some("run".to_owned()), ..manner(Mode::Append, "counts") };
        tables.publish(&plain, 1, "id,hits\n1,1\n2,2\n").unwrap();
        let why = fails(ErrorKind::Refused, tables.publish(&appended, 2, "id,hits\n3,3\n"));
        assert!(why.contains("run_column") && why.contains(&run_id("p", 1).to_string()), "{why}");
        // Whoever was told before the task is told at the commit, too.
        let attempt = tables.attempt(&appended, 2);
        let request = attempt.prepare(&tables, "id,hits\n3,3\n").unwrap();
        fails(ErrorKind::Refused, attempt.commit(&request));
        tables.psql(&format!("UPDATE counts SET run = '{}'", run_id("p", 1)));
        tables.publish(&appended, 2, "id,hits\n3,3\n").unwrap();
        assert_eq!(tables.psql("SELECT id FROM counts"), "3");
    });
}

#[test]
fn what_adds_up_is_not_merged_again_from_another_slot() {
    let tables = Tables::new(refrain_testkit::postgres::Version::V18, "CREATE TABLE counts (id int UNIQUE, hits int)");
    let set = vec![("hits".to_owned(), "old.hits + new.hits".to_owned())];
    let merged = Manner { key: tables::names(&["id"]), set, ..manner(Mode::Merge, "counts") };
    tables.publish(&merged, 1, "id,hits\n1,1\n").unwrap();
    let scoped = Manner { scope: vec![tables::equals("id", "1")], ..merged.clone() };
    let next = tables.attempt(&scoped, 2);
    let supersede = |adopt| next.sink.supersede(&next.key, &next.run.outputs[0], &next.run.outputs, adopt);
    let why = fails(ErrorKind::Refused, supersede(Adopt::Never));
    assert!(why.contains("counted twice") && fails(ErrorKind::Refused, supersede(Adopt::Foreign)) == why, "{why}");
    // Without what adds up rows are met by their key, and an output beside is none that is left.
    let plain = tables.attempt(&Manner { set: vec![], ..scoped.clone() }, 2);
    plain.sink.supersede(&plain.key, &plain.run.outputs[0], &plain.run.outputs, Adopt::Never).unwrap();
    let both = [next.run.outputs[0].clone(), tables.attempt(&merged, 1).run.outputs[0].clone()];
    next.sink.supersede(&next.key, &both[0], &both, Adopt::Never).unwrap();
}
