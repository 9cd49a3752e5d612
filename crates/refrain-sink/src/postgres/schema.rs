//! The tables of the sink, in schema `refrain` of the target's own database (docs/FORMATS.md).

use refrain_core::{Error, ErrorKind};
use refrain_postgres::{Fault, Transaction, quote_identifier};

/// The format that this build reads and writes.
pub(super) const FORMAT: u32 = 1;

/// The tables, for a database administrator who makes them where the publishing role may not create schemas. Repeating it
/// changes nothing. [`sql_for`] grants a role what it needs of them.
pub const TABLES: &str = "\
CREATE SCHEMA IF NOT EXISTS refrain;
CREATE TABLE IF NOT EXISTS refrain.site (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  id uuid NOT NULL,
  format integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS refrain.head (
  slot text PRIMARY KEY,
  relation text NOT NULL,
  version uuid NOT NULL,
  head text NOT NULL,
  applied text,
  owner text NOT NULL DEFAULT '',
  changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS head_owner ON refrain.head (relation, owner);
CREATE TABLE IF NOT EXISTS refrain.staging (
  name text PRIMARY KEY,
  relation oid NOT NULL,
  slot text NOT NULL,
  owner text NOT NULL,
  manner text NOT NULL,
  sealed text,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS refrain.horizon (
  relation text NOT NULL,
  task text NOT NULL,
  through text NOT NULL,
  PRIMARY KEY (relation, task)
);
INSERT INTO refrain.site (id, format) VALUES (gen_random_uuid(), 1) ON CONFLICT DO NOTHING;
";

/// The tables, and what a role needs of them to publish with them: all in one transaction, for a database administrator.
/// Repeating it changes nothing. The role makes its staging tables in the schema.
pub fn sql_for(role: &str) -> String {
    let role = quote_identifier(role);
    format!(
        "BEGIN;\n{TABLES}GRANT USAGE, CREATE ON SCHEMA refrain TO {role};\nGRANT SELECT ON refrain.site TO {role};\nGRANT \
         SELECT, INSERT, UPDATE, DELETE ON refrain.head, refrain.staging, refrain.horizon TO {role};\nCOMMIT;"
    )
}

/// The lock under which tables are made in the schema, here and by the state store: `refrain` in ASCII. It ends with the
/// transaction.
const TURN: &str = "SELECT pg_catalog.pg_advisory_xact_lock(32199638025070958)";

/// Makes the tables that are missing, for the role that asks.
pub(super) fn make(transaction: &mut Transaction<'_>) -> Result<(), Fault> {
    transaction.simple(&format!("{TURN}; {TABLES}"))?;
    Ok(())
}

/// The database's own identity; nothing while the tables are missing.
pub(super) fn site(transaction: &mut Transaction<'_>) -> Result<Option<String>, Fault> {
    let there = transaction.query("SELECT pg_catalog.to_regclass('refrain.site')::text", &[])?;
    if there.first().and_then(|row| row.first()?.as_deref()).is_none() {
        return Ok(None);
    }
    let rows = transaction.query("SELECT id::text, format::text FROM refrain.site", &[])?;
    let Some([Some(id), Some(format)]) = rows.first().map(Vec::as_slice) else { return Ok(None) };
    match format.parse::<u32>() {
        Ok(FORMAT) => Ok(Some(id.clone())),
        _ => Err(Fault::Invalid(
            Error::new(
                ErrorKind::Unsupported,
                format!("the tables in schema `refrain` have format {format}, and this build knows {FORMAT}"),
            )
            .hint("use the build of refrain that made them, or a newer one"),
        )),
    }
}
