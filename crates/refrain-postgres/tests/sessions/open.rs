//! Who is let in, and what is said when nobody is.

use crate::support::{link, link_with, one, open};
use refrain_core::{Error, ErrorKind};
use refrain_postgres::{Limits, Session};
use refrain_testkit::postgres::{Server, Version};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

#[track_caller]
fn refused(text: &str, variables: &[(&str, &str)], kind: ErrorKind, parts: &[&str]) -> Error {
    let fault = Session::open(&link_with(text, variables), "a test").expect_err(text);
    assert_eq!(fault.is_passing(), kind == ErrorKind::Unavailable, "{fault}");
    let error = fault.during("connect");
    let shown = format!("{error} | {}", error.hint.as_deref().expect("a hint"));
    assert_eq!(error.kind, kind, "{shown}");
    for part in parts {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!format!("{shown} {error:?}").contains("s3cret"), "{shown}");
    error
}

/// A server that asks a role `asked` for a password, lets `nobody` nowhere, and trusts others.
fn asking(version: Version) -> Server {
    let server =
        Server::with(version, &[], &["host all asked 127.0.0.1/32 scram-sha-256", "host all nobody all reject"]);
    server.maintenance().psql(
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE asked LOGIN PASSWORD 's3cret:x'; CREATE ROLE nobody LOGIN",
    );
    server
}

