//! COPY: bounded memory, and what goes wrong.

use crate::support::{one, open};
use refrain_postgres::Limits;
use refrain_testkit::postgres::{Proxy, Server, Version};
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_copy_waits_for_a_server_that_does_not_read() {
    let database = Server::shared(Version::V15).database();
    database.psql("CREATE TABLE public.t (a text)");
    let proxy = Proxy::start(database.server().port());
    let mut session = open(&proxy.url(&database));
    let mut transaction = session.write(&Limits { statement: None, ..Limits::default() }).unwrap();
    // The proxy takes nothing any more once this row went by.
    proxy.hold(b"the last row that goes by");
    let mut copy = transaction.copy_in("COPY public.t FROM STDIN").unwrap();
    copy.send(format!("{}the last row that goes by\n", "x".repeat(70_000))).unwrap();
    refrain_testkit::freeze::wait_for("the row at the proxy", || proxy.held() == 1);
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for _ in 0..3000 {
                copy.send("y".repeat(99_999) + "\n").unwrap();
                sent.fetch_add(100_000, Ordering::SeqCst);
            }
            copy.finish().unwrap()
        });
        // What is on its way fills the buffers of the sockets and stays there.
        let mut before = u64::MAX;
        refrain_testkit::freeze::wait_for("the sender to stand still", || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            std::mem::replace(&mut before, sent.load(Ordering::SeqCst)) == before && before > 0
        });
        assert!(before < 64_000_000, "{before} bytes were taken though nobody reads");
        proxy.release();
        assert_eq!(sender.join().unwrap(), 3001);
    });
    let Ok(committed) = transaction.commit("SELECT pg_catalog.count(*)::text FROM public.t") else {
        panic!("committed")
    };
    assert!(matches!(committed, refrain_postgres::Committed::Yes(rows) if rows[0][0].as_deref() == Some("3001")));
}

#[test]
fn a_bad_row_is_told_and_the_session_goes_on() {
    for version in Version::ALL {
        let database = Server::shared(version).database();
        database.psql("CREATE TABLE public.t (i int)");
        let mut session = open(&database.url());
        let mut transaction = session.write(&Limits::default()).unwrap();
        let mut copy = transaction.copy_in("COPY public.t FROM STDIN").unwrap();
        copy.send("1\nx\n3\n").unwrap();
        let fault = copy.finish().unwrap_err();
        let refrain_postgres::Fault::Refused(refusal) = &fault else { panic!("{fault}") };
        assert!(refusal.context.as_deref().unwrap().contains("line 2"), "{refusal:?}");
        drop(transaction);
        // A copy that is dropped copies nothing.
        let mut transaction = session.write(&Limits::default()).unwrap();
        let mut copy = transaction.copy_in("COPY public.t FROM STDIN").unwrap();
        copy.send("1\n").unwrap();
        drop(copy);
        drop(transaction);
        assert_eq!(one(&mut session, "SELECT count(*)::text FROM public.t"), "0");
    }
}
