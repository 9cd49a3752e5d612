//! Heads: one row per slot, changed in the transaction that changes the data.

use super::address::relation_of;
use refrain_core::{Error, Head};
use refrain_postgres::{Fault, Transaction};
use serde::{Deserialize, Serialize};

/// A head with what the database knows of the last commit.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) head: Head,
    pub(super) applied: Option<Applied>,
}

/// What the rows of the last commit are recognised by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Applied {
    /// How many rows the scope had afterwards; nothing where no scope bounds them.
    pub(super) rows: Option<u64>,
    /// The transaction that wrote them all, or wrote last; nothing where rows of others stay.
    pub(super) transaction: Option<String>,
    /// Whether rows of earlier transactions are among them.
    #[serde(default)]
    pub(super) earlier: bool,
    /// The cluster in which the transaction's number means something: not the one of a restored dump.
    pub(super) cluster: Option<String>,
    /// The partition that was attached.
    pub(super) partition: Option<String>,
}

/// Reads a head.
pub(super) fn read(transaction: &mut Transaction<'_>, slot: &str) -> Result<Option<Standing>, Fault> {
    load(transaction, slot, "")
}

/// Reads a head and keeps everybody else from it until the transaction ends. The statement that does this is the first one
/// that looks at data, so that all others see what was committed before (PGX-04).
pub(super) fn lock(transaction: &mut Transaction<'_>, slot: &str) -> Result<Option<Standing>, Fault> {
    load(transaction, slot, " FOR UPDATE")
}

fn load(transaction: &mut Transaction<'_>, slot: &str, lock: &str) -> Result<Option<Standing>, Fault> {
    let sql = format!("SELECT head, applied FROM refrain.head WHERE slot = $1{lock}");
    let rows = transaction.query(&sql, &[Some(slot)])?;
    let Some([Some(head), applied]) = rows.first().map(Vec::as_slice) else { return Ok(None) };
    let corrupt = |error| Error::corrupt(format!("cannot read the head of `{slot}`")).because(error);
    let head = serde_json::from_str(head).map_err(corrupt)?;
    let applied = applied.as_deref().map(serde_json::from_str).transpose().map_err(corrupt)?;
    Ok(Some(Standing { head, applied }))
}

/// Makes the first head of a slot; false when somebody else has made one meanwhile.
pub(super) fn insert(transaction: &mut Transaction<'_>, slot: &str, head: &Head) -> Result<bool, Fault> {
    let sql = "INSERT INTO refrain.head (slot, relation, version, head) VALUES ($1, $2, $3::text::uuid, $4) \
               ON CONFLICT (slot) DO NOTHING";
    let version = head.version.to_string();
    let values = [Some(slot), Some(relation_of(slot)), Some(&version), Some(&text(head)?)];
    Ok(transaction.execute(sql, &values)? == 1)
}

/// Replaces a head that is locked; `applied` where a commit changed the data.
pub(super) fn save(
    transaction: &mut Transaction<'_>,
    slot: &str,
    head: &Head,
    applied: Option<&Applied>,
) -> Result<(), Fault> {
    let applied = applied.map(text).transpose()?;
    let sql = "UPDATE refrain.head SET version = $2::text::uuid, head = $3, applied = coalesce($4, applied), \
               changed_at = pg_catalog.now() WHERE slot = $1";
    let version = head.version.to_string();
    let changed = transaction.execute(sql, &[Some(slot), Some(&version), Some(&text(head)?), applied.as_deref()])?;
    if changed == 1 { Ok(()) } else { Err(Error::corrupt(format!("the head of `{slot}` is gone")).into()) }
}

fn text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(refrain_core::ErrorKind::Internal, "cannot write a head").because(error))
}
