//! The bound of the ledger (12.2, 12.3): below it a key without a head was applied and forgotten, and is refused.
//!
//! Only slots of single keys have one: there a head is all that is left of a key, and one is added with each date.

use super::address::{relation_of, scope_of};
use refrain_core::{Error, Key, SlotAddress, TaskName};
use refrain_postgres::{Fault, Transaction};

/// Forgets heads and raises the bound over their keys. Keys of one grain are in order of time as texts.
pub(super) fn forget(
    transaction: &mut Transaction<'_>,
    task: &TaskName,
    keys: &[(SlotAddress, String)],
) -> Result<u64, Fault> {
    let mut forgotten = 0;
    for (slot, partition) in keys {
        let name = super::address::place(slot)?.slot;
        if scope_of(name).is_some() {
            continue;
        }
        let raise = "INSERT INTO refrain.horizon (relation, task, through) VALUES ($1, $2, $3) \
                     ON CONFLICT (relation, task) DO UPDATE SET through = greatest(refrain.horizon.through COLLATE \"C\", $3)";
        transaction.execute(raise, &[Some(relation_of(name)), Some(task.as_str()), Some(partition)])?;
        forgotten += transaction.execute("DELETE FROM refrain.head WHERE slot = $1", &[Some(name)])?;
    }
    Ok(forgotten)
}

/// Refuses a key without a head that may have been applied.
pub(super) fn test(transaction: &mut Transaction<'_>, slot: &str, key: &Key) -> Result<(), Fault> {
    if scope_of(slot).is_some() {
        return Ok(());
    }
    let sql = "SELECT through FROM refrain.horizon WHERE relation = $1 AND task = $2 AND through COLLATE \"C\" >= $3";
    let values = [Some(relation_of(slot)), Some(key.task.as_str()), Some(key.partition.as_str())];
    match transaction.query(sql, &values)?.first().and_then(|row| row.first()?.as_deref()) {
        None => Ok(()),
        Some(through) => Err(Error::refused(format!(
            "`{key}` lies at or below the bound of the ledger of {}, {through}: its rows may stand there already",
            relation_of(slot)
        ))
        .hint("look for its rows; to apply it all the same, delete them and its task's row of refrain.horizon")
        .into()),
    }
}
