//! What the catalog says of a table and its partition, before the exchange and after it: all but numbers must be equal
//! (PGS-01).

use super::bounds::Leaf;
use crate::postgres::catalog::Target;
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction};

/// So many differences are named.
const NAMED: usize = 4;

/// Everything that is defined of some tables, one fact a line.
#[derive(Debug)]
pub(super) struct Picture(Vec<String>);

impl Picture {
    /// Takes the picture of the partitioned table and of the partition that stands at the scope, if one does.
    pub(super) fn take(
        transaction: &mut Transaction<'_>,
        target: &Target,
        partition: Option<&str>,
    ) -> Result<Self, Fault> {
        let mut facts = facts(transaction, &target.oid)?;
        if let Some(oid) = partition {
            facts.extend(facts_of_partition(transaction, oid)?);
        }
        facts.sort();
        Ok(Self(facts))
    }

    /// Demands that the later picture is the same.
    ///
    /// # Errors
    /// `invalid`, with what is different.
    pub(super) fn demand(&self, later: &Self, target: &Target, standing: Option<&Leaf>) -> Result<(), Error> {
        let lost = without(&self.0, &later.0).into_iter().map(|fact| format!("lost: {fact}"));
        let gained = without(&later.0, &self.0).into_iter().map(|fact| format!("new: {fact}"));
        let differences: Vec<_> = lost.chain(gained).collect();
        if differences.is_empty() {
            return Ok(());
        }
        let more = differences.len().saturating_sub(NAMED);
        let mut named = differences.into_iter().take(NAMED).collect::<Vec<_>>().join("; ");
        if more > 0 {
            named.push_str(&format!("; and {more} more"));
        }
        let what = standing.map_or(&target.relation, |standing| &standing.relation);
        Err(Error::invalid(format!("the exchange would change how {what} is defined: {named}")).hint(
            "if somebody changed the table meanwhile, repeat the call; what a swap cannot keep, mode = \"replace\" keeps",
        ))
    }
}

/// The lines that the other has not, counted.
fn without(some: &[String], others: &[String]) -> Vec<String> {
    let mut left = others.to_vec();
    let mut missing = Vec::new();
    for fact in some {
        match left.iter().position(|other| other == fact) {
            Some(place) => drop(left.swap_remove(place)),
            None => missing.push(fact.clone()),
        }
    }
    missing
}

/// The partition's facts. In what inherits, the server keeps how many ancestors there are, not which.
fn facts_of_partition(transaction: &mut Transaction<'_>, oid: &str) -> Result<Vec<String>, Fault> {
    let found = facts(transaction, oid)?;
    Ok(found.into_iter().map(|fact| format!("partition {fact}")).collect())
}

