//! Who this store is and what it replaces (PROTOCOL 1.3, 8.1).

use super::fault::Fault;
use super::work::{Work, columns};
use super::{PostgresOptions, PostgresStore, keys, schema};
use crate::chance::fresh_store_id;
use crate::stored::{self, ancestors_to_text};
use jiff::Timestamp;
use refrain_core::{Error, Result, StoreId, StoreIdentity};
use refrain_postgres::Link;
use std::collections::BTreeSet;

impl PostgresStore {
    /// The store in this database; nothing when none was ever begun there.
    ///
    /// # Errors
    /// `Unsupported`: a newer format. `Unavailable`: the server cannot be reached, or is a standby. `Invalid`: this role
    /// may not use it; the hint has the SQL for a database administrator.
    ///
    /// # Crash safety
    /// A store of an earlier format is brought up to date in one transaction.
    pub fn find(link: &Link, options: PostgresOptions) -> Result<Option<Self>> {
        let mut store = Self::with(link, options);
        let (format, opened_as) = match store.sessions.transact(standing) {
            Err(fault) if fault.is_absent() => return Ok(None),
            found => found.map_err(|fault| store.told(fault))?,
        };
        if format < schema::FORMAT {
            store.transact_long(schema::prepare)?;
        }
        store.opened_as = opened_as;
        Ok(Some(store).filter(|store| store.opened_as.is_some()))
    }

    /// Makes the tables if they are missing and begins a store in them that replaces the stores in `replaces` (8.1).
    ///
    /// # Errors
    /// `Invalid`: there is a store already; it is left as it is. Or this role may not make it; the hint has the SQL for a
    /// database administrator.
    ///
    /// # Crash safety
    /// One transaction. Of many who call it at once, one makes it.
    pub fn create(link: &Link, replaces: BTreeSet<StoreId>, options: PostgresOptions) -> Result<Self> {
        let store = Self::with(link, options);
        let identity = StoreIdentity { store_id: fresh_store_id(), ancestors: replaces };
        store.transact_long(|work| {
            schema::prepare(work)?;
            if begin(work, &identity, store.options.clock.now())? {
                return Ok(());
            }
            // An earlier try may have begun it, whose answer was lost.
            if load(work)?.store_id == identity.store_id {
                return Ok(());
            }
            Err(Error::invalid(format!("there is a state store in {link} already")).hint("go on with it").into())
        })?;
        Ok(store)
    }

    /// Declares that the database was restored from a backup (8.1): the store gets a fresh identity that replaces its old
    /// one, and all leases are void.
    ///
    /// # Crash safety
    /// One transaction. Repeating it gives one more identity, which is harmless.
    pub fn mark_restored(&self) -> Result<StoreIdentity> {
        self.transact_long(|work| {
            keys::void_leases(work)?;
            let mut identity = load(work)?;
            identity.ancestors.insert(identity.store_id);
            identity.store_id = fresh_store_id();
            replace(work, &identity)?;
            Ok(identity)
        })
    }
}

/// The identity as it stands in this transaction: another host may have declared the store restored.
pub(super) fn load(work: &mut Work<'_>) -> Result<StoreIdentity, Fault> {
    let [format, store_id, ancestors] =
        columns(work.query("SELECT format::text, store_id, ancestors FROM refrain.store", &[])?);
    of(format.as_deref(), store_id.as_deref(), ancestors.as_deref())
}

/// The identity in these columns of `refrain.store`.
pub(super) fn of(
    format: Option<&str>,
    store_id: Option<&str>,
    ancestors: Option<&str>,
) -> Result<StoreIdentity, Fault> {
    schema::known(format)?;
    let (Some(store_id), Some(ancestors)) = (store_id, ancestors) else { return Err(Fault::Unnamed) };
    Ok(stored::identity(store_id, ancestors)?)
}

/// Begins a store in tables where none was begun; false when one was.
pub(super) fn begin(work: &mut Work<'_>, identity: &StoreIdentity, created_at: Timestamp) -> Result<bool, Fault> {
    let begun = work.change(
        "UPDATE refrain.store SET store_id = $1::text, ancestors = $2::text, created_at = $3::text WHERE store_id IS NULL",
        &[
            Some(&identity.store_id.to_string()),
            Some(&ancestors_to_text(identity)?),
            Some(&created_at.to_string()),
        ],
    )?;
    Ok(begun == 1)
}

/// Gives the store another identity.
pub(super) fn replace(work: &mut Work<'_>, identity: &StoreIdentity) -> Result<(), Fault> {
    work.change(
        "UPDATE refrain.store SET store_id = $1::text, ancestors = $2::text",
        &[Some(&identity.store_id.to_string()), Some(&ancestors_to_text(identity)?)],
    )?;
    Ok(())
}

/// The format of the tables, and the store that was begun in them.
fn standing(work: &mut Work<'_>) -> Result<(i64, Option<StoreIdentity>), Fault> {
    let [format, store_id, ancestors] =
        columns(work.query("SELECT format::text, store_id, ancestors FROM refrain.store", &[])?);
    let known = schema::known(format.as_deref())?;
    match of(format.as_deref(), store_id.as_deref(), ancestors.as_deref()) {
        Ok(identity) => Ok((known, Some(identity))),
        Err(Fault::Unnamed) => Ok((known, None)),
        Err(fault) => Err(fault),
    }
}
