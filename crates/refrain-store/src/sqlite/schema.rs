//! The tables, and whether a file has them.

use super::fault::Fault;
use refrain_core::{Error, ErrorKind};
use rusqlite::{Connection, ErrorCode, Transaction};

/// The stored format that this program reads and writes.
pub(super) const FORMAT: i64 = 2;

/// The format before there were watermarks: it is brought up to date as it is opened.
const WITHOUT_WATERMARKS: i64 = 1;

/// `key.id` and `attempt.seq` are row ids: a record of a kilobyte fits a page there, while a table without row
/// ids would spill it into overflow pages and write three pages where one does. `seq` counts leases, so that
/// "newest" does not depend on the wall clock. The columns beside `record` repeat what listings need of it.
pub(super) const TABLES: &str = "
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    store_id TEXT NOT NULL,
    ancestors TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE TABLE key (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    partition TEXT NOT NULL,
    generation INTEGER,
    run TEXT,
    leased INTEGER NOT NULL,
    last_attempt INTEGER,
    record TEXT NOT NULL,
    UNIQUE (task, partition)
) STRICT;
CREATE TABLE attempt (
    seq INTEGER PRIMARY KEY,
    attempt TEXT NOT NULL UNIQUE,
    key INTEGER NOT NULL,
    token INTEGER NOT NULL,
    run TEXT,
    generation INTEGER,
    process TEXT NOT NULL,
    started_at TEXT NOT NULL,
    settled INTEGER NOT NULL,
    ending TEXT
) STRICT;
CREATE INDEX attempt_of_key ON attempt (key);
CREATE INDEX attempt_unsettled ON attempt (settled) WHERE settled = 0;
";

/// What format 2 added: a task's bound, and the token that a key without a row goes on above.
pub(super) const WATERMARKS: &str = "
CREATE TABLE watermark (
    task TEXT PRIMARY KEY,
    through TEXT NOT NULL,
    ends_at TEXT NOT NULL,
    token INTEGER NOT NULL,
    folded INTEGER NOT NULL
) STRICT;
";

/// Whether anything was ever created in this file.
pub(super) fn is_empty(connection: &Connection) -> Result<bool, Fault> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0)
}

/// Whether the file is a state of this format (true) or of an earlier one that [`migrate`] brings up to date.
pub(super) fn is_current(connection: &Connection) -> Result<bool, Fault> {
    let format = match connection.query_row("SELECT format FROM meta", [], |row| row.get::<_, i64>(0)) {
        Ok(format) => format,
        Err(rusqlite::Error::QueryReturnedNoRows) => return Err(Fault::NotAState),
        Err(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == ErrorCode::Unknown => {
            return Err(if is_empty(connection)? { Fault::Empty } else { Fault::NotAState });
        }
        Err(other) => return Err(other.into()),
    };
    if format == FORMAT || format == WITHOUT_WATERMARKS {
        return Ok(format == FORMAT);
    }
    let message = if format > FORMAT {
        format!("state format {format} is newer than this refrain knows ({FORMAT})")
    } else {
        format!("state format {format} is unknown to this refrain, which knows {WITHOUT_WATERMARKS} and {FORMAT}")
    };
    Err(Error::new(ErrorKind::Unsupported, message).hint("use the refrain that wrote it, or a later one").into())
}

/// Brings a state of an earlier format up to date. Another process may have done it meanwhile.
pub(super) fn migrate(transaction: &Transaction<'_>) -> Result<(), Fault> {
    if !is_current(transaction)? {
        transaction.execute_batch(WATERMARKS)?;
        transaction.execute("UPDATE meta SET format = ?", [FORMAT])?;
    }
    Ok(())
}
