//! The natural key of a merge: columns, and the unique index behind them.

use crate::postgres::catalog::{Column, Target, list};
use crate::postgres::manner::Manner;
use refrain_core::Error;
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier};

/// So many keys are shown.
const SHOWN: usize = 5;

/// Columns that name a row, of which the table itself has no two alike.
#[derive(Debug)]
pub(super) struct NaturalKey {
    pub(super) columns: Vec<String>,
    /// The indexes of exactly these columns, by which a violation is recognised.
    pub(super) constraints: Vec<String>,
    /// Whether `ON CONFLICT` can name them: none is deferrable.
    pub(super) decides_conflicts: bool,
    /// Whether two NULLs are the same to an index (`NULLS NOT DISTINCT`, from 15 on).
    pub(super) nulls_match: bool,
    /// Columns that `=` does not serve: they may be NULL and match, or their own `=` lies where no search path of ours finds it.
    by_array: Vec<String>,
}

/// A unique index of the table.
struct Index {
    name: String,
    columns: Vec<String>,
    primary: bool,
    immediate: bool,
    nulls_match: bool,
    /// Why it cannot serve.
    flaw: Option<String>,
}

impl NaturalKey {
    /// The declared key, or the primary key where none is declared.
    ///
    /// # Errors
    /// `invalid` when a column is not there, or no unique index has exactly these columns.
    pub(super) fn find(transaction: &mut Transaction<'_>, target: &Target, manner: &Manner) -> Result<Self, Fault> {
        let indexes = indexes(transaction, target)?;
        let columns = if manner.key.is_empty() { primary(&indexes, target)? } else { manner.key.clone() };
        for (index, name) in columns.iter().enumerate() {
            let column = target.demand(name, "`key`")?;
            let named = quote_identifier(name);
            if column.generated {
                return Err(Error::invalid(format!(
                    "{} computes its column {named}: it cannot be a key",
                    target.relation
                ))
                .hint("name the columns from which it is computed, and give them a unique index")
                .into());
            }
            if columns[..index].contains(name) {
                return Err(Error::invalid(format!("`key` names {named} twice")).into());
            }
        }
        let alike: Vec<_> = indexes.iter().filter(|index| same(&index.columns, &columns)).collect();
        let serving: Vec<_> = alike.iter().filter(|index| index.flaw.is_none()).collect();
        if serving.is_empty() {
            return Err(without_index(target, &columns, &alike).into());
        }
        let nulls_match = serving.iter().any(|index| index.nulls_match);
        let foreign = foreign_types(transaction, target)?;
        let by_array = |column: &&Column| (nulls_match && !column.not_null) || foreign.contains(&column.name);
        let by_array = target.columns.iter().filter(by_array).map(|column| column.name.clone()).collect();
        Ok(Self {
            constraints: serving.iter().map(|index| index.name.clone()).collect(),
            decides_conflicts: serving.iter().all(|index| index.immediate),
            columns,
            nulls_match,
            by_array,
        })
    }

    /// The condition that two rows have the same key. A join by it can be hashed: arrays of one element are equal when
    /// their elements are, by the default operators of the type and also when both are NULL.
    pub(super) fn join(&self, one: &str, other: &str) -> String {
        let column = |name: &String| {
            let column = quote_identifier(name);
            if self.by_array.contains(name) {
                format!("ARRAY[{one}.{column}] = ARRAY[{other}.{column}]")
            } else {
                format!("{one}.{column} = {other}.{column}")
            }
        };
        self.columns.iter().map(column).collect::<Vec<_>>().join(" AND ")
    }

    /// The columns, for a statement.
    pub(super) fn list(&self) -> String {
        list(self.columns.iter().map(String::as_str))
    }

    /// Some keys of a table, as a message shows them.
    pub(super) fn examples(
        &self,
        transaction: &mut Transaction<'_>,
        table: &Relation,
        condition: &str,
    ) -> Result<String, Fault> {
        let (shown, columns) = self.shown();
        let sql = format!("SELECT {shown} FROM {table} AS staged WHERE {condition} ORDER BY {columns} LIMIT {SHOWN}");
        let rows = transaction.query(&sql, &[])?;
        Ok(rows.iter().map(|row| self.show(row)).collect::<Vec<_>>().join("; "))
    }

    /// Keys that several rows have, as a message shows them, and how many there are.
    pub(super) fn repeated(
        &self,
        transaction: &mut Transaction<'_>,
        table: &Relation,
    ) -> Result<Option<(u64, String)>, Fault> {
        let (shown, columns) = self.shown();
        let sql = format!(
            "SELECT count(*)::text, (count(*) OVER ())::text, {shown} FROM {table} AS staged GROUP BY {columns} \
             HAVING count(*) > 1 ORDER BY {columns} LIMIT {SHOWN}"
        );
        let rows = transaction.query(&sql, &[])?;
        let Some(first) = rows.first() else { return Ok(None) };
        let keys = super::number(first.get(1));
        let show = |row: &Vec<Option<String>>| {
            format!("{} ({} rows)", self.show(&row[2..]), row[0].as_deref().unwrap_or_default())
        };
        Ok(Some((keys, rows.iter().map(show).collect::<Vec<_>>().join("; "))))
    }

