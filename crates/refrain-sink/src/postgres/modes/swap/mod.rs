//! `swap-partition`: a partition is built aside and takes the place of the one that is there. What the commit does does not
//! depend on the number of rows.
//!
//! [`bounds`] finds the partition that the scope names, [`rights`] refuses what could not be kept, [`build`] makes the new
//! one, [`attach`] exchanges the two, and [`compare`] demands that the catalog is as it was.

mod attach;
mod bounds;
mod build;
mod compare;
mod extent;
mod indexes;
mod names;
mod rights;
mod statistics;

pub(in crate::postgres) use build::{complete, create};

use super::{Work, count, written};
use crate::postgres::catalog::Target;
use crate::postgres::heads::Applied;
use crate::postgres::locks;
use crate::postgres::manner::Manner;
use crate::postgres::scope;
use crate::postgres::stage::Stage;
use bounds::{Leaf, Named};
use compare::Picture;
use refrain_core::{Error, ErrorKind, are, counted, were};
use refrain_postgres::{Fault, Transaction, quote_literal};

pub(super) fn preflight(transaction: &mut Transaction<'_>, target: &Target, manner: &Manner) -> Result<(), Fault> {
    if manner.scope.is_empty() {
        return Err(Error::invalid(format!(
            "`mode = \"swap-partition\"` without `where` names no partition of {}",
            target.relation
        ))
        .hint("say which one: where = \"dt = {date}\"; to replace all rows: mode = \"table\"")
        .into());
    }
    let named = bounds::find(transaction, target, manner)?;
    rights::demand(transaction, target, &named)?;
    let Some(rest) = &named.rest else { return Ok(()) };
    refuse_strays(transaction, target, manner, &named)?;
    tracing::warn!(
        rule = "PGX-10",
        "{} has the DEFAULT partition {}: each exchange reads all its rows while readers wait; a CHECK on it that excludes \
         the new rows avoids that",
        target.relation,
        rest.relation
    );
    Ok(())
}

/// Rows of the scope in the DEFAULT partition: they keep the partition of the scope away (PGX-10).
fn refuse_strays(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    named: &Named,
) -> Result<(), Fault> {
    let Some(rest) = &named.rest else { return Ok(()) };
    let condition = scope::condition(target, manner, "")?;
    let strays = Target { relation: rest.relation.clone(), ..target.clone() };
    let rows = count(transaction, &strays, &condition)?;
    if rows == 0 {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::Refused,
        format!(
            "{} of the scope {} in {}, the DEFAULT partition of {}",
            counted(rows, "row"),
            are(rows),
            rest.relation,
            target.relation
        ),
    );
    if named.standing.is_some() {
        return Err(error.hint(format!("look at them: SELECT * FROM {} WHERE {condition}", rest.relation)).into());
    }
    let columns = super::list(target.stored().map(|column| column.name.as_str()));
    let place = names::partition(transaction, target, manner)?;
    let bounds = &named.bounds;
    Err(error
        .hint(format!(
            "make a partition of them, then publish with `--adopt`: BEGIN; CREATE TABLE {place} (LIKE {parent} INCLUDING ALL \
             EXCLUDING IDENTITY); WITH strays AS (DELETE FROM {rest} WHERE {condition} RETURNING {columns}) \
             INSERT INTO {place} ({columns}) SELECT {columns} FROM strays; \
             ALTER TABLE {parent} ATTACH PARTITION {place} {bounds}; COMMIT",
            parent = target.relation,
            rest = rest.relation,
        ))
        .into())
}

/// What tells whether a table was written to, at no cost. It may change without a reason, and then rows are counted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct Seen {
    staged: String,
    standing: Option<String>,
}

/// Looks at the rows that are to be exchanged, before the transaction that exchanges them.
///
/// # Errors
/// `guard` when the staged rows are not those that were sealed (PGX-11).
pub(in crate::postgres) fn look(
    transaction: &mut Transaction<'_>,
    target: &Target,
    stage: &Stage,
) -> Result<Seen, Fault> {
    // What is noted is older than what is counted.
    let seen = glance(transaction, target, stage)?;
    let sealed = stage.sealed.as_ref().map_or(0, |sealed| sealed.rows);
    if was_only_filled(transaction, stage, sealed)? {
        return Ok(seen);
    }
    let staged = Target { relation: stage.table.clone(), ..target.clone() };
    let rows = count(transaction, &staged, "true")?;
    if rows == sealed {
        return Ok(seen);
    }
    let (staged, were, are) = (counted(sealed, "row"), were(sealed), are(rows));
    Err(Error::guard(format!("{staged} {were} staged for {} and {rows} {are} there now", target.relation))
        .hint("look who writes to tables of schema refrain; then repeat the call")
        .into())
}

