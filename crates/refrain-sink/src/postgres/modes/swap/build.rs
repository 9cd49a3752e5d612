//! The new partition, built aside: like the one it replaces, or like the partitioned table where there is none yet.
//! Empty at the start of staging; keys, indexes and foreign keys follow at the seal, when the rows are there.

use super::bounds::{self, Leaf, Named};
use super::indexes;
use crate::postgres::catalog::Target;
use crate::postgres::manner::Manner;
use crate::postgres::stage::Stage;
use refrain_core::{Error, ErrorKind};
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier, quote_literal};

/// The constraint that, with the one of the scope, says what the bounds say, by its name in staging tables. It sorts after
/// the other: a row outside the scope is reported as that.
pub(super) const BOUNDS_CHECK: &str = "refrain_within";

/// What the new partition is like.
pub(super) fn template(target: &Target, named: &Named) -> Leaf {
    let parent = || Leaf { relation: target.relation.clone(), oid: target.oid.clone() };
    named.standing.clone().unwrap_or_else(parent)
}

/// Makes the empty table, with the columns, defaults, checks and settings of its template.
pub(in crate::postgres) fn create(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
    stage: &Relation,
) -> Result<(), Fault> {
    let named = bounds::find(transaction, target, manner)?;
    let template = template(target, &named);
    // What a partition has that is created in place: not the comments of the table itself.
    let without = if named.standing.is_some() { "" } else { " EXCLUDING COMMENTS" };
    let settings = settings(transaction, &template)?;
    transaction.simple(&format!(
        "CREATE TABLE {stage} (LIKE {} INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY EXCLUDING STATISTICS{without}){settings}",
        template.relation
    ))?;
    columns(transaction, &template, stage)?;
    unchecked(transaction, &template, stage)?;
    give_identities(transaction, target, stage)?;
    within_bounds(transaction, target, &named, stage)
}

