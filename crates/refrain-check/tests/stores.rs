//! Every store passes the suite of stores.

#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use refrain_check::store_suite::{StoreFactory, StoreUnderTest};
use refrain_core::{StateStore, StoreId, StoreIdentity};
use refrain_object::{Environment, Settings};
use refrain_postgres::Link;
use refrain_store::{
    BucketOptions, BucketStore, ManualClock, MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore,
};
use refrain_testkit::object::{self, Kind};
use refrain_testkit::postgres::{Database, PgBouncer, Server, Version};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
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

/// A server, and whether a pooler in transaction mode stands before it (PGX-13).
struct Postgres(Version, bool);

struct PostgresHome {
    database: Database,
    pooler: Option<PgBouncer>,
}

impl PostgresHome {
    fn link(&self) -> Link {
        let url = self.pooler.as_ref().map_or_else(|| self.database.url(), PgBouncer::url);
        Link::parse(&url).unwrap()
    }

    fn options() -> PostgresOptions {
        PostgresOptions { clock: Arc::new(ManualClock::new()), name: "refrain suite".to_owned() }
    }

    fn store(&self) -> PostgresStore {
        PostgresStore::find(&self.link(), Self::options()).unwrap().unwrap()
    }
}

impl StoreFactory for Postgres {
    fn make(&self) -> Box<dyn StoreUnderTest> {
        let database = Server::shared(self.0).database();
        let pooler = self.1.then(|| PgBouncer::start(&database));
        let home = PostgresHome { database, pooler };
        PostgresStore::create(&home.link(), BTreeSet::from([store_id(9)]), PostgresHome::options()).unwrap();
        Box::new(home)
    }
}

impl StoreUnderTest for PostgresHome {
    fn open(&self) -> Box<dyn StateStore> {
        Box::new(self.store())
    }

    /// The server's clock is everybody's; so the leases get older instead.
    fn advance(&self, ms: u64) {
        self.database.psql(&format!(
            "UPDATE refrain.key SET record = jsonb_set(record::jsonb, '{{lease,expires,ms}}', to_jsonb((record::jsonb #>> \
             '{{lease,expires,ms}}')::bigint - {ms}))::text WHERE leased"
        ));
    }

    fn drift_ms(&self) -> u64 {
        5_000
    }

    /// The clock of a server goes on while it is restarted.
    fn begin_epoch(&self) -> bool {
        false
    }

    fn mark_restored(&self) -> StoreIdentity {
        self.store().mark_restored().unwrap()
    }
}

/// A kind of object store.
struct Objects(Kind);

struct ObjectsHome {
    bucket: &'static object::Bucket,
    area: String,
}

impl ObjectsHome {
    fn store(&self) -> Option<BucketStore> {
        let (address, settings) = self.place();
        BucketStore::find(&address, &settings, Self::options()).unwrap()
    }

    fn place(&self) -> (refrain_object::Address, Settings) {
        let environment = Environment::of(self.bucket.environment());
        let address = BucketStore::address_of(&self.bucket.url(&self.area)).unwrap();
        (address, Settings { environment, ..Settings::default() })
    }

    fn options() -> BucketOptions {
        BucketOptions { clock: Arc::new(ManualClock::new()) }
    }
}

impl StoreFactory for Objects {
    fn make(&self) -> Box<dyn StoreUnderTest> {
        // Many stores are in one bucket, each below a prefix of its own: some servers take room for every bucket.
        static BUCKETS: [OnceLock<object::Bucket>; 4] = [const { OnceLock::new() }; 4];
        static CASES: AtomicU32 = AtomicU32::new(0);
        let bucket = BUCKETS[self.0 as usize].get_or_init(|| object::Server::shared(self.0).bucket());
        let area = format!("team {}/_refrain/", CASES.fetch_add(1, Ordering::Relaxed));
        let home = ObjectsHome { bucket, area };
        let (address, settings) = home.place();
        let replaces = BTreeSet::from([store_id(9)]);
        BucketStore::create(&address, &settings, replaces, ObjectsHome::options()).unwrap();
        Box::new(home)
    }
}

impl StoreUnderTest for ObjectsHome {
    fn open(&self) -> Box<dyn StateStore> {
        Box::new(self.store().unwrap())
    }

    /// The server's clock is everybody's; so the leases get older instead, by what the store does not know of its clock,
    /// too.
    fn advance(&self, ms: u64) {
        const DOUBT_MS: u64 = 1500;
        for key in self.bucket.keys(&format!("{}key/", self.area)) {
            let mut record: serde_json::Value = serde_json::from_slice(&self.bucket.get(&key).unwrap()).unwrap();
            if let Some(expires) = record.pointer_mut("/lease/expires/ms") {
                *expires = (expires.as_u64().unwrap() - ms - DOUBT_MS).into();
                self.bucket.put(&key, &serde_json::to_vec(&record).unwrap());
            }
        }
    }

    fn drift_ms(&self) -> u64 {
        6_000
    }

    /// The clock of a server goes on while it is restarted.
    fn begin_epoch(&self) -> bool {
        false
    }

    fn mark_restored(&self) -> StoreIdentity {
        self.store().unwrap().mark_restored().unwrap()
    }
}

fn store_id(number: u8) -> StoreId {
    StoreId::from_uuid(format!("cccccccc0000000000000000000000{number:02x}").parse().unwrap())
}

refrain_check::store_suite!(memory, Memory);
refrain_check::store_suite!(sqlite, Sqlite);
refrain_check::store_suite!(postgres_15, Postgres(Version::V15, false));
refrain_check::store_suite!(postgres_18, Postgres(Version::V18, false));
refrain_check::store_suite!(postgres_behind_a_pooler, Postgres(Version::V15, true));
refrain_check::store_suite!(objects_ministack, Objects(Kind::MiniStack));
refrain_check::store_suite!(objects_seaweedfs, Objects(Kind::SeaweedFs));
refrain_check::store_suite!(objects_azurite, Objects(Kind::Azurite));
refrain_check::store_suite!(objects_gcs, Objects(Kind::Gcs));
