//! All that a state holds, for whoever takes it over.

use super::fault::Fault;
use super::{SqliteStore, attempts, identity, keys, watermarks};
use crate::stored::{self, Stored};
use refrain_core::{
    AttemptRecord, Error, ErrorKind, Key, Lease, Result, StoreId, StoreIdentity, StoreTime, TaskName, Watermark,
};
use rusqlite::{Row, ToSql, Transaction, params};
use std::path::Path;

/// One moment of a state. Nobody writes to it meanwhile.
pub(crate) struct History<'t> {
    transaction: &'t Transaction<'t>,
    path: &'t Path,
}

impl SqliteStore {
    /// Shows the whole history, in one transaction. Other processes that would write wait until the end.
    pub(crate) fn history<T>(&self, look: impl FnOnce(&History<'_>) -> Result<T>) -> Result<T> {
        let seen = self.write(|transaction| Ok(look(&History { transaction, path: self.path() })?))?;
        self.make_durable()?;
        Ok(seen)
    }

    /// How many keys were published through this state, or may have been.
    pub fn published_keys(&self) -> Result<u64> {
        self.history(|history| {
            let mut published: u64 = history.watermarks()?.iter().map(|(_, watermark)| watermark.folded).sum();
            history.each_key(|key, stored| {
                let attempts = history.attempts_of(&key)?;
                let endings = attempts.iter().map(|attempt| attempt.ending.as_ref());
                published += u64::from(!stored::is_unpublished(stored.record.run.as_ref(), endings));
                Ok::<_, Error>(())
            })?;
            Ok(published)
        })
    }

    /// Which store goes on with what this one knows, and where, if it was taken along.
    pub fn moved_to(&self) -> Result<Option<(StoreId, String)>> {
        self.read(|transaction| {
            let marks = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'moved'";
            if transaction.query_row(marks, [], |row| row.get::<_, i64>(0))? == 0 {
                return Ok(None);
            }
            let mut mark = transaction.prepare("SELECT store_id, place FROM moved")?;
            let mut rows = mark.query([])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            let store = row.get::<_, String>(0)?;
            let store = store.parse().map_err(|error| stored::Unreadable::new("where it was taken along to", error))?;
            Ok(Some((store, row.get(1)?)))
        })
    }
}

impl History<'_> {
    pub(crate) fn identity(&self) -> Result<StoreIdentity> {
        identity::load(self.transaction).map_err(|fault| fault.at(self.path))
    }

    /// Notes in the state that a store elsewhere goes on with what it knows.
    pub(crate) fn mark_moved(&self, store: StoreId, place: &str) -> Result<()> {
        let mark = || -> Result<(), Fault> {
            self.transaction.execute_batch(
                "CREATE TABLE IF NOT EXISTS moved (store_id TEXT NOT NULL, place TEXT NOT NULL) STRICT; DELETE FROM moved",
            )?;
            let values = params![store.to_string(), place];
            self.transaction.execute("INSERT INTO moved (store_id, place) VALUES (?, ?)", values)?;
            Ok(())
        };
        mark().map_err(|fault| fault.at(self.path))
    }

    /// Shows every key with its record, in order.
    pub(crate) fn each_key<E: From<Error>>(&self, mut each: impl FnMut(Key, Stored) -> Result<(), E>) -> Result<(), E> {
        self.rows(
            "SELECT task, partition, record FROM key ORDER BY task, partition",
            &[],
            |row| {
                let key = keys::key_of(row)?;
                let stored = Stored::read(&key, &row.get::<_, String>(2)?)?;
                Ok((key, stored))
            },
            |(key, stored)| each(key, stored),
        )
    }

    /// Refuses a history that an attempt adds to. `now` is by the state's own clock.
    ///
    /// # Errors
    /// `Held`, with the attempt.
    pub(crate) fn refuse_at_work(&self, now: &StoreTime, is_dead: &dyn Fn(&Lease) -> bool) -> Result<()> {
        self.each_key(|key, stored| match &stored.record.lease {
            Some(lease) if !lease.expired(now) && !is_dead(lease) => Err(Error::new(
                ErrorKind::Held,
                format!(
                    "`{key}` is being run by attempt {}: a history is copied when nobody adds to it",
                    lease.attempt
                ),
            )
            .hint("wait for its end, then repeat the call")),
            _ => Ok(()),
        })
    }

    /// Shows every attempt, oldest first.
    pub(crate) fn each_attempt<E: From<Error>>(
        &self,
        each: impl FnMut(AttemptRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT {} FROM attempt CROSS JOIN key ON key.id = attempt.key ORDER BY attempt.seq",
            attempts::COLUMNS
        );
        self.rows(&sql, &[], attempts::from_row, each)
    }

    /// The attempts of one key, oldest first.
    pub(crate) fn attempts_of(&self, key: &Key) -> Result<Vec<AttemptRecord>> {
        let sql = format!(
            "SELECT {} FROM attempt CROSS JOIN key ON key.id = attempt.key WHERE key.task = ?1 AND key.partition = ?2 \
             ORDER BY attempt.seq",
            attempts::COLUMNS
        );
        let mut found = Vec::new();
        self.rows(&sql, params![key.task.as_str(), key.partition], attempts::from_row, |one| {
            found.push(one);
            Ok::<_, Error>(())
        })?;
        Ok(found)
    }

    /// The watermark of every task that has one.
    pub(crate) fn watermarks(&self) -> Result<Vec<(TaskName, Watermark)>> {
        let mut found = Vec::new();
        let load = |row: &Row<'_>| {
            let Key { task, .. } = stored::key(&row.get::<_, String>(0)?, String::new())?;
            Ok(watermarks::load(self.transaction, &task)?.map(|watermark| (task, watermark)))
        };
        self.rows("SELECT task FROM watermark", &[], load, |one| {
            found.extend(one);
            Ok::<_, Error>(())
        })?;
        Ok(found)
    }

    fn rows<T, E: From<Error>>(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        read: impl Fn(&Row<'_>) -> Result<T, Fault>,
        mut each: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let bad = |fault: Fault| E::from(fault.at(self.path));
        let mut statement = self.transaction.prepare(sql).map_err(|error| bad(error.into()))?;
        let mut rows = statement.query(values).map_err(|error| bad(error.into()))?;
        while let Some(row) = rows.next().map_err(|error| bad(error.into()))? {
            each(read(row).map_err(bad)?)?;
        }
        Ok(())
    }
}
