//! Keys and indexes of the new partition. They are built under names of the staging table and get their own at the commit,
//! when those are free.

use super::bounds::Leaf;
use crate::postgres::stage::Stage;
use refrain_core::Error;
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier, quote_literal};

/// An index of a table.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) oid: String,
    pub(super) name: Relation,
    /// What CREATE INDEX has after the name of the table.
    definition: String,
    unique: bool,
    tablespace: Option<String>,
    /// The constraint that it serves: its kind and definition.
    constraint: Option<(char, String)>,
    deferral: String,
    method: String,
    clustered: bool,
    identity: bool,
    options: Option<String>,
}

impl Index {
    /// Whether one could take the place of the other.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.definition == other.definition && self.unique == other.unique && self.constraint == other.constraint
    }
}

/// The indexes of a table, in order of their names.
pub(super) fn of(transaction: &mut Transaction<'_>, oid: &str) -> Result<Vec<Index>, Fault> {
    let sql = "SELECT x.oid::text, n.nspname::text, x.relname::text, pg_get_indexdef(x.oid), \
               format('CREATE %sINDEX %I ON %s%I.%I', CASE WHEN i.indisunique THEN 'UNIQUE ' END, x.relname, \
                 CASE WHEN x.relkind = 'I' THEN 'ONLY ' END, n.nspname, c.relname), \
               i.indisunique::text, s.spcname::text, k.contype::text, pg_get_constraintdef(k.oid), \
               concat(CASE WHEN k.condeferrable THEN ' DEFERRABLE' END, CASE WHEN k.condeferred THEN ' INITIALLY DEFERRED' END), \
               m.amname::text, i.indisclustered::text, i.indisreplident::text, \
               (SELECT string_agg(format('%s = %L', split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)), ', ') \
                FROM unnest(x.reloptions) o) \
               FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid \
               JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am m ON m.oid = x.relam \
               LEFT JOIN pg_tablespace s ON s.oid = x.reltablespace \
               LEFT JOIN pg_constraint k ON k.conindid = x.oid AND k.conrelid = c.oid AND k.contype IN ('p', 'u', 'x') \
               WHERE i.indrelid = $1::text::oid ORDER BY x.relname";
    let rows = transaction.query(sql, &[Some(oid)])?;
    rows.into_iter().map(read).collect::<Result<Vec<_>, _>>().map_err(Fault::from)
}

fn read(row: Vec<Option<String>>) -> Result<Index, Error> {
    let mut cells = row.into_iter();
    let mut next = || cells.next().flatten();
    let (oid, schema, name) = (next().unwrap_or_default(), next().unwrap_or_default(), next().unwrap_or_default());
    let (whole, before) = (next().unwrap_or_default(), next().unwrap_or_default());
    let is = |text: Option<String>| text.as_deref() == Some("true");
    let definition = whole.strip_prefix(&before).map(str::to_owned);
    Ok(Index {
        oid,
        name: Relation::new(schema, name),
        definition: definition
            .ok_or_else(|| Error::corrupt(format!("cannot read the definition of an index: {whole}")))?,
        unique: is(next()),
        tablespace: next(),
        constraint: next().and_then(|kind| kind.chars().next()).zip(next()),
        deferral: next().unwrap_or_default(),
        method: next().unwrap_or_default(),
        clustered: is(next()),
        identity: is(next()),
        options: next(),
    })
}

/// Builds the indexes of the template on the staged rows.
pub(super) fn build(transaction: &mut Transaction<'_>, template: &Leaf, stage: &Stage) -> Result<(), Fault> {
    let table = &stage.table;
    for (index, wanted) in of(transaction, &template.oid)?.iter().enumerate() {
        let name = format!("{}_i{index}", table.name);
        let space = quote_literal(wanted.tablespace.as_deref().unwrap_or_default());
        transaction.simple(&format!("SET LOCAL default_tablespace = {space}"))?;
        let quoted = quote_identifier(&name);
        let own = Relation::new(&table.schema, &name);
        let create = format!(
            "CREATE {}INDEX {quoted} ON {table}{}",
            if wanted.unique { "UNIQUE " } else { "" },
            wanted.definition
        );
        match &wanted.constraint {
            // Only such an index can become a constraint's.
            Some((kind @ ('p' | 'u'), _)) if wanted.method == "btree" => {
                transaction.simple(&create)?;
                let kind = if *kind == 'p' { "PRIMARY KEY" } else { "UNIQUE" };
                transaction.simple(&format!(
                    "ALTER TABLE {table} ADD CONSTRAINT {quoted} {kind} USING INDEX {quoted}{}",
                    wanted.deferral
                ))?;
            }
            Some((_, definition)) => {
                transaction.simple(&format!("ALTER TABLE {table} ADD CONSTRAINT {quoted} {definition}"))?;
                if let Some(options) = &wanted.options {
                    transaction.simple(&format!("ALTER INDEX {own} SET ({options})"))?;
                }
            }
            None => drop(transaction.simple(&create)?),
        }
        samples(transaction, wanted, &own)?;
        if wanted.clustered {
            transaction.simple(&format!("ALTER TABLE {table} CLUSTER ON {quoted}"))?;
        }
        if wanted.identity {
            transaction.simple(&format!("ALTER TABLE {table} REPLICA IDENTITY USING INDEX {quoted}"))?;
        }
    }
    transaction.simple("SET LOCAL default_tablespace = ''")?;
    let sql = "SELECT CASE relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING' END FROM pg_class WHERE oid = $1::text::oid AND relkind = 'r'";
    for identity in transaction.query(sql, &[Some(&template.oid)])?.into_iter().flatten().flatten() {
        transaction.simple(&format!("ALTER TABLE {table} REPLICA IDENTITY {identity}"))?;
    }
    Ok(())
}

/// How much ANALYZE samples of an expression.
fn samples(transaction: &mut Transaction<'_>, wanted: &Index, own: &Relation) -> Result<(), Fault> {
    let sql = "SELECT a.attnum::text, a.attstattarget::text FROM pg_attribute a JOIN pg_index i ON i.indexrelid = a.attrelid \
               WHERE a.attrelid = $1::text::oid AND a.attstattarget >= 0 AND i.indkey[a.attnum - 1] = 0";
    for row in transaction.query(sql, &[Some(&wanted.oid)])? {
        let [Some(column), Some(target)] = <[Option<String>; 2]>::try_from(row).unwrap_or_default() else { continue };
        transaction.simple(&format!("ALTER INDEX {own} ALTER COLUMN {column} SET STATISTICS {target}"))?;
    }
    Ok(())
}
