//! Opens, makes and announces the state store that a home's configuration names.

use crate::clock::SystemClock;
use crate::home::Home;
use refrain_core::{Clock, Error, ErrorKind, Result, StateStore, StoreId, StoreIdentity};
use refrain_store::{SqliteOptions, SqliteStore};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Opens the store; makes it for a home that has no state yet.
///
/// # Errors
/// `corrupt` when a store is missing although outputs were published through it: a new one must be declared to
/// replace it (PROTOCOL 8.1).
pub(crate) fn open(home: &Home, clock: &Arc<dyn Clock>) -> Result<Arc<dyn StateStore>> {
    embedded_only(home)?;
    let database = home.database();
    if !database.exists() {
        // Asked again, because another first run may have made it and claimed through it by now.
        let lost = lost_stores(home)?;
        if !lost.is_empty() && !database.exists() {
            return Err(Error::corrupt(format!("the state store `{}` is gone", database.display())).hint(format!(
                "put a backup back and run `refrain store restored`, or give it up: {}",
                give_up(&lost)
            )));
        }
        make_state(home)?;
    }
    let open = || SqliteStore::open(&database, options(clock)?);
    let opened = match open() {
        // Another first run of this home is making it at this moment, or died while it did: whoever is first completes
        // it, and the others find it complete. What is no state, or was one, is refused again.
        Err(error) if error.kind == ErrorKind::Invalid => {
            if lost_stores(home)?.is_empty() {
                SqliteStore::create(&database, BTreeSet::new(), options(clock)?).or_else(|_| open())
            } else {
                open()
            }
        }
        opened => opened,
    };
    Ok(Arc::new(opened?))
}

/// Makes a new store that replaces lost ones (PROTOCOL 8.1). One that replaces them already stays as it is: repeating the
/// call goes on where another one ended.
///
/// # Errors
/// `invalid` when there is a store already, or when outputs were published through one that is not replaced.
pub fn make(home: &Home, replaces: BTreeSet<StoreId>) -> Result<StoreIdentity> {
    embedded_only(home)?;
    let database = home.database();
    // A state that is whole is not lost, whatever was published through it.
    if database.exists()
        && let Ok(made) = identity(home)
    {
        if !replaces.is_empty() && replaces.is_subset(&made.ancestors) {
            return Ok(made);
        }
        return Err(Error::invalid(format!(
            "there is a state at `{}` already, and it can be read",
            database.display()
        ))
        .hint(
            "go on with it; if it is an older copy, say `refrain store restored`; to give it up, move it away first",
        ));
    }
    let lost = lost_stores(home)?;
    if let Some(one) = lost.difference(&replaces).next() {
        return Err(Error::invalid(format!(
            "outputs of this home were published through the state store {one}, which the new one would not replace"
        ))
        .hint(give_up(&lost)));
    }
    make_state(home)?;
    SqliteStore::create(&database, replaces, options(&clock())?)?.identity()
}

/// Says that the store was put back from a backup: it gets a new id, and its leases are void (PROTOCOL 8.1).
pub fn restored(home: &Home) -> Result<StoreIdentity> {
    embedded_only(home)?;
    SqliteStore::mark_restored(&home.database(), options(&clock())?)
}

/// The store's identity.
pub fn identity(home: &Home) -> Result<StoreIdentity> {
    embedded_only(home)?;
    SqliteStore::identity_of(&home.database(), options(&clock())?)
}

/// The state directory with its volume, so that a run need not make and sync them.
fn make_state(home: &Home) -> Result<()> {
    Home::make_state(&home.directory)?;
    refrain_sink::prepare_volume(&home.state())
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

fn options(clock: &Arc<dyn Clock>) -> Result<SqliteOptions> {
    SqliteOptions::new(Arc::clone(clock))
}

fn embedded_only(home: &Home) -> Result<()> {
    match home.config.store.as_deref() {
        None | Some("sqlite") => Ok(()),
        Some(other) => {
            let scheme = other.split(':').next().unwrap_or_default();
            Err(Error::new(ErrorKind::Unsupported, format!("this build has no state store for `{scheme}:`"))
                .hint("set `store = \"sqlite\"` in refrain.toml; `refrain stores` lists the stores of this build"))
        }
    }
}

/// The stores that heads in the home's own volume are claimed through.
fn lost_stores(home: &Home) -> Result<BTreeSet<StoreId>> {
    refrain_sink::claimed_stores(&home.state())
}

/// The command that makes a store which replaces all of these.
fn give_up(lost: &BTreeSet<StoreId>) -> String {
    lost.iter().fold("refrain store init".to_owned(), |command, store| format!("{command} --replaces {store}"))
}