fn facts(transaction: &mut Transaction<'_>, oid: &str) -> Result<Vec<String>, Fault> {
    let version = transaction.query("SELECT current_setting('server_version_num')", &[])?;
    let version = super::super::number(version.first().and_then(|row| row.first()));
    // Columns have a compression since 14.
    let compression = if version >= 140_000 { "a.attcompression" } else { "''" };
    let sql = FACTS.replace("{compression}", compression);
    let rows = transaction.query(&sql, &[Some(oid)])?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

/// Numbers of objects are left out, and the order of columns, which an exchange need not keep. Of keys and foreign keys the
/// server notes whether they are inherited by the way in which they were made, and never looks at it.
const FACTS: &str = "\
SELECT format('table %I.%I: owner %I, kind %s, persistence %s, access method %s, tablespace %s, parameters %s, of TOAST %s, \
    replica identity %s, row security %s, forced %s, of type %s, partition key %s, bounds %s, comment %L', \
    n.nspname, c.relname, pg_get_userbyid(c.relowner), c.relkind, c.relpersistence, m.amname, s.spcname, \
    c.reloptions, t.reloptions, c.relreplident, c.relrowsecurity, c.relforcerowsecurity, c.reloftype, \
    pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid), obj_description(c.oid, 'pg_class')) \
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am m ON m.oid = c.relam \
  LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace LEFT JOIN pg_class t ON t.oid = c.reltoastrelid \
  WHERE c.oid = $1::text::oid \
UNION ALL SELECT format('grant of %s to %s, may grant %s', a.privilege_type, \
    CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END, a.is_grantable) \
  FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a WHERE c.oid = $1::text::oid \
UNION ALL SELECT format('column %I: %s, collation %s, not null %s, default %s, identity %s, generated %s, storage %s, \
    compression %s, samples %s, parameters %s, local %s, inherited %s, comment %L', \
    a.attname, format_type(a.atttypid, a.atttypmod), l.collname, a.attnotnull, pg_get_expr(d.adbin, d.adrelid), \
    a.attidentity, a.attgenerated, a.attstorage, {compression}, CASE WHEN a.attstattarget >= 0 THEN a.attstattarget END, \
    a.attoptions, a.attislocal, a.attinhcount, col_description(a.attrelid, a.attnum)) \
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
  LEFT JOIN pg_collation l ON l.oid = a.attcollation \
  WHERE a.attrelid = $1::text::oid AND a.attnum > 0 AND NOT a.attisdropped \
UNION ALL SELECT format('grant of %s (%I) to %s, may grant %s', a.privilege_type, c.attname, \
    CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END, a.is_grantable) \
  FROM pg_attribute c, aclexplode(c.attacl) a WHERE c.attrelid = $1::text::oid AND NOT c.attisdropped \
UNION ALL SELECT format('constraint %I: %s, validated %s, local %s, inherited %s, not to be inherited %s, of %s, comment %L', \
    k.conname, pg_get_constraintdef(k.oid), k.convalidated, k.conislocal, k.coninhcount, k.connoinherit AND k.contype IN ('c', 'n'), p.conname, \
    obj_description(k.oid, 'pg_constraint')) \
  FROM pg_constraint k LEFT JOIN pg_constraint p ON p.oid = k.conparentid WHERE k.conrelid = $1::text::oid \
UNION ALL SELECT format('referred to by %s: %s, validated %s', k.conrelid::regclass, pg_get_constraintdef(k.oid), k.convalidated) \
  FROM pg_constraint k WHERE k.confrelid = $1::text::oid AND k.contype = 'f' \
UNION ALL SELECT format('index %s, primary %s, clustered %s, replica identity %s, parameters %s, tablespace %s, of %s, samples %s, comment %L', \
    pg_get_indexdef(x.oid), i.indisprimary, i.indisclustered, i.indisreplident, x.reloptions, s.spcname, p.relname, \
    (SELECT string_agg(format('%s %s', a.attnum, a.attstattarget), ', ' ORDER BY a.attnum) FROM pg_attribute a \
      WHERE a.attrelid = x.oid AND a.attstattarget >= 0), obj_description(x.oid, 'pg_class')) \
  FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid LEFT JOIN pg_tablespace s ON s.oid = x.reltablespace \
  LEFT JOIN pg_inherits h ON h.inhrelid = x.oid LEFT JOIN pg_class p ON p.oid = h.inhparent \
  WHERE i.indrelid = $1::text::oid \
UNION ALL SELECT format('%s, owner %I, samples %s, comment %L', pg_get_statisticsobjdef(e.oid), pg_get_userbyid(e.stxowner), \
    CASE WHEN e.stxstattarget >= 0 THEN e.stxstattarget END, obj_description(e.oid, 'pg_statistic_ext')) \
  FROM pg_statistic_ext e WHERE e.stxrelid = $1::text::oid \
UNION ALL SELECT format('%s, acts %s, of %s, comment %L', pg_get_triggerdef(g.oid), g.tgenabled, p.tgname, obj_description(g.oid, 'pg_trigger')) \
  FROM pg_trigger g LEFT JOIN pg_trigger p ON p.oid = g.tgparentid \
  WHERE g.tgrelid = $1::text::oid AND NOT g.tgisinternal \
UNION ALL SELECT format('%s, acts %s, comment %L', pg_get_ruledef(r.oid), r.ev_enabled, obj_description(r.oid, 'pg_rewrite')) \
  FROM pg_rewrite r WHERE r.ev_class = $1::text::oid \
UNION ALL SELECT format('policy %I for %s, permissive %s, of %s: using %s, with check %s, comment %L', y.polname, y.polcmd, \
    y.polpermissive, y.polroles, pg_get_expr(y.polqual, y.polrelid), pg_get_expr(y.polwithcheck, y.polrelid), \
    obj_description(y.oid, 'pg_policy')) \
  FROM pg_policy y WHERE y.polrelid = $1::text::oid \
UNION ALL SELECT format('sequence %s of column %I', d.objid::regclass, a.attname) \
  FROM pg_depend d JOIN pg_class q ON q.oid = d.objid AND q.relkind = 'S' \
  JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = $1::text::oid \
  AND d.deptype IN ('a', 'i')";
