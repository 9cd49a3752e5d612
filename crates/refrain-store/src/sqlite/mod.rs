//! The embedded state store: one SQLite file, shared by all processes of one host.
//!
//! # Crash safety
//!
//! Every method is one transaction in the write-ahead log, so a killed process leaves all of it or nothing.
//! Only a power cut (or a kernel crash) can take back what was written without a sync, and only
//! [`open_run`](StateStore::open_run) syncs: one `fdatasync` of the log for a complete run of a key. That is
//! enough on one host, because after a power cut every process of the host is dead:
//!
//! - a lease that was forgotten had a dead holder; the next attempt may have the key at once;
//! - a token that went back was granted to a dead holder; should a slot bear its claim, the next attempt is
//!   fenced there and raised above it (4.3);
//! - the end of an attempt that was forgotten is found out again from the sinks (5.12);
//! - the pins of a run are durable before its first attempt starts the task, so that every retry reads the
//!   same input.
//!
//! SQLite's own `synchronous=FULL` would do the same with one sync more, as every process syncs the directory
//! together with its first sync of the log. The log outlives the processes (closing neither checkpoints nor
//! deletes it), so that no process has to begin a new one. About every twentieth run moves the log's content into
//! the database, as SQLite does by itself, and pays a few syncs more.

mod attempts;
mod fault;
mod file;
mod history;
mod identity;
mod keys;
mod schema;
mod watermarks;

use crate::{BootClock, StoreClock};
use fault::Fault;
pub(crate) use history::History;
use refrain_core::{
    Acquired, AttemptFilter, AttemptId, AttemptRecord, Clock, Ending, Foldable, Holder, Key, KeyState, KeySummary,
    LeaseRequest, OpenRun, Result, RunProposal, RunRecord, Shown, StateStore, StoreIdentity, StoreTime, TaskName,
    Token, Want, Watermark,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a state file is worked with.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The wall clock, for what people read: when an attempt began.
    pub clock: Arc<dyn Clock>,
    /// The clock that leases are measured by.
    pub store_clock: Arc<dyn StoreClock>,
    /// How long to wait for other processes before the store counts as unavailable.
    pub busy_timeout: Duration,
}

impl SqliteOptions {
    /// Leases by the time since boot, 30 seconds of patience.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self> {
        Ok(Self { clock, store_clock: Arc::new(BootClock::new()?), busy_timeout: Duration::from_secs(30) })
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("store_clock", &self.store_clock)
            .field("busy_timeout", &self.busy_timeout)
            .finish_non_exhaustive()
    }
}

/// A state store in one SQLite file.
///
/// May be used from several threads, which take turns; a thread that must not wait for the others has a
/// connection of its own by [`reopen`](Self::reopen).
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    connection: Mutex<Connection>,
}