    /// The columns of `staged` as texts, and as they are: in an order, a bare name would be the text.
    fn shown(&self) -> (String, String) {
        let columns: Vec<_> = self.columns.iter().map(|name| format!("staged.{}", quote_identifier(name))).collect();
        (columns.iter().map(|column| format!("{column}::text")).collect::<Vec<_>>().join(", "), columns.join(", "))
    }

    fn show(&self, values: &[Option<String>]) -> String {
        let pairs = self.columns.iter().zip(values);
        let pairs = pairs.map(|(name, value)| format!("{name} = {}", value.as_deref().unwrap_or("NULL")));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

fn primary(indexes: &[Index], target: &Target) -> Result<Vec<String>, Error> {
    let primary = indexes.iter().find(|index| index.primary);
    primary.map(|index| index.columns.clone()).ok_or_else(|| {
        Error::invalid(format!("{} has no primary key, and the output declares no `key`", target.relation))
            .hint("name the columns that name a row: key = [\"id\"]; a unique index must have exactly these")
    })
}

fn same(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|name| other.contains(name))
}

fn without_index(target: &Target, columns: &[String], alike: &[&Index]) -> Error {
    let (relation, columns) = (&target.relation, list(columns.iter().map(String::as_str)));
    let flaws = alike
        .iter()
        .filter_map(|index| index.flaw.as_ref().map(|flaw| format!("{} is {flaw}", quote_identifier(&index.name))));
    let flaws = flaws.collect::<Vec<_>>().join(", ");
    let why = if flaws.is_empty() { String::new() } else { format!(": {flaws}") };
    Error::invalid(format!("no unique index of {relation} has exactly the columns of the key ({columns}){why}"))
        .hint(format!("CREATE UNIQUE INDEX ON {relation} ({columns}); without one two rows could have the same key"))
}

/// The unique indexes of the table (<https://www.postgresql.org/docs/current/catalog-pg-index.html>). Read as JSON, for
/// a column that older servers have not.
fn indexes(transaction: &mut Transaction<'_>, target: &Target) -> Result<Vec<Index>, Fault> {
    let sql = "SELECT c.relname::text, array_to_json(ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) \
                 WITH ORDINALITY AS k (number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number \
                 WHERE k.place <= i.indnkeyatts ORDER BY k.place))::text, \
               i.indisprimary::text, i.indimmediate::text, coalesce(to_jsonb(i) ->> 'indnullsnotdistinct', 'false'), \
               CASE WHEN NOT (i.indisvalid AND i.indisready AND i.indislive) THEN 'not valid' \
                 WHEN i.indpred IS NOT NULL THEN 'partial' WHEN i.indexprs IS NOT NULL THEN 'one of expressions' \
                 WHEN i.indisexclusion THEN 'one of ranges that do not overlap' \
                 WHEN EXISTS (SELECT FROM unnest(i.indkey::int2[], i.indcollation::oid[]) AS k (number, collated) \
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number \
                   WHERE k.collated <> a.attcollation) THEN 'one with another collation' END \
               FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
               WHERE i.indrelid = $1::text::oid AND i.indisunique ORDER BY c.relname";
    let rows = transaction.query(sql, &[Some(&target.oid)])?;
    let mut indexes = Vec::new();
    for row in rows {
        let Ok([name, columns, primary, immediate, nulls_match, flaw]) = <[Option<String>; 6]>::try_from(row) else {
            continue;
        };
        let is = |text: &Option<String>| text.as_deref() == Some("true");
        let columns = serde_json::from_str(columns.as_deref().unwrap_or("[]"));
        let columns = columns.map_err(|error| Error::corrupt("cannot read the columns of an index").because(error))?;
        indexes.push(Index {
            name: name.unwrap_or_default(),
            columns,
            primary: is(&primary),
            immediate: is(&immediate),
            nulls_match: is(&nulls_match),
            flaw,
        });
    }
    Ok(indexes)
}

/// The columns whose type is one of an extension or of the user's own: their `=` is found in the schema of the type alone.
fn foreign_types(transaction: &mut Transaction<'_>, target: &Target) -> Result<Vec<String>, Fault> {
    let sql = "WITH RECURSIVE resolved (name, type) AS ( \
                 SELECT attname::text, atttypid FROM pg_attribute WHERE attrelid = $1::text::oid AND attnum > 0 AND NOT attisdropped \
                 UNION ALL SELECT r.name, t.typbasetype FROM resolved r JOIN pg_type t ON t.oid = r.type WHERE t.typtype = 'd') \
               SELECT r.name FROM resolved r JOIN pg_type t ON t.oid = r.type \
               WHERE t.typtype IN ('b', 'c') AND t.typcategory <> 'A' AND t.typnamespace <> 'pg_catalog'::regnamespace";
    let rows = transaction.query(sql, &[Some(&target.oid)])?;
    Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}
