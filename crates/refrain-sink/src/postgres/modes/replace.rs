//! `replace` and `table`: the rows of the scope, or all, are deleted and the staged ones inserted, in place.

use super::{Work, count, number, written};
use crate::postgres::catalog::Target;
use crate::postgres::heads::Applied;
use crate::postgres::manner::{Manner, Mode};
use crate::postgres::scope;
use refrain_core::{Error, are, counted, were};
use refrain_postgres::{Fault, Transaction, quote_identifier};

/// Without a flag, a table that is replaced as a whole may lose half of its rows and no more (DATA-05).
const SHRINK: u64 = 2;

pub(super) fn preflight(transaction: &mut Transaction<'_>, target: &Target, manner: &Manner) -> Result<(), Fault> {
    if manner.mode == Mode::Replace && manner.scope.is_empty() {
        return Err(Error::invalid(format!(
            "`mode = \"replace\"` without `where` would replace every row of {}",
            target.relation
        ))
        .hint("say which rows one partition replaces: where = \"dt = {date}\"; to replace all: mode = \"table\"")
        .into());
    }
    for column in &manner.covers {
        target.demand(column, "`covers`")?;
    }
    if manner.mode == Mode::Table && manner.truncate && is_referred_to(transaction, target)? {
        return Err(Error::invalid(format!("{} cannot be truncated: foreign keys refer to it", target.relation))
            .hint("leave out `truncate`: the rows are then deleted and inserted in one statement")
            .into());
    }
    refuse_cascades(transaction, target)
}

/// Deleting a row must have no effect on another table.
pub(super) fn refuse_cascades(transaction: &mut Transaction<'_>, target: &Target) -> Result<(), Fault> {
    let sql = "SELECT conrelid::regclass::text, conname::text FROM pg_constraint \
               WHERE contype = 'f' AND confrelid = $1::text::oid AND confdeltype IN ('c', 'n', 'd') LIMIT 1";
    let rows = transaction.query(sql, &[Some(&target.oid)])?;
    match rows.first().map(Vec::as_slice) {
        Some([Some(table), Some(constraint)]) => Err(Error::invalid(format!(
            "replacing rows of {} would change {table} too: its foreign key {} acts ON DELETE",
            target.relation,
            quote_identifier(constraint)
        ))
        .hint("use mode = \"merge\", which deletes only what is gone, or make the foreign key NO ACTION DEFERRABLE")
        .into()),
        _ => Ok(()),
    }
}

pub(super) fn apply(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<Applied, Fault> {
    let (target, manner) = (work.target, work.manner());
    let condition = scope::condition(target, manner, "")?;
    // A key that is deleted and inserted again refers to nothing in between.
    transaction.simple("SET CONSTRAINTS ALL DEFERRED")?;
    refuse_losses(transaction, work, &condition)?;
    let inserted = if manner.mode == Mode::Table && manner.truncate {
        transaction.simple(&format!("TRUNCATE {}", target.relation))?;
        insert(transaction, work)?
    } else if is_referred_to(transaction, target)? {
        exchange(transaction, work, &condition)?
    } else {
        transaction.execute(&format!("DELETE FROM {} WHERE {condition}", target.relation), &[])?;
        insert(transaction, work)?
    };
    // A trigger, a rule or a policy may have sent rows elsewhere (PGS-07).
    let stand = count(transaction, target, &condition)?;
    if inserted != work.sealed.rows || stand != work.sealed.rows {
        return Err(Error::guard(format!(
            "{} {} staged, {inserted} inserted, and there {} {stand} in {} where {condition}",
            counted(work.sealed.rows, "row"),
            were(work.sealed.rows),
            are(stand),
            target.relation
        ))
        .hint("look for a trigger, a rule or a row security policy of the table that drops or moves rows")
        .into());
    }
    written(transaction, stand)
}

fn insert(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<u64, Fault> {
    let (columns, overriding) = (work.columns(), work.overriding());
    let (target, stage) = (&work.target.relation, &work.stage.table);
    transaction.execute(&format!("INSERT INTO {target} ({columns}) {overriding}SELECT {columns} FROM {stage}"), &[])
}

/// Deletes and inserts in one statement, at whose end foreign keys to the table are looked at.
fn exchange(transaction: &mut Transaction<'_>, work: &Work<'_>, condition: &str) -> Result<u64, Fault> {
    let (columns, overriding) = (work.columns(), work.overriding());
    let (target, stage) = (&work.target.relation, &work.stage.table);
    let sql = format!(
        "WITH gone AS (DELETE FROM {target} WHERE {condition} RETURNING 1), \
         all_gone AS (SELECT count(*) AS rows FROM gone) \
         INSERT INTO {target} ({columns}) {overriding}SELECT {columns} FROM {stage} \
         WHERE (SELECT rows FROM all_gone) >= 0"
    );
    transaction.execute(&sql, &[])
}

fn is_referred_to(transaction: &mut Transaction<'_>, target: &Target) -> Result<bool, Fault> {
    let sql = "SELECT 1::text FROM pg_constraint WHERE contype = 'f' AND confrelid = $1::text::oid LIMIT 1";
    Ok(!transaction.query(sql, &[Some(&target.oid)])?.is_empty())
}

/// A part must not replace the whole.
pub(super) fn refuse_losses(transaction: &mut Transaction<'_>, work: &Work<'_>, condition: &str) -> Result<(), Fault> {
    let (target, stage, manner) = (&work.target.relation, &work.stage.table, work.manner());
    for column in &manner.covers {
        let name = quote_identifier(column);
        let sql = format!(
            "SELECT count(*)::text, min(lost::text) FROM (SELECT {name} AS lost FROM {target} WHERE {condition} \
             EXCEPT SELECT {name} FROM {stage}) AS missing"
        );
        let rows = transaction.query(&sql, &[])?;
        let lost = number(rows.first().and_then(|row| row.first()));
        if lost > 0 && !manner.allow_shrink {
            let example = rows.into_iter().next().and_then(|row| row.into_iter().nth(1).flatten()).unwrap_or_default();
            return Err(Error::guard(format!(
                "{} of {name} that {target} has {} not among the staged rows, such as {example}",
                counted(lost, "value"),
                are(lost)
            ))
            .hint("stage all of it; if they shall go: allow_shrink = true")
            .into());
        }
    }
    if manner.scope.is_empty() && !manner.allow_shrink && manner.covers.is_empty() {
        let rows = count(transaction, work.target, condition)?;
        if work.sealed.rows > 0 && work.sealed.rows < rows / SHRINK {
            return Err(Error::guard(format!(
                "{} would replace all {rows} rows of {target}",
                counted(work.sealed.rows, "row")
            ))
            .hint("if a part was staged: mode = \"replace\" with `where`; if it is right: allow_shrink = true")
            .into());
        }
    }
    Ok(())
}
