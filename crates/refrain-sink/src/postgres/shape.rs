//! Whether a staging table still is what was made for the attempt, and fits the table that it is for.

use super::catalog::{Column, Target};
use super::stage::{SealedTable, Stage};
use refrain_core::{Error, nearest};
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier};

const LEAVE_IT: &str = "the task adds rows to its staging table, and neither drops, renames nor alters it: \
                        if_exists=\"append\" with pandas, mode(\"append\") with Spark";

/// Whether the table of the row is there, under its name.
pub(super) fn is_there(transaction: &mut Transaction<'_>, stage: &Stage) -> Result<bool, Fault> {
    Ok(named(transaction, &stage.table)?.as_deref() == Some(&stage.oid))
}

/// The staging table as the task left it.
///
/// # Errors
/// `guard` when it was dropped, replaced, renamed or made to lose its rows, or when its columns are not those of the table:
/// the task altered it, or somebody altered the table while the task ran (DATA-04).
pub(super) fn left(transaction: &mut Transaction<'_>, stage: &Stage, target: &Target) -> Result<Target, Fault> {
    refuse_another(transaction, stage)?;
    let table = &stage.table;
    let sql = "SELECT c.relpersistence::text, EXISTS (SELECT FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent))::text \
               FROM pg_class c WHERE c.oid = $1::text::oid";
    let rows = transaction.query(sql, &[Some(&stage.oid)])?;
    let Some([Some(persistence), Some(inherits)]) = rows.first().map(Vec::as_slice) else {
        return Err(dropped(table).into());
    };
    if persistence != "p" {
        return Err(Error::guard(format!(
            "the staging table {table} was made UNLOGGED: a crash of the server would empty it"
        ))
        .hint(format!("leave it as it is, or before the task ends: ALTER TABLE {table} SET LOGGED"))
        .into());
    }
    if inherits == "true" {
        return Err(Error::guard(format!("the staging table {table} was given a parent or children"))
            .hint(LEAVE_IT)
            .into());
    }
    let now = Target::find(transaction, table)?;
    for column in target.stored() {
        let staged = now.stored().find(|staged| staged.name == column.name);
        match staged {
            None => return Err(lacks(table, target, &now, column).into()),
            Some(staged) if staged.data_type != column.data_type => {
                return Err(differs(table, target, staged, column).into());
            }
            Some(_) => {}
        }
    }
    let foreign = now.stored().find(|staged| target.stored().all(|column| column.name != staged.name));
    match foreign {
        Some(foreign) => Err(Error::guard(format!(
            "the staging table {table} has the column {}, which {} has not",
            quote_identifier(&foreign.name),
            target.relation
        ))
        .hint(format!("{LEAVE_IT}; if the table was altered while the task ran, repeat the call"))
        .into()),
        None => Ok(now),
    }
}

/// Whether sealed rows can go into the table as it is now (DATA-04).
///
/// # Errors
/// `guard` when a column of theirs is gone or of another type, or the table wants one that they do not have.
pub(super) fn fits(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    sealed: &SealedTable,
    target: &Target,
) -> Result<(), Fault> {
    let now = Target::find(transaction, &stage.table)?;
    let again = |error: Error| error.hint("repeat the call: another attempt stages rows for the table as it is now");
    let altered = format!("{} was altered after the rows were staged", target.relation);
    for staged in now.stored().filter(|column| sealed.columns.contains(&column.name)) {
        let name = quote_identifier(&staged.name);
        match target.column(&staged.name) {
            None => return Err(again(Error::guard(format!("{altered}: its column {name} is gone"))).into()),
            Some(column) if column.generated => {
                return Err(again(Error::guard(format!("{altered}: it computes the column {name} itself"))).into());
            }
            Some(column) if column.data_type != staged.data_type => {
                let (then, now) = (&staged.data_type, &column.data_type);
                let error = Error::guard(format!("{altered}: its column {name} was {then} and is {now}"));
                return Err(again(error).into());
            }
            Some(_) => {}
        }
    }
    let wanted =
        target.stored().find(|column| !sealed.columns.contains(&column.name) && !column.may_be_absent(&stage.manner));
    match wanted {
        Some(column) => {
            let name = quote_identifier(&column.name);
            Err(again(Error::guard(format!("{altered}: it wants the column {name}, which no row has"))).into())
        }
        None => Ok(()),
    }
}

/// What has the name is the table of the row.
pub(super) fn refuse_another(transaction: &mut Transaction<'_>, stage: &Stage) -> Result<(), Fault> {
    let table = &stage.table;
    match named(transaction, table)? {
        Some(oid) if oid == stage.oid => return Ok(()),
        Some(_) => {
            return Err(Error::guard(format!(
                "the staging table {table} was dropped and created anew while the task ran"
            ))
            .hint(LEAVE_IT)
            .into());
        }
        None => {}
    }
    let sql = "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE c.oid = $1::text::oid";
    let rows = transaction.query(sql, &[Some(&stage.oid)])?;
    Err(match rows.first().map(Vec::as_slice) {
        Some([Some(schema), Some(name)]) => Error::guard(format!(
            "the staging table {table} was renamed to {} while the task ran",
            Relation::new(schema, name)
        ))
        .hint(LEAVE_IT),
        _ => dropped(table),
    }
    .into())
}

/// The number of what has the name.
fn named(transaction: &mut Transaction<'_>, relation: &Relation) -> Result<Option<String>, Fault> {
    let rows = transaction.query("SELECT to_regclass($1)::oid::text", &[Some(&relation.to_string())])?;
    Ok(rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
}

fn dropped(table: &Relation) -> Error {
    Error::guard(format!("the staging table {table} was dropped while the task ran")).hint(LEAVE_IT)
}

fn lacks(table: &Relation, target: &Target, now: &Target, column: &Column) -> Error {
    let name = quote_identifier(&column.name);
    let error = Error::guard(format!("the staging table {table} lacks the column {name} of {}", target.relation));
    let others = now.stored().filter(|staged| target.column(&staged.name).is_none());
    match nearest(&column.name, others.map(|staged| staged.name.as_str())) {
        Some(near) => error.hint(format!("is it {}? {LEAVE_IT}", quote_identifier(near))),
        None => error.hint(format!("{LEAVE_IT}; if the table was altered while the task ran, repeat the call")),
    }
}

fn differs(table: &Relation, target: &Target, staged: &Column, column: &Column) -> Error {
    Error::guard(format!(
        "the column {} is {} in the staging table {table} and {} in {}",
        quote_identifier(&column.name),
        staged.data_type,
        column.data_type,
        target.relation
    ))
    .hint(format!("{LEAVE_IT}; if the table was altered while the task ran, repeat the call"))
}
