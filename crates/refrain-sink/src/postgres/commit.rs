//! The commit (4.2): one transaction.

use super::catalog::Target;
use super::manner::Mode;
use super::modes::swap::{self, Seen};
use super::modes::{self, Work};
use super::site::{Site, begin};
use super::stage::Stage;
use super::{address, demand, heads, locks, shape, stage, standing};
use refrain_core::{
    Adopt, CommitAnswer, CommitDecision, CommitOptions, CommitRequest, Condition, CrashPoint, CrashProbe, Error,
    ErrorKind, Head, Result, SlotAddress, decide_commit,
};
use refrain_postgres::{Committed, Fault, Limits, Session, Transaction, quote_literal};

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
            Err(fault) if fault.is_passing() && tries < locks::tries(&fault) => {
                tracing::info!(rule = "5.9", %slot, tries, ?fault, "the commit is tried again: nothing was published");
                std::thread::sleep(locks::pause(request.holder.attempt, tries));
                tries += 1;
            }
            answer => {
                return answer.map_err(|fault| locks::explain(site, slot, request.publication.attempt, fault));
            }
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
    let limits = Limits { lock: locks::ROW, statement: None, ..Limits::default() };
    site.with_session(|session| {
        let pinned = demand(slot, request.publication.run.manner(slot));
        // What was staged may be published in another way than the run was opened with: then the transaction finds out.
        let exchanges = pinned.is_ok_and(|manner| manner.mode == Mode::SwapPartition);
        let mut seen = if exchanges { look(session, &limits, slot, request, options)? } else { None };
        let mut transaction = begin(session, Some(request.holder.attempt), &limits)?;
        let mut found = change(&mut transaction, slot, name, request, options, seen.as_ref())?;
        if matches!(found, Change::LookFirst) && !exchanges {
            transaction.roll_back()?;
            seen = look(session, &limits, slot, request, options)?;
            transaction = begin(session, Some(request.holder.attempt), &limits)?;
            found = change(&mut transaction, slot, name, request, options, seen.as_ref())?;
        }
        match found {
            Change::Made => {}
            Change::Nothing(answer) => {
                transaction.roll_back()?;
                return Ok(answer);
            }
            Change::LookFirst => return Err(locks::again("the rows that are to be exchanged could not be counted")),
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

/// What a transaction found to commit.
enum Change {
    Made,
    /// There is nothing to commit.
    Nothing(CommitAnswer),
    /// Partitions are to be exchanged whose rows nobody has counted yet.
    LookFirst,
}

/// Everything but the COMMIT.
fn change(
    transaction: &mut Transaction<'_>,
    slot: &SlotAddress,
    name: &str,
    request: &CommitRequest,
    options: CommitOptions,
    seen: Option<&Seen>,
) -> Result<Change, Fault> {
    let locked = heads::lock(transaction, name)?;
    let head = match decide_commit(locked.as_ref().map(|standing| &standing.head), request) {
        CommitDecision::Accept(head) => *head,
        CommitDecision::Standing(_) => return Ok(Change::Nothing(CommitAnswer::Committed)),
        CommitDecision::Rejected => return Ok(Change::Nothing(CommitAnswer::Rejected)),
    };
    let (Some(standing), Some(data)) = (locked, request.publication.data_for(slot)) else {
        return Ok(Change::Nothing(CommitAnswer::DataLost));
    };
    let Some(stage) = stage::find(transaction, request.publication.attempt, slot)? else {
        return Ok(Change::Nothing(CommitAnswer::DataLost));
    };
    if !shape::is_there(transaction, &stage)? {
        return Ok(Change::Nothing(CommitAnswer::DataLost));
    }
    let Some(sealed) = stage.sealed.as_ref().filter(|sealed| sealed.digest == data.digest) else {
        return Ok(Change::Nothing(CommitAnswer::DataLost));
    };
    let target = Target::find(transaction, &stage.manner.relation())?;
    if stage.manner.mode == Mode::SwapPartition {
        let Some(seen) = seen else { return Ok(Change::LookFirst) };
        if swap::glance(transaction, &target, &stage)? != *seen {
            return Err(locks::again("the rows have been written to since they were counted"));
        }
    } else {
        refuse_surprises(transaction, name, &standing.head, options)?;
    }
    shape::fits(transaction, &stage, sealed, &target)?;
    let run = request.publication.run.run_id.to_string();
    let work = Work { standing: &standing, adopt: options.adopt, target: &target, stage: &stage, sealed, run };
    let applied = modes::apply(transaction, &work)?;
    heads::save(transaction, name, &head, Some(&applied))?;
    // An exchange puts the old partition in its place.
    if stage.manner.mode != Mode::SwapPartition {
        stage::remove(transaction, &stage)?;
    }
    Ok(Change::Made)
}

/// Counts what an exchange of partitions does not read, before its transaction: what that one takes does not depend on the
/// number of rows. Nothing where there is nothing to exchange; the transaction finds out why.
fn look(
    session: &mut Session,
    limits: &Limits,
    slot: &SlotAddress,
    request: &CommitRequest,
    options: CommitOptions,
) -> Result<Option<Seen>, Fault> {
    let name = address::place(slot)?.slot;
    let mut transaction = begin(session, Some(request.holder.attempt), limits)?;
    let stage = stage::find(&mut transaction, request.publication.attempt, slot)?;
    let swapped = stage.filter(|stage| stage.sealed.is_some() && stage.manner.mode == Mode::SwapPartition);
    let (Some(stage), Some(head)) = (swapped, accepted(&mut transaction, name, request)?) else { return Ok(None) };
    if !shape::is_there(&mut transaction, &stage)? {
        return Ok(None);
    }
    match count(&mut transaction, name, &stage, &head, options) {
        Ok(seen) => Ok(Some(seen)),
        Err(fault) if fault.is_passing() => Err(fault),
        Err(fault) => {
            transaction.roll_back()?;
            // Somebody may have exchanged the rows, or fenced the attempt, while they were counted.
            let mut transaction = begin(session, Some(request.holder.attempt), limits)?;
            if accepted(&mut transaction, name, request)?.is_some() { Err(fault) } else { Ok(None) }
        }
    }
}

fn count(
    transaction: &mut Transaction<'_>,
    name: &str,
    stage: &Stage,
    head: &Head,
    options: CommitOptions,
) -> Result<Seen, Fault> {
    // A policy that hides rows is refused by the server.
    transaction.simple("SET LOCAL row_security = off")?;
    let target = Target::find(transaction, &stage.manner.relation())?;
    let seen = swap::look(transaction, &target, stage)?;
    refuse_surprises(transaction, name, head, options)?;
    Ok(seen)
}

/// The head, while the commit would be accepted.
fn accepted(transaction: &mut Transaction<'_>, name: &str, request: &CommitRequest) -> Result<Option<Head>, Fault> {
    let head = heads::read(transaction, name)?.map(|standing| standing.head);
    let accepts = matches!(decide_commit(head.as_ref(), request), CommitDecision::Accept(_));
    Ok(head.filter(|_| accepts))
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
