//! SQL that fills the staging table, on real servers.

#[path = "support/tables.rs"]
mod tables;

use refrain_core::ErrorKind;
use refrain_postgres::Link;
use refrain_sink::PostgresSink;
use refrain_sink::postgres::{Manner, Mode, Parameters, Source};
use refrain_testkit::postgres::{PgBouncer, Proxy};
use std::sync::Arc;
use tables::{Tables, equals, fails, manner, on_each, until};

const DELAYS: &str = "CREATE TABLE delays (dt date, carrier text, minutes int NOT NULL); \
                      CREATE TABLE flights (carrier text, minutes int); \
                      INSERT INTO flights VALUES ('AA', 3), ('AA', 5), ('UA', 7)";

const FILL: &str = "INSERT INTO \"REFRAIN_STAGING\" (carrier, minutes) \
                    SELECT carrier, sum(minutes) FROM flights GROUP BY carrier";

const DAY: &str = "SELECT carrier, minutes FROM delays WHERE dt = '2025-03-24' ORDER BY 1";

fn daily(sql: &str) -> Manner {
    let values = [("date", "2025-03-24"), ("param_NAME", "O'Hare \\ 1"), ("mark", "it's")];
    let values: Parameters = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut manner = manner(Mode::Replace, "delays");
    manner.scope = vec![equals("dt", "2025-03-24")];
    manner.source = Source::Sql { file: "delays.sql".to_owned(), text: sql.to_owned(), values };
    manner
}

#[test]
fn the_rows_of_the_sql_are_published() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let sql = "-- :nothing; \"REFRAIN_STAGING\"\n\
                   CREATE TEMP TABLE best AS SELECT carrier, minutes FROM flights WHERE minutes > 3;\n\
                   INSERT INTO \"REFRAIN_STAGING\" SELECT :date::date, carrier || :'param_NAME', minutes FROM best;\n\
                   DO $$ BEGIN PERFORM 1; END $$;";
        tables.publish(&daily(sql), 1, "").unwrap();
        assert_eq!(tables.psql(DAY), "AAO'Hare \\ 1|5\nUAO'Hare \\ 1|7");
        tables.publish(&daily(FILL), 2, "").unwrap();
        assert_eq!(tables.psql(DAY), "AA|8\nUA|7");
        assert_eq!(tables.psql("SELECT count(*) FROM pg_class WHERE relname ~ '^(stage|sealed)_'"), "0");
    });
}

#[test]
fn what_the_sql_reads_is_one_moment() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        // Before the second statement another session adds a row, which neither statement sees.
        let sql = "INSERT INTO \"REFRAIN_STAGING\" (carrier, minutes) SELECT 'first', count(*) FROM flights;\n\
                   INSERT INTO \"REFRAIN_STAGING\" (carrier, minutes) SELECT :mark, count(*) FROM flights";
        let proxy = Proxy::start(tables.database.server().port());
        let attempt = tables.attempt_through(&proxy, &daily(sql), 1);
        // The value as it is bound: its text alone is in the declaration, which is sent before.
        proxy.hold(b"'it''s'");
        let request = std::thread::scope(|scope| {
            let sealing = scope.spawn(|| attempt.prepare(&tables, "SELECT 1").unwrap());
            until(|| proxy.held() > 0 || sealing.is_finished());
            tables.psql("INSERT INTO flights VALUES ('ZZ', 1)");
            proxy.release();
            sealing.join().unwrap()
        });
        attempt.commit(&request).unwrap();
        assert_eq!(tables.psql(DAY), "first|3\nit's|3");
        assert_eq!(tables.psql("SELECT count(*) FROM flights"), "4");
    });
}

