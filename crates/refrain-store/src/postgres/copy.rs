//! Takes over what a home knows, so that many hosts can go on with it.

use super::attempts::number;
use super::fault::Fault;
use super::identity::{self, begin, replace};
use super::work::{Work, columns};
use super::{PostgresOptions, PostgresStore, keys, schema, watermarks};
use crate::chance::fresh_store_id;
use crate::sqlite::History;
use crate::stored::{self, ending_to_text};
use crate::{Copied, SqliteStore};
use refrain_core::{AttemptRecord, Ending, Error, Lease, Result, StateStore, StoreIdentity};
use refrain_postgres::{CopyIn, Link};
use std::collections::BTreeSet;

/// So many bytes are sent at a time.
const CHUNK: usize = 64 * 1024;

impl PostgresStore {
    /// Copies everything that the embedded store knows into this database: keys with their tokens, runs, attempts,
    /// watermarks. The embedded store keeps what it knows, and a note where it was taken along to; whoever goes on with it all
    /// the same is refused at the heads that the new one has claimed (8.2). `is_dead` says whether a lease's holder is known to have ended.
    ///
    /// # Errors
    /// `Held`: an attempt is at work. `Invalid`: something was published through the store in this database.
    ///
    /// # Crash safety
    /// One transaction: all of it or nothing; the note follows. Nobody can begin an attempt with the embedded store meanwhile.
    pub fn take_over(
        link: &Link,
        from: &SqliteStore,
        is_dead: &dyn Fn(&Lease) -> bool,
        options: PostgresOptions,
    ) -> Result<Copied> {
        let store = Self::with(link, options);
        let fresh = fresh_store_id();
        let created_at = store.options.clock.now();
        let now = from.now()?;
        from.history(|history| {
            history.refuse_at_work(&now, is_dead)?;
            let old = history.identity()?;
            let replaces: BTreeSet<_> = old.ancestors.iter().copied().chain([old.store_id]).collect();
            let copied = store.transact_long(|work| {
                schema::prepare(work)?;
                work.simple("LOCK TABLE refrain.key IN EXCLUSIVE MODE")?;
                let mut identity = StoreIdentity { store_id: fresh, ancestors: replaces.clone() };
                let stands = match identity::load(work) {
                    Err(Fault::Unnamed) => None,
                    stands => Some(stands?),
                };
                let known = count(work, "key")?;
                match stands {
                    // An earlier try has done it, whose answer was lost.
                    Some(stands) if stands.store_id == fresh => {
                        return Ok(Copied { identity: stands, keys: known, attempts: count(work, "attempt")? });
                    }
                    Some(_) if known > 0 && !is_unpublished(work)? => return Err(in_use(link).into()),
                    Some(stands) => {
                        forget(work)?;
                        identity.ancestors.extend(stands.ancestors);
                        identity.ancestors.insert(stands.store_id);
                        replace(work, &identity)?;
                    }
                    None => drop(begin(work, &identity, created_at)?),
                }
                let keys = copy_keys(work, history)?;
                let attempts = copy_attempts(work, history)?;
                for (task, watermark) in history.watermarks()? {
                    watermarks::save(work, &task, &watermark)?;
                }
                Ok(Copied { identity, keys, attempts })
            })?;
            history.mark_moved(copied.identity.store_id, &link.to_string())?;
            Ok(copied)
        })
    }
}

fn in_use(link: &Link) -> Error {
    Error::invalid(format!(
        "the state store in {link} knows keys already that were published, or may have been; two histories cannot be made one"
    ))
    .hint(
        "copy into another, empty database; a home without a history of its own joins this store as it is. If nothing was \
         published through it, settle what is open first: refrain recover",
    )
}

