//! A database with tables, and attempts that walk the sink's part of the protocol for them.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests that use a part of it"
)]

use refrain_core::{
    Adopt, AttemptId, ClaimAnswer, ClaimRequest, CommitAnswer, CommitOptions, CommitRequest, Condition, Error,
    Fingerprint, Generation, Guards, HeadVersion, Holder, Keep, Key, NoProbe, OutputSlot, Publication, Result, RunId,
    RunRecord, Sink, SlotAddress, SlotId, StagingId, StoreId, Token,
};
use refrain_postgres::Link;
use refrain_sink::PostgresSink;
use refrain_sink::postgres::{Comparison, Manner, Mode, ScopeCondition, Source};
use refrain_testkit::postgres::{Database, Proxy, Server, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uuid::Uuid;

pub const STRICT: CommitOptions = CommitOptions { adopt: Adopt::Never, overwrite_drift: false };
pub const ADOPT: CommitOptions = CommitOptions { adopt: Adopt::Foreign, overwrite_drift: false };

const STORE: StoreId = StoreId::from_uuid(Uuid::from_u128(1));

/// A database of its own, with tables.
pub struct Tables {
    pub database: Database,
    url: String,
    state: TempDir,
    tokens: AtomicU64,
}

impl Tables {
    pub fn new(version: Version, sql: &str) -> Self {
        Self::of(version, sql, "postgres")
    }

    /// The sink works as this role, which the statements make or the server has.
    pub fn of(version: Version, sql: &str, role: &str) -> Self {
        let database = Server::shared(version).database();
        database.psql(sql);
        Self::at(database, role)
    }

    /// The same in a database that is there.
    pub fn at(database: Database, role: &str) -> Self {
        let url = database.url_as(role);
        let tables = Self { url, database, state: TempDir::new().unwrap(), tokens: AtomicU64::new(0) };
        tables.sink().prepare(&tables.link()).unwrap();
        tables
    }

    pub fn psql(&self, sql: &str) -> String {
        self.database.psql(sql)
    }

    pub fn link(&self) -> Link {
        Link::parse(&self.url).unwrap()
    }

    /// A handle with sessions of its own.
    pub fn sink(&self) -> PostgresSink {
        PostgresSink::new(vec![self.link()], self.state.path(), Arc::new(NoProbe))
    }

    /// An attempt for a generation of the partition `p`, with a token above all others.
    pub fn attempt(&self, manner: &Manner, generation: u64) -> Attempt {
        self.attempt_for("p", manner, generation)
    }

    pub fn attempt_for(&self, partition: &str, manner: &Manner, generation: u64) -> Attempt {
        self.attempt_with(self.sink(), &self.link(), partition, manner, generation)
    }

    /// An attempt whose messages go through a proxy.
    pub fn attempt_through(&self, proxy: &Proxy, manner: &Manner, generation: u64) -> Attempt {
        let link = Link::parse(&proxy.url(&self.database)).unwrap();
        let sink = PostgresSink::new(vec![link.clone()], self.state.path(), Arc::new(NoProbe));
        self.attempt_with(sink, &link, "p", manner, generation)
    }

    /// Commits while `meanwhile` is done at the moment when the commit is about to say `needle`.
    pub fn commit_and_meanwhile(
        &self,
        manner: &Manner,
        generation: u64,
        rows: &str,
        needle: &str,
        meanwhile: impl FnOnce(),
    ) -> Result<()> {
        let proxy = Proxy::start(self.database.server().port());
        let attempt = self.attempt_through(&proxy, manner, generation);
        let request = attempt.prepare(self, rows)?;
        proxy.hold(needle.as_bytes());
        std::thread::scope(|scope| {
            let commit = scope.spawn(|| attempt.commit(&request));
            until(|| proxy.held() > 0 || commit.is_finished());
            meanwhile();
            proxy.release();
            commit.join().unwrap()
        })
    }

    /// Waits until a session of somebody waits for a lock that another one has.
    pub fn until_somebody_waits(&self) {
        let waiting =
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        until(|| self.psql(waiting) == "t");
    }

    fn attempt_with(
        &self,
        sink: PostgresSink,
        link: &Link,
        partition: &str,
        manner: &Manner,
        generation: u64,
    ) -> Attempt {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed) + 1;
        let key = Key { task: "daily".parse().unwrap(), partition: partition.to_owned() };
        let slot = sink.address(link, manner, &key).unwrap();
        let holder =
            Holder { store_id: STORE, token: Token::new(token), attempt: AttemptId::from_uuid(Uuid::new_v4()) };
        let run = RunRecord {
            generation: Generation::new(generation),
            run_id: run_id(partition, generation),
            inputs: Vec::new(),
            outputs: vec![OutputSlot {
                name: "out".to_owned(),
                slot: slot.clone(),
                manner: Some(manner.write().unwrap()),
            }],
            restores: None,
        };
        Attempt { sink, manner: manner.clone(), key, slot, holder, run, guards: Guards::default() }
    }

    /// Publishes the ordinary way: CSV for a file, statements for the staging table `STAGE` otherwise.
    pub fn publish(&self, manner: &Manner, generation: u64, rows: &str) -> Result<()> {
        let attempt = self.attempt(manner, generation);
        attempt.sink.preflight(&attempt.slot, Some(&manner.write()?), Adopt::Never)?;
        let request = attempt.prepare(self, rows)?;
        attempt.commit(&request)
    }

    /// What must not change by a publication: `pg_dump --schema-only`, without the key that each dump makes anew.
    pub fn schema(&self) -> String {
        let programs = self.database.server().version().programs();
        let dump = Command::new(programs.join("pg_dump"))
            .args(["--schema-only", "--dbname", &self.database.url()])
            .output()
            .unwrap_or_else(|error| panic!("pg_dump is missing in {}: {error}", programs.display()));
        assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        let text = String::from_utf8(dump.stdout).unwrap();
        assert!(text.contains("CREATE TABLE refrain.head"), "{text}");
        text.lines().filter(|line| !line.contains("restrict ")).collect::<Vec<_>>().join("\n")
    }
}