#[test]
fn a_failure_names_file_line_and_column_and_publishes_nothing() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        for (sql, kind, said) in [
            (
                format!("{FILL};\n\nSELECT :date,\n  minuts FROM flights"),
                ErrorKind::Invalid,
                vec!["`delays.sql`, line 4, column 3", "minuts", "42703"],
            ),
            (
                format!("{FILL};\nSELECT 1 FROM \"REFRAIN_STAGING\" WHERE\n 1 = = 2"),
                ErrorKind::Invalid,
                vec!["`delays.sql`, line 3, column 6"],
            ),
            (
                format!("{FILL};\n\n  SELECT minutes / 0 FROM flights"),
                ErrorKind::Guard,
                vec!["`delays.sql`, in the statement of line 3", "division by zero"],
            ),
            (
                "INSERT INTO \"REFRAIN_STAGING\" (dt, minutes) VALUES ('2025-03-25', 1)".to_owned(),
                ErrorKind::Guard,
                vec!["line 1", "refrain_scope"],
            ),
            (
                format!(
                    "{FILL};\nDO $$ BEGIN\n  RAISE EXCEPTION 'too few flights' USING HINT = 'ask the airport';\nEND $$"
                ),
                ErrorKind::Guard,
                vec!["line 2", "too few flights", "line 2 at RAISE", "ask the airport"],
            ),
            (format!("{FILL};\nCOMMIT"), ErrorKind::Invalid, vec!["`delays.sql`", "line 2", "COMMIT"]),
            (format!("{FILL};\nSELECT :dat"), ErrorKind::Invalid, vec!["line 2, column 8", "`:dat`", "`:date`"]),
        ] {
            let why = fails(kind, tables.publish(&daily(&sql), 1, ""));
            for said in said {
                assert!(why.contains(said), "{sql}\n{why}");
            }
            assert_eq!(tables.psql("SELECT count(*) FROM delays"), "0", "{sql}");
        }
    });
}

#[test]
fn pgx_02_no_failure_of_a_statement_is_swallowed() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        // The failure is caught by the script itself: it is none, and what the block did is undone.
        let caught = format!(
            "{FILL};\nDO $$ BEGIN INSERT INTO \"REFRAIN_STAGING\" (minutes) VALUES (NULL); EXCEPTION WHEN OTHERS THEN NULL; END $$"
        );
        // Within a string it is no name of the staging table: the block fails, and is caught.
        tables.publish(&daily(&caught), 1, "").unwrap();
        assert_eq!(tables.psql(DAY), "AA|8\nUA|7");
        // A block or a procedure cannot end the transaction.
        tables.psql("CREATE PROCEDURE ends() LANGUAGE plpgsql AS 'BEGIN COMMIT; END'");
        for ending in ["CALL ends()", "DO 'BEGIN ROLLBACK; END'", "DO 'BEGIN EXECUTE ''COMMIT''; END'"] {
            let sql = format!("{FILL};\n{ending};\nDELETE FROM \"REFRAIN_STAGING\" WHERE carrier = 'AA'");
            let error = tables.publish(&daily(&sql), 2, "").unwrap_err();
            assert!(error.message.contains("`delays.sql`") && error.message.contains("line 2"), "{ending}: {error}");
            assert_eq!(tables.psql(DAY), "AA|8\nUA|7", "{ending}");
        }
        // A savepoint of its own is no end.
        let sql = format!("SAVEPOINT a; DELETE FROM flights; ROLLBACK TO a; RELEASE a;\n{FILL} HAVING carrier = 'UA'");
        tables.publish(&daily(&sql), 2, "").unwrap();
        assert_eq!(tables.psql(DAY), "UA|7");
    });
}

#[test]
fn pgx_01_a_lost_answer_of_the_seal_is_found_out() {
    on_each(|version| {
        for is_done in [true, false] {
            let tables = Tables::new(version, DELAYS);
            let proxy = Proxy::start(tables.database.server().port());
            let attempt = tables.attempt_through(&proxy, &daily(&format!("{FILL} HAVING :mark <> ''")), 1);
            proxy.hold(b"'it''s'");
            let request = std::thread::scope(|scope| {
                let sealing = scope.spawn(|| attempt.prepare(&tables, "SELECT 1").unwrap());
                until(|| proxy.held() > 0 || sealing.is_finished());
                // The next COMMIT is that of the seal.
                let commit = b"SAVEPOINT refrain_commit";
                if is_done {
                    proxy.cut_after(commit);
                } else {
                    proxy.cut_before(commit);
                }
                proxy.release();
                sealing.join().unwrap()
            });
            assert_eq!(proxy.cuts(), 1);
            attempt.commit(&request).unwrap();
            assert_eq!(tables.psql(DAY), "AA|8\nUA|7");
        }
    });
}

