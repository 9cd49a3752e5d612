//! Sessions behind PgBouncer in transaction mode.

use crate::support::{link, one, open, plain};
use refrain_postgres::{Committed, Limits, Session};
use refrain_testkit::postgres::{PgBouncer, Server, Version};
use std::time::Duration;

#[test]
fn pgx_13_nothing_of_a_session_leaks_through_the_pooler() {
    for version in Version::ALL {
        let database = Server::shared(version).database();
        let pooler = PgBouncer::with(&database, &[("default_pool_size", "1")]);
        let mut first = open(&pooler.url());
        let limits = Limits { statement: Some(Duration::from_secs(7)), ..Limits::default() };
        for number in 0..3 {
            let mut transaction = first.snapshot(&limits).unwrap();
            assert_eq!(transaction.query("SELECT $1::text", &[Some("a")]).unwrap(), [[Some("a".to_owned())]]);
            transaction.simple("CREATE TEMPORARY TABLE own (i int) ON COMMIT DROP").unwrap();
            if number == 0 {
                transaction.roll_back().unwrap();
            } else {
                assert!(matches!(transaction.commit("SELECT 'yes'").unwrap(), Committed::Yes(_)));
            }
        }
        // The only backend of the pool, as the next client finds it.
        let mut second = open(&pooler.url());
        for (sql, expected) in [
            ("SELECT pg_catalog.count(*)::text FROM pg_catalog.pg_prepared_statements", "0"),
            ("SELECT pg_catalog.count(*)::text FROM pg_catalog.pg_cursors WHERE name <> ''", "0"),
            ("SELECT pg_catalog.count(*)::text FROM pg_catalog.pg_class WHERE relpersistence = 't'", "0"),
            ("SELECT pg_catalog.count(*)::text FROM pg_catalog.pg_locks WHERE locktype = 'advisory'", "0"),
        ] {
            assert_eq!(one(&mut second, sql), expected, "{sql}");
        }
        let left =
            plain(&pooler.url(), "SELECT current_setting('statement_timeout') || current_setting('search_path')");
        assert_eq!(left, "0\"$user\", public");
    }
}

#[test]
fn two_sessions_share_a_backend_by_turns() {
    let database = Server::shared(Version::V15).database();
    let pooler = PgBouncer::with(&database, &[("default_pool_size", "1")]);
    let (mut first, mut second) = (open(&pooler.url()), open(&pooler.url()));
    let pid = one(&mut first, "SELECT pg_backend_pid()::text");
    assert_eq!(one(&mut second, "SELECT pg_backend_pid()::text"), pid);
    assert_eq!(one(&mut first, "SELECT pg_backend_pid()::text"), pid);
}

#[test]
fn a_database_that_the_pooler_does_not_know_is_named() {
    let database = Server::shared(Version::V15).database();
    let pooler = PgBouncer::start(&database);
    let url = format!("postgresql://postgres@127.0.0.1:{}/no_such_one", pooler.port());
    let error = Session::open(&link(&url), "a test").unwrap_err().during("connect");
    assert_eq!(error.kind, refrain_core::ErrorKind::Invalid, "{error}");
    assert!(error.message.contains("no_such_one"), "{error}");
}
