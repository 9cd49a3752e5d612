//! What would be lost or refused at the exchange is refused before the task runs (PGS-02, PGS-04).

use super::bounds::{Leaf, Named};
use crate::postgres::catalog::Target;
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction, quote_identifier};

/// Refuses what the exchange of this partition could not keep, or the role may not do.
pub(super) fn demand(transaction: &mut Transaction<'_>, target: &Target, named: &Named) -> Result<(), Fault> {
    let template = super::build::template(target, named);
    let mut found = transaction.query(RIGHTS, &[Some(&template.oid), Some(&target.oid)])?;
    if let Some(old) = &named.standing {
        found.extend(transaction.query(KEPT, &[Some(&old.oid)])?);
    }
    refuse(&template, found)?;
    match &named.standing {
        Some(old) => {
            demand_free(transaction, old)?;
            refuse_references(transaction, target, old)
        }
        None => Ok(()),
    }
}

/// Refuses a partition to which something is bound that is not a part of it: it would be dropped with the old one, or read
/// that one for ever.
pub(super) fn demand_free(transaction: &mut Transaction<'_>, old: &Leaf) -> Result<(), Fault> {
    let found = transaction.query(DEPENDENTS, &[Some(&old.oid)])?;
    Ok(refuse(old, found)?)
}

fn refuse(leaf: &Leaf, found: Vec<Vec<Option<String>>>) -> Result<(), Error> {
    let Some(row) = found.into_iter().next() else { return Ok(()) };
    let [why, hint] = <[Option<String>; 2]>::try_from(row).unwrap_or_default();
    let error = Error::invalid(format!("{} cannot be exchanged: {}", leaf.relation, why.unwrap_or_default()));
    Err(error.hint(hint.unwrap_or_default()))
}

/// The server detaches no partition to whose rows others refer, even if the same keys come back at once.
fn refuse_references(transaction: &mut Transaction<'_>, target: &Target, old: &Leaf) -> Result<(), Fault> {
    let sql = "SELECT format('%I.%I', n.nspname, c.relname), k.conname::text, \
               string_agg(format('r.%I = p.%I', f.attname, p.attname), ' AND ') \
               FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
               CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS u(f, p) \
               JOIN pg_attribute f ON f.attrelid = k.conrelid AND f.attnum = u.f \
               JOIN pg_attribute p ON p.attrelid = k.confrelid AND p.attnum = u.p \
               WHERE k.contype = 'f' AND k.confrelid = $1::text::oid \
               AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.oid = k.conparentid AND o.confrelid = k.confrelid) \
               GROUP BY k.oid, n.nspname, c.relname, k.conname";
    for row in transaction.query(sql, &[Some(&target.oid)])? {
        let [Some(table), Some(constraint), Some(joined)] = <[Option<String>; 3]>::try_from(row).unwrap_or_default()
        else {
            continue;
        };
        let referred = transaction
            .query(&format!("SELECT 1::text FROM {table} r JOIN {} p ON {joined} LIMIT 1", old.relation), &[])?;
        if !referred.is_empty() {
            return Err(Error::invalid(format!(
                "{} cannot be exchanged: rows of {table} refer to its rows by {}, and the server detaches no such partition",
                old.relation,
                quote_identifier(&constraint)
            ))
            .hint("use mode = \"merge\", or mode = \"replace\" with a foreign key that is DEFERRABLE")
            .into());
        }
    }
    Ok(())
}

/// What the role may do. `$1` is what the new partition is like, `$2` the partitioned table.
const RIGHTS: &str = "\
WITH t AS (SELECT c.*, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::text::oid), \
  me AS (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), \
  o AS (SELECT DISTINCT c.oid, c.relname, c.relowner, pg_get_userbyid(c.relowner) AS name FROM pg_class c \
        WHERE c.oid IN ($1::text::oid, $2::text::oid)) \
SELECT format('role %I may not act as %I, the owner of %I', current_user, o.name, o.relname), \
    format('GRANT %I TO %I', o.name, current_user) \
  FROM o WHERE NOT pg_has_role(o.relowner, 'USAGE') \
UNION ALL SELECT format('role %I may create nothing in schema %I', current_user, t.nspname), \
    format('GRANT CREATE ON SCHEMA %I TO %I', t.nspname, current_user) \
  FROM t WHERE NOT has_schema_privilege(t.relnamespace, 'CREATE') \
UNION ALL SELECT format('its owner %I may create nothing in schema %I, and so be given nothing there', pg_get_userbyid(t.relowner), t.nspname), \
    format('GRANT CREATE ON SCHEMA %I TO %I', t.nspname, pg_get_userbyid(t.relowner)) \
  FROM t, me WHERE NOT me.rolsuper AND pg_get_userbyid(t.relowner) <> current_user \
    AND NOT has_schema_privilege(t.relowner, t.relnamespace, 'CREATE') \
UNION ALL SELECT format('role %I may not create anything in its tablespace', current_user), \
    format('GRANT CREATE ON TABLESPACE %I TO %I', s.spcname, current_user) \
  FROM pg_tablespace s WHERE NOT has_tablespace_privilege(s.oid, 'CREATE') AND s.oid IN ( \
    SELECT c.reltablespace FROM pg_class c WHERE c.oid = $1::text::oid \
      OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = $1::text::oid)) \
UNION ALL SELECT format('role %I may not refer to %s, to which it has the foreign key %I', current_user, k.confrelid::regclass, k.conname), \
    format('GRANT REFERENCES ON %s TO %I', k.confrelid::regclass, current_user) \
  FROM pg_constraint k WHERE k.conrelid = $1::text::oid AND k.contype = 'f' \
    AND NOT has_table_privilege(k.confrelid, 'REFERENCES') \
    AND EXISTS (SELECT 1 FROM unnest(k.confkey) a WHERE NOT has_column_privilege(k.confrelid, a, 'REFERENCES')) \
UNION ALL SELECT format('role %I may not use the function of its trigger %I', current_user, g.tgname), \
    format('GRANT EXECUTE ON FUNCTION %s TO %I', g.tgfoid::regprocedure, current_user) \
  FROM pg_trigger g WHERE g.tgrelid IN ($1::text::oid, $2::text::oid) AND NOT g.tgisinternal \
    AND NOT has_function_privilege(g.tgfoid, 'EXECUTE')";

