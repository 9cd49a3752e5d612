//! `merge`: rows are inserted or updated by their natural key; equal rows are not touched.
//!
//! 1. The staged rows that are missing in the table or differ there are set aside, by one join (`delta`). It decides nothing: it is
//!    what makes the rest short, and it may use several processes of the server.
//! 2. With `delete_missing`, rows of the scope that are not staged are deleted.
//! 3. Rows that differ are updated, and looked at again as they are locked: what an application has changed meanwhile counts.
//! 4. Rows that are missing are inserted, with `ON CONFLICT` for those that an application has inserted meanwhile.
//!
//! No lock of the table is taken, so readers and writers of other rows go on (docs/decisions/0015-merge.md).

mod columns;
mod key;
mod settle;

pub(in crate::postgres) use settle::settle;

use super::{Work, count, number, replace, written};
use crate::postgres::address;
use crate::postgres::catalog::{Target, list};
use crate::postgres::heads::Applied;
use crate::postgres::manner::{Manner, Mode};
use crate::postgres::scope;
use columns::Columns;
use key::NaturalKey;
use refrain_core::{Error, are, counted, were};
use refrain_postgres::{Fault, Refusal, Relation, Transaction, quote_identifier};

/// What became of a staged row, in the column of this name: no table of a user has one.
const STATE: &str = "\"refrain:state\"";

/// Two tables of a million rows are joined in memory; without this the server writes them to its disk in parts
/// (<https://www.postgresql.org/docs/current/runtime-config-resource.html>). Compiling the joins costs more than it saves.
const ROOM: &str = "SELECT pg_catalog.set_config('work_mem', '64MB', true) \
     WHERE pg_catalog.pg_size_bytes(pg_catalog.current_setting('work_mem')) < 67108864; SET LOCAL jit = off";

/// Tests whether the table can be merged into. `published`: an earlier generation stands.
pub(super) fn preflight(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    published: bool,
) -> Result<(), Fault> {
    let key = NaturalKey::find(transaction, target, manner)?;
    columns::preflight(transaction, target, manner, &key)?;
    if published {
        refuse_again(target, manner)?;
    }
    if manner.delete_missing { replace::refuse_cascades(transaction, target) } else { Ok(()) }
}

/// The manner with the key that is meant.
pub(in crate::postgres) fn settled(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
) -> Result<Manner, Fault> {
    let key = NaturalKey::find(transaction, target, manner)?;
    Ok(Manner { key: key.columns, ..manner.clone() })
}

fn adding(manner: &Manner) -> Option<&(String, String)> {
    manner.set.iter().find(|(_, expression)| columns::reads_old(expression))
}

/// Whether applying it again counts twice.
pub(in crate::postgres) fn adds_up(manner: &Manner) -> bool {
    manner.mode == Mode::Merge && !manner.set_again && adding(manner).is_some()
}

/// What accumulates would count twice in another generation.
pub(in crate::postgres) fn refuse_again(target: &Target, manner: &Manner) -> Result<(), Error> {
    match adding(manner) {
        Some((column, expression)) if !manner.set_again => Err(Error::refused(format!(
            "{} was published before, and `set` of {} reads what stands there ({expression}): it would be counted twice",
            target.relation,
            quote_identifier(column)
        ))
        .hint(
            "take back by hand what the former generation added; if the expression gives the same when it is applied again: \
             set_again = true",
        )),
        _ => Ok(()),
    }
}

/// How many rows a merge found and changed.
#[derive(Debug, Default)]
struct Delta {
    missing: u64,
    changed: u64,
    outside: u64,
}

/// The parts of the statements.
struct Merge<'w> {
    work: &'w Work<'w>,
    key: NaturalKey,
    columns: Columns,
    /// Rows of the table that may be changed, as a condition on `old`.
    scope: String,
    /// Whether staged rows can only meet rows of the scope: the key has all its columns.
    scope_by_key: bool,
    delta: Relation,
}

pub(super) fn apply(transaction: &mut Transaction<'_>, work: &Work<'_>) -> Result<Applied, Fault> {
    let (target, manner) = (work.target, work.manner());
    if work.standing.head.seen().is_some() {
        refuse_again(target, manner)?;
    }
    // Rows may exchange values of a unique column, and refer to each other.
    transaction.simple(&format!("{ROOM}; SET CONSTRAINTS ALL DEFERRED"))?;
    let key = NaturalKey::find(transaction, target, manner)?;
    let columns = Columns::find(transaction, target, manner, &key, &work.sealed.columns)?;
    columns.refuse_cascades(transaction, target)?;
    let name = address::relation_name("delta", work.stage.id.holder.attempt, &work.stage.slot);
    let merge = Merge {
        work,
        scope: scope::condition(target, manner, "old.")?,
        scope_by_key: manner.scope.iter().all(|condition| key.columns.contains(&condition.column)),
        key,
        columns,
        delta: Relation::new("refrain", name),
    };
    merge.apply(transaction)
}