impl SqliteStore {
    /// Opens a state that [`create`](Self::create) made.
    ///
    /// # Errors
    ///
    /// `Invalid`: there is none, or it cannot be written; the hint names `refrain init`. `Unsupported`: a newer
    /// format, or a filesystem where locks do not work. `Corrupt`: damaged; the hint says how to go on.
    ///
    /// # Crash safety
    ///
    /// A state of an earlier format is brought up to date in one transaction.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        // SQLite answers "busy" at once to whoever makes a file a log while another looks at it: so nobody looks.
        if file::check(path)? == 0 {
            drop(file::creation(path)?);
        }
        let store = Self::connect(path, options)?;
        let is_current = || patiently(|| schema::is_current(&store.connection()));
        let current = match is_current() {
            Err(Fault::Empty) => {
                drop(file::creation(path)?);
                is_current()
            }
            answer => answer,
        };
        if !current.map_err(|fault| fault.at(path))? {
            store.write(schema::migrate)?;
        }
        Ok(store)
    }

    /// A further connection to the same state, for a thread that must not wait for this one.
    pub fn reopen(&self) -> Result<Self> {
        Self::open(&self.path, self.options.clone())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(path: &Path, options: SqliteOptions) -> Result<Self> {
        let connection = patiently(|| configure(path, &options)).map_err(|fault| fault.at(path))?;
        Ok(Self { path: path.to_owned(), options, connection: Mutex::new(connection) })
    }

    /// A panic elsewhere while the lock was held has rolled its transaction back: the connection is sound.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One transaction that may write. Nothing is written to the disk when `work` changes nothing.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>) -> Result<T> {
        let connection = self.connection();
        let transact = || {
            // IMMEDIATE: the wait for other writers is here, before anything was read that they may change.
            let transaction =
                patiently(|| Ok(Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?))?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        transact().map_err(|fault: Fault| fault.at(&self.path))
    }

    /// One transaction that only reads: it sees one moment and waits for no writer.
    fn read<T>(&self, work: impl Fn(&Transaction<'_>) -> Result<T, Fault>) -> Result<T> {
        let connection = self.connection();
        patiently(|| work(&Transaction::new_unchecked(&connection, TransactionBehavior::Deferred)?))
            .map_err(|fault| fault.at(&self.path))
    }

    /// Everything committed so far survives a power cut when this returns.
    ///
    /// The log cannot be replaced meanwhile: only the last connection to close deletes it, and this one is open.
    /// If another process has just moved the log's content into the database, it has synced both. The log's name
    /// is durable: whoever writes the first header of a log has SQLite sync the log and its directory.
    fn make_durable(&self) -> Result<()> {
        File::open(file::wal(&self.path))
            .and_then(|log| log.sync_data())
            .map_err(|source| Fault::NotDurable(source).at(&self.path))
    }
}

impl StateStore for SqliteStore {
    fn identity(&self) -> Result<StoreIdentity> {
        self.read(|transaction| identity::load(transaction))
    }

    fn acquire(&self, key: &Key, request: &LeaseRequest) -> Result<Acquired> {
        let now = self.now()?;
        let started_at = self.options.clock.now();
        self.write(|transaction| keys::acquire(transaction, key, request, &now, started_at))
    }

    fn renew(&self, key: &Key, holder: &Holder, ttl_ms: u64) -> Result<bool> {
        let now = self.now()?;
        self.write(|transaction| keys::renew(transaction, key, holder, &now, ttl_ms))
    }

    fn raise(&self, key: &Key, holder: &Holder, floor: Token) -> Result<Option<Token>> {
        self.write(|transaction| keys::raise(transaction, key, holder, floor))
    }

    /// # Crash safety
    ///
    /// The run is durable when this returns it. Killed before: the run may be there or not, and asking again
    /// gives the one that is there. Also a run that another attempt opened is synced, as that attempt may have
    /// been killed before its own sync; where nothing is to be written the sync costs nearly nothing.
    fn open_run(
        &self,
        key: &Key,
        holder: &Holder,
        want: Want,
        seen: Option<&RunRecord>,
        proposal: Option<&RunProposal>,
    ) -> Result<Option<OpenRun>> {
        let answer = self.write(|transaction| keys::open_run(transaction, key, holder, want, seen, proposal))?;
        if matches!(answer, Some(OpenRun::Run(_))) {
            self.make_durable()?;
        }
        Ok(answer)
    }

    fn finish(&self, key: &Key, holder: &Holder, ending: &Ending) -> Result<()> {
        self.write(|transaction| {
            keys::release(transaction, key, holder)?;
            attempts::settle(transaction, holder.attempt, ending)
        })
    }

    fn settle_attempt(&self, _key: &Key, attempt: AttemptId, ending: &Ending) -> Result<()> {
        self.write(|transaction| attempts::settle(transaction, attempt, ending))
    }

    fn key(&self, key: &Key) -> Result<Option<KeyState>> {
        self.read(|transaction| keys::state(transaction, key))
    }

    fn for_each_key(&self, task: Option<&TaskName>, each: &mut dyn FnMut(KeySummary) -> Result<()>) -> Result<()> {
        // By batches, so that neither memory nor the time that others wait for the connection grows with the
        // number of keys, and `each` may call the store.
        let mut after: Option<Key> = None;
        loop {
            let batch = self.read(|transaction| keys::summaries(transaction, task, after.as_ref()))?;
            let Some(last) = batch.last() else {
                return Ok(());
            };
            after = Some(last.key.clone());
            batch.into_iter().try_for_each(&mut *each)?;
        }
    }

    fn attempts(&self, filter: &AttemptFilter) -> Result<Vec<AttemptRecord>> {
        self.read(|transaction| attempts::list(transaction, filter))
    }

    fn compact_attempts(&self, keep_per_key: u32, batch: u32) -> Result<u64> {
        let mut crowded = self.read(|transaction| attempts::crowded(transaction, keep_per_key))?;
        let mut forgotten = 0;
        while !crowded.is_empty() {
            forgotten += self.write(|transaction| attempts::forget(transaction, &mut crowded, keep_per_key, batch))?;
        }
        Ok(forgotten)
    }

    fn learn(&self, shown: &[Shown]) -> Result<u64> {
        let learned = self.write(|transaction| {
            let mut learned = 0;
            for shown in shown {
                learned += u64::from(keys::learn(transaction, shown)?);
            }
            Ok(learned)
        })?;
        self.make_durable()?;
        Ok(learned)
    }

    fn fold(&self, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>> {
        self.write(|transaction| watermarks::fold(transaction, task, keys))
    }

    fn watermark(&self, task: &TaskName) -> Result<Option<Watermark>> {
        self.read(|transaction| watermarks::load(transaction, task))
    }

    fn reclaim(&self) -> Result<()> {
        watermarks::reclaim(&self.connection()).map_err(|fault| fault.at(&self.path))
    }

    fn now(&self) -> Result<StoreTime> {
        self.options.store_clock.now()
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).field("options", &self.options).finish_non_exhaustive()
    }
}

/// Tries again where SQLite itself gives up before the busy timeout: among many processes that open a state at
/// once it may lose the race for a read mark a hundred times (SQLITE_PROTOCOL, <https://sqlite.org/rescode.html>).
/// Each try has taken seconds by then.
fn patiently<T>(work: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
    const TRIES: u32 = 3;
    for _ in 1..TRIES {
        match work() {
            Err(Fault::Sqlite(error)) if error.sqlite_error_code() == Some(ErrorCode::FileLockingProtocolFailed) => {}
            result => return result,
        }
    }
    work()
}

fn configure(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
    // Neither CREATE nor URI: a missing file is an error, and `?` is an ordinary letter in a path.
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(options.busy_timeout)?;
    // Closing shall cost no sync and leave the log in place for the next process.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Already so in a state of ours, unless it came back from a backup that was made by `VACUUM INTO`.
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" || connection.is_readonly("main")? {
        return Err(Fault::ReadOnly);
    }
    // Syncs at checkpoints only, which keeps the file sound; `make_durable` does the rest.
    // Whoever opens the state alone reads the whole log first: a short log keeps that far below a millisecond, at the
    // price of two more syncs every dozen runs.
    connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 256")?;
    Ok(connection)
}
