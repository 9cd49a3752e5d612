//! The state store of many hosts: tables in schema `refrain` of a PostgreSQL database.
//!
//! Every method is one transaction that locks the key's row, changes it by core's rules and saves it. Leases are measured by
//! the server's clock, which goes on while the server is restarted. Nothing outlives its transaction, so that a pooler in
//! transaction mode may stand between.
//!
//! # Lost connections
//!
//! What passes (a lost connection, a server that restarts, a deadlock, a row that is locked for too long) is tried again, in
//! each method, for at least as long as the longest lease that was asked for lasts: losing the server for less harms nothing.
//! Every method may be repeated after it was done without our knowing: an attempt that asks again gets the token it has
//! (3.1), a run that was opened is found (3.4b), an end that is recorded stays.
//!
//! # Crash safety
//!
//! A process that dies inside leaves all of a transaction or nothing. An acknowledged commit is on the server's disk,
//! whatever the role's `synchronous_commit` says: the holders live on other hosts, and a server that forgot a lease would
//! give its token twice. A store that was put back from a backup is met by 4.3 and 3.4a, and better declared (8.1).

mod attempts;
mod copy;
mod fault;
mod homes;
mod identity;
mod keys;
mod schema;
mod sessions;
mod watermarks;
mod work;

use fault::Fault;
use refrain_core::{
    Acquired, AttemptFilter, AttemptId, AttemptRecord, Clock, Ending, Foldable, Granted, Holder, Key, KeyState,
    KeySummary, LeaseRequest, OpenRun, Result, RunProposal, RunRecord, Shown, StateStore, StoreIdentity, StoreTime,
    TaskName, Token, Want, Watermark,
};
pub use refrain_postgres::Link;
use sessions::Sessions;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use work::{Work, columns};

/// How a database is worked with.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The wall clock, for what people read: when an attempt began.
    pub clock: Arc<dyn Clock>,
    /// What the server's own views show of our connections (`application_name`), at most 63 bytes.
    pub name: String,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A state store in a database.
///
/// May be used from several threads, each with a connection of its own while it asks; one stays open in between.
pub struct PostgresStore {
    sessions: Sessions,
    options: PostgresOptions,
    opened_as: Option<StoreIdentity>,
}

impl PostgresStore {
    /// Its tables, as SQL names them.
    pub const TABLES: &str = schema::TABLES;

    /// Whether the text of a configuration names such a store.
    pub fn is_one(text: &str) -> bool {
        Link::is_one(text)
    }

    /// The SQL that a database administrator runs, so that `role` can use a store in a database where it may not make one.
    /// Repeating it changes nothing.
    pub fn sql_for(role: &str) -> String {
        schema::sql_for(role)
    }

    /// Where the database is, without its password.
    pub fn link(&self) -> &Link {
        self.sessions.link()
    }

    /// Who it was when it was found: that needs no question. [`identity`](StateStore::identity) asks who it is now.
    pub fn opened_as(&self) -> Option<&StoreIdentity> {
        self.opened_as.as_ref()
    }

    fn with(link: &Link, options: PostgresOptions) -> Self {
        Self { sessions: Sessions::new(link.clone(), options.name.clone()), options, opened_as: None }
    }

