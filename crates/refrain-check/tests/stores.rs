//! Every store passes the suite of stores.

#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use refrain_check::store_suite::{StoreFactory, StoreUnderTest};
use refrain_core::{StateStore, StoreId, StoreIdentity};
use refrain_store::{ManualClock, MemoryStore, SqliteOptions, SqliteStore};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

struct Memory;

struct MemoryHome {
    clock: Arc<ManualClock>,
    store: MemoryStore,
}

impl StoreFactory for Memory {
    fn make(&self) -> Box<dyn StoreUnderTest> {
        let clock = Arc::new(ManualClock::new());
        let identity = StoreIdentity { store_id: store_id(1), ancestors: BTreeSet::new() };
        Box::new(MemoryHome { store: MemoryStore::new(identity, clock.clone(), clock.clone()), clock })
    }
}

impl StoreUnderTest for MemoryHome {
    fn open(&self) -> Box<dyn StateStore> {
        Box::new(self.store.clone())
    }

    fn advance(&self, ms: u64) {
        self.clock.advance(ms);
    }

    fn begin_epoch(&self) -> bool {
        self.clock.reboot();
        true
    }

    fn mark_restored(&self) -> StoreIdentity {
        self.store.mark_restored(store_id(2))
    }
}

struct Sqlite;

struct SqliteHome {
    clock: Arc<ManualClock>,
    directory: TempDir,
}

impl SqliteHome {
    fn state(&self) -> PathBuf {
        self.directory.path().join("state.db")
    }

    fn options(&self) -> SqliteOptions {
        let (clock, store_clock) = (self.clock.clone(), self.clock.clone());
        SqliteOptions { clock, store_clock, busy_timeout: Duration::from_mins(1) }
    }
}

impl StoreFactory for Sqlite {
    fn make(&self) -> Box<dyn StoreUnderTest> {
        let home = SqliteHome { clock: Arc::new(ManualClock::new()), directory: tempfile::tempdir().unwrap() };
        SqliteStore::create(&home.state(), BTreeSet::from([store_id(9)]), home.options()).unwrap();
        Box::new(home)
    }
}

impl StoreUnderTest for SqliteHome {
    fn open(&self) -> Box<dyn StateStore> {
        Box::new(SqliteStore::open(&self.state(), self.options()).unwrap())
    }

    fn advance(&self, ms: u64) {
        self.clock.advance(ms);
    }

    fn begin_epoch(&self) -> bool {
        self.clock.reboot();
        true
    }

    fn mark_restored(&self) -> StoreIdentity {
        SqliteStore::mark_restored(&self.state(), self.options()).unwrap()
    }
}

fn store_id(number: u8) -> StoreId {
    StoreId::from_uuid(format!("cccccccc0000000000000000000000{number:02x}").parse().unwrap())
}

refrain_check::store_suite!(memory, Memory);
refrain_check::store_suite!(sqlite, Sqlite);