#[test]
fn pgs_07_names_are_those_of_the_role_and_the_staging_table_is_one_whatever_else_has_its_name() {
    on_each(|version| {
        let tables = Tables::of(
            version,
            &format!(
                "{DELAYS}; DROP ROLE IF EXISTS reporter; CREATE ROLE reporter LOGIN SUPERUSER; \
                 CREATE SCHEMA mart; CREATE TABLE mart.flights (carrier text, minutes int); \
                 INSERT INTO mart.flights VALUES ('MM', 1); ALTER ROLE reporter SET search_path = mart, public"
            ),
            "reporter",
        );
        // Unqualified names as with psql; a temporary table of the target's name, or of the staging table's in small letters.
        let sql = "CREATE TEMP TABLE delays (minutes int); CREATE TEMP TABLE refrain_staging (minutes int);\n\
                   INSERT INTO refrain_staging VALUES (9); INSERT INTO delays VALUES (9);\n\
                   SET search_path = pg_temp; SET ROLE reporter; SET statement_timeout = '1h';\n\
                   INSERT INTO \"REFRAIN_STAGING\" (carrier, minutes) SELECT carrier, minutes FROM mart.flights";
        tables.publish(&daily(sql), 1, "").unwrap();
        assert_eq!(tables.psql(DAY), "MM|1");
        tables.publish(&daily(FILL), 2, "").unwrap();
        assert_eq!(tables.psql(DAY), "MM|1", "the role's own search path");
        let own = "CREATE TEMP TABLE \"REFRAIN_STAGING\" (minutes int)";
        let why = fails(ErrorKind::Invalid, tables.publish(&daily(own), 3, ""));
        assert!(why.contains("temporary"), "{why}");
        // To write into the table itself is no publication.
        for write in ["INSERT INTO public.delays VALUES ('2025-03-24', 'XX', 1)", "TRUNCATE public.delays"] {
            let why = fails(ErrorKind::Guard, tables.publish(&daily(&format!("{FILL}; {write}")), 3, ""));
            assert!(why.contains("delays itself"), "{write}: {why}");
            assert_eq!(tables.psql(DAY), "MM|1");
        }
        // Reading it is.
        let reads = "INSERT INTO \"REFRAIN_STAGING\" SELECT dt, carrier, minutes + 1 FROM public.delays";
        tables.publish(&daily(reads), 3, "").unwrap();
        assert_eq!(tables.psql(DAY), "MM|2");
        tables.psql("DROP OWNED BY reporter");
    });
}

#[test]
fn pgx_13_nothing_of_the_sql_stays_in_a_session_of_the_pooler() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let pooler = PgBouncer::with(&tables.database, &[("default_pool_size", "1")]);
        let state = tempfile::tempdir().unwrap();
        let link = Link::parse(&pooler.url()).unwrap();
        let through = || PostgresSink::new([link.clone()], state.path(), Arc::new(refrain_core::NoProbe));
        let leaves = "SET search_path = pg_temp; SET statement_timeout = 1; SET extra_float_digits = 0;\n\
                      SET statement_timeout = 0; CREATE TEMP TABLE left_over (x int); SELECT pg_advisory_lock(4711);\n\
                      LISTEN left_over; DECLARE left_over CURSOR WITH HOLD FOR SELECT 1; SET ROLE pg_monitor; RESET ROLE";
        for (generation, tail) in [(1, ""), (2, ";\nSELECT 1 / 0")] {
            let sql = format!("{FILL};\n{leaves}{tail}");
            let sql = sql.replace("FROM flights", "FROM public.flights");
            let mut attempt = tables.attempt(&daily(&sql), generation);
            attempt.sink = through();
            match attempt.prepare(&tables, "SELECT 1") {
                Ok(request) => attempt.commit(&request).unwrap(),
                Err(error) => assert!(error.message.contains("division by zero"), "{error}"),
            }
            let left = "SELECT concat_ws(',', current_setting('search_path'), current_setting('statement_timeout'), \
                        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), \
                        (SELECT count(*) FROM pg_cursors WHERE is_holdable), (SELECT count(*) FROM pg_listening_channels()), \
                        (SELECT count(*) FROM pg_class WHERE relname = 'left_over'), current_user)";
            let mut session = refrain_postgres::Session::open(&link, "looks").unwrap();
            let mut look = session.write(&refrain_postgres::Limits::default()).unwrap();
            look.simple("SET LOCAL search_path TO DEFAULT; SET LOCAL statement_timeout TO DEFAULT").unwrap();
            let found = look.query(left, &[]).unwrap().concat().into_iter().flatten().collect::<String>();
            assert_eq!(found, "\"$user\", public,0,0,0,0,0,postgres", "{tail}");
        }
        assert_eq!(tables.psql(DAY), "AA|8\nUA|7");
    });
}
