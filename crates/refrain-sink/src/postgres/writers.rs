//! Those who still write into a staging table when the task has ended.

use super::stage::Stage;
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction};

/// Waits for whoever has the staging table in use, and keeps all others away until the transaction ends, when the table has
/// a name that nobody knows. Whatever was written is seen by the statements that follow.
///
/// # Errors
/// `guard` when somebody has it in use still after the transaction's limit for locks: who, with process, role, name and state.
pub(super) fn keep_out(transaction: &mut Transaction<'_>, stage: &Stage) -> Result<(), Fault> {
    let sql = format!("SAVEPOINT refrain_lock; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", stage.table);
    match transaction.simple(&sql) {
        Err(Fault::Refused(refusal)) if refusal.code == "55P03" => {
            transaction.simple("ROLLBACK TO SAVEPOINT refrain_lock")?;
            let users = users(transaction, &stage.oid)?;
            if users.is_empty() {
                return Err(Fault::Refused(refusal));
            }
            Err(Error::guard(format!(
                "the task has ended, and the staging table {} is in use still by {}",
                stage.table,
                users.join(", and ")
            ))
            .hint("let the task wait for all that it starts; to end a session: SELECT pg_terminate_backend(PROCESS)")
            .into())
        }
        answer => answer.map(drop),
    }
}

/// Who has a lock of the relation.
fn users(transaction: &mut Transaction<'_>, oid: &str) -> Result<Vec<String>, Fault> {
    let sql = "SELECT DISTINCT l.pid::text, a.usename::text, a.application_name, coalesce(a.state, 'state unknown'), p.gid \
               FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
               LEFT JOIN pg_prepared_xacts p ON l.pid IS NULL AND p.transaction::text = split_part(l.virtualtransaction, '/', 2) \
               WHERE l.locktype = 'relation' AND l.granted AND l.relation = $1::text::oid \
               AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) \
               AND l.pid IS DISTINCT FROM pg_backend_pid() ORDER BY 1";
    let rows = transaction.query(sql, &[Some(oid)])?;
    let one = |row: Vec<Option<String>>| match row.as_slice() {
        [Some(process), role, name, state, _] => format!(
            "process {process} of the server (role {}, application_name `{}`, {})",
            role.as_deref().unwrap_or("unknown"),
            name.as_deref().unwrap_or_default(),
            state.as_deref().unwrap_or_default()
        ),
        [None, _, _, _, Some(prepared)] => format!("the prepared transaction `{prepared}`"),
        _ => "a prepared transaction".to_owned(),
    };
    Ok(rows.into_iter().map(one).collect())
}