impl Merge<'_> {
    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Applied, Fault> {
        let (target, sealed) = (self.work.target, self.work.sealed);
        let delta = self.compare(transaction)?;
        let condition = scope::condition(target, self.work.manner(), "")?;
        let deleted = if self.work.manner().delete_missing { self.delete(transaction, &delta, &condition)? } else { 0 };
        let named = |fault| self.explain(fault);
        let updated = if delta.changed > 0 { self.update(transaction).map_err(named)? } else { 0 };
        let gone = updated < delta.changed;
        let inserted = if gone || delta.missing > 0 { self.insert(transaction, gone).map_err(named)? } else { 0 };
        // What was deferred is looked at while it still can be explained.
        transaction.simple("SET CONSTRAINTS ALL IMMEDIATE").map_err(named)?;
        if (updated, inserted) != (delta.changed, delta.missing) {
            self.refuse_dropped(transaction)?;
        }
        transaction.simple(&format!("DROP TABLE {}", self.delta))?;
        let unchanged = sealed.rows.saturating_sub(updated + inserted);
        tracing::info!(table = %target.relation, inserted, updated, deleted, unchanged, "merged");
        if !self.work.manner().delete_missing {
            return Ok(Applied { merged: true, ..Applied::default() });
        }
        let stand = count(transaction, target, &condition)?;
        if stand != sealed.rows {
            return Err(Error::guard(format!(
                "{} {} staged, and there {} {stand} in {} where {condition}",
                counted(sealed.rows, "row"),
                were(sealed.rows),
                are(stand),
                target.relation
            ))
            .hint(
                "look for somebody who adds rows of this scope, or for a trigger or a policy that drops or moves rows",
            )
            .into());
        }
        Ok(Applied { earlier: true, ..written(transaction, stand)? })
    }

    /// Sets the staged rows aside that the table does not have as they are.
    fn compare(&self, transaction: &mut Transaction<'_>) -> Result<Delta, Fault> {
        let (target, stage) = (&self.work.target.relation, &self.work.stage.table);
        let (join, differs) = (self.key.join("old", "new"), self.columns.differs("old", "new"));
        let staged = self.columns.staged.iter().map(|name| format!("new.{}", quote_identifier(name)));
        let staged = staged.collect::<Vec<_>>().join(", ");
        let scope = &self.scope;
        let (narrowed, outside) = if self.scope_by_key {
            (scope.as_str(), "false".to_owned())
        } else {
            ("true", format!("({scope}) IS NOT TRUE"))
        };
        // The server takes an equality for rarer than a condition it knows nothing of, and so sees that few rows will come: only
        // then does it share the work among processes.
        let sql = format!(
            "CREATE UNLOGGED TABLE {} AS SELECT {staged}, CASE WHEN old.tableoid IS NULL THEN 'missing' WHEN {outside} \
             THEN 'outside' ELSE 'changed' END AS {STATE} \
             FROM {stage} AS new LEFT JOIN {target} AS old ON {join} AND {narrowed} \
             WHERE CASE WHEN old.tableoid IS NULL OR {outside} OR {differs} THEN 1 END = 1; ANALYZE {}; \
             SELECT {STATE}, count(*)::text FROM {} GROUP BY 1",
            self.delta, self.delta, self.delta
        );
        let mut delta = Delta::default();
        for row in transaction.simple(&sql)? {
            let rows = number(row.get(1));
            match row.first().and_then(|state| state.as_deref()) {
                Some("missing") => delta.missing = rows,
                Some("changed") => delta.changed = rows,
                _ => delta.outside = rows,
            }
        }
        if delta.outside == 0 {
            return Ok(delta);
        }
        let keys = self.key.examples(transaction, &self.delta, &format!("{STATE} = 'outside'"))?;
        Err(Error::guard(format!(
            "{} staged rows have keys of rows of {target} that lie outside the scope of the output (`where`): {keys}",
            delta.outside
        ))
        .hint("another partition has them; let the key contain the columns of `where`, or give up `where`")
        .into())
    }

    /// Deletes what is not staged; if the numbers say that there is something.
    fn delete(&self, transaction: &mut Transaction<'_>, delta: &Delta, condition: &str) -> Result<u64, Fault> {
        let (target, stage) = (self.work.target, &self.work.stage.table);
        replace::refuse_losses(transaction, self.work, condition)?;
        if count(transaction, target, condition)? + delta.missing == self.work.sealed.rows {
            return Ok(0);
        }
        let (relation, scope, join) = (&target.relation, &self.scope, self.key.join("old", "new"));
        let sql = format!(
            "DELETE FROM {relation} AS old WHERE {scope} AND NOT EXISTS (SELECT FROM {stage} AS new WHERE {join})"
        );
        transaction.execute(&sql, &[])
    }

    fn update(&self, transaction: &mut Transaction<'_>) -> Result<u64, Fault> {
        let (target, scope) = (&self.work.target.relation, &self.scope);
        let (join, differs) = (self.key.join("old", "new"), self.columns.differs("old", "new"));
        let sql = format!(
            "UPDATE {target} AS old SET {} FROM {} AS new WHERE {join} AND {scope} AND {STATE} = 'changed' AND {differs}",
            self.columns.assignments("new"),
            self.delta
        );
        transaction.execute(&sql, &[])
    }

    /// Inserts the rows that were missing, even if they are there by now: then they conflict. `gone`: of the others some may have
    /// been deleted meanwhile.
    fn insert(&self, transaction: &mut Transaction<'_>, gone: bool) -> Result<u64, Fault> {
        let (target, delta, overriding) = (&self.work.target.relation, &self.delta, self.work.overriding());
        let (columns, join) = (self.work.columns(), self.key.join("old", "new"));
        let mut sql = format!(
            "INSERT INTO {target} AS old ({columns}) {overriding}SELECT {columns} FROM {delta} WHERE {STATE} = 'missing'"
        );
        if gone {
            sql.push_str(&format!(
                " UNION ALL SELECT {columns} FROM {delta} AS new WHERE {STATE} = 'changed' \
                 AND NOT EXISTS (SELECT FROM {target} AS old WHERE {join})"
            ));
        }
        if self.key.decides_conflicts {
            let key = list(self.key.columns.iter().map(String::as_str));
            let what = self.columns.on_conflict(&self.scope);
            sql.push_str(&format!(" ON CONFLICT ({key}) {what}"));
        }
        transaction.execute(&sql, &[])
    }

    /// Fewer rows were changed than differed. An application may have deleted them or made them equal; what a trigger, a rule
    /// or a policy has dropped is not published.
    fn refuse_dropped(&self, transaction: &mut Transaction<'_>) -> Result<(), Fault> {
        let (target, delta) = (&self.work.target.relation, &self.delta);
        let (join, differs) = (self.key.join("old", "new"), self.columns.still_differs("old", "new"));
        let sql = format!(
            "SELECT count(*)::text FROM {delta} AS new LEFT JOIN {target} AS old ON {join} AND {} \
             WHERE old.tableoid IS NULL OR {differs}",
            self.scope
        );
        let rows = transaction.query(&sql, &[])?;
        match number(rows.first().and_then(|row| row.first())) {
            0 => Ok(()),
            dropped => Err(Error::guard(format!(
                "{} {} not in {target} after the merge",
                counted(dropped, "staged row"),
                are(dropped)
            ))
            .hint("look for a trigger, a rule or a row security policy of the table that drops or changes rows")
            .into()),
        }
    }

    /// Another unique constraint than the key's has decided (UPS-04).
    fn explain(&self, fault: Fault) -> Fault {
        let Fault::Refused(refusal) = fault else { return fault };
        let constraint = refusal.constraint.clone().unwrap_or_default();
        if refusal.code != "23505" {
            return Fault::Refused(refusal);
        }
        let target = &self.work.target.relation;
        if self.key.constraints.contains(&constraint) {
            // Somebody has inserted the same key meanwhile: the next try sees it. 40001 says so.
            return Fault::Refused(Box::new(Refusal { code: "40001".to_owned(), ..*refusal }));
        }
        let detail = refusal.detail.unwrap_or(refusal.message);
        Error::guard(format!(
            "a staged row meets another row of {target} in the unique constraint {}, which is not the key of the merge: {detail}",
            quote_identifier(&constraint)
        ))
        .hint("correct the row, or name these columns as the key: key = [\u{2026}]")
        .into()
    }
}
