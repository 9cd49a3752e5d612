//! At the seal: each key is staged once, and none is NULL.

use super::key::NaturalKey;
use crate::postgres::catalog::Target;
use crate::postgres::manner::Manner;
use crate::postgres::modes::number;
use crate::postgres::stage::Stage;
use refrain_core::{Error, are, counted};
use refrain_postgres::{Fault, Transaction, quote_identifier};

/// Tests the keys of the staged rows, and of rows with one key keeps the one that `order_by` puts last. Returns how many it
/// removed. The answer depends on the set of rows alone, not on their order (UPS-02).
///
/// # Errors
/// `guard` when a key is NULL or staged twice: another try would give the same.
pub(in crate::postgres) fn settle(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    target: &Target,
) -> Result<u64, Fault> {
    transaction.simple(super::ROOM)?;
    let key = NaturalKey::find(transaction, target, &stage.manner)?;
    refuse_nulls(transaction, stage, target, &key)?;
    let removed = settle_repeated(transaction, stage, &key)?;
    // The join of the commit is planned by what the staged rows are.
    transaction.simple(&format!("ANALYZE {}", stage.table))?;
    Ok(removed)
}

/// The columns of `order_by`, each with its direction.
///
/// # Errors
/// `invalid` when a column is not there.
pub(super) fn order<'m>(target: &Target, manner: &'m Manner) -> Result<Vec<(&'m str, bool)>, Error> {
    let entry = |text: &'m String| {
        let (name, descending) = match text.rsplit_once(' ') {
            Some((name, direction)) if direction.eq_ignore_ascii_case("desc") => (name.trim(), true),
            Some((name, direction)) if direction.eq_ignore_ascii_case("asc") => (name.trim(), false),
            _ => (text.as_str(), false),
        };
        target.demand(name, "`order_by`").map(|_| (name, descending))
    };
    manner.order_by.iter().map(entry).collect()
}

/// A NULL is never equal to another one: such a row would be inserted again at every run (UPS-01).
fn refuse_nulls(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    target: &Target,
    key: &NaturalKey,
) -> Result<(), Fault> {
    let staged = Target::find(transaction, &stage.table)?;
    for name in &key.columns {
        let named = quote_identifier(name);
        let Some(column) = staged.column(name) else {
            return Err(
                Error::guard(format!("the staged rows have no column {named}, which is part of the key")).into()
            );
        };
        let matches = key.nulls_match && target.column(name).is_some_and(|column| !column.not_null);
        if column.not_null || matches {
            continue;
        }
        let sql = format!("SELECT count(*)::text, min(s::text) FROM {} AS s WHERE s.{named} IS NULL", stage.table);
        let rows = transaction.query(&sql, &[])?;
        let found = number(rows.first().and_then(|row| row.first()));
        if found > 0 {
            let example = rows.into_iter().next().and_then(|row| row.into_iter().nth(1).flatten()).unwrap_or_default();
            return Err(Error::guard(format!(
                "{named}, which is part of the key, has no value in {} for {}, such as {example}",
                counted(found, "staged row"),
                target.relation
            ))
            .hint("give it a value; or let the table's unique index be NULLS NOT DISTINCT, from PostgreSQL 15 on")
            .into());
        }
    }
    Ok(())
}

fn settle_repeated(transaction: &mut Transaction<'_>, stage: &Stage, key: &NaturalKey) -> Result<u64, Fault> {
    if let [name] = key.columns.as_slice() {
        // Counting the values of one column is several times as fast as grouping by it.
        let row = format!(
            "SELECT (count({0}) - count(DISTINCT {0}) + greatest(count(*) - count({0}) - 1, 0))::text",
            quote_identifier(name)
        );
        let rows = transaction.query(&format!("{row} FROM {}", stage.table), &[])?;
        if number(rows.first().and_then(|row| row.first())) == 0 {
            return Ok(0);
        }
    }
    let Some((keys, shown)) = key.repeated(transaction, &stage.table)? else { return Ok(0) };
    let target = Target::find(transaction, &stage.manner.relation())?;
    let order = order(&target, &stage.manner)?;
    if order.is_empty() {
        return Err(Error::guard(format!(
            "{} {} staged more than once for {}: {shown}",
            counted(keys, "key"),
            are(keys),
            stage.manner.relation()
        ))
        .hint("stage each key once; or say which row wins, the last in an order: order_by = [\"updated_at\"]")
        .into());
    }
    let removed = remove_earlier(transaction, stage, key, &order)?;
    match key.repeated(transaction, &stage.table)? {
        None => Ok(removed),
        Some((keys, shown)) => Err(Error::guard(format!(
            "{} {} staged more than once for {}, and `order_by` does not settle which row wins: {shown}",
            counted(keys, "key"),
            are(keys),
            stage.manner.relation()
        ))
        .hint("add a column to `order_by` that tells these rows apart")
        .into()),
    }
}

/// Removes all rows but the last of each key. A NULL comes first in either direction: it says nothing.
fn remove_earlier(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    key: &NaturalKey,
    order: &[(&str, bool)],
) -> Result<u64, Fault> {
    let backwards = order.iter().map(|(name, descending)| {
        format!("{} {} NULLS LAST", quote_identifier(name), if *descending { "ASC" } else { "DESC" })
    });
    let (table, key, backwards) = (&stage.table, key.list(), backwards.collect::<Vec<_>>().join(", "));
    let sql = format!(
        "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT place_of FROM (SELECT ctid AS place_of, rank() OVER (PARTITION BY {key} \
         ORDER BY {backwards}) AS place FROM {table}) AS ranked WHERE place > 1))"
    );
    transaction.execute(&sql, &[])
}
