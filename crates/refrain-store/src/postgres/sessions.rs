//! The connections of one process: few, made when they are needed, used again, and made anew when they were lost.

use super::fault::Fault;
use super::work::{Work, transact};
use crate::chance::jittered;
use crate::clock::Stopwatch;
use refrain_postgres::{Limits, Link, Session};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The most connections of one process: a renewal need not wait for another thread's question (LEASE-05), and a
/// program that runs hundreds of attempts in threads does not take the server's last connection (DATE-10).
const MOST: usize = 4;
/// So many stay open while nobody asks.
const IDLE: usize = 1;

/// How long to try before the server was ever reached: it may be starting.
const FIRST_PATIENCE: Duration = Duration::from_secs(3);
/// How long to try at least once it was reached: it may be restarting, or be replaced by its standby.
const PATIENCE: Duration = Duration::from_secs(10);
/// A server that is asked at all has so long to answer.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);
/// The first pause between two tries, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A transaction is a handful of statements on single rows: nobody holds a row for long (4.6), and a client that is
/// frozen inside one loses it (PGX-14).
const LIMITS: Limits =
    Limits { lock: Duration::from_secs(5), statement: Some(Duration::from_secs(30)), idle: Duration::from_secs(5) };

/// A copy of a home's history, or an operator's word, waits longer.
const LONG_LIMITS: Limits = Limits { lock: Duration::from_secs(30), statement: None, idle: Duration::from_mins(5) };

pub(super) struct Sessions {
    link: Link,
    name: String,
    pool: Mutex<Pool>,
    freed: Condvar,
    reached: AtomicBool,
    /// The longest lease that was asked for, in milliseconds: while one may be held, a lost server is waited for so long.
    lease_ms: AtomicU64,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Session>,
    /// In use at this moment.
    used: usize,
}

impl Sessions {
    pub(super) fn new(link: Link, name: String) -> Self {
        Self {
            link,
            name,
            pool: Mutex::default(),
            freed: Condvar::new(),
            reached: AtomicBool::new(false),
            lease_ms: AtomicU64::new(0),
        }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// A lease of this length is asked for: losing the server for less must harm nothing.
    pub(super) fn leases_for(&self, ttl_ms: u64) {
        self.lease_ms.fetch_max(ttl_ms, Ordering::Relaxed);
    }

    /// Does the work in one transaction, again and again while what goes wrong may pass: the work must be one that may
    /// be repeated, also after it was done without our knowing.
    pub(super) fn transact<T>(&self, work: impl FnMut(&mut Work<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        self.patiently(None, &LIMITS, work)
    }

    /// The same for so long at most.
    pub(super) fn transact_within<T>(
        &self,
        patience: Duration,
        work: impl FnMut(&mut Work<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.patiently(Some(patience), &LIMITS, work)
    }

    /// The same for work that may take its time.
    pub(super) fn transact_long<T>(&self, work: impl FnMut(&mut Work<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        self.patiently(None, &LONG_LIMITS, work)
    }

    fn patiently<T>(
        &self,
        patience: Option<Duration>,
        limits: &Limits,
        mut work: impl FnMut(&mut Work<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let watch = Stopwatch::start();
        let (mut pause, longest) = PAUSES;
        loop {
            let fault = match self.once(limits, patience.map(|limit| limit.saturating_sub(watch.elapsed())), &mut work)
            {
                Err(fault) if fault.is_passing() => fault,
                answer => return answer,
            };
            if watch.elapsed() + pause > patience.unwrap_or_else(|| self.patience()) {
                return Err(fault);
            }
            thread::sleep(jittered(pause));
            pause = (pause * 2).min(longest);
        }
    }

    fn patience(&self) -> Duration {
        if !self.reached.load(Ordering::Relaxed) {
            return FIRST_PATIENCE;
        }
        PATIENCE.max(Duration::from_millis(self.lease_ms.load(Ordering::Relaxed)))
    }

    /// One try. `patience` is what is left of the caller's own, if he has to have an answer by some moment.
    fn once<T>(
        &self,
        limits: &Limits,
        patience: Option<Duration>,
        work: &mut impl FnMut(&mut Work<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut turn = self.turn();
        let mut session = match turn.session.take() {
            Some(session) => session,
            None => Session::open(&self.link, &self.name)?,
        };
        self.reached.store(true, Ordering::Relaxed);
        // Work that may take its time has no limit for an answer.
        let patience = limits.statement.map(|_| patience.unwrap_or_else(|| self.patience()).max(LEAST_PATIENCE));
        session.be_patient_for(patience);
        let answer = session.write(limits).map_err(Fault::from).and_then(|transaction| transact(transaction, work));
        // After a doubtful end nobody knows what the server makes of the connection.
        let is_sound = !session.is_closed() && !answer.as_ref().is_err_and(Fault::is_passing);
        turn.session = is_sound.then_some(session);
        answer
    }

    /// Waits until one more connection may be used.
    fn turn(&self) -> Turn<'_> {
        let pool = self.pool();
        let mut pool = self.freed.wait_while(pool, |pool| pool.used >= MOST).unwrap_or_else(PoisonError::into_inner);
        pool.used += 1;
        while let Some(session) = pool.idle.pop() {
            if !session.is_closed() {
                return Turn { sessions: self, session: Some(session) };
            }
        }
        Turn { sessions: self, session: None }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to use one connection; what it holds at its end is kept for the next.
struct Turn<'s> {
    sessions: &'s Sessions,
    session: Option<Session>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut pool = self.sessions.pool();
        pool.used -= 1;
        if let Some(session) = self.session.take()
            && pool.idle.len() < IDLE
        {
            pool.idle.push(session);
        }
        drop(pool);
        self.sessions.freed.notify_one();
    }
}
