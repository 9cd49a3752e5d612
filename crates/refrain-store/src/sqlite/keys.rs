//! The record of a key: loaded, changed by core's rules, saved, all in the caller's transaction.

use super::fault::Fault;
use super::{attempts, identity, watermarks};
use crate::stored::{self, Stored};
use jiff::Timestamp;
use refrain_core::{
    Acquired, Foldable, Generation, Holder, Key, KeyRecord, KeyState, KeySummary, LeaseRequest, OpenRun, RunProposal,
    RunRecord, Shown, StoreTime, TaskName, Token, Want,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

/// Keys read at a time by a walk over all of them.
const BATCH: u32 = 512;

/// A key's row, to be changed and saved.
#[derive(Default)]
struct KeyRow {
    id: Option<i64>,
    last_attempt: Option<i64>,
    stored: Stored,
}

pub(super) fn acquire(
    transaction: &Transaction<'_>,
    key: &Key,
    request: &LeaseRequest,
    now: &StoreTime,
    started_at: Timestamp,
) -> Result<Acquired, Fault> {
    let mut row = match load(transaction, key)? {
        Some(row) => row,
        None => fresh(transaction, key)?,
    };
    match row.stored.record.acquire(now, request) {
        Err(lease) => Ok(Acquired::Held(lease)),
        Ok(granted) => {
            let id = save(transaction, key, &row)?;
            let attempt = attempts::begin(transaction, id, request, granted.token, started_at)?;
            transaction
                .prepare("UPDATE key SET last_attempt = ? WHERE id = ? AND last_attempt IS NOT ?1")?
                .execute([attempt, id])?;
            Ok(Acquired::Granted(granted))
        }
    }
}

/// The row of a key that the store does not know. It may have been folded: its tokens go on above those it had (3.1).
fn fresh(transaction: &Transaction<'_>, key: &Key) -> Result<KeyRow, Fault> {
    let mut row = KeyRow::default();
    if let Some(watermark) = watermarks::load(transaction, &key.task)? {
        row.stored.record.last_token = watermark.token_floor;
    }
    Ok(row)
}

/// Takes what a head shows of a key; false when the row knows better.
pub(super) fn learn(transaction: &Transaction<'_>, shown: &Shown) -> Result<bool, Fault> {
    let key = &shown.attempt.key;
    let mut row = match load(transaction, key)? {
        Some(row) => row,
        None => fresh(transaction, key)?,
    };
    if !row.stored.record.learn(&shown.run) {
        return Ok(false);
    }
    let id = save(transaction, key, &row)?;
    let attempt = attempts::learn(transaction, id, shown)?;
    transaction
        .prepare("UPDATE key SET last_attempt = max(ifnull(last_attempt, 0), ?) WHERE id = ?")?
        .execute([attempt, id])?;
    Ok(true)
}

/// Forgets a key with all its attempts, unless it is leased, an attempt's end is not settled, or it is not as it
/// was seen.
pub(super) fn forget(transaction: &Transaction<'_>, key: &Key, seen: &Foldable) -> Result<Forgotten, Fault> {
    let Some(row) = load(transaction, key)? else { return Ok(Forgotten::Before) };
    let (Some(id), record) = (row.id, &row.stored.record) else { return Ok(Forgotten::Before) };
    let last_attempt = row.last_attempt.map(|seq| attempts::load(transaction, seq)).transpose()?.flatten();
    let as_seen = record.run.as_ref().map(|run| run.run_id) == seen.run
        && last_attempt.map(|attempt| attempt.attempt) == seen.last_attempt;
    if !as_seen || record.lease.is_some() || !attempts::forget_settled(transaction, id)? {
        return Ok(Forgotten::Not);
    }
    transaction.prepare("DELETE FROM key WHERE id = ?")?.execute([id])?;
    Ok(Forgotten::Now(record.last_token))
}

/// What [`forget`] did.
pub(super) enum Forgotten {
    /// The key is forgotten; it had tokens up to this one.
    Now(Token),
    /// There was nothing to forget.
    Before,
    /// It stays.
    Not,
}

pub(super) fn renew(
    transaction: &Transaction<'_>,
    key: &Key,
    holder: &Holder,
    now: &StoreTime,
    ttl_ms: u64,
) -> Result<bool, Fault> {
    let Some(mut row) = load_for(transaction, key, holder)? else {
        return Ok(false);
    };
    if row.stored.record.renew(now, holder, ttl_ms).is_err() {
        return Ok(false);
    }
    save(transaction, key, &row)?;
    Ok(true)
}

pub(super) fn raise(
    transaction: &Transaction<'_>,
    key: &Key,
    holder: &Holder,
    floor: Token,
) -> Result<Option<Token>, Fault> {
    let Some(mut row) = load_for(transaction, key, holder)? else {
        return Ok(None);
    };
    let Ok(token) = row.stored.record.raise(holder, floor) else {
        return Ok(None);
    };
    save(transaction, key, &row)?;
    attempts::raise(transaction, holder.attempt, token)?;
    Ok(Some(token))
}

/// Ends the holder's lease; does nothing when somebody else has it, or nobody.
pub(super) fn release(transaction: &Transaction<'_>, key: &Key, holder: &Holder) -> Result<(), Fault> {
    if let Some(mut row) = load_for(transaction, key, holder)?
        && row.stored.record.release(holder).is_ok()
    {
        save(transaction, key, &row)?;
    }
    Ok(())
}

pub(super) fn open_run(
    transaction: &Transaction<'_>,
    key: &Key,
    holder: &Holder,
    want: Want,
    seen: Option<&RunRecord>,
    proposal: Option<&RunProposal>,
) -> Result<Option<OpenRun>, Fault> {
    let Some(mut row) = load_for(transaction, key, holder)? else {
        return Ok(None);
    };
    let before = row.stored.record.run.clone();
    let Ok(answer) = row.stored.record.open_run(holder, want, seen, proposal) else {
        return Ok(None);
    };
    if row.stored.record.run != before {
        save(transaction, key, &row)?;
    }
    if let OpenRun::Run(run) = &answer {
        attempts::open(transaction, holder.attempt, run)?;
    }
    Ok(Some(answer))
}

/// Voids all leases: their holders belong to the store that this one replaces (8.1).
pub(super) fn void_leases(transaction: &Transaction<'_>) -> Result<(), Fault> {
    let leased: Vec<Key> = transaction
        .prepare("SELECT task, partition FROM key WHERE leased")?
        .query_and_then([], key_of)?
        .collect::<Result<_, Fault>>()?;
    for key in leased {
        if let Some(mut row) = load(transaction, &key)? {
            row.stored.record.lease = None;
            save(transaction, &key, &row)?;
        }
    }
    Ok(())
}

/// What is known of one key.
pub(super) fn state(connection: &Connection, key: &Key) -> Result<Option<KeyState>, Fault> {
    let Some(row) = load(connection, key)? else {
        return Ok(None);
    };
    let last_attempt = row.last_attempt.map(|seq| attempts::load(connection, seq)).transpose()?.flatten();
    let KeyRecord { lease, run, .. } = row.stored.record;
    Ok(Some(KeyState { key: key.clone(), lease, run, last_attempt }))
}

/// The next keys after `after`, in order.
pub(super) fn summaries(
    connection: &Connection,
    task: Option<&TaskName>,
    after: Option<&Key>,
) -> Result<Vec<KeySummary>, Fault> {
    // The record's JSON is read only where it holds a lease; everything else has a column.
    const COLUMNS: &str = "SELECT key.task, key.partition, attempt.attempt, attempt.token, attempt.run, \
         attempt.generation, attempt.process, attempt.started_at, attempt.ending, key.generation, key.run, \
         CASE WHEN key.leased THEN key.record END \
         FROM key LEFT JOIN attempt ON attempt.seq = key.last_attempt ";
    const ORDER: &str = " ORDER BY key.task, key.partition LIMIT ?";
    let (task_after, partition_after) = after.map_or(("", ""), |key| (key.task.as_str(), key.partition.as_str()));
    match task {
        Some(task) => {
            // A key without partition has the empty text, which is nothing's successor.
            let range = if after.is_none() { ">=" } else { ">" };
            connection
                .prepare(&format!("{COLUMNS} WHERE key.task = ? AND key.partition {range} ? {ORDER}"))?
                .query_and_then(params![task.as_str(), partition_after, BATCH], summary)?
                .collect()
        }
        None => connection
            .prepare(&format!("{COLUMNS} WHERE (key.task, key.partition) > (?, ?) {ORDER}"))?
            .query_and_then(params![task_after, partition_after, BATCH], summary)?
            .collect(),
    }
}

/// The key in the first two columns.
pub(super) fn key_of(row: &Row<'_>) -> Result<Key, Fault> {
    Ok(stored::key(&row.get::<_, String>(0)?, row.get(1)?)?)
}

fn summary(row: &Row<'_>) -> Result<KeySummary, Fault> {
    let key = key_of(row)?;
    let lease = match row.get::<_, Option<String>>(11)? {
        Some(text) => Stored::read(&key, &text)?.record.lease,
        None => None,
    };
    let run: Option<String> = row.get(10)?;
    let last_attempt = match row.get_ref(2)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(attempts::from_row(row)?),
    };
    Ok(KeySummary {
        lease,
        generation: row.get::<_, Option<i64>>(9)?.map(|number| Generation::new(number.cast_unsigned())),
        run: run.map(|text| text.parse().map_err(|error| Fault::text("a run", error))).transpose()?,
        last_attempt,
        is_unreadable: false,
        key,
    })
}

