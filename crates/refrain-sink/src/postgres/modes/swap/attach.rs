//! The exchange itself: the old partition goes, the new one gets its names and what hangs on it, and takes its place.

use super::bounds::{Leaf, Named};
use super::build::BOUNDS_CHECK;
use super::{indexes, names, rights, statistics};
use crate::postgres::modes::Work;
use crate::postgres::stage::{self, SCOPE_CHECK};
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier, quote_literal};

/// Replaces the partition, or attaches the first one. Everything is looked up under the locks that are held already.
pub(super) fn exchange(transaction: &mut Transaction<'_>, work: &Work<'_>, named: &Named) -> Result<(), Fault> {
    let parent = &work.target.relation;
    let Some(old) = &named.standing else { return first(transaction, work, named) };
    rights::demand_free(transaction, old)?;
    let kept = Kept::of(transaction, old)?;
    transaction.simple(&format!("ALTER TABLE {parent} DETACH PARTITION {}", old.relation))?;
    let gone = step_aside(transaction, work, old, &kept)?;
    let moved = transfer(transaction, work, &old.relation.schema, &kept.owner)?;
    for (sequence, column) in &kept.sequences {
        transaction.simple(&format!("ALTER SEQUENCE {sequence} OWNED BY {moved}.{column}"))?;
    }
    transaction.simple(&format!("ALTER TABLE {moved} RENAME TO {}", quote_identifier(&old.relation.name)))?;
    rename(transaction, work, &kept)?;
    run(transaction, &kept.before)?;
    grants(transaction, work, &kept)?;
    attach(transaction, work, named, &old.relation)?;
    run(transaction, &kept.after)?;
    put_away(transaction, work, old, &gone)
}

/// Attaches the first partition of the scope.
fn first(transaction: &mut Transaction<'_>, work: &Work<'_>, named: &Named) -> Result<(), Fault> {
    let new = names::partition(transaction, work.target, work.manner())?;
    let owner = owner(transaction, &work.target.oid)?;
    let moved = transfer(transaction, work, &new.schema, &owner)?;
    transaction.simple(&format!("ALTER TABLE {moved} RENAME TO {}", quote_identifier(&new.name)))?;
    names::indexes(transaction, work, &new)?;
    transaction.simple(&format!("COMMENT ON TABLE {new} IS NULL"))?;
    attach(transaction, work, named, &new)?;
    stage::forget(transaction, work.stage)
}

/// The old partition gives up its names.
fn step_aside(transaction: &mut Transaction<'_>, work: &Work<'_>, old: &Leaf, kept: &Kept) -> Result<Relation, Fault> {
    let own = format!("{}_o", work.stage.table.name);
    for (place, index) in kept.indexes.iter().enumerate() {
        let name = quote_identifier(&format!("{own}{place}"));
        transaction.simple(&format!("ALTER INDEX {} RENAME TO {name}", index.name))?;
    }
    for statistic in &kept.statistics {
        transaction.simple(&format!("DROP STATISTICS {}", statistic.name))?;
    }
    transaction.simple(&format!("ALTER TABLE {} RENAME TO {}", old.relation, quote_identifier(&own)))?;
    Ok(Relation::new(&old.relation.schema, own))
}

/// The old partition takes the place of the staging table. It is dropped after the commit: the server removes its files
/// before it answers, and that takes longer the more rows there are.
fn put_away(transaction: &mut Transaction<'_>, work: &Work<'_>, old: &Leaf, gone: &Relation) -> Result<(), Fault> {
    let stage = &work.stage.table;
    transaction.simple(&format!("ALTER TABLE {gone} SET SCHEMA {}", quote_identifier(&stage.schema)))?;
    let moved = Relation::new(&stage.schema, &gone.name);
    transaction.simple(&format!("ALTER TABLE {moved} RENAME TO {}", quote_identifier(&stage.name)))?;
    stage::becomes(transaction, work.stage, &old.oid)
}

