//! All that a state holds, for whoever takes it over.

use super::fault::Fault;
use super::{SqliteStore, attempts, identity, keys, watermarks};
use crate::stored::{self, Stored};
use refrain_core::{AttemptRecord, Error, Key, Result, StoreIdentity, TaskName, Watermark};
use rusqlite::{Row, ToSql, Transaction, params};
use std::path::Path;

/// One moment of a state. Nobody writes to it meanwhile.
pub(crate) struct History<'t> {
    transaction: &'t Transaction<'t>,
    path: &'t Path,
}

impl SqliteStore {
    /// Shows the whole history and leaves it as it is. Other processes that would write wait until the end.
    pub(crate) fn history<T>(&self, look: impl FnOnce(&History<'_>) -> Result<T>) -> Result<T> {
        self.write(|transaction| Ok(look(&History { transaction, path: self.path() })?))
    }
}

impl History<'_> {
    pub(crate) fn identity(&self) -> Result<StoreIdentity> {
        identity::load(self.transaction).map_err(|fault| fault.at(self.path))
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
