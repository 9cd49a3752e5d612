//! Heads: one row per slot, changed in the transaction that changes the data.

use super::address::relation_of;
use refrain_core::{Error, Generation, Head, Key, Publication};
use refrain_postgres::{Fault, Transaction};
use serde::{Deserialize, Serialize};

/// A head with what the database knows of the last commit.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) slot: String,
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
    /// The column in which these rows name their run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run_column: Option<String>,
    /// Whether they were merged: a unique index keeps any of them from standing there twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) merged: bool,
}

/// What a head shows of one key.
pub(super) struct Published {
    pub(super) slot: String,
    pub(super) publication: Publication,
    pub(super) applied: Option<Applied>,
}

impl Published {
    pub(super) fn generation(&self) -> Generation {
        self.publication.run.generation
    }
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

/// Everything that a key shows in the table of a slot.
pub(super) fn of_key(transaction: &mut Transaction<'_>, slot: &str, key: &Key) -> Result<Vec<Published>, Fault> {
    let sql = "SELECT slot, head, applied FROM refrain.head WHERE relation = $1 AND owner = $2 ORDER BY slot";
    let rows = transaction.query(sql, &[Some(relation_of(slot)), Some(&text(key)?)])?;
    let mut published = Vec::new();
    for row in &rows {
        let [Some(slot), Some(head), applied] = row.as_slice() else { continue };
        let Standing { slot, head, applied } = read_texts(slot, head, applied.as_deref())?;
        if let Some(publication) = head.publication_of(key).cloned() {
            published.push(Published { slot, publication, applied });
        }
    }
    Ok(published)
}

fn load(transaction: &mut Transaction<'_>, slot: &str, lock: &str) -> Result<Option<Standing>, Fault> {
    let sql = format!("SELECT head, applied FROM refrain.head WHERE slot = $1{lock}");
    let rows = transaction.query(&sql, &[Some(slot)])?;
    let Some([Some(head), applied]) = rows.first().map(Vec::as_slice) else { return Ok(None) };
    Ok(Some(read_texts(slot, head, applied.as_deref())?))
}

fn read_texts(slot: &str, head: &str, applied: Option<&str>) -> Result<Standing, Error> {
    let corrupt = |error| Error::corrupt(format!("cannot read the head of `{slot}`")).because(error);
    let head = serde_json::from_str(head).map_err(corrupt)?;
    let applied = applied.map(serde_json::from_str).transpose().map_err(corrupt)?;
    Ok(Standing { slot: slot.to_owned(), head, applied })
}

/// Makes the first head of a slot; false when somebody else has made one meanwhile.
pub(super) fn insert(transaction: &mut Transaction<'_>, slot: &str, head: &Head) -> Result<bool, Fault> {
    let sql = "INSERT INTO refrain.head (slot, relation, version, head, owner) \
               VALUES ($1, $2, $3::text::uuid, $4, $5) ON CONFLICT (slot) DO NOTHING";
    let version = head.version.to_string();
    let values = [Some(slot), Some(relation_of(slot)), Some(&version), Some(&text(head)?), Some(&text(&head.owner)?)];
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
    let sql = "UPDATE refrain.head SET version = $2::text::uuid, head = $3, applied = coalesce($4, applied), owner = $5, \
               changed_at = pg_catalog.now() WHERE slot = $1";
    let version = head.version.to_string();
    let (head, owner) = (text(head)?, text(&head.owner)?);
    let changed =
        transaction.execute(sql, &[Some(slot), Some(&version), Some(&head), applied.as_deref(), Some(&owner)])?;
    if changed == 1 { Ok(()) } else { Err(Error::corrupt(format!("the head of `{slot}` is gone")).into()) }
}

fn text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(refrain_core::ErrorKind::Internal, "cannot write a head").because(error))
}