/// Moves the staged table to its schema and gives it to its owner; its name is still its own.
fn transfer(transaction: &mut Transaction<'_>, work: &Work<'_>, schema: &str, owner: &str) -> Result<Relation, Fault> {
    let stage = &work.stage.table;
    let moved = Relation::new(schema, &stage.name);
    if stage.schema != schema {
        transaction.simple(&format!("ALTER TABLE {stage} SET SCHEMA {}", quote_identifier(schema)))?;
    }
    transaction.simple(&format!("ALTER TABLE {moved} OWNER TO {}", quote_identifier(owner)))?;
    Ok(moved)
}

fn attach(transaction: &mut Transaction<'_>, work: &Work<'_>, named: &Named, new: &Relation) -> Result<(), Fault> {
    let (parent, bounds) = (&work.target.relation, &named.bounds);
    transaction.simple(&format!("ALTER TABLE {parent} ATTACH PARTITION {new} {bounds}"))?;
    transaction.simple(&format!("ALTER TABLE {new} DROP CONSTRAINT {SCOPE_CHECK}, DROP CONSTRAINT {BOUNDS_CHECK}"))?;
    Ok(())
}

/// Indexes and statistics take the names that those of the old partition had.
fn rename(transaction: &mut Transaction<'_>, work: &Work<'_>, kept: &Kept) -> Result<(), Fault> {
    let mut built = indexes::of(transaction, &work.stage.oid)?;
    for wanted in &kept.indexes {
        // What has no counterpart is found by the comparison.
        let Some(place) = built.iter().position(|index| index.is_like(wanted)) else { continue };
        let index = built.remove(place);
        let name = quote_identifier(&wanted.name.name);
        transaction.simple(&format!("ALTER INDEX {} RENAME TO {name}", index.name))?;
    }
    let mut built = statistics::of(transaction, &work.stage.oid)?;
    for wanted in &kept.statistics {
        let Some(place) = built.iter().position(|one| one.definition == wanted.definition) else { continue };
        let one = built.remove(place);
        let moved = Relation::new(&wanted.name.schema, &one.name.name);
        if one.name.schema != moved.schema {
            let schema = quote_identifier(&moved.schema);
            transaction.simple(&format!("ALTER STATISTICS {} SET SCHEMA {schema}", one.name))?;
        }
        let owner = quote_identifier(&kept.owner);
        transaction.simple(&format!("ALTER STATISTICS {moved} OWNER TO {owner}"))?;
        transaction.simple(&format!("ALTER STATISTICS {moved} RENAME TO {}", quote_identifier(&wanted.name.name)))?;
    }
    Ok(())
}

/// Gives the rights that the old partition gave, in their order. Default privileges may have given others.
fn grants(transaction: &mut Transaction<'_>, work: &Work<'_>, kept: &Kept) -> Result<(), Fault> {
    let found = granted(transaction, &work.stage.oid)?;
    if found != kept.rights {
        let sql = "SELECT DISTINCT format('REVOKE ALL ON TABLE %I.%I FROM %s', n.nspname, c.relname, \
                     CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END) \
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, \
                   aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a WHERE c.oid = $1::text::oid";
        let revokes = texts(transaction.query(sql, &[Some(&work.stage.oid)])?);
        run(transaction, &revokes)?;
        run(transaction, &kept.rights)?;
    }
    run(transaction, &kept.column_rights)
}

/// What hangs on the old partition, as statements that make it anew by the same names.
struct Kept {
    owner: String,
    indexes: Vec<indexes::Index>,
    statistics: Vec<statistics::Statistic>,
    /// Sequences, and the columns that own them.
    sequences: Vec<(String, String)>,
    before: Vec<String>,
    rights: Vec<String>,
    column_rights: Vec<String>,
    after: Vec<String>,
}