/// Access method, storage parameters and tablespace, as CREATE TABLE needs them.
fn settings(transaction: &mut Transaction<'_>, template: &Leaf) -> Result<String, Fault> {
    let option = "format('%s = %L', split_part(o, '=', 1), substr(o, strpos(o, '=') + 1))";
    let sql = format!(
        "SELECT concat(' USING ' || quote_ident(m.amname), \
           ' WITH (' || (SELECT string_agg(o, ', ') FROM (SELECT {option} FROM unnest(c.reloptions) o \
             UNION ALL SELECT 'toast.' || {option} FROM unnest(t.reloptions) o) AS all_of(o)) || ')', \
           ' TABLESPACE ' || quote_ident(coalesce(s.spcname, d.spcname))) \
         FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid LEFT JOIN pg_am m ON m.oid = c.relam \
         LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace \
         JOIN pg_database b ON b.datname = current_database() JOIN pg_tablespace d ON d.oid = b.dattablespace \
         WHERE c.oid = $1::text::oid"
    );
    let rows = transaction.query(&sql, &[Some(&template.oid)])?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

/// What LIKE leaves out of columns: how much ANALYZE samples, and their own parameters.
fn columns(transaction: &mut Transaction<'_>, template: &Leaf, stage: &Relation) -> Result<(), Fault> {
    let sql = "SELECT a.attname::text, CASE WHEN a.attstattarget >= 0 THEN a.attstattarget::text END, \
               (SELECT string_agg(format('%s = %L', split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)), ', ') \
                FROM unnest(a.attoptions) o) \
               FROM pg_attribute a WHERE a.attrelid = $1::text::oid AND a.attnum > 0 AND NOT a.attisdropped \
               AND (a.attstattarget >= 0 OR a.attoptions IS NOT NULL)";
    for row in transaction.query(sql, &[Some(&template.oid)])? {
        let [name, target, options] = <[Option<String>; 3]>::try_from(row).unwrap_or_default();
        let alter = format!("ALTER TABLE {stage} ALTER COLUMN {}", quote_identifier(&name.unwrap_or_default()));
        if let Some(target) = target {
            transaction.simple(&format!("{alter} SET STATISTICS {target}"))?;
        }
        if let Some(options) = options {
            transaction.simple(&format!("{alter} SET ({options})"))?;
        }
    }
    Ok(())
}

/// Checks that are not validated stay so.
fn unchecked(transaction: &mut Transaction<'_>, template: &Leaf, stage: &Relation) -> Result<(), Fault> {
    let sql = "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint \
               WHERE conrelid = $1::text::oid AND contype = 'c' AND NOT convalidated";
    for row in transaction.query(sql, &[Some(&template.oid)])? {
        let [name, definition] = <[Option<String>; 2]>::try_from(row).unwrap_or_default();
        let (name, definition) = (quote_identifier(&name.unwrap_or_default()), definition.unwrap_or_default());
        transaction
            .simple(&format!("ALTER TABLE {stage} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} {definition}"))?;
    }
    Ok(())
}

/// An identity belongs to the partitioned table. While rows are staged its sequence gives values to rows without one, as it
/// would in the table itself.
fn give_identities(transaction: &mut Transaction<'_>, target: &Target, stage: &Relation) -> Result<(), Fault> {
    let sql = "SELECT attname::text, pg_get_serial_sequence($2, attname) FROM pg_attribute \
               WHERE attrelid = $1::text::oid AND attidentity <> '' AND NOT attisdropped";
    for row in transaction.query(sql, &[Some(&target.oid), Some(&target.relation.to_string())])? {
        let [Some(name), Some(sequence)] = <[Option<String>; 2]>::try_from(row).unwrap_or_default() else { continue };
        let (name, sequence) = (quote_identifier(&name), quote_literal(&sequence));
        transaction
            .simple(&format!("ALTER TABLE {stage} ALTER COLUMN {name} SET DEFAULT nextval({sequence}::regclass)"))?;
    }
    Ok(())
}

/// The server's own words for the bounds: ATTACH finds them and reads no row.
fn within_bounds(
    transaction: &mut Transaction<'_>,
    target: &Target,
    named: &Named,
    stage: &Relation,
) -> Result<(), Fault> {
    let mut all: Vec<_> = named.keys.iter().map(|key| format!("{} IS NOT NULL", quote_identifier(&key.name))).collect();
    let of = named.standing.as_ref().map_or(&target.oid, |standing| &standing.oid);
    let rows = transaction.query("SELECT pg_get_partition_constraintdef($1::text::oid)", &[Some(of)])?;
    all.extend(rows.into_iter().flatten().flatten().filter(|text| !text.is_empty()));
    transaction.simple(&format!("ALTER TABLE {stage} ADD CONSTRAINT {BOUNDS_CHECK} CHECK ({})", all.join(" AND ")))?;
    Ok(())
}

/// Completes the table once its rows are there: defaults as they will be, keys, indexes, foreign keys, statistics.
///
/// # Errors
/// `guard` when the rows break a key or a foreign key.
pub(in crate::postgres) fn complete(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    target: &Target,
) -> Result<(), Fault> {
    let named = bounds::find(transaction, target, &stage.manner)?;
    let template = template(target, &named);
    let built = defaults(transaction, &template, stage)
        .and_then(|()| indexes::build(transaction, &template, stage))
        .and_then(|()| foreign_keys(transaction, &template, stage))
        .and_then(|()| if named.standing.is_some() { statistics(transaction, &template, stage) } else { Ok(()) });
    built.map_err(|fault| broken(fault, target))?;
    transaction.simple(&format!("ANALYZE {}", stage.table))?;
    Ok(())
}

/// What the rows break is said as a fault of the output.
fn broken(fault: Fault, target: &Target) -> Fault {
    match fault {
        Fault::Refused(refusal) if refusal.code.starts_with("23") => {
            Error::new(ErrorKind::Guard, format!("the output does not fit {}: {refusal}", target.relation)).into()
        }
        fault => fault,
    }
}

fn defaults(transaction: &mut Transaction<'_>, template: &Leaf, stage: &Stage) -> Result<(), Fault> {
    // By name: a column may have another number in the template.
    let sql = "SELECT s.attname::text, pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute s \
               JOIN pg_attribute t ON t.attrelid = $2::text::oid AND t.attname = s.attname \
               LEFT JOIN pg_attrdef d ON d.adrelid = t.attrelid AND d.adnum = t.attnum \
               LEFT JOIN pg_attrdef e ON e.adrelid = s.attrelid AND e.adnum = s.attnum \
               WHERE s.attrelid = $1::text::oid AND s.attnum > 0 AND NOT s.attisdropped AND s.attgenerated = '' \
               AND t.attgenerated = '' \
               AND pg_get_expr(d.adbin, d.adrelid) IS DISTINCT FROM pg_get_expr(e.adbin, e.adrelid)";
    for row in transaction.query(sql, &[Some(&stage.oid), Some(&template.oid)])? {
        let [name, default] = <[Option<String>; 2]>::try_from(row).unwrap_or_default();
        let change = default.map_or_else(|| "DROP DEFAULT".to_owned(), |default| format!("SET DEFAULT {default}"));
        let name = quote_identifier(&name.unwrap_or_default());
        transaction.simple(&format!("ALTER TABLE {} ALTER COLUMN {name} {change}", stage.table))?;
    }
    Ok(())
}

/// ATTACH takes a foreign key that is there and is the same, and looks at no row.
fn foreign_keys(transaction: &mut Transaction<'_>, template: &Leaf, stage: &Stage) -> Result<(), Fault> {
    let sql = "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint \
               WHERE conrelid = $1::text::oid AND contype = 'f' ORDER BY conname";
    for row in transaction.query(sql, &[Some(&template.oid)])? {
        let [name, definition] = <[Option<String>; 2]>::try_from(row).unwrap_or_default();
        let (name, definition) = (quote_identifier(&name.unwrap_or_default()), definition.unwrap_or_default());
        transaction.simple(&format!("ALTER TABLE {} ADD CONSTRAINT {name} {definition}", stage.table))?;
    }
    Ok(())
}

/// Extended statistics have names of their own, which they get at the commit.
fn statistics(transaction: &mut Transaction<'_>, template: &Leaf, stage: &Stage) -> Result<(), Fault> {
    for (index, statistic) in super::statistics::of(transaction, &template.oid)?.iter().enumerate() {
        let name = Relation::new(&stage.table.schema, format!("{}_s{index}", stage.table.name));
        transaction.simple(&format!("CREATE STATISTICS {name}{} FROM {}", statistic.definition, stage.table))?;
        if let Some(target) = &statistic.target {
            transaction.simple(&format!("ALTER STATISTICS {name} SET STATISTICS {target}"))?;
        }
    }
    Ok(())
}
