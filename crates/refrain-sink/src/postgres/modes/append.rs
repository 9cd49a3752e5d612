//! `append`: the key's rows are added once; another generation removes them first, by the column that names their run.

use super::Work;
use crate::postgres::catalog::Target;
use crate::postgres::heads::Applied;
use crate::postgres::manner::Manner;
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction, quote_identifier};

pub(super) fn preflight(target: &Target, manner: &Manner, published: bool) -> Result<(), Error> {
    match &manner.run_column {
        Some(column) => target.demand(column, "`run_column`").map(drop),
        None if published => Err(cannot_repeat(target)),
        None => Ok(()),
    }
}

/// 12.1
fn cannot_repeat(target: &Target) -> Error {
    Error::refused(format!(
        "rows of this partition were appended to {} before, and nothing tells them from others",
        target.relation
    ))
    .hint("declare the column that names the run of each row: run_column = \"refrain_run\"; or use mode = \"replace\"")
}

pub(super) fn apply(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<Applied, Fault> {
    let (target, stage) = (&work.target.relation, &work.stage.table);
    let columns = work.sealed.columns.iter().filter(|name| work.manner().run_column.as_ref() != Some(name));
    let columns = crate::postgres::catalog::list(columns.map(String::as_str));
    let overriding = work.overriding();
    let Some(column) = &work.manner().run_column else {
        if work.head.publication.is_some() {
            return Err(cannot_repeat(work.target).into());
        }
        let sql = format!("INSERT INTO {target} ({columns}) {overriding}SELECT {columns} FROM {stage}");
        let inserted = transaction.execute(&sql, &[])?;
        return appended(work, inserted);
    };
    let (name, data_type) = (quote_identifier(column), &work.target.demand(column, "`run_column`")?.data_type);
    let former = work.head.publication.as_ref().or(work.head.taken_from.as_ref().map(|former| &former.publication));
    if let Some(former) = former {
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
        return Ok(Applied::default());
    }
    Err(Error::guard(format!(
        "{} rows were staged and {inserted} appended to {}",
        work.sealed.rows, work.target.relation
    ))
    .hint("look for a trigger or a rule of the table that drops rows")
    .into())
}