fn load(connection: &Connection, key: &Key) -> Result<Option<KeyRow>, Fault> {
    let found: Option<(i64, Option<i64>, String)> = connection
        .prepare("SELECT id, last_attempt, record FROM key WHERE task = ? AND partition = ?")?
        .query_row([key.task.as_str(), &key.partition], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    found
        .map(|(id, last_attempt, text)| Ok(KeyRow { id: Some(id), last_attempt, stored: Stored::read(key, &text)? }))
        .transpose()
}

/// The row, unless the holder's lease is another store's: equal tokens of two stores mean nothing (1.5).
fn load_for(transaction: &Transaction<'_>, key: &Key, holder: &Holder) -> Result<Option<KeyRow>, Fault> {
    if identity::load(transaction)?.store_id != holder.store_id {
        return Ok(None);
    }
    load(transaction, key)
}

fn save(transaction: &Transaction<'_>, key: &Key, row: &KeyRow) -> Result<i64, Fault> {
    let record = &row.stored.record;
    let text = row.stored.text(key)?;
    let run = record.run.as_ref().map(|run| run.run_id.to_string());
    let generation = record.run.as_ref().map(|run| run.generation.get().cast_signed());
    let leased = record.lease.is_some();
    if let Some(id) = row.id {
        transaction
            .prepare("UPDATE key SET generation = ?, run = ?, leased = ?, record = ? WHERE id = ?")?
            .execute(params![generation, run, leased, text, id])?;
        return Ok(id);
    }
    transaction
        .prepare("INSERT INTO key (task, partition, generation, run, leased, record) VALUES (?, ?, ?, ?, ?, ?)")?
        .execute(params![key.task.as_str(), key.partition, generation, run, leased, text])?;
    Ok(transaction.last_insert_rowid())
}
