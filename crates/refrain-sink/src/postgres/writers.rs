//! Those who still write into a staging table when the task has ended.

use super::locks::sessions;
use super::stage::Stage;
use refrain_core::Error;
use refrain_postgres::{Fault, Transaction};

/// Waits for whoever has the staging table in use, and keeps all others away until the transaction ends, when the table has
/// a name that nobody knows. Whatever was written is seen by the statements that follow.
///
/// # Errors
/// `guard` when somebody has it in use still after the transaction's limit for locks: who, with process, name and state.
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
                users.join("; ")
            ))
            .hint("let the task wait for all that it starts; to end a session: SELECT pg_terminate_backend(PID)")
            .into())
        }
        answer => answer.map(drop),
    }
}

/// Who has a lock of the relation.
fn users(transaction: &mut Transaction<'_>, oid: &str) -> Result<Vec<String>, Fault> {
    let which = "l.locktype = 'relation' AND l.relation = $1::text::oid \
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    sessions(transaction, which, oid)
}
