//! The commit (4.2): one transaction.

use super::address;
use super::catalog::Target;
use super::modes::{self, Work};
use super::site::{Site, begin};
use super::{heads, stage, standing};
use refrain_core::{
    Adopt, CommitAnswer, CommitDecision, CommitOptions, CommitRequest, Condition, CrashPoint, CrashProbe, Error,
    ErrorKind, Head, Result, SlotAddress, decide_commit,
};
use refrain_postgres::{Committed, Fault, Limits, Transaction, quote_literal};
use std::time::Duration;

/// How often a lock is asked for.
const TRIES: u32 = 8;

/// How long one lock is waited for: everybody else queues behind whoever waits for a lock of a table (PGX-08).
const LOCK: Duration = Duration::from_secs(2);

/// Publishes sealed rows.
///
/// # Errors
/// `unknown` when the answer of COMMIT was lost: the identical request finds out, and waits for a server process that may
/// still be committing (PGX-01). Any other error: nothing was published.
///
/// # Crash safety
/// One transaction of the server. Dying inside leaves nothing; dying after it leaves the publication, with its head.
pub(super) fn commit(
    site: &Site,
    slot: &SlotAddress,
    request: &CommitRequest,
    options: CommitOptions,
    probe: &dyn CrashProbe,
) -> Result<CommitAnswer> {
    let mut tries = 1;
    loop {
        let answer = once(site, slot, request, options, probe);
        match answer {
            Err(fault) if fault.is_passing() && tries < TRIES => {
                tracing::info!(rule = "5.9", %slot, tries, ?fault, "the commit is tried again: nothing was published");
                std::thread::sleep(Duration::from_millis(100 * u64::from(tries)));
                tries += 1;
            }
            answer => return answer.map_err(|fault| fault.during(site.link())),
        }
    }
}

fn once(
    site: &Site,
    slot: &SlotAddress,
    request: &CommitRequest,
    options: CommitOptions,
    probe: &dyn CrashProbe,
) -> Result<CommitAnswer, Fault> {
    let name = address::place(slot)?.slot;
    let limits = Limits { lock: LOCK, statement: None, ..Limits::default() };
    site.with_session(|session| {
        let mut transaction = begin(session, Some(request.holder.attempt), &limits)?;
        if let Some(answer) = change(&mut transaction, slot, name, request, options)? {
            transaction.roll_back()?;
            return Ok(answer);
        }
        probe.reach(CrashPoint::BeforeDatabaseCommit);
        let question = format!("SELECT version::text FROM refrain.head WHERE slot = {}", quote_literal(name));
        let answer = transaction.commit(&question)?;
        probe.reach(CrashPoint::AfterDatabaseCommit);
        match answer {
            Committed::Yes(rows) => {
                let version = rows.first().and_then(|row| row.first()?.as_deref());
                if version == Some(request.fresh_version.to_string().as_str()) {
                    return Ok(CommitAnswer::Committed);
                }
                // It was rolled back (PGX-02), or somebody has claimed or published since: the head tells which.
                Err(Error::new(ErrorKind::Unknown, "the head shows another version right after the commit").into())
            }
            Committed::Unknown(why) => {
                Err(Error::new(ErrorKind::Unknown, format!("the answer of COMMIT was lost: {why}")).into())
            }
        }
    })
}

/// Everything but the COMMIT. An answer: there is nothing to commit.
fn change(
    transaction: &mut Transaction<'_>,
    slot: &SlotAddress,
    name: &str,
    request: &CommitRequest,
    options: CommitOptions,
) -> Result<Option<CommitAnswer>, Fault> {
    let locked = heads::lock(transaction, name)?.map(|standing| standing.head);
    let head = match decide_commit(locked.as_ref(), request) {
        CommitDecision::Accept(head) => *head,
        CommitDecision::Standing(_) => return Ok(Some(CommitAnswer::Committed)),
        CommitDecision::Rejected => return Ok(Some(CommitAnswer::Rejected)),
    };
    let (Some(standing), Some(data)) = (locked, request.publication.data_for(slot)) else {
        return Ok(Some(CommitAnswer::DataLost));
    };
    let Some(stage) = stage::find(transaction, request.publication.attempt, slot)? else {
        return Ok(Some(CommitAnswer::DataLost));
    };
    let Some(sealed) = stage.sealed.as_ref().filter(|sealed| sealed.digest == data.digest) else {
        return Ok(Some(CommitAnswer::DataLost));
    };
    refuse_surprises(transaction, name, &standing, options)?;
    let target = Target::find(transaction, &stage.manner.relation())?;
    let run = request.publication.run.run_id.to_string();
    let work = Work { head: &standing, target: &target, stage: &stage, sealed, run };
    let applied = modes::apply(transaction, &work)?;
    heads::save(transaction, name, &head, Some(&applied))?;
    stage::remove(transaction, &stage)?;
    Ok(None)
}

/// What stands there must be what the head says, or may be replaced (13.2).
fn refuse_surprises(
    transaction: &mut Transaction<'_>,
    name: &str,
    standing: &Head,
    options: CommitOptions,
) -> Result<(), Fault> {
    let published = standing.publication.is_some();
    let allowed = if published { options.overwrite_drift } else { options.adopt == Adopt::Foreign };
    if allowed || standing.taken_from.is_some() {
        return Ok(());
    }
    match standing::condition(transaction, name, published)? {
        Condition::Foreign(what) => {
            Err(Error::new(ErrorKind::Conflict, format!("{what} that refrain did not publish have appeared in {name}"))
                .hint("look at them; to let the publication replace them, add `--adopt`")
                .into())
        }
        Condition::Drifted(what) => Err(Error::new(ErrorKind::Conflict, format!("{name}: {what}")).into()),
        Condition::Absent | Condition::Intact | Condition::Missing => Ok(()),
    }
}