/// An attempt with a sink handle of its own.
pub struct Attempt {
    pub sink: PostgresSink,
    pub manner: Manner,
    pub key: Key,
    pub slot: SlotAddress,
    pub holder: Holder,
    pub run: RunRecord,
    pub guards: Guards,
}

impl Attempt {
    pub fn allow_empty(mut self) -> Self {
        self.guards.allow_empty = true;
        self
    }

    pub fn claim(&self) -> HeadVersion {
        match self.try_claim().unwrap() {
            ClaimAnswer::Claimed(head) => head.version,
            other => panic!("{other:?}"),
        }
    }

    pub fn try_claim(&self) -> Result<ClaimAnswer> {
        let request = ClaimRequest {
            owner: self.key.clone(),
            holder: self.holder,
            ancestors: BTreeSet::new(),
            slots: self.run.slots().cloned().collect(),
            fresh_slot_id: SlotId::from_uuid(Uuid::new_v4()),
            fresh_version: HeadVersion::from_uuid(Uuid::new_v4()),
            take_over: false,
        };
        self.sink.claim(&self.slot, &request)
    }

    /// Claims, stages and seals.
    pub fn prepare(&self, tables: &Tables, rows: &str) -> Result<CommitRequest> {
        let version = self.claim();
        self.seal(tables, version, rows)
    }

    pub fn seal(&self, tables: &Tables, version: HeadVersion, rows: &str) -> Result<CommitRequest> {
        let id = StagingId {
            holder: self.holder,
            generation: self.run.generation,
            slots: self.run.slots().cloned().collect(),
        };
        let staging = self.sink.stage(&self.slot, Some(&self.manner.write()?), &id)?;
        match &self.manner.source {
            Source::File { .. } => std::fs::write(&staging.place, rows).unwrap(),
            _ => drop(tables.psql(&rows.replace("STAGE", &staging.place))),
        }
        let data = self.sink.seal(staging, &self.guards)?.into_data().unwrap();
        Ok(CommitRequest {
            holder: self.holder,
            expected: version,
            fresh_version: HeadVersion::from_uuid(Uuid::new_v4()),
            publication: Publication {
                run: self.run.clone(),
                attempt: self.holder.attempt,
                data: vec![data],
                fingerprint: Fingerprint { digest: "blake3:00".to_owned(), parts: BTreeMap::new() },
                sealed_at: "2025-03-24T00:00:00Z".parse().unwrap(),
                edited: false,
                adopts: false,
            },
        })
    }

    /// Commits, and lets go what was replaced.
    pub fn commit(&self, request: &CommitRequest) -> Result<()> {
        match self.sink.commit(&self.slot, request, &STRICT)? {
            CommitAnswer::Committed => {
                self.sink.trim(&self.slot, &Keep::default(), request.publication.sealed_at, false).map(drop)
            }
            other => Err(Error::refused(format!("{other:?}"))),
        }
    }

    pub fn condition(&self) -> Condition {
        let head = self.sink.read(&self.slot).unwrap();
        self.sink.condition(&self.slot, head.as_ref()).unwrap()
    }
}

/// The run of a generation of a partition.
pub fn run_id(partition: &str, generation: u64) -> RunId {
    let partition = partition.bytes().fold(0u128, |sum, byte| sum * 256 + u128::from(byte));
    RunId::from_uuid(Uuid::from_u128(partition * 1_000_000 + u128::from(generation)))
}

/// Asks until it is so.
pub fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it never came so far");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A manner with nothing declared but the mode; rows come as a CSV file.
pub fn manner(mode: Mode, table: &str) -> Manner {
    Manner {
        schema: "public".to_owned(),
        table: table.to_owned(),
        mode,
        scope: vec![],
        source: Source::File { name: "rows.csv".to_owned(), format: "csv".to_owned(), null: None },
        key: vec![],
        exclude: vec![],
        set: vec![],
        set_again: false,
        order_by: vec![],
        delete_missing: false,
        run_column: None,
        covers: vec![],
        allow_shrink: false,
        truncate: false,
    }
}

pub fn equals(column: &str, value: &str) -> ScopeCondition {
    ScopeCondition { column: column.to_owned(), comparison: Comparison::Equal, value: value.to_owned() }
}

pub fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Both servers, one after the other.
pub fn on_each(test: impl Fn(Version)) {
    for version in Version::ALL {
        test(version);
    }
}

/// That an operation failed with this kind, and what it said.
#[track_caller]
pub fn fails<T: std::fmt::Debug>(kind: refrain_core::ErrorKind, result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    format!("{error} {}", error.hint.as_deref().unwrap_or_default())
}
