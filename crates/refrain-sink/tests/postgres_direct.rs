//! Tasks that write into the staging table themselves, on real servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

#[path = "support/tables.rs"]
mod tables;

use refrain_core::{ErrorKind, Open, Result, SealedData, Sink, Staging, StagingId};
use refrain_sink::postgres::{Manner, Mode, Source};
use refrain_testkit::postgres::Database;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use tables::{Attempt, Tables, equals, fails, manner, on_each, until};

const DELAYS: &str = "CREATE TABLE delays (dt date, carrier text, minutes int NOT NULL, id serial)";
const DAY: &str = "SELECT carrier, minutes FROM delays WHERE dt = '2025-03-24' ORDER BY 1, 2";

fn daily() -> Manner {
    let mut manner = manner(Mode::Replace, "delays");
    manner.scope = vec![equals("dt", "2025-03-24")];
    manner.source = Source::Direct;
    manner
}

/// A `psql` that the test speaks to, one statement after the other.
struct Psql {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Psql {
    fn start(database: &Database, name: &str) -> Self {
        let url = format!("{}?application_name={name}", database.url());
        let mut child = Command::new(database.server().version().programs().join("psql"))
            .args(["-X", "-q", "-At", "--dbname", &url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// Returns the one line that the statements print.
    fn says(&mut self, sql: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{sql}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn stage(attempt: &Attempt) -> Staging<Open> {
    attempt.claim();
    let slots = attempt.run.slots().cloned().collect();
    let id = StagingId { holder: attempt.holder, generation: attempt.run.generation, slots };
    attempt.sink.stage(&attempt.slot, Some(&attempt.manner.write().unwrap()), &id).unwrap()
}

fn seal(attempt: &Attempt, staging: Staging<Open>) -> Result<SealedData> {
    Ok(attempt.sink.seal(staging, &attempt.guards)?.into_data().unwrap())
}

#[test]
fn what_the_task_writes_is_published_and_it_may_begin_anew() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let rows = "INSERT INTO STAGE (carrier, minutes) VALUES ('XX', 1); TRUNCATE STAGE; \
                    INSERT INTO STAGE (carrier, minutes) VALUES ('AA', 3), ('UA', 5); DELETE FROM STAGE WHERE carrier = 'XX'";
        tables.publish(&daily(), 1, rows).unwrap();
        assert_eq!(tables.psql(DAY), "AA|3\nUA|5");
    });
}

#[test]
fn a_staging_table_that_is_not_what_was_made_is_told_and_nothing_is_published() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        for (rows, said) in [
            ("DROP TABLE STAGE", "was dropped while the task ran"),
            // As pandas with if_exists="replace", and Spark with mode("overwrite").
            ("DROP TABLE STAGE; CREATE TABLE STAGE (LIKE delays)", "was dropped and created anew"),
            ("ALTER TABLE STAGE RENAME TO mine", "was renamed to \"refrain\".\"mine\""),
            ("ALTER TABLE STAGE SET SCHEMA public", "was renamed to \"public\""),
            ("ALTER TABLE STAGE ADD note text", "has the column \"note\""),
            ("ALTER TABLE STAGE DROP carrier", "lacks the column \"carrier\""),
            ("ALTER TABLE STAGE RENAME carrier TO carier", "is it \"carier\"?"),
            ("ALTER TABLE STAGE ALTER minutes TYPE text", "\"minutes\" is text in the staging table"),
            ("CREATE TABLE child () INHERITS (STAGE)", "given a parent or children"),
        ] {
            let why = fails(ErrorKind::Guard, tables.publish(&daily(), 1, rows));
            assert!(why.contains(said) && why.contains("append"), "{rows}: {why}");
            tables.psql("DROP TABLE IF EXISTS child");
            assert_eq!(tables.psql("SELECT count(*) FROM delays"), "0", "{rows}");
        }
        for (rows, said) in [
            (
                "INSERT INTO STAGE (carrier, minutes) VALUES ('AA', 1), ('UA', 2); UPDATE STAGE SET id = 1 WHERE minutes = 1",
                "has a value in 1 of 2 staged rows",
            ),
            (
                "ALTER TABLE STAGE ALTER minutes DROP NOT NULL; INSERT INTO STAGE (carrier) VALUES ('AA')",
                "\"minutes\" has no value in 1 of 1 staged row,",
            ),
            (
                "ALTER TABLE STAGE DROP CONSTRAINT refrain_scope; INSERT INTO STAGE VALUES ('2025-03-25', 'AA', 1), (NULL, 'UA', 1)",
                "2 of 2 staged rows are outside the scope",
            ),
            ("SELECT 1", "has no rows"),
        ] {
            let why = fails(ErrorKind::Guard, tables.publish(&daily(), 1, rows));
            assert!(why.contains(said), "{rows}: {why}");
            assert_eq!(tables.psql("SELECT count(*) FROM delays"), "0", "{rows}");
        }
    });
}

