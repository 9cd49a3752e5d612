//! What is said about a COMMIT is true: nothing that did not happen is a success, what cannot be known is unknown.

use crate::support::open;
use refrain_postgres::{Committed, Fault, Limits, Session};
use refrain_testkit::postgres::{Database, PgBouncer, Proxy, Server, Version};

/// What only the message of the COMMIT holds; `READ COMMITTED` is in that of BEGIN.
const AT_COMMIT: &[u8] = b"; COMMIT;";

const QUESTION: &str = "SELECT pg_catalog.count(*)::text FROM public.t";

fn fresh(version: Version) -> Database {
    let database = Server::shared(version).database();
    database.psql(
        "CREATE TABLE public.t (i int, u int UNIQUE DEFERRABLE INITIALLY DEFERRED);
         CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 / 0; RETURN NULL; END';
         CREATE TABLE public.failing (i int);
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON public.failing DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION public.fail()",
    );
    database
}

/// Every way to a server: direct, by the pooler, of both versions.
fn everywhere(test: impl Fn(&Database, &str)) {
    for version in Version::ALL {
        let database = fresh(version);
        test(&database, &database.url());
        database.psql("TRUNCATE public.t");
        let pooler = PgBouncer::start(&database);
        test(&database, &pooler.url());
    }
}

fn insert_and_commit(session: &mut Session, values: &str, question: &str) -> Result<Committed, Fault> {
    let mut transaction = session.write(&Limits::default()).unwrap();
    transaction.execute(&format!("INSERT INTO public.t VALUES {values}"), &[]).unwrap();
    transaction.commit(question)
}

#[test]
fn pgx_02_a_commit_of_an_aborted_transaction_is_an_error() {
    everywhere(|database, url| {
        let mut session = open(url);
        let mut transaction = session.write(&Limits::default()).unwrap();
        transaction.execute("INSERT INTO public.t VALUES (1, 1)", &[]).unwrap();
        transaction.query("SELECT 1 / 0", &[]).unwrap_err();
        let fault = transaction.commit(QUESTION).unwrap_err();
        assert_eq!(fault.code(), Some("25P02"), "{fault}");
        assert_eq!(database.psql(QUESTION), "0");
        // The session goes on.
        assert!(matches!(insert_and_commit(&mut session, "(2, 2)", QUESTION).unwrap(), Committed::Yes(rows)
            if rows == [[Some("1".to_owned())]]));
    });
}

#[test]
fn pgx_02_a_commit_without_a_transaction_is_an_error() {
    everywhere(|database, url| {
        for end in ["COMMIT", "ROLLBACK"] {
            let mut session = open(url);
            let mut transaction = session.write(&Limits::default()).unwrap();
            transaction.simple(end).unwrap();
            assert_eq!(transaction.commit(QUESTION).unwrap_err().code(), Some("25P01"));
        }
        assert_eq!(database.psql(QUESTION), "0");
    });
}

#[test]
fn pgx_02_what_fails_at_commit_is_definite() {
    everywhere(|database, url| {
        let mut session = open(url);
        let fault = insert_and_commit(&mut session, "(1, 1), (2, 1)", QUESTION).unwrap_err();
        assert_eq!(fault.code(), Some("23505"));
        let mut transaction = session.write(&Limits::default()).unwrap();
        transaction.execute("INSERT INTO public.failing VALUES (1)", &[]).unwrap();
        // A trigger may fail with any code.
        assert_eq!(transaction.commit(QUESTION).unwrap_err().code(), Some("22012"));
        assert_eq!(database.psql(&format!("{QUESTION} UNION ALL SELECT count(*)::text FROM failing")), "0\n0");
    });
}

#[test]
fn a_question_that_fails_after_the_commit_leaves_it_unknown() {
    everywhere(|database, url| {
        let answer = insert_and_commit(&mut open(url), "(1, 1)", "SELECT (1 / 0)::text").unwrap();
        assert!(matches!(&answer, Committed::Unknown(why) if why.contains("division by zero")), "{answer:?}");
        assert_eq!(database.psql(QUESTION), "1");
    });
}

#[test]
fn pgx_01_a_commit_whose_answer_is_lost_is_unknown() {
    for version in Version::ALL {
        let database = fresh(version);
        let pooler = PgBouncer::start(&database);
        for port in [database.server().port(), pooler.port()] {
            for (before, rows) in [(true, "0"), (false, "1")] {
                database.psql("TRUNCATE public.t");
                let proxy = Proxy::start(port);
                if before {
                    proxy.cut_before(AT_COMMIT);
                } else {
                    proxy.cut_after(AT_COMMIT);
                }
                let mut session = open(&proxy.url(&database));
                let answer = insert_and_commit(&mut session, "(1, 1)", QUESTION).unwrap();
                assert!(matches!(answer, Committed::Unknown(_)), "{answer:?}");
                refrain_testkit::freeze::wait_for("the cut to be counted", || proxy.cuts() == 1);
                assert_eq!(database.psql(QUESTION), rows);
                assert!(session.write(&Limits::default()).unwrap_err().is_passing());
            }
        }
    }
}

#[test]
fn pgx_01_a_server_or_a_backend_that_dies_at_commit_leaves_it_unknown() {
    let server = Server::start(Version::V18);
    let database = server.database();
    database.psql("CREATE TABLE public.t (i int, u int)");
    for kill in [true, false] {
        let proxy = Proxy::start(server.port());
        proxy.hold(AT_COMMIT);
        let mut session = open(&proxy.url(&database));
        let mut transaction = session.write(&Limits::default()).unwrap();
        let pid = transaction.query("SELECT pg_backend_pid()::text", &[]).unwrap()[0][0].clone().unwrap();
        transaction.execute("INSERT INTO public.t VALUES (1, 1)", &[]).unwrap();
        let answer = std::thread::scope(|scope| {
            let answer = scope.spawn(|| transaction.commit(QUESTION).unwrap());
            refrain_testkit::freeze::wait_for("the COMMIT at the proxy", || proxy.held() == 1);
            if kill {
                server.kill();
            } else {
                database.psql(&format!("SELECT pg_terminate_backend({pid})"));
            }
            proxy.release();
            answer.join().unwrap()
        });
        assert!(matches!(answer, Committed::Unknown(_)), "{answer:?}");
        if kill {
            server.restart();
        }
        assert_eq!(database.psql(QUESTION), "0");
    }
}
