//! Who may make a store, where it may be, and what is shown of it.

use crate::call::NOTHING;
use crate::scene::Shared;
use refrain_testkit::freeze::wait_for;
use refrain_testkit::postgres::{Server, Version};

const DAY: [&str; 4] = ["run", "day", "--date", "2025-03-01"];

#[test]
fn a_role_that_may_make_nothing_is_told_the_sql_and_works_once_it_was_run() {
    let shared = Shared::new();
    shared.sql("CREATE ROLE \"Etl\" LOGIN");
    let home = shared.home(&shared.database.url_as("Etl"), "60s", "");
    let refused = home.run(DAY).expect_code(125);
    assert!(refused.stderr.contains("`Etl`") && refused.stderr.contains(NOTHING), "{refused}");
    assert!(refused.stderr.contains("refrain store sql Etl | psql "), "{refused}");
    assert!(refused.stderr.lines().count() <= 4, "no more than can be read\n{refused}");
    let sql = home.run(["store", "sql", "Etl"]).success().stdout;
    // What the administrator runs may be run twice.
    shared.sql(&sql);
    shared.sql(&sql);
    home.run(DAY).success().says("published");
    home.run(DAY).success().says("already published");
    shared.sql("REVOKE UPDATE ON refrain.key FROM \"Etl\"");
    home.run(["run", "day", "--date", "2025-03-02"]).expect_code(125).says("permission denied").says("GRANT");
    shared.sql("DROP OWNED BY \"Etl\"; DROP ROLE \"Etl\"");
}

#[test]
fn tables_of_others_in_the_schema_are_told_and_left_alone() {
    for theirs in ["CREATE TABLE refrain.store (name text)", "CREATE TABLE refrain.key (id int)"] {
        let shared = Shared::new();
        shared.sql(&format!("CREATE SCHEMA refrain; {theirs}"));
        let home = shared.home(&shared.url(), "60s", "");
        let told = home.run(DAY).expect_code(125).says("a table that is none of a state store").says("CREATE DATABASE");
        assert!(told.stderr.trim_end().ends_with(NOTHING), "{told}");
        assert_eq!(shared.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'refrain'"), "1");
    }
}

#[test]
fn the_scheme_of_a_url_is_read_in_any_case() {
    let shared = Shared::new();
    let home = shared.home(&shared.url().replace("postgresql://", "PostgreSQL://"), "60s", "");
    home.run(DAY).success().says("published");
}

#[test]
fn names_and_values_are_read_as_libpq_reads_them() {
    let shared = Shared::new();
    let (server, name) = (shared.database.server(), shared.database.name());
    let text = format!("host=127.0.0.1 port={} dbname={name} user=postgres", server.port());
    let home = shared.home(&text, "60s", "");
    home.run(DAY).success().says("published");
    let shown = home.run(["config", "show"]).success().stdout;
    assert!(shown.contains(&format!("store = \"postgresql://127.0.0.1:{}/{name}\"", server.port())), "{shown}");
}

#[test]
fn pgx_16_a_standby_is_no_store() {
    let primary = Server::start(Version::V15);
    let shared = Shared::of(primary.database());
    let home = shared.home(&shared.database.url(), "60s", "");
    home.run(DAY).success();
    let standby = primary.standby(&[]);
    let url = shared.database.url().replace(&format!(":{}/", primary.port()), &format!(":{}/", standby.port()));
    let lagging = shared.home(&url, "60s", "");
    let refused = lagging.run(DAY).expect_code(125);
    assert!(refused.stderr.contains("standby") && refused.stderr.contains("primary"), "{refused}");
    assert_eq!(shared.executions(), 1);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let shared = Shared::new();
    let home = shared.home(&shared.url(), "60s", "");
    home.run(DAY).success();
    shared.sql("UPDATE refrain.store SET format = 99");
    home.run(["status"]).expect_code(125).says("format 99 is newer");
    assert_eq!(shared.sql("SELECT format FROM refrain.store"), "99");
}

#[test]
fn of_many_first_calls_one_makes_the_store() {
    let shared = Shared::new();
    let homes: Vec<_> = (0..8).map(|_| shared.home(&shared.url(), "60s", "")).collect();
    let dates: Vec<_> = (1..=8).map(|day| format!("2025-03-0{day}")).collect();
    let calls: Vec<_> =
        homes.iter().zip(&dates).map(|(home, date)| home.spawn(["run", "day", "--date", date])).collect();
    for call in calls {
        call.wait().success();
    }
    assert_eq!(shared.sql("SELECT count(*) FROM refrain.store"), "1");
    assert_eq!(shared.executions(), 8);
    shared.has_no_leftover();
}

#[test]
fn the_password_is_not_shown() {
    let shared = Shared::new();
    shared.sql("CREATE ROLE careful LOGIN SUPERUSER PASSWORD 'hush-hush'");
    let url = shared.database.url_as("careful").replace("careful@", "careful:hush-hush@");
    let home = shared.home(&url, "60s", "");
    home.run(DAY).success();
    let sets: [&[&str]; 5] = [&["config", "show"], &["stores"], &["store", "show"], &["-vv", "status"], &["log"]];
    for arguments in sets {
        let output = home.run(arguments).success();
        assert!(!output.stdout.contains("hush") && !output.stderr.contains("hush"), "{output}");
    }
    let shown = home.run(["config", "show"]).stdout;
    assert!(
        shown.contains(&format!("store = \"postgresql://127.0.0.1:{}/", shared.database.server().port())),
        "{shown}"
    );
    let stores = home.run(["stores"]).stdout;
    assert!(
        stores.lines().any(|line| line.trim_start().starts_with("postgresql") && line.contains("many")),
        "{stores}"
    );
    shared.sql("UPDATE refrain.store SET format = 99");
    let told = home.run(["status"]).expect_code(125);
    assert!(!told.stderr.contains("hush"), "{told}");
    wait_for("no session is left", || shared.sql(&crate::scene::sessions(&shared)) == "0");
    shared.sql("DROP OWNED BY careful; DROP ROLE careful");
}
