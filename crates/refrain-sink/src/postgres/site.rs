//! One database: its sessions, and its identity.

use super::schema;
use refrain_core::{AttemptId, Error, Result};
use refrain_postgres::{Committed, Fault, Limits, Link, Session, Transaction, quote_identifier};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How the sessions of attempts are called, before their id.
pub(super) const APPLICATION: &str = "refrain attempt";

/// How often something is tried again that may pass.
const TRIES: u32 = 4;

/// A database in which tables are published.
#[derive(Debug)]
pub(super) struct Site {
    link: Link,
    id: Mutex<Option<String>>,
    idle: Mutex<Vec<Session>>,
}

impl Site {
    pub(super) fn new(link: Link) -> Self {
        Self { link, id: Mutex::new(None), idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// The database's own identity, the same by whatever name it is reached; nothing while nothing was published there.
    pub(super) fn id(&self) -> Result<Option<String>> {
        let known = || self.id.lock().unwrap_or_else(PoisonError::into_inner);
        if known().is_none() {
            let found = self.try_look(None, schema::site).map_err(|fault| self.told(fault))?;
            *known() = found;
        }
        Ok(known().clone())
    }

    /// Makes the tables where they are missing; whether any were.
    pub(super) fn prepare(&self) -> Result<bool> {
        if self.id()?.is_some() {
            return Ok(false);
        }
        self.try_change(None, &Limits::default(), schema::make).map_err(|fault| self.told(fault))?;
        self.id().map(|_| true)
    }

    /// What went wrong with the tables of the sink; to a role that may not use or make them, the command that mends it.
    fn told(&self, fault: Fault) -> Error {
        let forbidden = fault.code() == Some("42501");
        let error = fault.during(&self.link);
        if !forbidden {
            return error;
        }
        let role = self.look(None, |transaction| transaction.query("SELECT current_user::text", &[]));
        let role = role.ok().and_then(|rows| rows.into_iter().flatten().flatten().next());
        error.hint(format!(
            "let somebody who may create schemas there run, once: refrain sinks --sql {} | psql {}",
            role.unwrap_or_else(|| "ROLE".to_owned()),
            self.link
        ))
    }

    /// Looks at something in one transaction that is rolled back.
    pub(super) fn look<T>(
        &self,
        attempt: Option<AttemptId>,
        work: impl Fn(&mut Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T> {
        self.try_look(attempt, work).map_err(|fault| fault.during(&self.link))
    }

    fn try_look<T>(
        &self,
        attempt: Option<AttemptId>,
        work: impl Fn(&mut Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.try_patiently(|session| {
            let mut transaction = begin(session, attempt, &Limits::default())?;
            let found = work(&mut transaction)?;
            transaction.roll_back()?;
            Ok(found)
        })
    }

    /// Changes something in one transaction. `work` may be done again when its answer was lost: it must find out by itself
    /// that it was done.
    pub(super) fn change<T>(
        &self,
        attempt: Option<AttemptId>,
        work: impl Fn(&mut Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T> {
        self.change_within(attempt, &Limits::default(), work)
    }

    /// The same with other limits.
    pub(super) fn change_within<T>(
        &self,
        attempt: Option<AttemptId>,
        limits: &Limits,
        work: impl Fn(&mut Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T> {
        self.try_change(attempt, limits, work).map_err(|fault| fault.during(&self.link))
    }

    /// The same, for a caller who has more to say of what went wrong.
    pub(super) fn try_change<T>(
        &self,
        attempt: Option<AttemptId>,
        limits: &Limits,
        work: impl Fn(&mut Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.try_patiently(|session| finish(begin(session, attempt, limits)?, &work))
    }

    /// The same, and all that it reads is of one moment: that of the first statement that reads.
    pub(super) fn change_on_snapshot<T>(
        &self,
        attempt: AttemptId,
        limits: &Limits,
        work: impl Fn(&mut Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T> {
        self.patiently(|session| {
            let mut transaction = session.snapshot(limits)?;
            introduce(&mut transaction, Some(attempt))?;
            finish(transaction, &work)
        })
    }

    /// Does something with a session, and again while it fails in a way that may pass.
    pub(super) fn patiently<T>(&self, work: impl Fn(&mut Session) -> Result<T, Fault>) -> Result<T> {
        self.try_patiently(work).map_err(|fault| fault.during(&self.link))
    }

    fn try_patiently<T>(&self, work: impl Fn(&mut Session) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut attempt = 1;
        loop {
            let done = self.with_session(&work);
            match done {
                Err(fault) if fault.is_passing() && attempt < TRIES => {
                    tracing::debug!(%attempt, ?fault, "trying again");
                    std::thread::sleep(Duration::from_millis(50 * u64::from(attempt)));
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// Does something with a session once.
    pub(super) fn with_session<T>(&self, work: impl FnOnce(&mut Session) -> Result<T, Fault>) -> Result<T, Fault> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop().filter(|session| !session.is_closed());
        let mut session = match kept {
            Some(session) => session,
            None => Session::open(&self.link, "refrain")?,
        };
        let done = work(&mut session);
        if !session.is_closed() && !matches!(done, Err(Fault::Lost(_))) {
            idle().push(session);
        }
        done
    }
}

/// Begins a transaction that the server's views show with the attempt's name.
pub(super) fn begin<'s>(
    session: &'s mut Session,
    attempt: Option<AttemptId>,
    limits: &Limits,
) -> Result<Transaction<'s>, Fault> {
    let mut transaction = session.write(limits)?;
    introduce(&mut transaction, attempt)?;
    Ok(transaction)
}

/// Gives the session the attempt's name until the transaction ends.
///
/// # Errors
/// `invalid` where triggers and foreign keys are switched off for the role or the database: it may not switch them on
/// (<https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE>).
pub(super) fn introduce(transaction: &mut Transaction<'_>, attempt: Option<AttemptId>) -> Result<(), Fault> {
    let Some(attempt) = attempt else { return Ok(()) };
    let replays = transaction.simple(&format!(
        "SET LOCAL application_name = '{APPLICATION} {attempt}'; SELECT current_user, current_database() \
         WHERE current_setting('session_replication_role') = 'replica'"
    ))?;
    match replays.first().map(Vec::as_slice) {
        Some([Some(role), Some(database)]) => Err(Error::invalid(format!(
            "session_replication_role is `replica` for the role {}: triggers and foreign keys of tables would be passed over",
            quote_identifier(role)
        ))
        .hint(format!(
            "ALTER ROLE {} RESET session_replication_role; ALTER DATABASE {} RESET session_replication_role; or leave it out \
             of `options` and PGOPTIONS",
            quote_identifier(role),
            quote_identifier(database)
        ))
        .into()),
        _ => Ok(()),
    }
}

fn finish<T>(
    mut transaction: Transaction<'_>,
    work: impl Fn(&mut Transaction<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let done = work(&mut transaction)?;
    match transaction.commit("SELECT 1")? {
        Committed::Yes(_) => Ok(done),
        Committed::Unknown(why) => Err(Fault::Lost(why)),
    }
}
