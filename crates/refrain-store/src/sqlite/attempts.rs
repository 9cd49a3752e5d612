//! The record of attempts: who tried what, when, and how it ended.

use super::fault::Fault;
use crate::stored::{self, AttemptColumns};
use jiff::Timestamp;
use refrain_core::{AttemptFilter, AttemptId, AttemptRecord, Ending, LeaseRequest, RunRecord, Shown, Token};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, params_from_iter};
use std::fmt::Write as _;

/// What [`from_row`] reads.
pub(super) const COLUMNS: &str = "key.task, key.partition, attempt.attempt, attempt.token, attempt.run, attempt.generation, \
                       attempt.process, attempt.started_at, attempt.ending";

/// Records that an attempt has the lease; returns its number. The same attempt keeps its row.
pub(super) fn begin(
    transaction: &Transaction<'_>,
    key: i64,
    request: &LeaseRequest,
    token: Token,
    started_at: Timestamp,
) -> Result<i64, Fault> {
    let attempt = request.attempt.to_string();
    let known: Option<i64> = transaction
        .prepare("SELECT seq FROM attempt WHERE attempt = ?")?
        .query_row([&attempt], |row| row.get(0))
        .optional()?;
    if let Some(seq) = known {
        raise(transaction, request.attempt, token)?;
        return Ok(seq);
    }
    transaction
        .prepare("INSERT INTO attempt (attempt, key, token, process, started_at, settled) VALUES (?, ?, ?, ?, ?, 0)")?
        .execute(params![attempt, key, token.get().cast_signed(), request.process, started_at.to_string()])?;
    Ok(transaction.last_insert_rowid())
}

/// Records an attempt that a head shows; returns its number. One that is known keeps what is known of it.
pub(super) fn learn(transaction: &Transaction<'_>, key: i64, shown: &Shown) -> Result<i64, Fault> {
    let AttemptRecord { attempt, token, process, started_at, ending, .. } = &shown.attempt;
    transaction
        .prepare(
            "INSERT INTO attempt (attempt, key, token, process, started_at, settled) VALUES (?, ?, ?, ?, ?, 0) \
             ON CONFLICT (attempt) DO NOTHING",
        )?
        .execute(params![attempt.to_string(), key, token.get().cast_signed(), process, started_at.to_string()])?;
    open(transaction, *attempt, &shown.run)?;
    if let Some(ending) = ending {
        settle(transaction, *attempt, ending)?;
    }
    let seq = transaction
        .prepare("SELECT seq FROM attempt WHERE attempt = ?")?
        .query_row([attempt.to_string()], |row| row.get(0))?;
    Ok(seq)
}

/// Records the attempt's new token.
pub(super) fn raise(transaction: &Transaction<'_>, attempt: AttemptId, token: Token) -> Result<(), Fault> {
    transaction
        .prepare("UPDATE attempt SET token = ?1 WHERE attempt = ?2 AND token <> ?1")?
        .execute(params![token.get().cast_signed(), attempt.to_string()])?;
    Ok(())
}

/// Records which run the attempt works for.
pub(super) fn open(transaction: &Transaction<'_>, attempt: AttemptId, run: &RunRecord) -> Result<(), Fault> {
    transaction
        .prepare("UPDATE attempt SET run = ?1, generation = ?2 WHERE attempt = ?3 AND run IS NOT ?1")?
        .execute(params![run.run_id.to_string(), run.generation.get().cast_signed(), attempt.to_string()])?;
    Ok(())
}

/// Records how the attempt ended, unless that is settled already.
pub(super) fn settle(transaction: &Transaction<'_>, attempt: AttemptId, ending: &Ending) -> Result<(), Fault> {
    let text = stored::ending_to_text(ending)?;
    transaction
        .prepare("UPDATE attempt SET ending = ?1, settled = ?2 WHERE attempt = ?3 AND settled = 0")?
        .execute(params![text, ending.is_settled(), attempt.to_string()])?;
    Ok(())
}

/// One attempt by its number.
pub(super) fn load(connection: &Connection, seq: i64) -> Result<Option<AttemptRecord>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM attempt JOIN key ON key.id = attempt.key WHERE attempt.seq = ?");
    connection.prepare(&sql)?.query_and_then([seq], from_row)?.next().transpose()
}