#[test]
fn a_password_is_found_where_libpq_finds_it_and_a_wrong_one_is_told_from_where() {
    for version in Version::ALL {
        let server = asking(version);
        let port = server.port();
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().to_str().unwrap();
        let file = home.path().join(".pgpass");
        let text = format!("postgresql://asked@127.0.0.1:{port}/postgres");
        let variables = [("HOME", directory)];
        refused(
            &text,
            &variables,
            ErrorKind::Invalid,
            &["asks for a password of the user `asked`", ".pgpass", "PGPASSWORD"],
        );

        std::fs::write(&file, format!("# mine\n127.0.0.1:{port}:*:asked:s3cret\\:x\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        refused(&text, &variables, ErrorKind::Invalid, &["was ignored", "0644", "chmod 0600"]);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut session = Session::open(&link_with(&text, &variables), "a test").unwrap();
        assert_eq!(one(&mut session, "SELECT current_user"), "asked");

        // What goes before the file.
        let wrong = [("HOME", directory), ("PGPASSWORD", "s3cret-wrong")];
        refused(
            &text,
            &wrong,
            ErrorKind::Invalid,
            &["`asked`", "`postgres`", &port.to_string(), "the password is of PGPASSWORD"],
        );
        let right = text.replace("asked@", "asked:s3cret%3Ax@");
        Session::open(&link_with(&right, &wrong), "a test").unwrap();
        let wrong = text.replace("asked@", "asked:s3cret@");
        refused(&wrong, &variables, ErrorKind::Invalid, &["the password is of the connection string"]);
        std::fs::write(&file, "*:*:*:*:s3cret-old\n").unwrap();
        refused(&text, &variables, ErrorKind::Invalid, &["`.pgpass`, line 1".trim_start_matches('`')]);
    }
}

#[test]
fn what_the_server_refuses_is_explained() {
    for version in Version::ALL {
        let server = asking(version);
        let port = server.port();
        let at = |user: &str, rest: &str| format!("postgresql://{user}@127.0.0.1:{port}/{rest}");
        refused(&at("postgres", "no_such_one"), &[], ErrorKind::Invalid, &["no_such_one", "createdb no_such_one"]);
        refused(&at("stranger", "postgres"), &[], ErrorKind::Invalid, &["stranger", "createuser stranger"]);
        refused(&at("nobody", "postgres"), &[], ErrorKind::Invalid, &["`nobody`", "pg_hba.conf", "pg_reload_conf"]);
        server
            .maintenance()
            .psql("CREATE DATABASE closed; REVOKE CONNECT ON DATABASE closed FROM public; CREATE ROLE guest LOGIN");
        refused(
            &at("guest", "closed"),
            &[],
            ErrorKind::Invalid,
            &["GRANT CONNECT ON DATABASE \"closed\" TO \"guest\""],
        );
        let require = at("postgres", "postgres?sslmode=require");
        refused(&require, &[], ErrorKind::Invalid, &["does not speak TLS", "sslmode=prefer"]);
        let binding = at("asked:s3cret%3Ax", "postgres?channel_binding=require");
        refused(&binding, &[], ErrorKind::Invalid, &["channel_binding"]);
    }
}

#[test]
fn what_cannot_be_reached_may_be_tried_again() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    // It listens and never answers.
    let silent = format!("postgresql://u@127.0.0.1:{port}/d?connect_timeout=1");
    refused(&silent, &[], ErrorKind::Unavailable, &["did not answer in time", "connect_timeout"]);
    drop(free);
    let closed = format!("postgresql://u@127.0.0.1:{port}/d");
    refused(&closed, &[], ErrorKind::Unavailable, &[&port.to_string(), "nobody listens there", "listen_addresses"]);
    refused(
        "postgresql://u@no-such-host.invalid/d",
        &[],
        ErrorKind::Unavailable,
        &["no-such-host.invalid", "not found"],
    );
    refused("host=/nonexistent user=u", &[], ErrorKind::Unavailable, &["/nonexistent/.s.PGSQL.5432", "no such socket"]);
    let both = format!("postgresql://u@127.0.0.1:{port},no-such-host.invalid/d");
    refused(&both, &[], ErrorKind::Unavailable, &["nobody listens there", "not found"]);
}

#[test]
fn a_server_that_starts_or_is_full_may_be_tried_again() {
    let server = Server::with(
        Version::V18,
        &[
            ("max_connections", "4"),
            ("superuser_reserved_connections", "1"),
            ("reserved_connections", "0"),
            ("max_wal_senders", "0"),
            ("wal_level", "minimal"),
        ],
        &[],
    );
    let database = server.database();
    database.psql("CREATE ROLE guest LOGIN");
    let url = database.url_as("guest");
    let _held: Vec<Session> = (0..3).map(|_| open(&url)).collect();
    refused(&url, &[], ErrorKind::Unavailable, &["max_connections"]);
}

#[test]
fn sockets_and_names_of_sessions() {
    let server = Server::shared(Version::V15);
    let directory = server.socket_directory().display();
    let link = link(&format!("host={directory} port={} user=postgres dbname=postgres sslmode=require", server.port()));
    let mut session = Session::open(&link, &"é".repeat(40)).unwrap();
    // The server shows other bytes than ASCII as question marks; 62 of them are 31 letters.
    assert_eq!(one(&mut session, "SELECT current_setting('application_name')").len() % 62, 0);
    let mut session = Session::open(&link, "refrain run 7").unwrap();
    assert_eq!(one(&mut session, "SELECT current_setting('application_name')"), "refrain run 7");
}

#[test]
fn pgx_16_of_several_hosts_the_primary_is_taken() {
    let primary = Server::start(Version::V15);
    let database = primary.database();
    database.psql("CREATE TABLE t (i int)");
    let standby = primary.standby(&[]);
    let (port, other) = (primary.port(), standby.port());
    let name = database.name();
    for hosts in
        [format!("127.0.0.1:{other},127.0.0.1:{port}"), format!("127.0.0.1:1,127.0.0.1:{other},127.0.0.1:{port}")]
    {
        for query in ["", "?target_session_attrs=any", "?load_balance_hosts=random"] {
            let mut session = open(&format!("postgresql://postgres@{hosts}/{name}{query}"));
            assert_eq!(one(&mut session, "SELECT pg_is_in_recovery()::text"), "false");
        }
    }
    let text = format!("postgresql://postgres@127.0.0.1:{other},127.0.0.1:1/postgres");
    refused(&text, &[], ErrorKind::Unavailable, &["it is a standby", "nobody listens"]);
    let mut alone = open(&format!("postgresql://postgres@127.0.0.1:{other}/postgres"));
    let error = alone.write(&Limits::default()).unwrap_err().during("publish");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("is a standby"), "{error}");
}

#[test]
fn sessions_work_inside_an_asynchronous_runtime() {
    let database = Server::shared(Version::V18).database();
    let url = database.url();
    for runtime in [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()] {
        let mut runtime = runtime;
        let runtime = runtime.build().unwrap();
        let url = url.clone();
        runtime.block_on(async move {
            let mut session = open(&url);
            assert_eq!(one(&mut session, "SELECT 'a'"), "a");
            let mut transaction = session.write(&Limits::default()).unwrap();
            transaction.simple("CREATE TEMPORARY TABLE t (a text)").unwrap();
            let mut copy = transaction.copy_in("COPY t FROM STDIN").unwrap();
            for _ in 0..1000 {
                copy.send(vec![b'x'; 999]).unwrap();
                copy.send("\n").unwrap();
            }
            assert_eq!(copy.finish().unwrap(), 1000);
        });
    }
}
