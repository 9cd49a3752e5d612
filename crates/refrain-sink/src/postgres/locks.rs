//! Locks: asked for again and again with a short patience, and who has them when they were not to be had.

use super::site::{APPLICATION, Site};
use super::stage;
use super::{Mode, address};
use refrain_core::{AttemptId, Error, ErrorKind, SlotAddress};
use refrain_postgres::{Fault, Relation, Transaction, quote_literal};
use std::time::Duration;

/// How often something is tried that may pass.
const TRIES: u32 = 8;

/// How often locks are asked for: with the pauses between, about half a minute.
const TRIES_OF_LOCKS: u32 = 20;

/// How long the row of a head is waited for.
pub(super) const ROW: Duration = Duration::from_secs(2);

/// How long locks of tables are waited for, all together: whoever wants to read meanwhile queues behind us (PGX-08).
const TABLES: Duration = Duration::from_millis(400);

/// How long each lock is waited for that comes after those, and how long a pause of ours may last while readers wait.
const FURTHER: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(5);

/// The longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(2);

/// So many holders are named.
const NAMED: usize = 3;

/// SQLSTATE `lock_not_available`.
const NOT_AVAILABLE: &str = "55P03";

/// Locks tables for an exchange of their partitions, or fails in a way that may pass.
pub(super) fn take(transaction: &mut Transaction<'_>, tables: &[&Relation]) -> Result<(), Fault> {
    let (wait, further, pause) = (TABLES.as_millis(), FURTHER.as_millis(), PAUSE.as_millis());
    transaction.simple(&format!(
        "SET LOCAL lock_timeout = {wait}; SET LOCAL statement_timeout = {wait}; \
         SET LOCAL idle_in_transaction_session_timeout = {pause}"
    ))?;
    let tables = tables.iter().map(|table| format!("ONLY {table}")).collect::<Vec<_>>().join(", ");
    transaction.simple(&format!("LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")).map_err(|fault| match fault {
        // Several locks, each had in time and together too late.
        Fault::Refused(mut refusal) if refusal.code == "57014" => {
            NOT_AVAILABLE.clone_into(&mut refusal.code);
            Fault::Refused(refusal)
        }
        fault => fault,
    })?;
    transaction.simple(&format!("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {further}"))?;
    Ok(())
}

/// A failure that may pass: what was looked at has changed.
pub(super) fn again(why: &str) -> Fault {
    Error::new(ErrorKind::Unavailable, why).hint("repeat the call").into()
}

/// How often is tried what failed so.
pub(super) fn tries(fault: &Fault) -> u32 {
    if fault.code() == Some(NOT_AVAILABLE) { TRIES_OF_LOCKS } else { TRIES }
}

/// The pause after a try: longer and longer, and another one for each attempt, so that two do not meet again and again.
pub(super) fn pause(attempt: AttemptId, tries: u32) -> Duration {
    let mut hasher = blake3::Hasher::new();
    hasher.update(attempt.to_string().as_bytes()).update(&tries.to_le_bytes());
    let chance = u32::from(hasher.finalize().as_bytes()[0]);
    let longest = LONGEST.min(Duration::from_millis(100) * 2u32.saturating_pow(tries.min(5)));
    longest / 2 + longest / 2 * chance / 255
}

/// What a failure is, and who has the lock if it was one that could not be had (PGX-14).
pub(super) fn explain(site: &Site, slot: &SlotAddress, attempt: AttemptId, fault: Fault) -> Error {
    let lacking = fault.code() == Some(NOT_AVAILABLE);
    let error = fault.during(site.link());
    if !lacking {
        return error;
    }
    match site.look(None, |transaction| holders(transaction, slot, attempt)) {
        Ok(holders) if holders.is_empty() => error.hint("whoever had the lock has released it since: repeat the call"),
        Ok(holders) => {
            let more = holders.len().saturating_sub(NAMED);
            let mut named = holders.into_iter().take(NAMED).collect::<Vec<_>>().join("; ");
            if more > 0 {
                named.push_str(&format!("; and {more} more"));
            }
            // Another attempt of ours is in the midst of its commit, or frozen there (PGX-14).
            let ours = named.contains(&format!("'{APPLICATION} "));
            let mut error = if ours { error.kind(ErrorKind::Held) } else { error };
            error.message.push_str(&format!("; the lock is held by {named}"));
            error.hint(
                "repeat the call when they are done: the server ends a session of refrain that pauses for half a minute; any \
                 other that hangs is ended by SELECT pg_terminate_backend(PID)",
            )
        }
        // Without an answer it stays what it is.
        Err(_) => error,
    }
}

/// Who has the head's row; else who has locks of the table and its partitions that are in the way.
fn holders(transaction: &mut Transaction<'_>, slot: &SlotAddress, attempt: AttemptId) -> Result<Vec<String>, Fault> {
    let name = address::place(slot)?.slot;
    let row =
        "l.locktype = 'transactionid' AND l.transactionid IN (SELECT h.xmax FROM refrain.head h WHERE h.slot = $1)";
    let found = sessions(transaction, row, name)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let exchange =
        stage::find(transaction, attempt, slot)?.is_some_and(|stage| stage.manner.mode == Mode::SwapPartition);
    let modes = if exchange {
        ""
    } else {
        " AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
    };
    let tables = format!(
        "l.locktype = 'relation' AND l.relation IN (SELECT to_regclass({table})::oid \
         UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass({table})) \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND $1 <> ''{modes}",
        table = quote_literal(address::relation_of(name))
    );
    sessions(transaction, &tables, name)
}

/// The sessions with such locks, longest first; `$1` is the value. Of another role's session the server may not tell what it does.
pub(super) fn sessions(transaction: &mut Transaction<'_>, which: &str, value: &str) -> Result<Vec<String>, Fault> {
    let sql = format!(
        "SELECT CASE WHEN l.pid IS NULL THEN 'a prepared transaction (pg_prepared_xacts)' ELSE \
           concat('process ', l.pid, ' (', concat_ws(', ', 'application ' || quote_literal(nullif(a.application_name, '')), \
             'user ' || a.usename, a.state, 'query since ' || to_char(a.query_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"')), \
           ')') END \
         FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND {which} \
         GROUP BY l.pid, a.application_name, a.usename, a.state, a.query_start, a.xact_start ORDER BY a.xact_start, l.pid"
    );
    Ok(transaction.query(&sql, &[Some(value)])?.into_iter().flatten().flatten().collect())
}