/// Whether it is certain that nothing was ever published of any key; as [`stored::is_unpublished`] says it of one.
fn is_unpublished(work: &mut Work<'_>) -> Result<bool, Fault> {
    let [published] = columns(work.query(
        "SELECT (EXISTS (SELECT FROM refrain.watermark) OR EXISTS (SELECT FROM refrain.attempt WHERE NOT settled OR \
         (ending::json ->> 'window') IS DISTINCT FROM 'nothing_published') OR EXISTS (SELECT FROM refrain.key k WHERE \
         k.generation > 1 OR (SELECT count(*) FROM refrain.attempt a WHERE a.task = k.task AND a.partition = \
         k.partition) NOT BETWEEN 1 AND $1::text::bigint - 1))::text",
        &[Some(&stored::SURELY_ALL.to_string())],
    )?);
    Ok(published.as_deref() == Some("false"))
}

/// Takes keys away of which nothing was published. Their counters are not missed: whatever is claimed through a store that
/// this one replaces gives way.
fn forget(work: &mut Work<'_>) -> Result<(), Fault> {
    work.change("DELETE FROM refrain.attempt", &[])?;
    work.change("DELETE FROM refrain.key", &[])?;
    Ok(())
}

fn count(work: &mut Work<'_>, table: &str) -> Result<u64, Fault> {
    let [count] = columns(work.query(&format!("SELECT pg_catalog.count(*)::text FROM refrain.{table}"), &[])?);
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or_default())
}

/// Leases are void: their holders have ended.
fn copy_keys(work: &mut Work<'_>, history: &History<'_>) -> Result<u64, Fault> {
    let sql = "COPY refrain.key (task, partition, generation, run, leased, record) FROM STDIN";
    let mut rows = Rows::begin(work, sql)?;
    history.each_key(|key, mut stored| {
        stored.record.lease = None;
        rows.send(&keys::row_of(&key, &stored)?)
    })?;
    rows.finish()
}

fn copy_attempts(work: &mut Work<'_>, history: &History<'_>) -> Result<u64, Fault> {
    let sql = "COPY refrain.attempt (attempt, task, partition, token, run, generation, process, started_at, settled, \
               ending) FROM STDIN";
    let mut rows = Rows::begin(work, sql)?;
    history.each_attempt(|record| {
        let AttemptRecord { attempt, key, token, run, generation, process, started_at, ending } = record;
        let settled = ending.as_ref().is_some_and(Ending::is_settled);
        rows.send(&[
            Some(attempt.to_string()),
            Some(key.task.to_string()),
            Some(key.partition),
            Some(number(token.get())),
            run.map(|run| run.to_string()),
            generation.map(|generation| number(generation.get())),
            Some(process),
            Some(started_at.to_string()),
            Some(settled.to_string()),
            ending.map(|ending| ending_to_text(&ending)).transpose()?,
        ])
    })?;
    rows.finish()
}

/// Rows on their way, in COPY's text format (<https://www.postgresql.org/docs/current/sql-copy.html>).
struct Rows {
    copy: CopyIn,
    pending: String,
}

impl Rows {
    fn begin(work: &mut Work<'_>, sql: &str) -> Result<Self, Fault> {
        Ok(Self { copy: work.copy_in(sql)?, pending: String::new() })
    }

    fn send(&mut self, row: &[Option<String>]) -> Result<(), Fault> {
        for (column, value) in row.iter().enumerate() {
            if column > 0 {
                self.pending.push('\t');
            }
            match value {
                None => self.pending.push_str("\\N"),
                Some(value) => escape(value, &mut self.pending),
            }
        }
        self.pending.push('\n');
        if self.pending.len() >= CHUNK {
            self.copy.send(std::mem::take(&mut self.pending))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, Fault> {
        self.copy.send(self.pending)?;
        Ok(self.copy.finish()?)
    }
}

fn escape(value: &str, to: &mut String) {
    for letter in value.chars() {
        match letter {
            '\\' => to.push_str("\\\\"),
            '\t' => to.push_str("\\t"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            letter => to.push(letter),
        }
    }
}
