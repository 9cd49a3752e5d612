//! The tables, who makes them, and whether a database has them.

use super::fault::Fault;
use super::work::{Work, columns};
use refrain_core::{Error, ErrorKind};
use refrain_postgres::quote_identifier;

/// The stored format that this program reads and writes.
pub(super) const FORMAT: i64 = 2;

/// What brings a database from one format to the next; the first makes the tables.
///
/// `seq` counts leases, so that "newest" does not depend on the wall clock. The columns beside `record` repeat what
/// listings need of it. Rows of `key` are rewritten with every lease and renewal: room in their pages keeps that from
/// touching the index. `task` and `partition` are ordered by their bytes, as everywhere in Refrain.
const STEPS: [&str; 2] = [
    r#"
CREATE TABLE refrain.store (
    id smallint PRIMARY KEY CHECK (id = 1),
    format integer NOT NULL,
    store_id text,
    ancestors text,
    created_at text
);
CREATE TABLE refrain.key (
    task text COLLATE "C" NOT NULL,
    partition text COLLATE "C" NOT NULL,
    generation bigint,
    run text,
    leased boolean NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (task, partition)
) WITH (fillfactor = 70);
CREATE TABLE refrain.attempt (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempt text COLLATE "C" NOT NULL UNIQUE,
    task text COLLATE "C" NOT NULL,
    partition text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    run text COLLATE "C",
    generation bigint,
    process text NOT NULL,
    started_at text NOT NULL,
    settled boolean NOT NULL,
    ending text
) WITH (fillfactor = 80);
CREATE INDEX attempt_of_key ON refrain.attempt (task, partition, seq);
CREATE INDEX attempt_unsettled ON refrain.attempt (seq) WHERE NOT settled;
CREATE TABLE refrain.watermark (
    task text COLLATE "C" PRIMARY KEY,
    through text NOT NULL,
    ends_at text NOT NULL,
    token bigint NOT NULL,
    folded bigint NOT NULL
);
INSERT INTO refrain.store (id, format) VALUES (1, 1);
"#,
    r#"
CREATE TABLE IF NOT EXISTS refrain.home (
    digest text COLLATE "C" PRIMARY KEY,
    tasks text NOT NULL,
    place text NOT NULL,
    joined_at text NOT NULL
);
"#,
];

/// All tables.
pub(super) const TABLES: &str = "refrain.store, refrain.key, refrain.attempt, refrain.watermark, refrain.home";

/// The advisory lock under which tables are made and changed: `refrain` in ASCII.
const TURN: i64 = 0x0072_6566_7261_696e;

/// What a database administrator runs, so that `role` may use a store that it could not make itself.
pub(super) fn sql_for(role: &str) -> String {
    let role = quote_identifier(role);
    let tables = STEPS
        .concat()
        .replace("CREATE TABLE refrain", "CREATE TABLE IF NOT EXISTS refrain")
        .replace("CREATE INDEX ", "CREATE INDEX IF NOT EXISTS ")
        .replace("VALUES (1, 1);", "VALUES (1, 1) ON CONFLICT DO NOTHING;");
    format!(
        "BEGIN;\nCREATE SCHEMA IF NOT EXISTS refrain;{tables}UPDATE refrain.store SET format = {FORMAT} WHERE format < \
         {FORMAT};\nGRANT USAGE ON SCHEMA refrain TO {role};\nGRANT SELECT, INSERT, UPDATE, DELETE ON {TABLES} TO \
         {role};\nCOMMIT;"
    )
}

/// Makes what is missing, and brings what is there up to date. One at a time does it, whoever begins at the same moment.
///
/// # Crash safety
/// All of it or nothing, in the caller's transaction.
pub(super) fn prepare(work: &mut Work<'_>) -> Result<(), Fault> {
    work.simple(&format!("SELECT pg_catalog.pg_advisory_xact_lock({TURN})"))?;
    let facts = work.query(
        "SELECT (EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'refrain'))::text, \
         (EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE \
         n.nspname = 'refrain' AND c.relname = 'store'))::text, pg_catalog.current_setting('server_encoding')",
        &[],
    )?;
    let [schema, tables, encoding] = columns(facts);
    let is_there = |fact: Option<String>| fact.as_deref() == Some("true");
    if !is_there(schema) {
        work.simple("CREATE SCHEMA refrain")?;
    }
    let former = if is_there(tables) {
        // A table that was emptied is one in which nothing was begun.
        work.simple("INSERT INTO refrain.store (id, format) VALUES (1, 1) ON CONFLICT DO NOTHING")?;
        let [format] = columns(work.query("SELECT format::text FROM refrain.store", &[])?);
        known(format.as_deref())?
    } else {
        suits(encoding.as_deref().unwrap_or_default())?;
        0
    };
    let missing = usize::try_from(former).ok().and_then(|done| STEPS.get(done..)).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    for step in missing {
        work.simple(step)?;
    }
    work.change("UPDATE refrain.store SET format = $1::text::integer", &[Some(&FORMAT.to_string())])?;
    Ok(())
}

/// Whether every text can be stored in a database of this encoding.
fn suits(encoding: &str) -> Result<(), Fault> {
    if matches!(encoding, "UTF8" | "SQL_ASCII") {
        return Ok(());
    }
    Err(Error::invalid(format!("the database's encoding is {encoding}: a state store needs UTF8"))
        .hint("make another database: CREATE DATABASE refrain ENCODING 'UTF8' TEMPLATE template0")
        .into())
}

/// A stored format that this program can work with; one of an earlier program is brought up to date by [`prepare`].
pub(super) fn known(format: Option<&str>) -> Result<i64, Fault> {
    let Some(format) = format.and_then(|text| text.parse::<i64>().ok()) else { return Err(Fault::Absent) };
    if format <= FORMAT {
        return Ok(format);
    }
    let message = format!("state format {format} is newer than this refrain knows ({FORMAT})");
    Err(Error::new(ErrorKind::Unsupported, message).hint("use the refrain that wrote it, or a later one").into())
}
