//! PostgreSQL servers, the pooler and the proxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use refrain_testkit::postgres::{PgBouncer, Server, Version};
use refrain_testkit::program::Output;
use std::process::Command;

#[test]
fn each_version_starts_and_serves_databases_apart_from_each_other() {
    for version in Version::ALL {
        let server = Server::shared(version);
        let (one, other) = (server.database(), server.database());
        one.psql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)");
        assert_eq!(one.psql("SELECT a, 'x' FROM t ORDER BY a"), "1|x\n2|x");
        assert!(other.try_psql("SELECT * FROM t").unwrap_err().contains("does not exist"));
        let number = server.maintenance().psql("SHOW server_version");
        assert_eq!(format!("PostgreSQL {}", number.split('.').next().unwrap()), version.to_string());
    }
}

#[test]
fn a_killed_server_starts_again_with_what_was_committed() {
    for version in Version::ALL {
        let server = Server::start(version);
        let database = server.database();
        database.psql("CREATE TABLE t (a int); INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2); ROLLBACK");
        server.kill();
        assert!(database.try_psql("SELECT 1").is_err());
        server.restart();
        assert_eq!(database.psql("SELECT a FROM t"), "1");
        server.restart();
        assert_eq!(database.psql("SELECT a FROM t"), "1");
    }
}

#[test]
fn a_pooler_gives_the_transactions_of_one_client_to_its_connections() {
    let database = Server::shared(Version::V15).database();
    let pooler = PgBouncer::with(&database, &[("default_pool_size", "2")]);
    let psql = |sql: &str| {
        let mut psql = Command::new(Version::V15.programs().join("psql"));
        psql.args(["-X", "-q", "-At", "-d", &pooler.url(), "-c", sql]);
        Output::of(&mut psql, b"").success().stdout
    };
    assert_eq!(psql("SELECT current_database()"), format!("{}\n", database.name()));
}
