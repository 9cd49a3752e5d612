//! The seal (5.8): the staged rows are complete, counted, and nobody can write them any more.

use super::catalog::{Column, Target};
use super::manner::{Mode, Source};
use super::modes::{self, number};
use super::site::Site;
use super::stage::{self, SealedTable, Stage};
use super::{load, scope, shape, statements, writers};
use refrain_core::{Error, Guards, Open, Result, SealedData, Staging, are, counted};
use refrain_postgres::{Fault, Limits, Transaction, quote_identifier};
use std::path::Path;
use std::time::Duration;

/// What was found of the rows.
pub(super) struct Found {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) digest: String,
    /// The columns that the rows have.
    pub(super) columns: Vec<String>,
}

/// A task's SQL may take as long as it takes, and so may reading a file.
const LIMITS: Limits = Limits { lock: Duration::from_secs(10), statement: None, idle: Duration::from_secs(30) };

/// Loads what the task left, if it left a file, or runs its SQL, and seals the staging table.
///
/// # Errors
/// `guard` when the output is missing, empty, too small, or not what the table takes; when the task left the staging table
/// altered or in use.
///
/// # Crash safety
/// One transaction: dying inside leaves the staging table as it was. A sealed table is logged (PGX-11).
pub(super) fn seal(site: &Site, staging: &Staging<Open>, guards: &Guards) -> Result<SealedData> {
    let attempt = staging.id.holder.attempt;
    let at_once = site.change_within(Some(attempt), &LIMITS, |transaction| {
        let stage = demand(transaction, staging)?;
        // What SQL reads is to be of one moment; only the table's row says that it is SQL.
        match &stage.manner.source {
            Source::Sql { .. } if stage.sealed.is_none() => Ok(None),
            _ => once(transaction, &stage, staging, guards).map(Some),
        }
    })?;
    let (sealed, bytes) = match at_once {
        Some(sealed) => sealed,
        None => site.change_on_snapshot(attempt, &LIMITS, |transaction| {
            let stage = demand(transaction, staging)?;
            once(transaction, &stage, staging, guards)
        })?,
    };
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

fn demand(transaction: &mut Transaction<'_>, staging: &Staging<Open>) -> Result<Stage, Fault> {
    stage::find(transaction, staging.id.holder.attempt, &staging.slot)?.ok_or_else(|| {
        Error::guard("the row of the staging table in refrain.staging was removed while the task ran")
            .hint(
                "repeat the call; whoever cleans schema refrain by hand leaves to `refrain gc` what attempts may need",
            )
            .into()
    })
}

fn once(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    staging: &Staging<Open>,
    guards: &Guards,
) -> Result<(SealedTable, u64), Fault> {
    // Its answer was lost: what a first try sealed stands.
    if let Some(sealed) = stage.sealed.clone() {
        return Ok((sealed, 0));
    }
    let target = Target::find(transaction, &stage.manner.relation())?;
    let found = fill(transaction, stage, &target, Path::new(&staging.place))?;
    check(stage, &found, guards)?;
    modes::complete(transaction, stage, &target)?;
    let sealed = SealedTable { rows: found.rows, digest: found.digest, columns: found.columns };
    stage::seal(transaction, stage, &sealed)?;
    // What holds no rows is empty, whatever its header takes.
    Ok((sealed, if found.rows == 0 { 0 } else { found.bytes }))
}

fn fill(transaction: &mut Transaction<'_>, stage: &Stage, target: &Target, place: &Path) -> Result<Found, Fault> {
    shape::left(transaction, stage, target)?;
    match &stage.manner.source {
        Source::File { format, null, .. } => {
            let mut found = load::load(transaction, stage, target, place, format, null.as_deref())?;
            found.rows -= modes::settle(transaction, stage, target)?;
            return Ok(found);
        }
        Source::Sql { file, text, values } => {
            writers::keep_out(transaction, stage)?;
            // The rows are those of the SQL alone.
            transaction.simple(&format!("TRUNCATE {}", stage.table))?;
            statements::run(transaction, stage, target, (file, text, values), &LIMITS)?;
        }
        Source::Direct => writers::keep_out(transaction, stage)?,
    }
    let now = shape::left(transaction, stage, target)?;
    modes::settle(transaction, stage, target)?;
    count(transaction, stage, target, &now)
}

fn check(stage: &Stage, found: &Found, guards: &Guards) -> Result<(), Error> {
    let table = stage.manner.relation();
    if found.rows == 0 && !guards.allow_empty {
        return Err(Error::guard(format!("the output for {table} has no rows"))
            .hint("if none are right for this partition, add `--allow-empty`"));
    }
    if let Some(least) = guards.min_rows.filter(|least| found.rows < *least) {
        return Err(Error::guard(format!(
            "the output for {table} has {}, at least {least} are asked for",
            counted(found.rows, "row")
        )));
    }
    if let Some(least) = guards.min_files.filter(|least| *least > 1) {
        return Err(Error::guard(format!("the output for {table} is one table, at least {least} files are asked for")));
    }
    if let Some(least) = guards.min_bytes.filter(|least| found.bytes < *least) {
        return Err(Error::guard(format!(
            "the output for {table} has {}, at least {least} are asked for",
            counted(found.bytes, "byte")
        )));
    }
    Ok(())
}

/// Counts rows that were written by statements. A column to which the table gives a value is taken from the staged rows if
/// all of them have one, and from the table if none has.
fn count(transaction: &mut Transaction<'_>, stage: &Stage, target: &Target, now: &Target) -> Result<Found, Fault> {
    let scope = scope::condition(target, &stage.manner, "s.")?;
    let mut selected = format!(
        "count(*)::text, coalesce(sum(hashtextextended(s::text, 0)::numeric), 0)::text, \
         count(*) FILTER (WHERE ({scope}) IS NOT TRUE)::text"
    );
    for column in &now.columns {
        selected.push_str(&format!(", count(s.{})::text", quote_identifier(&column.name)));
    }
    let rows = transaction.query(&format!("SELECT {selected} FROM {} AS s", stage.table), &[])?;
    let row = rows.into_iter().next().unwrap_or_default();
    let (total, outside) = (number(row.first()), number(row.get(2)));
    if outside > 0 {
        return Err(Error::guard(format!(
            "{outside} of {} {} outside the scope of the output: {scope}",
            counted(total, "staged row"),
            are(outside)
        ))
        .hint("stage rows of the scope alone")
        .into());
    }
    let checksum = row.get(1).cloned().flatten().unwrap_or_default();
    let mut columns = Vec::new();
    for (column, filled) in now.columns.iter().zip(row.iter().skip(3)) {
        // A partition has given its values already.
        if stage.manner.mode == Mode::SwapPartition || is_staged(column, target, total, number(Some(filled)))? {
            columns.push(column.name.clone());
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

/// Whether the staged rows have the column, given that so many of them have a value of it.
fn is_staged(column: &Column, target: &Target, total: u64, filled: u64) -> Result<bool, Error> {
    let name = quote_identifier(&column.name);
    match target.column(&column.name) {
        Some(given) if given.has_default && filled == 0 && total > 0 => Ok(false),
        Some(given) if given.has_default && filled != total => Err(Error::guard(format!(
            "{name}, which the table gives to rows without one, has a value in {filled} of {}",
            counted(total, "staged row")
        ))
        .hint("stage it for every row or for none")),
        Some(wanted) if wanted.not_null && filled != total => Err(Error::guard(format!(
            "{name} has no value in {} of {}, and {} wants one",
            total - filled,
            counted(total, "staged row"),
            target.relation
        ))
        .hint("stage it for every row")),
        _ => Ok(true),
    }
}