/// Whether the server's statistics say that the sealed rows were inserted and nothing else was ever done to the table. They
/// lag and are lost in a crash; then they say something else, and the rows are counted.
fn was_only_filled(transaction: &mut Transaction<'_>, stage: &Stage, rows: u64) -> Result<bool, Fault> {
    let sql = "SELECT 1::text FROM (SELECT $1::text::oid) AS t(o) WHERE pg_stat_get_tuples_inserted(o) = $2::text::bigint \
               AND pg_stat_get_tuples_updated(o) = 0 AND pg_stat_get_tuples_deleted(o) = 0";
    Ok(!transaction.query(sql, &[Some(&stage.oid), Some(&rows.to_string())])?.is_empty())
}

/// The same without reading rows.
pub(in crate::postgres) fn glance(
    transaction: &mut Transaction<'_>,
    target: &Target,
    stage: &Stage,
) -> Result<Seen, Fault> {
    let named = bounds::find(transaction, target, &stage.manner)?;
    let mut mark = |oid: &str| {
        let sql = format!(
            "SELECT concat_ws(' ', o, pg_relation_size(o), pg_stat_get_tuples_inserted(o), pg_stat_get_tuples_updated(o), \
             pg_stat_get_tuples_deleted(o)) FROM (SELECT {}::text::oid) AS t(o)",
            quote_literal(oid)
        );
        let rows = transaction.query(&sql, &[])?;
        Ok::<_, Fault>(rows.into_iter().flatten().flatten().collect::<String>())
    };
    Ok(Seen { staged: mark(&stage.oid)?, standing: named.standing.map(|standing| mark(&standing.oid)).transpose()? })
}

pub(super) fn apply(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<Applied, Fault> {
    let (target, manner) = (work.target, work.manner());
    demand_logged(transaction, work)?;
    let named = bounds::find(transaction, target, manner)?;
    let tables = [
        Some(&target.relation),
        named.standing.as_ref().map(|it| &it.relation),
        named.rest.as_ref().map(|it| &it.relation),
    ];
    locks::take(transaction, &tables.into_iter().flatten().collect::<Vec<_>>())?;
    let now = bounds::find(transaction, target, manner)?;
    let oid = |named: &Named| named.standing.as_ref().map(|standing: &Leaf| standing.oid.clone());
    if oid(&now) != oid(&named) {
        return Err(locks::again(&format!("the partitions of {} have changed", target.relation)));
    }
    if now.standing.is_none() {
        refuse_strays(transaction, target, manner, &now)?;
    }
    let before = Picture::take(transaction, target, oid(&now).as_deref())?;
    attach::exchange(transaction, work, &now)?;
    let after = Picture::take(transaction, target, now.standing.is_some().then_some(work.stage.oid.as_str()))?;
    before.demand(&after, target, now.standing.as_ref())?;
    let applied = written(transaction, work.sealed.rows)?;
    Ok(Applied { partition: Some(work.stage.oid.clone()), earlier: true, ..applied })
}

/// What is attached survives a crash of the server, and is the table that was sealed (PGX-11).
fn demand_logged(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<(), Fault> {
    let sql = format!(
        "SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::oid AND oid = to_regclass({})::oid",
        quote_literal(&work.stage.table.to_string())
    );
    let rows = transaction.query(&sql, &[Some(&work.stage.oid)])?;
    match rows.first().and_then(|row| row.first()?.as_deref()) {
        Some("p") => Ok(()),
        Some(_) => Err(Error::guard(format!("the staging table for {} was made UNLOGGED", work.target.relation))
            .hint("the task writes rows into its staging table, and does not alter it")
            .into()),
        None => Err(Error::guard(format!("the staging table for {} is another one now", work.target.relation))
            .hint("repeat the call")
            .into()),
    }
}
