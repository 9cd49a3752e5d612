//! What a role needs so that it can publish, on real servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

#[path = "support/tables.rs"]
mod tables;

use refrain_core::{ErrorKind, NoProbe, Sink};
use refrain_postgres::Link;
use refrain_sink::PostgresSink;
use refrain_sink::postgres::{Manner, Mode, sql_for};
use refrain_testkit::postgres::{Database, Server};
use std::sync::Arc;
use tables::{Tables, equals, fails, manner, on_each};

const DELAYS: &str = "CREATE TABLE delays (dt date, carrier text, minutes int, run text)";
const CSV: &str = "carrier,minutes\nAA,3\nUA,5\n";

fn daily() -> Manner {
    Manner { scope: vec![equals("dt", "2025-03-24")], ..manner(Mode::Replace, "delays") }
}

/// A database, and a role of its own that may do nothing there but connect.
fn weak(version: refrain_testkit::postgres::Version, role: &str) -> Database {
    let database = Server::shared(version).database();
    database.psql(&format!("CREATE ROLE \"{role}\" LOGIN; {DELAYS}"));
    database
}

fn sink_of(database: &Database, role: &str) -> (PostgresSink, Link) {
    let link = Link::parse(&database.url_as(role)).unwrap();
    (PostgresSink::new([link.clone()], std::path::Path::new("/nonexistent"), Arc::new(NoProbe)), link)
}

#[test]
fn a_role_that_may_make_nothing_publishes_once_the_sql_for_it_was_run() {
    on_each(|version| {
        let database = weak(version, "Etl");
        let (sink, link) = sink_of(&database, "Etl");
        let why = fails(ErrorKind::Invalid, sink.prepare(&link));
        assert!(why.contains("permission denied") && why.contains("refrain sinks --sql Etl | psql"), "{why}");
        // What the administrator runs may be run twice.
        database.psql(&sql_for("Etl"));
        database.psql(&sql_for("Etl"));
        let (sink, link) = sink_of(&database, "Etl");
        assert!(!sink.prepare(&link).unwrap(), "nothing is made");
        let tables = Tables::at(database.clone(), "Etl");
        let mut granted = Vec::new();
        // The hints of the refusals grant what is needed, and no more.
        let by_mode = [
            (daily(), "SELECT, INSERT, DELETE"),
            (Manner { scope: vec![], truncate: true, ..manner(Mode::Table, "delays") }, "TRUNCATE"),
            (Manner { key: tables::names(&["carrier"]), ..manner(Mode::Merge, "delays") }, "UPDATE"),
        ];
        for (manner, rights) in by_mode {
            if manner.mode == Mode::Merge {
                database.psql("TRUNCATE delays; ALTER TABLE delays ADD UNIQUE (carrier)");
            }
            let why = fails(ErrorKind::Invalid, tables.publish(&manner, 1, CSV));
            let grant = format!("GRANT {rights} ON \"public\".\"delays\" TO \"Etl\"");
            assert!(why.contains(&grant), "{why}");
            database.psql(&grant);
            granted.push(grant);
            if manner.mode == Mode::Table {
                database.psql("TRUNCATE delays");
            }
            tables.publish(&manner, 1, CSV).unwrap();
            assert_eq!(database.psql("SELECT carrier, minutes FROM delays ORDER BY 1"), "AA|3\nUA|5", "{rights}");
        }
        database.psql("TRUNCATE delays");
        let appended = Manner { run_column: Some("run".to_owned()), ..manner(Mode::Append, "delays") };
        for generation in 1..=2 {
            tables.publish(&appended, generation, CSV).unwrap();
            assert_eq!(database.psql("SELECT count(*) FROM delays"), "2");
        }
        assert_eq!(database.psql("SELECT count(*) FROM refrain.staging"), "0");
        // The tables are not the role's, nor anything else but its staging.
        assert_eq!(database.psql("SELECT count(*) FROM pg_class WHERE relowner = '\"Etl\"'::regrole"), "0");
        database.psql("DROP OWNED BY \"Etl\"; DROP ROLE \"Etl\"");
    });
}

#[test]
fn a_role_without_rights_in_the_schema_is_told_the_command() {
    on_each(|version| {
        let database = weak(version, "outsider");
        Tables::at(database.clone(), "postgres");
        let (sink, link) = sink_of(&database, "outsider");
        let why = fails(ErrorKind::Invalid, sink.prepare(&link));
        assert!(why.contains("schema refrain") && why.contains("refrain sinks --sql outsider"), "{why}");
        database.psql("DROP OWNED BY outsider; DROP ROLE outsider");
    });
}

#[test]
fn a_role_that_may_create_schemas_makes_the_tables_once() {
    on_each(|version| {
        let database = weak(version, "maker");
        database.psql(&format!("GRANT CREATE ON DATABASE {} TO maker", database.name()));
        let (sink, link) = sink_of(&database, "maker");
        assert!(sink.prepare(&link).unwrap());
        let (again, link) = sink_of(&database, "maker");
        assert!(!again.prepare(&link).unwrap());
        assert_eq!(database.psql("SELECT count(*) FROM refrain.site"), "1");
        database.psql("DROP OWNED BY maker; DROP ROLE maker");
    });
}

#[test]
fn staging_of_another_role_is_reported_and_stays() {
    on_each(|version| {
        let database = weak(version, "first");
        database.psql("CREATE ROLE second LOGIN");
        for role in ["first", "second"] {
            database.psql(&format!("{}; GRANT SELECT, INSERT, DELETE ON delays TO {role}", sql_for(role)));
        }
        let first = Tables::at(database.clone(), "first");
        let dead = first.attempt(&daily(), 1);
        let request = dead.prepare(&first, CSV).unwrap();
        let second = Tables::at(database.clone(), "second").sink();
        let staged = second.staged().unwrap();
        assert_eq!(staged.len(), 1);
        let why = fails(ErrorKind::Invalid, second.discard(&staged[0]));
        assert!(why.contains("sealed_") && why.contains("belongs to the role \"first\""), "{why}");
        assert_eq!(database.psql("SELECT count(*) FROM refrain.staging"), "1", "the row stays with its table");
        dead.commit(&request).unwrap();
        assert_eq!(database.psql("SELECT count(*) FROM delays"), "2");
        database.psql("DROP OWNED BY first, second; DROP ROLE first, second");
    });
}
