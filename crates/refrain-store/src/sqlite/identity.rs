//! Who this store is and what it replaces (PROTOCOL 1.3, 8.1).

use super::fault::Fault;
use super::{SqliteOptions, SqliteStore, file, keys, schema};
use crate::chance::fresh_store_id;
use crate::stored::{self, ancestors_to_text};
use jiff::Timestamp;
use refrain_core::{Error, Result, StateStore, StoreId, StoreIdentity};
use rusqlite::{Connection, Transaction, params};
use std::collections::BTreeSet;
use std::path::Path;

impl SqliteStore {
    /// Makes a new state with a fresh identity that replaces the stores in `replaces` (8.1).
    ///
    /// # Errors
    ///
    /// `Invalid`: there is a state already; it is left as it is. `Unsupported`: locks do not work there.
    ///
    /// # Crash safety
    ///
    /// The state is durable when this returns. Killed before: nothing, or an empty file, which the next call
    /// completes and [`open`](Self::open) refuses. One process at a time makes it; `open` waits for that one.
    pub fn create(path: &Path, replaces: BTreeSet<StoreId>, options: SqliteOptions) -> Result<Self> {
        let _turn = file::creation(path)?;
        file::create_private(path)?;
        let store = Self::connect(path, options)?;
        let identity = StoreIdentity { store_id: fresh_store_id(), ancestors: replaces };
        let created_at = store.options.clock.now();
        store.write(|transaction| {
            if !schema::is_empty(transaction)? {
                return Err(Error::invalid(format!("there is a state at `{}` already", path.display()))
                    .hint("open it, or move it away first if it was lost")
                    .into());
            }
            transaction.execute_batch(schema::TABLES)?;
            transaction.execute_batch(schema::WATERMARKS)?;
            insert(transaction, &identity, created_at)
        })?;
        store.make_durable()?;
        // The tables go into the file itself, so that a file that is copied or left without its log is a state, if an
        // older one, and no empty file.
        store
            .connection()
            .execute_batch("PRAGMA wal_checkpoint(PASSIVE)")
            .map_err(|error| Fault::from(error).at(path))?;
        Ok(store)
    }

    /// Declares that the state was restored from a backup (8.1), or is gone back to after it was taken along: it gets a fresh
    /// identity that replaces its old one, and all leases are void.
    ///
    /// # Crash safety
    ///
    /// One transaction, durable when this returns. Repeating it gives one more identity, which is harmless.
    pub fn mark_restored(path: &Path, options: SqliteOptions) -> Result<StoreIdentity> {
        let store = Self::open(path, options)?;
        let identity = store.write(|transaction| {
            let mut identity = load(transaction)?;
            identity.ancestors.insert(identity.store_id);
            identity.store_id = fresh_store_id();
            transaction.execute(
                "UPDATE meta SET store_id = ?, ancestors = ?",
                params![identity.store_id.to_string(), ancestors_to_text(&identity)?],
            )?;
            keys::void_leases(transaction)?;
            transaction.execute_batch("DROP TABLE IF EXISTS moved")?;
            Ok(identity)
        })?;
        store.make_durable()?;
        Ok(identity)
    }

    /// The identity of the state at `path`.
    pub fn identity_of(path: &Path, options: SqliteOptions) -> Result<StoreIdentity> {
        Self::open(path, options)?.identity()
    }
}

/// The identity as it stands in this transaction: another process may have declared the store restored.
pub(super) fn load(connection: &Connection) -> Result<StoreIdentity, Fault> {
    let (store_id, ancestors): (String, String) = connection
        .prepare("SELECT store_id, ancestors FROM meta")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(stored::identity(&store_id, &ancestors)?)
}

fn insert(transaction: &Transaction<'_>, identity: &StoreIdentity, created_at: Timestamp) -> Result<(), Fault> {
    transaction.execute(
        "INSERT INTO meta (id, format, store_id, ancestors, created_at) VALUES (1, ?, ?, ?, ?)",
        params![schema::FORMAT, identity.store_id.to_string(), ancestors_to_text(identity)?, created_at.to_string()],
    )?;
    Ok(())
}