/// What cannot be made anew. `$1` is the partition.
const KEPT: &str = "\
WITH t AS (SELECT c.*, format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
  WHERE c.oid = $1::text::oid) \
SELECT 'it is UNLOGGED: a crash of the server would empty it', format('ALTER TABLE %s SET LOGGED', t.name) \
  FROM t WHERE t.relpersistence = 'u' \
UNION ALL SELECT 'it is temporary', 'create it as a table' FROM t WHERE t.relpersistence = 't' \
UNION ALL SELECT format('%I has granted a right on it that only %1$I can give again', pg_get_userbyid(a.grantor)), \
    'let the owner grant it' \
  FROM t, LATERAL (SELECT grantor FROM aclexplode(t.relacl) UNION ALL \
    SELECT e.grantor FROM pg_attribute c, aclexplode(c.attacl) e WHERE c.attrelid = t.oid) a WHERE a.grantor <> t.relowner \
UNION ALL SELECT format('its column %I is an identity of its own', a.attname), \
    format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', t.name, a.attname) \
  FROM t JOIN pg_attribute a ON a.attrelid = t.oid \
  WHERE a.attidentity <> '' AND current_setting('server_version_num')::int < 170000 \
UNION ALL SELECT format('the publication %I names it', p.pubname), \
    format('ALTER PUBLICATION %I DROP TABLE %s; publish the partitioned table instead', p.pubname, t.name) \
  FROM t JOIN pg_publication_rel r ON r.prrelid = t.oid JOIN pg_publication p ON p.oid = r.prpubid \
UNION ALL SELECT format('it has a security label of %s', l.provider), 'use mode = \"replace\"' \
  FROM t JOIN pg_seclabel l ON l.objoid = t.oid AND l.classoid = 'pg_class'::regclass \
UNION ALL SELECT format('it belongs to the extension %I', e.extname), 'use mode = \"replace\"' \
  FROM t JOIN pg_depend d ON d.objid = t.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e' \
  JOIN pg_extension e ON e.oid = d.refobjid";

/// Whatever would have to be dropped with the partition and does not hang on it alone.
const DEPENDENTS: &str = "\
SELECT coalesce((SELECT pg_describe_object('pg_class'::regclass, v.ev_class, 0) FROM pg_rewrite v \
      WHERE d.classid = 'pg_rewrite'::regclass AND v.oid = d.objid), \
    pg_describe_object(d.classid, d.objid, d.objsubid)) || ' is bound to it', \
    'let it read the partitioned table, which stays; or use mode = \"replace\"' \
  FROM pg_depend d \
  WHERE d.deptype = 'n' AND (d.refclassid = 'pg_class'::regclass AND d.refobjid = $1::text::oid \
    OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (SELECT y.oid FROM pg_type y WHERE y.typrelid = $1::text::oid \
      UNION ALL SELECT y.typarray FROM pg_type y WHERE y.typrelid = $1::text::oid)) \
  AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE d.classid = 'pg_constraint'::regclass AND k.oid = d.objid \
    AND (k.conrelid = $1::text::oid OR k.conparentid <> 0)) \
  AND NOT EXISTS (SELECT 1 FROM pg_trigger g WHERE d.classid = 'pg_trigger'::regclass AND g.oid = d.objid \
    AND (g.tgrelid = $1::text::oid OR g.tgisinternal)) \
  AND NOT EXISTS (SELECT 1 FROM pg_rewrite r WHERE d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid AND r.ev_class = $1::text::oid) \
  AND NOT EXISTS (SELECT 1 FROM pg_policy y WHERE d.classid = 'pg_policy'::regclass AND y.oid = d.objid AND y.polrelid = $1::text::oid) \
  AND NOT EXISTS (SELECT 1 FROM pg_attrdef f WHERE d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid AND f.adrelid = $1::text::oid) \
  AND NOT EXISTS (SELECT 1 FROM pg_class x WHERE d.classid = 'pg_class'::regclass AND x.oid = d.objid AND x.relkind IN ('i', 'I', 't')) \
  AND NOT EXISTS (SELECT 1 FROM pg_statistic_ext s WHERE d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid AND s.stxrelid = $1::text::oid)";
