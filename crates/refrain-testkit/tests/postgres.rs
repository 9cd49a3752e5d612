//! PostgreSQL servers, the pooler and the proxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use refrain_testkit::freeze::{is_alive, wait_for, wait_for_some};
use refrain_testkit::postgres::{Database, PgBouncer, Proxy, Server, Version};
use refrain_testkit::program::{Output, Running};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A command that runs `sql` as one simple query at `url`.
fn psql(url: &str, sql: &str) -> Command {
    let mut psql = Command::new(Version::V15.programs().join("psql"));
    psql.env_clear().args(["-X", "-q", "-At", "-d", url, "-c", sql]);
    psql
}

fn query(url: &str, sql: &str) -> Output {
    Output::of(&mut psql(url, sql), b"")
}

fn table() -> Database {
    let database = Server::shared(Version::V15).database();
    database.psql("CREATE TABLE t (a int)");
    database
}

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
        assert!(fs::read_to_string(server.log()).unwrap().contains("SELECT a, 'x' FROM t"));
    }
}

#[test]
fn a_killed_server_starts_again_with_what_was_committed() {
    for version in Version::ALL {
        let server = Server::start(version);
        let database = server.database();
        database.psql("CREATE TABLE t (a int); INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2); ROLLBACK");
        let client = Running::start(&mut psql(&database.url(), "SELECT 'asleep', pg_sleep(600)"), b"");
        let main = server.pid();
        let is_asleep = || database.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1";
        wait_for("a statement runs", is_asleep);
        server.kill();
        client.wait().expect_code(2);
        assert!(!is_alive(main));
        assert!(database.try_psql("SELECT 1").is_err());
        server.restart();
        assert_eq!(database.psql("SELECT a FROM t"), "1");
        server.restart();
        assert_eq!(database.psql("SELECT a FROM t"), "1");
    }
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = std::thread::spawn(|| Server::start(Version::V15)).join().unwrap();
    assert_eq!(server.maintenance().psql("SELECT 1"), "1");
}

#[test]
fn a_server_ends_with_the_process_that_started_it() {
    const FILE: &str = "REFRAIN_TEST_SERVER_FILE";
    if let Some(file) = std::env::var_os(FILE) {
        let server = Server::shared(Version::V15);
        let text = format!("{}\n{}\n", server.pid(), server.socket_directory().display());
        fs::write(&file, text).unwrap();
        std::thread::park();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server");
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "a_server_ends_with_the_process_that_started_it"]).env(FILE, &file);
    let other = Running::start(&mut other, b"");
    let read = || fs::read_to_string(&file).ok().filter(|text| text.lines().count() == 2);
    let text = wait_for_some("the other process has a server", read);
    let (pid, path) = text.trim_end().split_once('\n').unwrap();
    let pid = pid.parse().unwrap();
    assert!(is_alive(pid));
    drop(other);
    wait_for("the server is gone", || !is_alive(pid));
    let next = Server::start(Version::V15);
    assert!(!Path::new(path).exists(), "the next server clears away what it left");
    drop(next);
}

#[test]
fn a_server_takes_settings_and_access_rules() {
    let server = Server::with(Version::V15, &[("work_mem", "5MB")], &["host all guest all reject"]);
    let database = server.database();
    assert_eq!(database.psql("CREATE ROLE guest LOGIN; SHOW work_mem"), "5MB");
    query(&database.url(), "SELECT 1").success();
    query(&database.url_as("guest"), "SELECT 1").expect_code(2).says("pg_hba.conf rejects connection");
}

#[test]
fn a_standby_follows_its_primary() {
    for version in Version::ALL {
        let primary = Server::start(version);
        let standby = primary.standby(&[("recovery_min_apply_delay", "1ms")]);
        primary.maintenance().psql("CREATE TABLE t (a int); INSERT INTO t VALUES (7)");
        let follower = standby.maintenance();
        wait_for("the standby has the row", || follower.try_psql("SELECT a FROM t").is_ok_and(|rows| rows == "7"));
        assert_eq!(follower.psql("SELECT pg_is_in_recovery()"), "t");
        let identity = |database: &Database| database.psql("SELECT system_identifier FROM pg_control_system()");
        assert_eq!(identity(&follower), identity(&primary.maintenance()));
        assert_ne!(identity(&follower), identity(&Server::shared(version).maintenance()));
    }
}

#[test]
fn a_pooler_serves_transactions_of_every_role() {
    for version in Version::ALL {
        let database = Server::shared(version).database();
        database.psql("CREATE ROLE guest LOGIN");
        let pooler = PgBouncer::with(&database, &[("default_pool_size", "1")]);
        let who = "SELECT current_user, current_database()";
        let expected = format!("guest|{}\n", database.name());
        assert_eq!(query(&pooler.url_as("guest"), who).success().stdout, expected);
        // One connection serves two clients that stay, which no other mode does.
        let mut client = psql(&pooler.url(), "SELECT 1");
        client.args(["-c", &format!("\\! {}", shell(&psql(&pooler.url(), "SELECT 2")))]);
        assert_eq!(Output::of(&mut client, b"").success().stdout, "1\n2\n");
    }
}

/// The command as a line for the shell.
fn shell(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.display())).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_proxy_cuts_before_the_server_gets_a_message() {
    let database = table();
    let proxy = Proxy::start(database.server().port());
    proxy.cut_before(b"INSERT");
    query(&proxy.url(&database), "INSERT INTO t VALUES (1)").expect_code(2);
    assert_eq!((database.psql("SELECT count(*) FROM t"), proxy.cuts()), ("0".to_owned(), 1));
    query(&proxy.url(&database), "INSERT INTO t VALUES (2)").success();
    assert_eq!(database.psql("SELECT a FROM t"), "2");
}

#[test]
fn a_proxy_cuts_after_the_server_has_answered_a_message() {
    let database = table();
    let proxy = Proxy::start(database.server().port());
    let mut client = psql(&proxy.url(&database), "BEGIN");
    client.args(["-c", "INSERT INTO t VALUES (1) RETURNING a", "-c", "COMMIT", "-c", "SELECT 'never'"]);
    proxy.cut_after(b"COMMIT");
    let output = Output::of(&mut client, b"").expect_code(2);
    // What was answered before has arrived.
    assert_eq!(output.stdout, "1\n");
    assert_eq!((database.psql("SELECT a FROM t"), proxy.cuts()), ("1".to_owned(), 1));
    assert!(proxy.requests() >= 3);
}

#[test]
fn a_proxy_holds_a_message_which_outlives_its_client() {
    let database = table();
    let proxy = Proxy::start(database.server().port());
    proxy.hold(b"INSERT");
    let client = Running::start(&mut psql(&proxy.url(&database), "INSERT INTO t VALUES (1)"), b"");
    wait_for("the message is held", || proxy.held() == 1);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    drop(client);
    proxy.release();
    wait_for("the message has arrived", || database.psql("SELECT count(*) FROM t") == "1");
}

#[test]
fn a_proxy_in_front_of_a_pooler_cuts_everything() {
    let database = table();
    let pooler = PgBouncer::start(&database);
    let proxy = Proxy::start(pooler.port());
    let url = proxy.url(&database);
    let client = Running::start(&mut psql(&url, "SELECT pg_sleep(600)"), b"");
    let is_asleep = || database.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1";
    wait_for("a statement runs", is_asleep);
    proxy.cut_all();
    client.wait().expect_code(2);
    assert_eq!((query(&url, "SELECT 3").success().stdout, proxy.connections()), ("3\n".to_owned(), 2));
}
