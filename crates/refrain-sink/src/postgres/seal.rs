//! The seal (5.8): the staged rows are complete, counted, and nobody can write them any more.

use super::catalog::Target;
use super::manner::Source;
use super::modes::{self, number};
use super::site::Site;
use super::stage::{self, SealedTable, Stage};
use super::{load, statements};
use refrain_core::{Error, Guards, Open, Result, SealedData, Staging};
use refrain_postgres::{Fault, Limits, Transaction, quote_identifier};
use std::path::Path;

/// What was found of the rows.
pub(super) struct Found {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) digest: String,
    /// The columns that the rows have.
    pub(super) columns: Vec<String>,
}

/// Loads what the task left, if it left a file, and seals the staging table.
///
/// # Errors
/// `guard` when the output is missing, empty, too small, or not what the table takes.
///
/// # Crash safety
/// One transaction: dying inside leaves the staging table as it was. A sealed table is logged (PGX-11).
pub(super) fn seal(site: &Site, staging: &Staging<Open>, guards: &Guards) -> Result<SealedData> {
    let limits = Limits { statement: None, ..Limits::default() };
    let attempt = Some(staging.id.holder.attempt);
    let (sealed, bytes) = site.change_within(attempt, &limits, |transaction| {
        let stage = stage::find(transaction, staging.id.holder.attempt, &staging.slot)?.ok_or_else(|| {
            Error::guard("the staging table was dropped while the task ran")
                .hint("the task writes rows into its staging table, and neither drops nor renames it")
        })?;
        // Its answer was lost: what a first try sealed stands.
        if let Some(sealed) = stage.sealed.clone() {
            return Ok((sealed, 0));
        }
        let target = Target::find(transaction, &stage.manner.relation())?;
        let found = fill(transaction, &stage, &target, Path::new(&staging.place))?;
        check(&stage, &found, guards)?;
        let sealed = SealedTable { rows: found.rows, digest: found.digest, columns: found.columns };
        stage::seal(transaction, &stage, &sealed)?;
        // What holds no rows is empty, whatever its header takes.
        Ok((sealed, if found.rows == 0 { 0 } else { found.bytes }))
    })?;
    Ok(SealedData {
        slot: staging.slot.clone(),
        staged: super::address::sealed_of(staging.id.holder.attempt, &staging.slot).to_string(),
        digest: sealed.digest,
        bytes,
        files: 1,
        rows: Some(sealed.rows),
        identity: staging.place.clone(),
    })
}

fn fill(transaction: &mut Transaction<'_>, stage: &Stage, target: &Target, place: &Path) -> Result<Found, Fault> {
    match &stage.manner.source {
        Source::File { format, null, .. } => {
            let mut found = load::load(transaction, stage, target, place, format, null.as_deref())?;
            found.rows -= modes::settle(transaction, stage, target)?;
            Ok(found)
        }
        Source::Sql { file, text } => {
            statements::run(transaction, stage, file, text)?;
            modes::settle(transaction, stage, target)?;
            count(transaction, stage, target)
        }
        Source::Direct => {
            // Waits for those who are writing, and keeps all others away until the table has its other name.
            transaction.simple(&format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", stage.table))?;
            modes::settle(transaction, stage, target)?;
            count(transaction, stage, target)
        }
    }
}

fn check(stage: &Stage, found: &Found, guards: &Guards) -> Result<(), Error> {
    let table = stage.manner.relation();
    if found.rows == 0 && !guards.allow_empty {
        return Err(Error::guard(format!("the output for {table} has no rows"))
            .hint("if none are right for this partition, add `--allow-empty`"));
    }
    if let Some(least) = guards.min_rows.filter(|least| found.rows < *least) {
        return Err(Error::guard(format!(
            "the output for {table} has {} rows, at least {least} are asked for",
            found.rows
        )));
    }
    if let Some(least) = guards.min_files.filter(|least| *least > 1) {
        return Err(Error::guard(format!("the output for {table} is one table, at least {least} files are asked for")));
    }
    if let Some(least) = guards.min_bytes.filter(|least| found.bytes < *least) {
        return Err(Error::guard(format!(
            "the output for {table} has {} bytes, at least {least} are asked for",
            found.bytes
        )));
    }
    Ok(())
}

/// Counts rows that were written by statements. A column to which the table gives a value is taken from the staged rows if
/// all of them have one, and from the table if none has.
fn count(transaction: &mut Transaction<'_>, stage: &Stage, target: &Target) -> Result<Found, Fault> {
    let now = Target::find(transaction, &stage.table)?;
    let mut selected = String::from("count(*)::text, coalesce(sum(hashtextextended(s::text, 0)::numeric), 0)::text");
    for column in &now.columns {
        selected.push_str(&format!(", count(s.{})::text", quote_identifier(&column.name)));
    }
    let rows = transaction.query(&format!("SELECT {selected} FROM {} AS s", stage.table), &[])?;
    let row = rows.into_iter().next().unwrap_or_default();
    let total = number(row.first());
    let checksum = row.get(1).cloned().flatten().unwrap_or_default();
    let mut columns = Vec::new();
    for (column, filled) in now.columns.iter().zip(row.iter().skip(2)) {
        let given = target.column(&column.name).is_some_and(|column| column.has_default);
        match number(Some(filled)) {
            0 if given && total > 0 => {}
            filled if given && filled != total => {
                return Err(Error::guard(format!(
                    "of {total} staged rows {filled} have a value of {}, which the table gives to rows without one",
                    quote_identifier(&column.name)
                ))
                .hint("stage it for every row or for none")
                .into());
            }
            _ => columns.push(column.name.clone()),
        }
    }
    let bytes = transaction.query(
        &format!("SELECT pg_table_size({}::text::oid)::text", refrain_postgres::quote_literal(&stage.oid)),
        &[],
    )?;
    let bytes = number(bytes.first().and_then(|row| row.first()));
    Ok(Found {
        rows: total,
        bytes,
        digest: format!("blake3:{}", blake3::hash(format!("{total} rows, {checksum}").as_bytes()).to_hex()),
        columns,
    })
}
