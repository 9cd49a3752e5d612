//! Staging: a table for each attempt and slot, known by a row of `refrain.staging`.

use super::catalog::Target;
use super::manner::{Manner, Mode};
use super::{address, modes, scope};
use refrain_core::{Error, ErrorKind, Holder, SlotAddress, StagingId};
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier, quote_literal};
use serde::{Deserialize, Serialize};

/// The constraint that keeps rows outside the scope away, by its name in staging tables.
pub(super) const SCOPE_CHECK: &str = "refrain_scope";

/// A staging table, as its row says.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// The table, by the name that it has now.
    pub(super) table: Relation,
    /// Its number in the catalog.
    pub(super) oid: String,
    pub(super) slot: SlotAddress,
    pub(super) id: StagingId,
    pub(super) manner: Manner,
    pub(super) sealed: Option<SealedTable>,
}

/// What the seal found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SealedTable {
    /// So many rows.
    pub(super) rows: u64,
    /// Digest of the file, or of the rows in any order.
    pub(super) digest: String,
    /// The columns that the rows have; the table's defaults give the others.
    pub(super) columns: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Owner {
    slot: SlotAddress,
    id: StagingId,
}

/// Makes the staging table. An earlier one of the same attempt at the same slot is dropped: its answer was lost.
pub(super) fn create(
    transaction: &mut Transaction<'_>,
    slot: &SlotAddress,
    id: &StagingId,
    manner: &Manner,
) -> Result<Relation, Fault> {
    let stage = address::stage_of(id.holder.attempt, slot);
    if let Some(former) = find(transaction, id.holder.attempt, slot)? {
        remove(transaction, &former)?;
    }
    let target = Target::find(transaction, &manner.relation())?;
    match manner.mode {
        Mode::SwapPartition => modes::swap::create(transaction, &target, manner, &stage)?,
        Mode::Replace | Mode::Merge | Mode::Append | Mode::Table => plain(transaction, &target, manner, &stage)?,
    }
    restrict(transaction, &target, manner, &stage, id.holder)?;
    let manner = match manner.mode {
        Mode::Merge => &modes::merge::settled(transaction, &target, manner)?,
        Mode::Replace | Mode::SwapPartition | Mode::Append | Mode::Table => manner,
    };
    let owner = write(&Owner { slot: slot.clone(), id: id.clone() })?;
    let sql = format!(
        "INSERT INTO refrain.staging (name, relation, slot, owner, manner) \
         VALUES ($1, {}::regclass::oid, $2, $3, $4)",
        quote_literal(&stage.to_string())
    );
    let place = address::place(slot)?;
    transaction.execute(&sql, &[Some(&stage.name), Some(place.slot), Some(&owner), Some(&manner.write()?)])?;
    Ok(stage)
}

/// A table with the target's columns and checks, without its keys, defaults and sequences (PGS-05).
fn plain(transaction: &mut Transaction<'_>, target: &Target, manner: &Manner, stage: &Relation) -> Result<(), Fault> {
    transaction.simple(&format!("CREATE TABLE {stage} (LIKE {} INCLUDING CONSTRAINTS)", target.relation))?;
    for column in &target.columns {
        let name = quote_identifier(&column.name);
        if column.generated {
            transaction.simple(&format!("ALTER TABLE {stage} DROP COLUMN {name}"))?;
        } else if column.not_null && column.may_be_absent(manner) {
            transaction.simple(&format!("ALTER TABLE {stage} ALTER COLUMN {name} DROP NOT NULL"))?;
        }
    }
    Ok(())
}

/// Rows outside the scope are refused as they are written; a column that has one value in the scope need not be written.
fn restrict(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    stage: &Relation,
    holder: Holder,
) -> Result<(), Fault> {
    if let Some(column) = &manner.run_column {
        target.demand(column, "`run_column`")?;
    }
    for condition in manner.fixed() {
        let (name, value) = (quote_identifier(&condition.column), scope::value(target, condition)?);
        transaction.simple(&format!("ALTER TABLE {stage} ALTER COLUMN {name} SET DEFAULT {value}"))?;
    }
    if !manner.scope.is_empty() {
        let mut check = scope::condition(target, manner, "")?;
        for condition in &manner.scope {
            // A check is met by NULL.
            check.push_str(&format!(" AND {} IS NOT NULL", quote_identifier(&condition.column)));
        }
        transaction.simple(&format!("ALTER TABLE {stage} ADD CONSTRAINT {SCOPE_CHECK} CHECK ({check})"))?;
    }
    let comment = quote_literal(&format!("staging of refrain, attempt {}", holder.attempt));
    transaction.simple(&format!("COMMENT ON TABLE {stage} IS {comment}"))?;
    Ok(())
}