impl Kept {
    fn of(transaction: &mut Transaction<'_>, old: &Leaf) -> Result<Self, Fault> {
        let oid = old.oid.as_str();
        let mut before = Vec::new();
        for sql in [TRIGGERS, RULES, POLICIES, SECURITY] {
            before.extend(made(transaction, sql, old)?);
        }
        let mut after = Vec::new();
        for sql in [WANTED, ENABLED, COMMENTS, COMMENTS_OF_PARTS] {
            after.extend(made(transaction, sql, old)?);
        }
        let owned = "SELECT format('%I.%I', n.nspname, s.relname), quote_ident(a.attname) FROM pg_depend d \
                     JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_namespace n ON n.oid = s.relnamespace \
                     JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
                     WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass \
                     AND d.refobjid = $1::text::oid AND d.deptype = 'a'";
        let owned = transaction.query(owned, &[Some(oid)])?;
        let pair = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter().flatten();
            cells.next().zip(cells.next())
        };
        Ok(Self {
            owner: owner(transaction, oid)?,
            indexes: indexes::of(transaction, oid)?,
            statistics: statistics::of(transaction, oid)?,
            sequences: owned.into_iter().filter_map(pair).collect(),
            before,
            rights: granted(transaction, oid)?,
            column_rights: made(transaction, COLUMN_RIGHTS, old)?,
            after,
        })
    }
}

/// Statements that a query makes; `{table}` in it is the table's quoted name.
fn made(transaction: &mut Transaction<'_>, sql: &str, old: &Leaf) -> Result<Vec<String>, Fault> {
    let sql = sql.replace("{table}", &quote_literal(&old.relation.to_string()));
    Ok(texts(transaction.query(&sql, &[Some(&old.oid)])?))
}

/// The rights that a table gives, as statements over the name that the old partition has had.
fn granted(transaction: &mut Transaction<'_>, oid: &str) -> Result<Vec<String>, Fault> {
    let sql = "SELECT format('GRANT %s ON TABLE %I.%I TO %s%s', a.privilege_type, n.nspname, c.relname, \
                 CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, \
                 CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' END) \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, \
               aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) \
               WITH ORDINALITY AS a(grantor, grantee, privilege_type, is_grantable, place) \
               WHERE c.oid = $1::text::oid ORDER BY a.place";
    Ok(texts(transaction.query(sql, &[Some(oid)])?))
}

fn owner(transaction: &mut Transaction<'_>, oid: &str) -> Result<String, Fault> {
    let sql = "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = $1::text::oid";
    Ok(texts(transaction.query(sql, &[Some(oid)])?).into_iter().next().unwrap_or_default())
}

fn run(transaction: &mut Transaction<'_>, statements: &[String]) -> Result<(), Fault> {
    statements.iter().try_for_each(|sql| transaction.simple(sql).map(drop))
}

