//! What a merge compares and what it writes.

use super::key::NaturalKey;
use super::settle;
use crate::postgres::catalog::Target;
use crate::postgres::manner::Manner;
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction, quote_identifier};

/// The columns of the staged rows, by what is done with them.
#[derive(Debug)]
pub(super) struct Columns {
    /// All of them.
    pub(super) staged: Vec<String>,
    /// Those that an update writes as they are staged.
    written: Vec<String>,
    /// Those of them that decide whether there is something to update.
    compared: Vec<String>,
    /// Columns that get the value of an expression.
    set: Vec<Set>,
    /// Columns whose values are compared as text.
    as_text: Vec<String>,
}

#[derive(Debug)]
struct Set {
    column: String,
    data_type: String,
    expression: String,
}

/// Tests what is declared of columns, and lets the server read the expressions.
pub(super) fn preflight(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    key: &NaturalKey,
) -> Result<(), Fault> {
    settle::order(target, manner)?;
    for name in &manner.exclude {
        target.demand(name, "`exclude`")?;
        if key.columns.contains(name) {
            return Err(Error::invalid(format!(
                "{} is part of the key, and `exclude` names it",
                quote_identifier(name)
            ))
            .hint("columns of the key are always compared")
            .into());
        }
    }
    for (name, expression) in &manner.set {
        let column = target.demand(name, "`set`")?;
        let named = quote_identifier(name);
        if column.generated || column.always_identity || key.columns.contains(name) {
            return Err(
                Error::invalid(format!("`set` cannot change {named}: it is computed, or part of the key")).into()
            );
        }
        let relation = &target.relation;
        let sql = format!(
            "EXPLAIN UPDATE {relation} AS old SET {named} = ({expression}) \
             FROM (SELECT * FROM {relation} LIMIT 0) AS new WHERE {} AND CAST(({expression}) AS {}) IS NOT NULL",
            key.join("old", "new"),
            column.data_type
        );
        transaction.query(&sql, &[]).map_err(|fault| match fault {
            Fault::Refused(refusal) => Error::invalid(format!("`set` of {named} ({expression}): {refusal}"))
                .hint("write one expression over `old` and `new`, functions outside pg_catalog with their schema")
                .into(),
            fault => fault,
        })?;
    }
    Ok(())
}

/// Whether an expression reads the table's row, and so may give another value when it is applied again.
pub(super) fn reads_old(expression: &str) -> bool {
    let words = expression.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '$'));
    words.into_iter().any(|word| word.eq_ignore_ascii_case("old"))
}

impl Columns {
    pub(super) fn find(
        transaction: &mut Transaction<'_>,
        target: &Target,
        manner: &Manner,
        key: &NaturalKey,
        staged: &[String],
    ) -> Result<Self, Fault> {
        let mut set = Vec::new();
        for (name, expression) in &manner.set {
            let data_type = target.demand(name, "`set`")?.data_type.clone();
            set.push(Set { column: name.clone(), data_type, expression: expression.clone() });
        }
        let written = staged.iter().filter(|name| {
            // An identity that only the table may give stays as it is.
            let given = target.column(name).is_some_and(|column| column.always_identity);
            !given && !key.columns.contains(name) && !manner.set.iter().any(|(column, _)| column == *name)
        });
        let written: Vec<_> = written.cloned().collect();
        let compared = written.iter().filter(|name| !manner.exclude.contains(name)).cloned().collect();
        let as_text = as_text(transaction, target)?;
        Ok(Self { staged: staged.to_vec(), written, compared, set, as_text })
    }

    /// The condition that a row is to be updated.
    pub(super) fn differs(&self, old: &str, new: &str) -> String {
        let set = self.set.iter().map(|set| {
            let value = format!("CAST(({}) AS {})", set.expression, set.data_type);
            self.differ(&set.column, old, &value)
        });
        any(self.compare(old, new).chain(set))
    }

    /// The same, without the expressions: after an update they give yet another value.
    pub(super) fn still_differs(&self, old: &str, new: &str) -> String {
        any(self.compare(old, new))
    }

    /// What an update sets.
    pub(super) fn assignments(&self, new: &str) -> String {
        let set = self.set.iter().map(|set| format!("{} = ({})", quote_identifier(&set.column), set.expression));
        self.written(new).chain(set).collect::<Vec<_>>().join(", ")
    }