/// The staging table of an attempt at a slot, if its row and the table itself are there.
pub(super) fn find(
    transaction: &mut Transaction<'_>,
    attempt: refrain_core::AttemptId,
    slot: &SlotAddress,
) -> Result<Option<Stage>, Fault> {
    let (open, sealed) = (address::stage_of(attempt, slot), address::sealed_of(attempt, slot));
    let found = load(transaction, "WHERE s.name IN ($1, $2)", &[Some(&open.name), Some(&sealed.name)])?;
    Ok(found.into_iter().flatten().next())
}

/// Every staging table; nothing for a row that cannot be read.
pub(super) fn all(transaction: &mut Transaction<'_>) -> Result<Vec<Option<Stage>>, Fault> {
    load(transaction, "", &[])
}

/// Seals: the table gets another name, for which nobody who may still write knows to ask. Waits for those who are writing.
pub(super) fn seal(transaction: &mut Transaction<'_>, stage: &Stage, sealed: &SealedTable) -> Result<Relation, Fault> {
    let table = address::sealed_of(stage.id.holder.attempt, &stage.slot);
    transaction.simple(&format!("ALTER TABLE {} RENAME TO {}", stage.table, quote_identifier(&table.name)))?;
    let sql = "UPDATE refrain.staging SET name = $2, sealed = $3 WHERE name = $1";
    transaction.execute(sql, &[Some(&stage.table.name), Some(&table.name), Some(&write(sealed)?)])?;
    Ok(table)
}

/// Forgets the row, and drops the table, if it still is the one of the row: a table of somebody else that merely has the
/// name stays (PGS-10).
///
/// # Errors
/// `invalid` when another role made it: a table is dropped by its owner.
pub(super) fn remove(transaction: &mut Transaction<'_>, stage: &Stage) -> Result<(), Fault> {
    forget(transaction, stage)?;
    let sql = "SELECT pg_get_userbyid(c.relowner)::text, pg_has_role(c.relowner, 'USAGE')::text \
               FROM pg_class c WHERE c.oid = $1::text::oid AND c.oid = to_regclass($2)::oid";
    let rows = transaction.query(sql, &[Some(&stage.oid), Some(&stage.table.to_string())])?;
    match rows.first().map(Vec::as_slice) {
        Some([Some(owner), Some(may)]) if may != "true" => Err(Error::invalid(format!(
            "the staging table {} belongs to the role {}, and only its owner can drop it",
            stage.table,
            quote_identifier(owner)
        ))
        .hint("let whoever publishes as that role run `refrain gc`; or let an administrator make one role a member of the other")
        .into()),
        Some(_) => transaction.simple(&format!("DROP TABLE {}", stage.table)).map(drop),
        None => Ok(()),
    }
}

/// The row is another table's from now on, which has the name: one that was replaced, and is to be removed.
pub(super) fn becomes(transaction: &mut Transaction<'_>, stage: &Stage, oid: &str) -> Result<(), Fault> {
    let sql = "UPDATE refrain.staging SET relation = $2::text::oid WHERE name = $1";
    transaction.execute(sql, &[Some(&stage.table.name), Some(oid)])?;
    Ok(())
}

/// Forgets the row alone: the table has become something else.
pub(super) fn forget(transaction: &mut Transaction<'_>, stage: &Stage) -> Result<(), Fault> {
    transaction.execute("DELETE FROM refrain.staging WHERE name = $1", &[Some(&stage.table.name)])?;
    Ok(())
}

fn load(transaction: &mut Transaction<'_>, which: &str, values: &[Option<&str>]) -> Result<Vec<Option<Stage>>, Fault> {
    let sql = format!(
        "SELECT s.name, s.relation::text, s.owner, s.manner, s.sealed FROM refrain.staging s {which} ORDER BY s.name"
    );
    let rows = transaction.query(&sql, values)?;
    Ok(rows.into_iter().map(from_row).collect())
}

fn from_row(row: Vec<Option<String>>) -> Option<Stage> {
    let [name, oid, owner, manner, sealed] = <[Option<String>; 5]>::try_from(row).ok()?;
    let owner: Owner = serde_json::from_str(&owner?).ok()?;
    let sealed = match sealed {
        Some(text) => Some(serde_json::from_str(&text).ok()?),
        None => None,
    };
    Some(Stage {
        table: Relation::new("refrain", name?),
        oid: oid?,
        slot: owner.slot,
        id: owner.id,
        manner: Manner::read(&manner?).ok()?,
        sealed,
    })
}

fn write(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write what is staged").because(error))
}
