//! SQL that fills the staging table: a file of the task, run at the seal.

mod script;
mod tokens;
mod verbs;

pub use script::{Parameters, read_sql};

use super::catalog::Target;
use super::site::introduce;
use super::stage::Stage;
use refrain_core::{Error, ErrorKind};
use refrain_postgres::{Fault, Limits, Refusal, Transaction};
use script::Statement;

/// What the statements find: the names and settings that the role has in this database, as with psql.
const BEFORE: &str =
    "SET LOCAL search_path TO DEFAULT; SET LOCAL standard_conforming_strings = on; SAVEPOINT refrain_sql";

/// What the statements may have left in the session: nobody else who is given it by a pooler shall find any of it (PGX-13).
const AFTER: &str = "SET CONSTRAINTS ALL IMMEDIATE; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; CLOSE ALL; \
                     UNLISTEN *; SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP";

/// What of that a rolled back transaction leaves.
const AFTER_FAILURE: &str = "ROLLBACK TO SAVEPOINT refrain_sql; SELECT pg_catalog.pg_advisory_unlock_all()";

/// Runs the statements in a transaction that sees one moment of the database, so that all that they read is one snapshot.
///
/// # Errors
/// `guard` when the data are not what the table or the statements want, `invalid` for what cannot be run. Each names file,
/// line and, where the server tells it, column.
pub(super) fn run(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    target: &Target,
    (file, text, values): (&str, &str, &Parameters),
    limits: &Limits,
) -> Result<(), Fault> {
    let statements = script::bind(text, values, &stage.table).map_err(|error| error.within(format!("`{file}`")))?;
    let began = number(transaction)?;
    transaction.simple(BEFORE)?;
    for statement in statements {
        if let Err(fault) = transaction.simple(&statement.text) {
            if matches!(fault, Fault::Refused(_)) {
                // Without the savepoint, which the statements may have released, the rollback does what it can.
                drop(transaction.simple(AFTER_FAILURE));
            }
            return Err(explain(fault, &statement, file, text));
        }
    }
    transaction.simple(AFTER).map_err(|fault| at_the_end(fault, file))?;
    transaction.settle(limits)?;
    introduce(transaction, Some(stage.id.holder.attempt))?;
    if number(transaction)? != began {
        return Err(Error::guard(format!("`{file}` ended the transaction that it ran in")).into());
    }
    refuse_writes(transaction, target, file)
}

/// The transaction's own number.
fn number(transaction: &mut Transaction<'_>) -> Result<Option<String>, Fault> {
    let rows = transaction.query("SELECT pg_current_xact_id()::text", &[])?;
    Ok(rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
}

/// What the statements write into the table itself would be seen before the commit, and again after a repeat. Its locks tell.
fn refuse_writes(transaction: &mut Transaction<'_>, target: &Target, file: &str) -> Result<(), Fault> {
    let sql = "SELECT l.relation::regclass::text FROM pg_locks l \
               WHERE l.locktype = 'relation' AND l.pid = pg_backend_pid() \
               AND l.mode IN ('RowExclusiveLock', 'AccessExclusiveLock') \
               AND (l.relation = $1::text::oid OR l.relation IN (SELECT relid FROM pg_partition_tree($1::text::oid))) LIMIT 1";
    let rows = transaction.query(sql, &[Some(&target.oid)])?;
    match rows.first().and_then(|row| row.first()?.as_deref()) {
        None => Ok(()),
        Some(table) => Err(Error::guard(format!("`{file}` changed {table} itself"))
            .hint("it may read the table, and writes to \"REFRAIN_STAGING\" alone: refrain publishes the rows")
            .into()),
    }
}

fn explain(fault: Fault, statement: &Statement, file: &str, text: &str) -> Fault {
    let Fault::Refused(refusal) = fault else { return fault };
    let place = match refusal.position {
        Some(position) => statement.place(text, position).to_string(),
        None => format!("in the statement of line {}", statement.begins(text).line),
    };
    // Only what a function says needs more than that.
    let within = refusal.context.as_deref().filter(|context| context.contains("function"));
    let within = within.map_or(String::new(), |context| format!(" ({})", context.replace('\n', "; ")));
    told(*refusal, &format!("`{file}`, {place}"), &within)
}

fn at_the_end(fault: Fault, file: &str) -> Fault {
    match fault {
        Fault::Refused(refusal) => told(*refusal, &format!("`{file}`, at its end"), ""),
        fault => fault,
    }
}

/// What the server said of the statements, as a failure of theirs: it is no fault of the connection.
fn told(refusal: Refusal, place: &str, within: &str) -> Fault {
    let message = format!("{place}: {}{within}", refusal.message);
    let refusal = Refusal { message, ..refusal };
    let kind = match refusal.code.get(..2).unwrap_or_default() {
        // Data, a constraint, or what RAISE EXCEPTION says.
        "22" | "23" | "44" | "P0" => ErrorKind::Guard,
        // Somebody cancelled it, or a limit that it set itself.
        "57" if refusal.code == "57014" => ErrorKind::Refused,
        _ if Fault::Refused(Box::new(refusal.clone())).is_passing() => return Fault::Refused(Box::new(refusal)),
        _ => ErrorKind::Invalid,
    };
    let error = Error::new(kind, refusal.to_string());
    let error = match &refusal.hint {
        Some(hint) => error.hint(hint.clone()),
        None => error,
    };
    error.into()
}
