//! `append`: the key's rows are added once; another generation removes them first, by the column that names their run.

use super::{Work, count};
use crate::postgres::address::place;
use crate::postgres::catalog::Target;
use crate::postgres::heads::{Applied, Standing};
use crate::postgres::manner::Manner;
use refrain_core::{Adopt, Error, Publication, SealedData, counted, were};
use refrain_postgres::{Fault, Transaction, quote_identifier};

pub(super) fn preflight(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    published: Option<&Standing>,
    adopt: Adopt,
) -> Result<(), Fault> {
    if let Some(column) = &manner.run_column {
        target.demand(column, "`run_column`")?;
    }
    match published {
        Some(standing) => demand_named(transaction, target, manner, standing, adopt),
        None => Ok(()),
    }
}

/// The rows of the former generation must be found by the column that is declared: they were published with it, or there
/// are as many that name its run. Merged ones stay, and a unique index keeps them from being added again.
fn demand_named(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    standing: &Standing,
    adopt: Adopt,
) -> Result<(), Fault> {
    let Some(publication) = former(standing) else { return Ok(()) };
    let Some(column) = &manner.run_column else { return Err(cannot_repeat(target).into()) };
    let applied = standing.applied.as_ref();
    let named_by = applied.and_then(|applied| applied.run_column.as_ref());
    if named_by == Some(column) || applied.is_some_and(|applied| applied.merged) || adopt == Adopt::Foreign {
        return Ok(());
    }
    let (name, run) = (quote_identifier(column), publication.run.run_id);
    let data_type = &target.demand(column, "`run_column`")?.data_type;
    let named = count(transaction, target, &format!("{name} = CAST('{run}' AS {data_type})"))?;
    let of_slot = |data: &&SealedData| place(&data.slot).is_ok_and(|place| place.slot == standing.slot);
    let published = publication.data.iter().find(of_slot).and_then(|data| data.rows);
    if published == Some(named) && named > 0 {
        return Ok(());
    }
    let version = publication.run.generation;
    Err(Error::refused(format!(
        "the rows of version {version} were appended to {} without `run_column` = \"{column}\", so they would stay beside \
         those of the next version",
        target.relation
    ))
    .hint(format!(
        "let them name their run, then repeat the call: UPDATE {} SET {name} = '{run}' WHERE …; or, once they are gone, add \
         `--adopt`",
        target.relation
    ))
    .into())
}

/// 12.1
fn cannot_repeat(target: &Target) -> Error {
    Error::refused(format!(
        "rows of this partition were appended to {} before, and nothing tells them from others",
        target.relation
    ))
    .hint(
        "let these rows name their run in a column, which is declared as run_column = \"refrain_run\"; or let them go, and use \
         mode = \"replace\"",
    )
}

/// What the key published before.
fn former(standing: &Standing) -> Option<&Publication> {
    standing.head.seen()
}

pub(super) fn apply(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<Applied, Fault> {
    let (target, stage) = (&work.target.relation, &work.stage.table);
    let columns = work.sealed.columns.iter().filter(|name| work.manner().run_column.as_ref() != Some(name));
    let columns = crate::postgres::catalog::list(columns.map(String::as_str));
    let overriding = work.overriding();
    demand_named(transaction, work.target, work.manner(), work.standing, work.adopt)?;
    let Some(column) = &work.manner().run_column else {
        let sql = format!("INSERT INTO {target} ({columns}) {overriding}SELECT {columns} FROM {stage}");
        let inserted = transaction.execute(&sql, &[])?;
        return appended(work, inserted);
    };
    let (name, data_type) = (quote_identifier(column), &work.target.demand(column, "`run_column`")?.data_type);
    if let Some(former) = former(work.standing) {
        let sql = format!("DELETE FROM {target} WHERE {name} = CAST($1::text AS {data_type})");
        transaction.execute(&sql, &[Some(&former.run.run_id.to_string())])?;
    }
    let sql = format!(
        "INSERT INTO {target} ({columns}, {name}) {overriding}SELECT {columns}, CAST($1::text AS {data_type}) FROM {stage}"
    );
    let inserted = transaction.execute(&sql, &[Some(&work.run)])?;
    appended(work, inserted)
}

fn appended(work: &Work<'_>, inserted: u64) -> Result<Applied, Fault> {
    if inserted == work.sealed.rows {
        return Ok(Applied { run_column: work.manner().run_column.clone(), ..Applied::default() });
    }
    Err(Error::guard(format!(
        "{} {} staged and {inserted} appended to {}",
        counted(work.sealed.rows, "row"),
        were(work.sealed.rows),
        work.target.relation
    ))
    .hint("look for a trigger or a rule of the table that drops rows")
    .into())
}
