//! A server that accepts what it is sent, and never answers.

use crate::support::{link, one, open};
use refrain_postgres::{Committed, Fault, Limits, Session};
use refrain_testkit::freeze::wait_for;
use refrain_testkit::postgres::{Database, Proxy, Server, Version};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(300);

fn behind_a_proxy() -> (Database, Proxy, Session) {
    let database = Server::shared(Version::V15).database();
    let proxy = Proxy::start(database.server().port());
    let mut session = Session::open(&link(&proxy.url(&database)), "a test").unwrap();
    session.be_patient_for(Some(PATIENCE));
    (database, proxy, session)
}

#[test]
fn a_question_without_an_answer_is_a_lost_connection_which_is_closed() {
    for held in ["BEGIN", "SELECT 4711", "ROLLBACK"] {
        let (database, proxy, mut session) = behind_a_proxy();
        proxy.hold(held.as_bytes());
        let fault = match session.write(&Limits::default()) {
            Err(fault) => fault,
            Ok(mut transaction) => match transaction.query("SELECT 4711::text", &[]) {
                Err(fault) => fault,
                Ok(_) => transaction.roll_back().unwrap_err(),
            },
        };
        assert!(matches!(&fault, Fault::Lost(why) if why.contains("has not answered")), "{held}: {fault}");
        assert!(fault.is_passing() && session.is_closed(), "{held}");
        // The server is told by the end of the connection.
        proxy.release();
        wait_for("the session has ended", || {
            database.psql(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a test' AND datname = \
                           current_database()",
            ) == "0"
        });
    }
}

#[test]
fn pgx_01_a_commit_without_an_answer_is_unknown() {
    let (database, proxy, mut session) = behind_a_proxy();
    database.psql("CREATE TABLE public.t (i int)");
    let mut transaction = session.write(&Limits::default()).unwrap();
    transaction.execute("INSERT INTO public.t VALUES (1)", &[]).unwrap();
    proxy.hold(b"; COMMIT;");
    let answer = transaction.commit("SELECT 'proved'").unwrap();
    assert!(matches!(&answer, Committed::Unknown(why) if why.contains("has not answered")), "{answer:?}");
    assert!(session.is_closed());
    proxy.release();
    // What was on its way may arrive all the same.
    wait_for("it is settled", || {
        database.psql(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a test' AND datname = \
                       current_database()",
        ) == "0"
    });
    let mut after = open(&database.url());
    assert!(matches!(one(&mut after, "SELECT count(*)::text FROM public.t").as_str(), "0" | "1"));
}

#[test]
fn a_transaction_that_is_dropped_is_over_before_the_next_one_and_asks_nothing() {
    let (_database, proxy, mut session) = behind_a_proxy();
    session.be_patient_for(None);
    for _ in 0..100 {
        let mut transaction = session.write(&Limits::default()).unwrap();
        transaction.simple("CREATE TABLE public.gone (i int)").unwrap();
    }
    assert_eq!(one(&mut session, "SELECT (to_regclass('public.gone') IS NULL)::text"), "true");
    drop(proxy);
}
