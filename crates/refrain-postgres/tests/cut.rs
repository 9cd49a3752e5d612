//! Rows that were copied are committed or lost as a whole, wherever the connection breaks.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use refrain_postgres::{Committed, Limits, Link, Session};
use refrain_testkit::postgres::{Proxy, Server, Version};

/// A session by a URL, whatever the environment of whoever runs the tests.
fn open(url: &str) -> Session {
    let link = Link::resolve(url, &|name| (name == "HOME").then(|| "/nonexistent".into())).unwrap();
    Session::open(&link, "a test").unwrap()
}

#[test]
fn pgx_01_a_commit_of_copied_rows_whose_answer_is_lost_is_unknown() {
    for version in Version::ALL {
        let database = Server::shared(version).database();
        database.psql("CREATE TABLE public.t (i int)");
        let proxy = Proxy::start(database.server().port());
        let mut session = open(&proxy.url(&database));
        let mut transaction = session.write(&Limits::default()).unwrap();
        for _ in 0..2 {
            let mut copy = transaction.copy_in("COPY public.t FROM STDIN").unwrap();
            copy.send("1\n2\n").unwrap();
            assert_eq!(copy.finish().unwrap(), 2);
        }
        proxy.cut_after(b"COMMIT");
        let answer = transaction.commit("SELECT 1").unwrap();
        assert!(matches!(answer, Committed::Unknown(_)), "{answer:?}");
        assert_eq!((database.psql("SELECT pg_catalog.count(*) FROM public.t"), proxy.cuts()), ("4".to_owned(), 1));
    }
}

#[test]
fn a_connection_that_breaks_within_a_copy_leaves_no_row() {
    let database = Server::shared(Version::V15).database();
    database.psql("CREATE TABLE public.t (i int)");
    let proxy = Proxy::start(database.server().port());
    let mut session = open(&proxy.url(&database));
    let mut transaction = session.write(&Limits::default()).unwrap();
    proxy.cut_before(b"\n2\n");
    let mut copy = transaction.copy_in("COPY public.t FROM STDIN").unwrap();
    let sent = copy.send("1\n2\n").and_then(|()| copy.finish());
    assert!(sent.unwrap_err().is_passing());
    drop(transaction);
    assert_eq!((database.psql("SELECT pg_catalog.count(*) FROM public.t"), proxy.cuts()), ("0".to_owned(), 1));
}