    /// What is done with a row that somebody has inserted meanwhile: the same as with one that was there before.
    pub(super) fn on_conflict(&self, scope: &str) -> String {
        if self.written.is_empty() && self.set.is_empty() {
            return "DO NOTHING".to_owned();
        }
        let staged = self.staged.iter().map(|name| format!("excluded.{0} AS {0}", quote_identifier(name)));
        let new = format!("(SELECT {}) AS new", staged.collect::<Vec<_>>().join(", "));
        let set = self
            .set
            .iter()
            .map(|set| format!("{} = (SELECT ({}) FROM {new})", quote_identifier(&set.column), set.expression));
        let assignments = self.written("excluded").chain(set).collect::<Vec<_>>().join(", ");
        format!("DO UPDATE SET {assignments} WHERE {scope} AND (SELECT {} FROM {new})", self.differs("old", "new"))
    }

    /// Rows of other tables must not change with a column that they refer to.
    pub(super) fn refuse_cascades(&self, transaction: &mut Transaction<'_>, target: &Target) -> Result<(), Fault> {
        let sql = "SELECT f.conrelid::regclass::text, f.conname::text, a.attname::text \
                   FROM pg_constraint f JOIN pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = ANY (f.confkey) \
                   WHERE f.contype = 'f' AND f.confrelid = $1::text::oid AND f.confupdtype IN ('c', 'n', 'd')";
        for row in transaction.query(sql, &[Some(&target.oid)])? {
            let [Some(table), Some(constraint), Some(column)] = row.as_slice() else { continue };
            if self.written.contains(column) || self.set.iter().any(|set| &set.column == column) {
                return Err(Error::invalid(format!(
                    "merging {} of {} would change {table} too: its foreign key {} acts ON UPDATE",
                    quote_identifier(column),
                    target.relation,
                    quote_identifier(constraint)
                ))
                .hint("let the foreign key be ON UPDATE NO ACTION, or refer to the key of the merge")
                .into());
            }
        }
        Ok(())
    }

    fn written<'c>(&'c self, new: &'c str) -> impl Iterator<Item = String> + 'c {
        self.written.iter().map(move |name| format!("{0} = {new}.{0}", quote_identifier(name)))
    }

    fn compare<'c>(&'c self, old: &'c str, new: &'c str) -> impl Iterator<Item = String> + 'c {
        self.compared.iter().map(move |name| self.differ(name, old, &format!("{new}.{}", quote_identifier(name))))
    }

    fn differ(&self, column: &str, old: &str, value: &str) -> String {
        let named = quote_identifier(column);
        if self.as_text.iter().any(|name| name == column) {
            format!("({old}.{named})::text IS DISTINCT FROM ({value})::text")
        } else {
            format!("{old}.{named} IS DISTINCT FROM {value}")
        }
    }
}

fn any(conditions: impl Iterator<Item = String>) -> String {
    let conditions: Vec<_> = conditions.collect();
    if conditions.is_empty() { "false".to_owned() } else { format!("({})", conditions.join(" OR ")) }
}

/// The columns whose type has no equality that `IS DISTINCT FROM` would find, such as `json`, `xml`, `point`, rows and types of
/// extensions; and `interval`, to which 1 month and 30 days are equal.
fn as_text(transaction: &mut Transaction<'_>, target: &Target) -> Result<Vec<String>, Fault> {
    let sql = "WITH RECURSIVE resolved (name, type) AS ( \
                 SELECT attname::text, atttypid FROM pg_attribute WHERE attrelid = $1::text::oid AND attnum > 0 AND NOT attisdropped \
                 UNION ALL SELECT r.name, t.typbasetype FROM resolved r JOIN pg_type t ON t.oid = r.type WHERE t.typtype = 'd'), \
               based AS (SELECT r.name, t.oid, t.typnamespace, t.typcategory = 'A' AND t.typelem <> 0 AS is_array, \
                 CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem ELSE t.oid END AS element \
                 FROM resolved r JOIN pg_type t ON t.oid = r.type WHERE t.typtype <> 'd'), \
               known AS (SELECT b.*, e.typtype IN ('e', 'r', 'm') AS by_kind, \
                 EXISTS (SELECT FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod WHERE m.amname = 'btree' AND o.opcdefault \
                   AND (o.opcintype = e.oid OR EXISTS (SELECT FROM pg_cast c WHERE c.castsource = e.oid \
                     AND c.casttarget = o.opcintype AND c.castmethod = 'b' AND c.castcontext = 'i'))) AS by_class \
                 FROM based b JOIN pg_type e ON e.oid = b.element) \
               SELECT name FROM known WHERE oid = 'interval'::regtype OR NOT (by_kind OR (by_class \
                 AND (is_array OR typnamespace = 'pg_catalog'::regnamespace)))";
    let rows = transaction.query(sql, &[Some(&target.oid)])?;
    Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}
