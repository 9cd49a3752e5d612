//! What the database knows of a table.

use super::manner::Manner;
use refrain_core::Error;
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier};

/// A table that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) relation: Relation,
    /// Its number in the catalog: the same table by whatever name.
    pub(super) oid: String,
    /// Whether its rows lie in partitions.
    pub(super) partitioned: bool,
    /// In order.
    pub(super) columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts of the catalog")]
pub(super) struct Column {
    pub(super) name: String,
    /// As a cast needs it.
    pub(super) data_type: String,
    /// The server's category of the type, such as `N` for numbers.
    pub(super) category: char,
    pub(super) not_null: bool,
    /// The table gives it a value when a row has none: by a default or an identity.
    pub(super) has_default: bool,
    /// It is an identity that only the table may give.
    pub(super) always_identity: bool,
    /// It is computed from the others.
    pub(super) generated: bool,
}

impl Target {
    /// Looks a table up.
    ///
    /// # Errors
    /// `invalid` when there is none, or it is none into which rows go.
    pub(super) fn find(transaction: &mut Transaction<'_>, relation: &Relation) -> Result<Self, Fault> {
        let sql = "SELECT c.oid::text, c.relkind::text, c.relpersistence::text, \
                   a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::text, \
                   (a.atthasdef OR a.attidentity <> '')::text, (a.attidentity = 'a')::text, (a.attgenerated <> '')::text, t.typcategory::text \
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                   LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
                   LEFT JOIN pg_type t ON t.oid = a.atttypid \
                   WHERE n.nspname = $1 AND c.relname = $2 ORDER BY a.attnum";
        let rows = transaction.query(sql, &[Some(&relation.schema), Some(&relation.name)])?;
        let Some([Some(oid), Some(kind), Some(persistence), ..]) = rows.first().map(Vec::as_slice) else {
            return Err(missing(transaction, relation)?.into());
        };
        if kind != "r" && kind != "p" {
            return Err(Error::invalid(format!("{relation} is no table ({})", kind_name(kind)))
                .hint("publish to a table; a view can stand above it")
                .into());
        }
        if persistence == "u" {
            return Err(Error::invalid(format!("{relation} is UNLOGGED: a crash of the server would empty it"))
                .hint(format!("ALTER TABLE {relation} SET LOGGED"))
                .into());
        }
        let columns = rows.iter().filter_map(|row| column_of(&row[3..])).collect();
        Ok(Self { relation: relation.clone(), oid: oid.clone(), partitioned: kind == "p", columns })
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The column of this name.
    ///
    /// # Errors
    /// `invalid` with the nearest name.
    pub(super) fn demand(&self, name: &str, what: &str) -> Result<&Column, Error> {
        self.column(name).ok_or_else(|| {
            let error = Error::invalid(format!(
                "{} has no column {}, which {what} names",
                self.relation,
                quote_identifier(name)
            ));
            let names = self.columns.iter().map(|column| column.name.as_str());
            match refrain_core::nearest(name, names.clone()) {
                Some(near) => error.hint(format!("did you mean {}?", quote_identifier(near))),
                None => error.hint(format!("its columns: {}", names.collect::<Vec<_>>().join(", "))),
            }
        })
    }

    /// The columns that a staged row has: all that are not computed.
    pub(super) fn stored(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.generated)
    }
}

impl Column {
    /// Whether the table gives the column a value where a row has none, or the scope or the run does.
    pub(super) fn may_be_absent(&self, manner: &Manner) -> bool {
        self.has_default
            || !self.not_null
            || manner.fixed().any(|condition| condition.column == self.name)
            || manner.run_column.as_deref() == Some(&self.name)
    }
}

/// A list of columns for a statement.
pub(super) fn list<'a>(columns: impl IntoIterator<Item = &'a str>) -> String {
    columns.into_iter().map(quote_identifier).collect::<Vec<_>>().join(", ")
}

/// The column of a row of [`Target::find`]; nothing for a table without columns.
fn column_of(row: &[Option<String>]) -> Option<Column> {
    let [name, data_type, not_null, has_default, always, generated, category] = row else { return None };
    let is = |text: &Option<String>| text.as_deref() == Some("true");
    Some(Column {
        name: name.clone()?,
        data_type: data_type.clone().unwrap_or_default(),
        category: category.as_ref().and_then(|text| text.chars().next()).unwrap_or_default(),
        not_null: is(not_null),
        has_default: is(has_default),
        always_identity: is(always),
        generated: is(generated),
    })
}

fn missing(transaction: &mut Transaction<'_>, relation: &Relation) -> Result<Error, Fault> {
    let sql = "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE lower(c.relname) = lower($1) AND c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' \
               ORDER BY n.nspname = $2 DESC LIMIT 1";
    let near = transaction.query(sql, &[Some(&relation.name), Some(&relation.schema)])?;
    let error = Error::invalid(format!("there is no table {relation}"));
    Ok(match near.first().and_then(|row| row.first()?.as_ref()) {
        Some(near) => error.hint(format!("did you mean {near}? write it so, quotes included")),
        None => error.hint("create it first: refrain publishes rows and makes no tables"),
    })
}

fn kind_name(kind: &str) -> &'static str {
    match kind {
        "v" => "a view",
        "m" => "a materialized view",
        "f" => "a foreign table",
        "S" => "a sequence",
        _ => "something else",
    }
}