#[test]
fn pgx_11_a_staging_table_that_was_made_unlogged_is_refused() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let rows = "ALTER TABLE STAGE SET UNLOGGED; INSERT INTO STAGE (carrier, minutes) VALUES ('AA', 3)";
        let why = fails(ErrorKind::Guard, tables.publish(&daily(), 1, rows));
        assert!(why.contains("UNLOGGED") && why.contains("SET LOGGED"), "{why}");
        tables.publish(&daily(), 1, &format!("{rows}; ALTER TABLE STAGE SET LOGGED")).unwrap();
        assert_eq!(tables.psql(DAY), "AA|3");
    });
}

#[test]
fn proc_11_a_writer_that_the_task_left_behind_is_waited_for_and_after_the_seal_there_is_no_such_table() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let attempt = tables.attempt(&daily(), 1);
        let staging = stage(&attempt);
        let place = staging.place.clone();
        let mut writer = Psql::start(&tables.database, "left_behind");
        let insert = format!("INSERT INTO {place} (carrier, minutes) VALUES ('ZZ', 9)");
        assert_eq!(writer.says(&format!("BEGIN; {insert}; SELECT 'written';")), "written");
        let sealed = std::thread::scope(|scope| {
            let sealing = scope.spawn(|| seal(&attempt, staging));
            tables.until_somebody_waits();
            assert_eq!(writer.says("COMMIT; SELECT 'done';"), "done");
            sealing.join().unwrap().unwrap()
        });
        assert_eq!(sealed.rows, Some(1), "the rows that were waited for are counted");
        let late = tables.database.try_psql(&insert).unwrap_err();
        assert!(late.contains("does not exist"), "{late}");
    });
}

#[test]
fn pgx_14_a_writer_that_does_not_end_is_named_and_nothing_is_published() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let attempt = tables.attempt(&daily(), 1);
        let staging = stage(&attempt);
        let place = staging.place.clone();
        let mut writer = Psql::start(&tables.database, "left_behind");
        let insert = format!("INSERT INTO {place} (carrier, minutes) VALUES ('ZZ', 9)");
        let process = writer.says(&format!("BEGIN; {insert}; SELECT pg_backend_pid();"));
        // A transaction that was prepared, and that no session has any more.
        tables.psql(&format!("BEGIN; {insert}; PREPARE TRANSACTION 'left_too'"));
        let why = fails(ErrorKind::Guard, seal(&attempt, staging));
        for said in [&*process, "left_behind", "idle in transaction", "prepared transaction", "pg_terminate_backend"] {
            assert!(why.contains(said), "{said}: {why}");
        }
        tables.psql("ROLLBACK PREPARED 'left_too'");
        assert_eq!(writer.says("COMMIT; SELECT 'done';"), "done");
        assert_eq!(tables.psql("SELECT count(*) FROM delays"), "0");
    });
}

#[test]
fn data_04_a_table_that_is_altered_while_the_task_runs_is_told_and_the_next_attempt_has_a_fresh_staging() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let rows = "INSERT INTO STAGE (carrier, minutes) VALUES ('AA', 3)";
        let altered = format!("{rows}; ALTER TABLE delays ADD airport text");
        let why = fails(ErrorKind::Guard, tables.publish(&daily(), 1, &altered));
        assert!(why.contains("lacks the column \"airport\"") && why.contains("repeat the call"), "{why}");
        tables.publish(&daily(), 1, "INSERT INTO STAGE (carrier, minutes, airport) VALUES ('AA', 3, 'ORD')").unwrap();
        // After the seal: a column that rows may lack is none of theirs; one that they have and that is gone is.
        let attempt = tables.attempt(&daily(), 2);
        let request = attempt.prepare(&tables, rows).unwrap();
        tables.psql("ALTER TABLE delays ADD later text");
        attempt.commit(&request).unwrap();
        let attempt = tables.attempt(&daily(), 3);
        let request = attempt.prepare(&tables, rows).unwrap();
        tables.psql("ALTER TABLE delays RENAME minutes TO delay");
        let why = fails(ErrorKind::Guard, attempt.commit(&request));
        assert!(why.contains("its column \"minutes\" is gone") && why.contains("repeat the call"), "{why}");
        assert_eq!(tables.psql("SELECT dt, carrier, delay FROM delays"), "2025-03-24|AA|3");
    });
}

#[test]
fn pgs_10_a_staging_table_and_its_row_are_made_together() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let proxy = refrain_testkit::postgres::Proxy::start(tables.database.server().port());
        let attempt = tables.attempt_through(&proxy, &daily(), 1);
        attempt.claim();
        proxy.hold(b"INSERT INTO refrain.staging");
        let id = StagingId {
            holder: attempt.holder,
            generation: attempt.run.generation,
            slots: attempt.run.slots().cloned().collect(),
        };
        let manner = attempt.manner.write().unwrap();
        let made =
            "SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^stage_'), (SELECT count(*) FROM refrain.staging)";
        std::thread::scope(|scope| {
            let staging = scope.spawn(|| attempt.sink.stage(&attempt.slot, Some(&manner), &id));
            until(|| proxy.held() > 0 || staging.is_finished());
            // The table was created, and the row was not: that is seen by nobody, and a cut undoes it.
            assert_eq!(tables.psql(made), "0|0");
            proxy.cut_all();
            proxy.release();
            staging.join().unwrap().unwrap();
        });
        assert_eq!(tables.psql(made), "1|1", "the try after the cut");
    });
}
