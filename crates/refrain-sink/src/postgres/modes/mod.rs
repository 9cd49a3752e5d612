//! What a publication does with the rows that are there: one module for each mode. All work in the commit's own
//! transaction, which has locked the head.

pub(super) mod append;
pub(super) mod merge;
pub(super) mod replace;
pub(super) mod swap;

use super::catalog::{Target, list};
use super::heads::{Applied, Standing};
use super::manner::{Manner, Mode};
use super::stage::{SealedTable, Stage};
use super::{cluster, rights, scope};
use refrain_core::{Adopt, Error, ErrorKind, counted};
use refrain_postgres::{Fault, Transaction};

/// What a commit works on.
pub(super) struct Work<'w> {
    /// The head as it was locked.
    pub(super) standing: &'w Standing,
    /// Whether a person answers for rows that nobody can tell.
    pub(super) adopt: Adopt,
    pub(super) target: &'w Target,
    pub(super) stage: &'w Stage,
    pub(super) sealed: &'w SealedTable,
    /// The run that is published.
    pub(super) run: String,
}

impl Work<'_> {
    pub(super) fn manner(&self) -> &Manner {
        &self.stage.manner
    }

    /// The staged columns, for a statement.
    pub(super) fn columns(&self) -> String {
        list(self.sealed.columns.iter().map(String::as_str))
    }

    /// What an INSERT needs where staged rows bring values for a column that only the table may give.
    pub(super) fn overriding(&self) -> &'static str {
        let brings = |name: &String| self.target.column(name).is_some_and(|column| column.always_identity);
        if self.sealed.columns.iter().any(brings) { "OVERRIDING SYSTEM VALUE " } else { "" }
    }
}

/// Finds out before the task whether it can succeed: what is missing, what is not allowed, what would be lost.
pub(super) fn preflight(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    standing: Option<&Standing>,
    adopt: Adopt,
) -> Result<(), Fault> {
    rights::demand(transaction, target, manner)?;
    see_all(transaction, manner)?;
    // The server itself reads the values of the scope.
    transaction.simple(&format!(
        "SELECT 1 FROM {} WHERE {} LIMIT 0",
        target.relation,
        scope::condition(target, manner, "")?
    ))?;
    let published = standing.filter(|standing| standing.head.publication.is_some());
    match manner.mode {
        Mode::Replace | Mode::Table => replace::preflight(transaction, target, manner)?,
        Mode::SwapPartition => swap::preflight(transaction, target, manner)?,
        Mode::Merge => merge::preflight(transaction, target, manner, published.is_some())?,
        Mode::Append => append::preflight(transaction, target, manner, published, adopt)?,
    }
    if published.is_none() && adopt == Adopt::Never {
        refuse_foreign(transaction, target, manner)?;
    }
    Ok(())
}

/// Prepares rows for the seal, once all are staged. Returns how many of them were removed.
pub(super) fn settle(transaction: &mut Transaction<'_>, stage: &Stage, target: &Target) -> Result<u64, Fault> {
    match stage.manner.mode {
        Mode::Merge => merge::settle(transaction, stage, target),
        Mode::Replace | Mode::Table | Mode::SwapPartition | Mode::Append => Ok(0),
    }
}

/// Completes the staging table for the seal, once its rows are counted.
pub(super) fn complete(transaction: &mut Transaction<'_>, stage: &Stage, target: &Target) -> Result<(), Fault> {
    match stage.manner.mode {
        Mode::SwapPartition => swap::complete(transaction, stage, target),
        Mode::Replace | Mode::Table | Mode::Merge | Mode::Append => Ok(()),
    }
}

/// Publishes. Returns what the rows are recognised by afterwards.
pub(super) fn apply(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<Applied, Fault> {
    see_all(transaction, work.manner())?;
    match work.manner().mode {
        Mode::Replace | Mode::Table => replace::apply(transaction, work),
        Mode::SwapPartition => swap::apply(transaction, work),
        Mode::Merge => merge::apply(transaction, work),
        Mode::Append => append::apply(transaction, work),
    }
}

/// A row security policy that hides rows from the role would let them stand beside those that replace them: then the server
/// refuses (<https://www.postgresql.org/docs/current/ddl-rowsecurity.html>).
fn see_all(transaction: &mut Transaction<'_>, manner: &Manner) -> Result<(), Fault> {
    match manner.mode {
        Mode::Append => Ok(()),
        Mode::Replace | Mode::Table | Mode::SwapPartition | Mode::Merge => {
            transaction.simple("SET LOCAL row_security = off").map(drop)
        }
    }
}

/// Rows that would be replaced and that nobody published with Refrain.
fn refuse_foreign(transaction: &mut Transaction<'_>, target: &Target, manner: &Manner) -> Result<(), Fault> {
    if !manner.owns_scope() {
        return Ok(());
    }
    let scope = scope::condition(target, manner, "")?;
    let rows = count(transaction, target, &scope)?;
    if rows == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Refused,
        format!(
            "{} has {} already that refrain did not publish there, where {scope}",
            target.relation,
            counted(rows, "row")
        ),
    )
    .hint("look at them; to let the publication replace them, add `--adopt`")
    .into())
}

/// The rows of a scope.
pub(super) fn count(transaction: &mut Transaction<'_>, target: &Target, scope: &str) -> Result<u64, Fault> {
    let rows = transaction.query(&format!("SELECT count(*)::text FROM {} WHERE {scope}", target.relation), &[])?;
    Ok(number(rows.first().and_then(|row| row.first())))
}

/// A number in a row.
pub(super) fn number(text: Option<&Option<String>>) -> u64 {
    text.and_then(|text| text.as_deref()?.parse().ok()).unwrap_or_default()
}

/// What rows are recognised by that this transaction wrote, all of the scope.
pub(super) fn written(transaction: &mut Transaction<'_>, rows: u64) -> Result<Applied, Fault> {
    let number = transaction.query("SELECT pg_current_xact_id()::text", &[])?;
    Ok(Applied {
        rows: Some(rows),
        transaction: number.into_iter().next().and_then(|row| row.into_iter().next().flatten()),
        cluster: cluster(transaction)?,
        ..Applied::default()
    })
}