    fn transact<T>(&self, work: impl FnMut(&mut Work<'_>) -> Result<T, Fault>) -> Result<T> {
        self.sessions.transact(work).map_err(|fault| self.told(fault))
    }

    fn transact_long<T>(&self, work: impl FnMut(&mut Work<'_>) -> Result<T, Fault>) -> Result<T> {
        self.sessions.transact_long(work).map_err(|fault| self.told(fault))
    }

    /// The error for the caller. Who may not is asked for the name it goes by here: the hint is SQL that grants it.
    fn told(&self, fault: Fault) -> refrain_core::Error {
        let fault = match fault {
            Fault::Session(refrain_postgres::Fault::Refused(refusal)) if refusal.code == fault::FORBIDDEN => {
                let role = self.sessions.transact(|work| {
                    let [role] = columns(work.query("SELECT current_user::text", &[])?);
                    Ok(role.unwrap_or_default())
                });
                match role {
                    Ok(role) => Fault::Forbidden { role, why: refusal.message },
                    Err(_) => Fault::Session(refrain_postgres::Fault::Refused(refusal)),
                }
            }
            fault => fault,
        };
        fault.at(self.link())
    }
}

impl StateStore for PostgresStore {
    fn identity(&self) -> Result<StoreIdentity> {
        self.transact(identity::load)
    }

    fn acquire(&self, key: &Key, request: &LeaseRequest) -> Result<Acquired> {
        self.sessions.leases_for(request.ttl_ms);
        let started_at = self.options.clock.now();
        let mut before: Option<Granted> = None;
        self.transact(|work| {
            let mut acquired = keys::acquire(work, key, request, started_at)?;
            if let Acquired::Granted(granted) = &mut acquired {
                // An earlier try may have been granted it, whose answer was lost with the holder that it displaced.
                if let Some(before) = before.take().filter(|before| before.token == granted.token) {
                    granted.unclean = granted.unclean.take().or(before.unclean);
                }
                before = Some(granted.clone());
            }
            Ok(acquired)
        })
    }

    fn renew(&self, key: &Key, holder: &Holder, ttl_ms: u64) -> Result<bool> {
        self.sessions.leases_for(ttl_ms);
        // Whoever renews comes back by itself, three times per ttl.
        let patience = Duration::from_millis(ttl_ms / 3);
        self.sessions
            .transact_within(patience, |work| keys::renew(work, key, holder, ttl_ms))
            .map_err(|fault| self.told(fault))
    }

    fn raise(&self, key: &Key, holder: &Holder, floor: Token) -> Result<Option<Token>> {
        let mut given = None;
        self.transact(|work| {
            given = keys::raise(work, key, holder, floor, given)?;
            Ok(given)
        })
    }

    fn open_run(
        &self,
        key: &Key,
        holder: &Holder,
        want: Want,
        seen: Option<&RunRecord>,
        proposal: Option<&RunProposal>,
    ) -> Result<Option<OpenRun>> {
        self.transact(|work| keys::open_run(work, key, holder, want, seen, proposal))
    }

    fn finish(&self, key: &Key, holder: &Holder, ending: &Ending) -> Result<()> {
        self.transact(|work| {
            keys::release(work, key, holder)?;
            attempts::settle(work, holder.attempt, ending)
        })
    }

    fn settle_attempt(&self, _key: &Key, attempt: AttemptId, ending: &Ending) -> Result<()> {
        self.transact(|work| attempts::settle(work, attempt, ending))
    }

    fn key(&self, key: &Key) -> Result<Option<KeyState>> {
        self.transact(|work| keys::state(work, key))
    }

    fn for_each_key(&self, task: Option<&TaskName>, each: &mut dyn FnMut(KeySummary) -> Result<()>) -> Result<()> {
        // By batches, so that neither memory nor a connection is taken up by the number of keys, and `each` may call the
        // store.
        let mut after: Option<Key> = None;
        loop {
            let batch = self.transact(|work| keys::summaries(work, task, after.as_ref()))?;
            let Some(last) = batch.last() else {
                return Ok(());
            };
            after = Some(last.key.clone());
            batch.into_iter().try_for_each(&mut *each)?;
        }
    }

    fn attempts(&self, filter: &AttemptFilter) -> Result<Vec<AttemptRecord>> {
        self.transact(|work| attempts::list(work, filter))
    }

    fn compact_attempts(&self, keep_per_key: u32, batch: u32) -> Result<u64> {
        /// Keys that one transaction looks at.
        const KEYS: usize = 256;
        let crowded = self.transact(|work| attempts::crowded(work, keep_per_key))?;
        let mut forgotten = 0;
        for keys in crowded.chunks(KEYS) {
            loop {
                let deleted = self.transact(|work| attempts::forget(work, keys, keep_per_key, batch))?;
                forgotten += deleted;
                if deleted < u64::from(batch.max(1)) {
                    break;
                }
            }
        }
        Ok(forgotten)
    }

    fn learn(&self, shown: &[Shown]) -> Result<u64> {
        // In one order, so that two of us never wait for each other.
        let mut shown: Vec<_> = shown.iter().collect();
        shown.sort_by(|one, other| one.attempt.key.cmp(&other.attempt.key));
        let mut most = 0;
        self.transact(|work| {
            let mut learned = 0;
            for shown in &shown {
                learned += u64::from(keys::learn(work, shown)?);
            }
            // An earlier try may have learned it, whose answer was lost.
            most = learned.max(most);
            Ok(most)
        })
    }

    fn fold(&self, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>> {
        self.transact(|work| watermarks::fold(work, task, keys))
    }

    fn watermark(&self, task: &TaskName) -> Result<Option<Watermark>> {
        self.transact(|work| watermarks::load(work, task))
    }

    /// The server's own autovacuum does it.
    fn reclaim(&self) -> Result<()> {
        Ok(())
    }

    fn now(&self) -> Result<StoreTime> {
        self.transact(keys::now)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("link", self.link())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
