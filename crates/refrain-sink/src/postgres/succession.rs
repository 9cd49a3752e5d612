//! What a key published before in a table, at a slot that none of its outputs is any more: after another `mode` or `where`
//! its rows would stand beside those that come (docs/decisions/0019-declarations-that-change.md).

use super::address::scope_of;
use super::catalog::Target;
use super::heads::{self, Published};
use super::manner::{Manner, Mode};
use super::modes::{count, merge};
use super::scope;
use refrain_core::{Adopt, Error, Generation, Key, counted};
use refrain_postgres::{Fault, Transaction, quote_identifier};

/// The output that is to be published.
pub(super) struct Wish<'w> {
    pub(super) key: &'w Key,
    /// Its slot within the database.
    pub(super) slot: &'w str,
    pub(super) manner: &'w Manner,
    /// The slots of all outputs of the key.
    pub(super) beside: &'w [&'w str],
    pub(super) adopt: Adopt,
}

/// Refuses what would leave rows of an earlier publication of the key beside its own.
///
/// # Errors
/// `refused`, with what goes on.
pub(super) fn test(transaction: &mut Transaction<'_>, wish: &Wish<'_>) -> Result<(), Fault> {
    let published = heads::of_key(transaction, wish.slot, wish.key)?;
    let shown = published.iter().find(|it| it.slot == wish.slot).map_or(Generation::default(), Published::generation);
    // What is older than the slot's own publication was left there by a decision of then.
    let left = published
        .iter()
        .filter(|it| it.slot != wish.slot && !wish.beside.contains(&it.slot.as_str()) && it.generation() > shown);
    let left: Vec<_> = left.collect();
    if left.is_empty() {
        return Ok(());
    }
    let target = Target::find(transaction, &wish.manner.relation())?;
    // A policy that hides rows would make them look gone.
    transaction.simple("SET LOCAL row_security = off")?;
    left.into_iter().try_for_each(|former| beside(transaction, &target, wish, former))
}

fn beside(
    transaction: &mut Transaction<'_>,
    target: &Target,
    wish: &Wish<'_>,
    former: &Published,
) -> Result<(), Fault> {
    let manner = wish.manner;
    // Rows that are there are updated by their key, whoever wrote them.
    if manner.mode == Mode::Merge && !manner.delete_missing {
        return merge::refuse_again(target, manner).map_err(Into::into);
    }
    let Some(which) = rows_of(target, former) else {
        return unless_adopted(target, wish, former);
    };
    let left = if manner.owns_scope() {
        format!("{which} AND ({}) IS NOT TRUE", scope::condition(target, manner, "")?)
    } else {
        which
    };
    transaction.simple("SAVEPOINT refrain_beside")?;
    match count(transaction, target, &left) {
        Ok(0) => Ok(()),
        Ok(rows) => Err(standing(target, former, rows, &left).into()),
        // A column of the former scope is gone, or of another type.
        Err(fault) if matches!(fault.code(), Some("42703" | "42883")) => {
            transaction.simple("ROLLBACK TO SAVEPOINT refrain_beside")?;
            unless_adopted(target, wish, former)
        }
        Err(fault) => Err(fault),
    }
}

fn unless_adopted(target: &Target, wish: &Wish<'_>, former: &Published) -> Result<(), Fault> {
    match wish.adopt {
        Adopt::Foreign => Ok(()),
        Adopt::Never => Err(untold(target, former).into()),
    }
}

/// The condition that the rows of a former publication meet and no others; nothing where nobody can tell.
fn rows_of(target: &Target, former: &Published) -> Option<String> {
    if let Some((_, condition)) = scope_of(&former.slot) {
        return Some(format!("({condition})"));
    }
    let column = former.applied.as_ref()?.run_column.as_ref()?;
    let data_type = &target.column(column)?.data_type;
    let run = former.publication.run.run_id;
    Some(format!("{} = CAST('{run}' AS {data_type})", quote_identifier(column)))
}

fn standing(target: &Target, former: &Published, rows: u64, which: &str) -> Error {
    let (relation, version) = (&target.relation, former.generation());
    Error::refused(format!(
        "{} of version {version} of this output stand in {relation}, published as it was declared then, and would stay beside \
         those of the next version",
        counted(rows, "row")
    ))
    .hint(format!(
        "take the change of `mode` or `where` back; or let these rows go, then repeat the call: DELETE FROM {relation} WHERE {which}"
    ))
}

fn untold(target: &Target, former: &Published) -> Error {
    let (relation, version) = (&target.relation, former.generation());
    Error::refused(format!(
        "version {version} of this output added rows to {relation} as it was declared then, and nothing tells them from others: \
         they would stay beside those of the next version"
    ))
    .hint(
        "take the change of `mode` or `where` back; or look for these rows, and once they are gone, or belong to what is \
         replaced, add `--adopt`",
    )
}