fn texts(rows: Vec<Vec<Option<String>>>) -> Vec<String> {
    rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

/// Triggers of the partition's own; those of the partitioned table come with ATTACH.
const TRIGGERS: &str = "SELECT pg_get_triggerdef(oid) FROM pg_trigger \
    WHERE tgrelid = $1::text::oid AND NOT tgisinternal AND tgparentid = 0 ORDER BY tgname";

const RULES: &str = "SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = $1::text::oid ORDER BY rulename";

const POLICIES: &str = "SELECT format('CREATE POLICY %I ON %s AS %s FOR %s TO %s%s%s', polname, {table}, \
      CASE WHEN polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END, \
      CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END, \
      (SELECT string_agg(CASE WHEN r = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r)) END, ', ') FROM unnest(polroles) r), \
      ' USING (' || pg_get_expr(polqual, polrelid) || ')', ' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')') \
    FROM pg_policy WHERE polrelid = $1::text::oid ORDER BY polname";

const SECURITY: &str = "SELECT format('ALTER TABLE %s %s', {table}, string_agg(s, ', ')) FROM pg_class c, \
    LATERAL (SELECT 'ENABLE ROW LEVEL SECURITY' WHERE c.relrowsecurity \
             UNION ALL SELECT 'FORCE ROW LEVEL SECURITY' WHERE c.relforcerowsecurity) AS on_off(s) \
    WHERE c.oid = $1::text::oid GROUP BY c.oid";

/// Values that are wanted by the partition itself as well, which ATTACH forgets (18 keeps such a constraint for each).
const WANTED: &str = "SELECT format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', {table}, a.attname) FROM pg_constraint k \
    JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1] \
    WHERE k.conrelid = $1::text::oid AND k.contype = 'n' AND k.conislocal AND k.coninhcount > 0";

/// Which triggers and rules act when; of the triggers also those that ATTACH brings.
const ENABLED: &str = "SELECT format('ALTER TABLE %s %s %s %I', {table}, \
      CASE e.enabled WHEN 'O' THEN 'ENABLE' WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, \
      e.what, e.name) \
    FROM (SELECT 'TRIGGER', tgname, tgenabled FROM pg_trigger \
            WHERE tgrelid = $1::text::oid AND (NOT tgisinternal OR tgparentid <> 0) \
            AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.oid = tgconstraint AND k.contype = 'f') \
          UNION ALL SELECT 'RULE', rulename, ev_enabled FROM pg_rewrite WHERE ev_class = $1::text::oid) \
    AS e(what, name, enabled)";

const COMMENTS: &str = "SELECT format('COMMENT ON TABLE %s IS %L', {table}, obj_description($1::text::oid, 'pg_class')) \
    UNION ALL SELECT format('COMMENT ON COLUMN %s.%I IS %L', {table}, attname, col_description(attrelid, attnum)) \
      FROM pg_attribute WHERE attrelid = $1::text::oid AND attnum > 0 AND col_description(attrelid, attnum) IS NOT NULL";

const COMMENTS_OF_PARTS: &str = "SELECT format('COMMENT ON %s %I ON %s IS %L', p.what, p.name, {table}, d.description) \
    FROM (SELECT 'CONSTRAINT', conname, oid, 'pg_constraint'::regclass FROM pg_constraint WHERE conrelid = $1::text::oid \
          UNION ALL SELECT 'TRIGGER', tgname, oid, 'pg_trigger'::regclass FROM pg_trigger \
            WHERE tgrelid = $1::text::oid AND NOT tgisinternal \
          UNION ALL SELECT 'POLICY', polname, oid, 'pg_policy'::regclass FROM pg_policy WHERE polrelid = $1::text::oid \
          UNION ALL SELECT 'RULE', rulename, oid, 'pg_rewrite'::regclass FROM pg_rewrite WHERE ev_class = $1::text::oid) \
    AS p(what, name, oid, class) JOIN pg_description d ON d.objoid = p.oid AND d.classoid = p.class AND d.objsubid = 0 \
    UNION ALL SELECT format('COMMENT ON %s %I.%I IS %L', p.what, n.nspname, p.name, d.description) \
    FROM (SELECT 'INDEX', x.relname, x.oid, 'pg_class'::regclass, x.relnamespace FROM pg_index i \
            JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = $1::text::oid \
          UNION ALL SELECT 'STATISTICS', stxname, oid, 'pg_statistic_ext'::regclass, stxnamespace FROM pg_statistic_ext \
            WHERE stxrelid = $1::text::oid) \
    AS p(what, name, oid, class, space) JOIN pg_namespace n ON n.oid = p.space \
    JOIN pg_description d ON d.objoid = p.oid AND d.classoid = p.class AND d.objsubid = 0";

const COLUMN_RIGHTS: &str = "SELECT format('GRANT %s (%I) ON TABLE %s TO %s%s', a.privilege_type, c.attname, {table}, \
      CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, \
      CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' END) \
    FROM pg_attribute c, aclexplode(c.attacl) WITH ORDINALITY AS a(grantor, grantee, privilege_type, is_grantable, place) \
    WHERE c.attrelid = $1::text::oid AND NOT c.attisdropped ORDER BY c.attnum, a.place";