/// Attempts, newest first.
pub(super) fn list(connection: &Connection, filter: &AttemptFilter) -> Result<Vec<AttemptRecord>, Fault> {
    let (sql, values) = query(filter);
    connection.prepare(&sql)?.query_and_then(params_from_iter(values), from_row)?.collect()
}

/// Keys with more attempts than are kept.
pub(super) fn crowded(connection: &Connection, keep_per_key: u32) -> Result<Vec<i64>, Fault> {
    let keys = connection
        .prepare("SELECT key FROM attempt GROUP BY key HAVING count(*) > ?")?
        .query_map([keep_per_key.max(1)], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(keys)
}

/// Forgets about `batch` attempts; drops the keys that are done from `crowded`.
pub(super) fn forget(
    transaction: &Transaction<'_>,
    crowded: &mut Vec<i64>,
    keep_per_key: u32,
    batch: u32,
) -> Result<u64, Fault> {
    let batch = u64::from(batch.max(1));
    let mut delete = transaction.prepare(
        "DELETE FROM attempt WHERE seq IN (SELECT seq FROM attempt WHERE key = ?1 AND settled = 1 AND seq < \
         (SELECT seq FROM attempt WHERE key = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2) ORDER BY seq LIMIT ?3)",
    )?;
    let mut forgotten = 0;
    while let Some(key) = crowded.last()
        && forgotten < batch
    {
        let room = batch - forgotten;
        let deleted = delete.execute(params![key, keep_per_key.max(1) - 1, room.cast_signed()])?;
        let deleted = u64::try_from(deleted).unwrap_or(u64::MAX);
        forgotten = forgotten.saturating_add(deleted);
        if deleted < room {
            crowded.pop();
        }
    }
    Ok(forgotten)
}

/// Forgets all attempts of a key; false, and nothing is forgotten, when the end of one is not settled.
pub(super) fn forget_settled(transaction: &Transaction<'_>, key: i64) -> Result<bool, Fault> {
    let unsettled = "SELECT EXISTS (SELECT 1 FROM attempt WHERE key = ? AND settled = 0)";
    if transaction.prepare(unsettled)?.query_row([key], |row| row.get(0))? {
        return Ok(false);
    }
    transaction.prepare("DELETE FROM attempt WHERE key = ?")?.execute([key])?;
    Ok(true)
}

/// The attempt in the first nine columns.
pub(super) fn from_row(row: &Row<'_>) -> Result<AttemptRecord, Fault> {
    let columns = AttemptColumns {
        task: row.get(0)?,
        partition: row.get(1)?,
        attempt: row.get(2)?,
        token: row.get(3)?,
        run: row.get(4)?,
        generation: row.get(5)?,
        process: row.get(6)?,
        started_at: row.get(7)?,
        ending: row.get(8)?,
    };
    Ok(columns.read()?)
}

/// The newest attempts are walked backwards until the limit is reached. With a whole key in the filter the
/// key's own index is walked, else the table itself: CROSS JOIN keeps SQLite from sorting instead.
fn query(filter: &AttemptFilter) -> (String, Vec<Value>) {
    let mut sql = format!("SELECT {COLUMNS} FROM ");
    let whole_key = filter.task.is_some() && filter.partition.is_some();
    sql.push_str(if whole_key {
        "key CROSS JOIN attempt ON attempt.key = key.id WHERE 1"
    } else {
        "attempt CROSS JOIN key ON key.id = attempt.key WHERE 1"
    });
    let mut values = Vec::new();
    let mut condition = |text: &str, value: Value| {
        values.push(value);
        let _infallible = write!(sql, " AND {}", text.replace('?', &format!("?{}", values.len())));
    };
    if let Some(task) = &filter.task {
        condition("key.task = ?", Value::from(task.as_str().to_owned()));
    }
    if let Some(partition) = &filter.partition {
        condition("key.partition = ?", Value::from(partition.clone()));
    }
    if let Some(part) = &filter.id_part {
        // Ids are stored in lower case; `instr` knows no wildcards.
        let part = Value::from(part.to_ascii_lowercase());
        condition("(instr(attempt.attempt, ?) > 0 OR instr(attempt.run, ?) > 0)", part);
    }
    if filter.unfinished {
        sql.push_str(" AND attempt.settled = 0"); // no parameter: a partial index serves it
    }
    sql.push_str(" ORDER BY attempt.seq DESC");
    if let Some(limit) = filter.limit {
        let _infallible = write!(sql, " LIMIT {limit}");
    }
    (sql, values)
}
