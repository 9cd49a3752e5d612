//! What the role may do with the table.

use super::catalog::Target;
use super::manner::{Manner, Mode};
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction, quote_identifier};

/// Finds out before the task runs whether its rows could be published.
///
/// # Errors
/// `invalid` with the GRANT that is missing.
pub(super) fn demand(transaction: &mut Transaction<'_>, target: &Target, manner: &Manner) -> Result<(), Fault> {
    let needed = needed(manner);
    // A right on some columns may be enough; only the statements tell.
    let asked: Vec<_> = needed
        .iter()
        .map(|right| match *right {
            "DELETE" | "TRUNCATE" => format!("has_table_privilege($1::text::oid, '{right}')::text"),
            _ => format!("has_any_column_privilege($1::text::oid, '{right}')::text"),
        })
        .collect();
    let sql = format!("SELECT current_user::text, {}", asked.join(", "));
    let rows = transaction.query(&sql, &[Some(&target.oid)])?;
    let Some([Some(role), rights @ ..]) = rows.first().map(Vec::as_slice) else { return Ok(()) };
    let missing: Vec<_> =
        needed.iter().zip(rights).filter(|(_, has)| has.as_deref() != Some("true")).map(|(right, _)| *right).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (rights, role) = (missing.join(", "), quote_identifier(role));
    Err(Error::invalid(format!(
        "the role {role} lacks {rights} on {}, which mode = \"{}\" needs",
        target.relation,
        manner.mode.name()
    ))
    .hint(format!("let the table's owner run: GRANT {rights} ON {} TO {role}", target.relation))
    .into())
}

/// Staging tables are made LIKE the table, which takes SELECT.
fn needed(manner: &Manner) -> Vec<&'static str> {
    let mut needed = vec!["SELECT"];
    let (insert, update, delete) = match manner.mode {
        // Whoever detaches partitions owns the table.
        Mode::SwapPartition => (false, false, false),
        Mode::Replace => (true, false, true),
        Mode::Table => (true, false, !manner.truncate),
        Mode::Merge => (true, true, manner.delete_missing),
        Mode::Append => (true, false, manner.run_column.is_some()),
    };
    let others = [
        ("INSERT", insert),
        ("UPDATE", update),
        ("DELETE", delete),
        ("TRUNCATE", manner.mode == Mode::Table && manner.truncate),
    ];
    needed.extend(others.into_iter().filter(|(_, is)| *is).map(|(right, _)| right));
    needed
}
