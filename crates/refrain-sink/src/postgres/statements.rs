//! SQL that fills the staging table.

use super::stage::Stage;
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction};

/// The identifier that stands for the staging table.
const STAGING: &str = "\"REFRAIN_STAGING\"";

/// Runs the statements in a transaction that sees one moment of the database, so that all that they read is one snapshot.
pub(super) fn run(transaction: &mut Transaction<'_>, stage: &Stage, file: &str, text: &str) -> Result<(), Fault> {
    if !text.contains(STAGING) {
        return Err(Error::guard(format!("`{file}` does not write to {STAGING}"))
            .hint(format!("let it fill the staging table: INSERT INTO {STAGING} SELECT …"))
            .into());
    }
    transaction.simple(&text.replace(STAGING, &stage.table.to_string()))?;
    Ok(())
}
