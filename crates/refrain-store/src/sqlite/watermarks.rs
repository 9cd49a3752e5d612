//! Watermarks: the bound under which a task's keys are forgotten (PROTOCOL 12).

use super::fault::Fault;
use super::keys::{self, Forgotten};
use refrain_core::{Foldable, Key, TaskName, Token, Watermark};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};

/// Free pages below which the file keeps its size: they are soon used again.
const MUCH_FREE: i64 = 1024;

/// The watermark of a task.
pub(super) fn load(connection: &Connection, task: &TaskName) -> Result<Option<Watermark>, Fault> {
    let found: Option<(String, String, i64, i64)> = connection
        .prepare("SELECT through, ends_at, token, folded FROM watermark WHERE task = ?")?
        .query_row([task.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    found
        .map(|(through, ends_at, token, folded)| {
            let ends_at = ends_at.parse().map_err(|error| Fault::text(format!("the watermark of `{task}`"), error))?;
            let token_floor = Token::new(token.cast_unsigned());
            Ok(Watermark { through, ends_at, token_floor, folded: folded.cast_unsigned() })
        })
        .transpose()
}

/// Forgets the keys that are as they were seen, and raises the watermark over them; returns those that stay.
pub(super) fn fold(transaction: &Transaction<'_>, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>, Fault> {
    let mut watermark = load(transaction, task)?;
    let mut stay = Vec::new();
    for seen in keys {
        let key = Key { task: task.clone(), partition: seen.partition.clone() };
        match keys::forget(transaction, &key, seen)? {
            Forgotten::Now(token) => watermark = Some(Watermark::raised(watermark, seen, token)),
            Forgotten::Before => {}
            Forgotten::Not => stay.push(key.partition),
        }
    }
    if let Some(watermark) = watermark {
        save(transaction, task, &watermark)?;
    }
    Ok(stay)
}

fn save(transaction: &Transaction<'_>, task: &TaskName, watermark: &Watermark) -> Result<(), Fault> {
    let Watermark { through, ends_at, token_floor, folded } = watermark;
    transaction.execute(
        "INSERT INTO watermark (task, through, ends_at, token, folded) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (task) \
         DO UPDATE SET through = ?2, ends_at = ?3, token = ?4, folded = ?5",
        params![task.as_str(), through, ends_at.to_string(), token_floor.get().cast_signed(), folded.cast_signed()],
    )?;
    Ok(())
}

/// Writes the file anew without its free pages, when most of it is free.
///
/// # Crash safety
/// VACUUM is one transaction of the write-ahead log; the file is cut when the log is moved into it.
pub(super) fn reclaim(connection: &Connection) -> Result<(), Fault> {
    let pages = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let free = pages("freelist_count")?;
    if free < MUCH_FREE || free * 2 < pages("page_count")? {
        return Ok(());
    }
    let done = connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
    let waits = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked, ErrorCode::DiskFull];
    match done {
        // Others are at work, or there is no room for a copy: what is free is used again instead.
        Err(error) if error.sqlite_error_code().is_some_and(|code| waits.contains(&code)) => Ok(()),
        done => Ok(done?),
    }
}
