//! One transaction of the store: what it did is proved when it ends.

use super::fault::Fault;
use refrain_postgres::{Committed, CopyIn, Row, Transaction};

/// A transaction that knows whether it changed anything.
pub(super) struct Work<'s> {
    transaction: Transaction<'s>,
    /// The server's number of this transaction, once it changed something.
    number: Option<String>,
}

impl Work<'_> {
    /// Asks, or takes locks.
    pub(super) fn query(&mut self, sql: &str, values: &[Option<&str>]) -> Result<Vec<Row>, Fault> {
        Ok(self.transaction.query(sql, values)?)
    }

    /// Statements without values and without an answer; a [`change`](Self::change) must follow if they change anything.
    pub(super) fn simple(&mut self, sql: &str) -> Result<(), Fault> {
        self.transaction.simple(sql)?;
        Ok(())
    }

    /// Begins to copy into a table; a [`change`](Self::change) must follow.
    pub(super) fn copy_in(&mut self, sql: &str) -> Result<CopyIn, Fault> {
        Ok(self.transaction.copy_in(sql)?)
    }

    /// Changes rows; returns how many.
    pub(super) fn change(&mut self, sql: &str, values: &[Option<&str>]) -> Result<u64, Fault> {
        self.change_with("", sql, values)
    }

    /// Changes rows by one statement after the WITH queries `with`, each with a comma behind it; returns how many rows the
    /// statement changed.
    pub(super) fn change_with(&mut self, with: &str, sql: &str, values: &[Option<&str>]) -> Result<u64, Fault> {
        let sql = format!(
            "WITH {with} changed AS ({sql} RETURNING 1) SELECT pg_catalog.count(*)::text, \
             pg_catalog.pg_current_xact_id()::text FROM changed"
        );
        let [count, number] = columns(self.transaction.query(&sql, values)?);
        self.number = number;
        Ok(count.and_then(|count| count.parse().ok()).unwrap_or_default())
    }
}

/// Does the work in the transaction and ends it: committed if it changed anything, else rolled back.
///
/// # Errors
/// [`Fault::Unknown`] when the answer of the commit was lost.
pub(super) fn transact<T>(
    transaction: Transaction<'_>,
    work: impl FnOnce(&mut Work<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut scope = Work { transaction, number: None };
    let value = work(&mut scope)?;
    let Some(number) = scope.number else {
        // It only asked, and has its answer.
        drop(scope.transaction);
        return Ok(value);
    };
    // A server says COMMIT of a transaction that it rolled back, too; its record of the transaction does not (PGX-02).
    let question = format!("SELECT pg_catalog.pg_xact_status('{number}'::pg_catalog.xid8)");
    match scope.transaction.commit(&question)? {
        Committed::Yes(rows) => match columns(rows) {
            [Some(status)] if status == "committed" => Ok(value),
            [status] => Err(Fault::Unknown(format!("the transaction is {}", status.unwrap_or_default()))),
        },
        Committed::Unknown(why) => Err(Fault::Unknown(why)),
    }
}

/// The columns of the first row; nothing for those that are NULL, or if there is no row of so many.
pub(super) fn columns<const N: usize>(rows: Vec<Row>) -> [Option<String>; N]
where
    [Option<String>; N]: Default,
{
    rows.into_iter().next().map(of_row).unwrap_or_default()
}

/// The columns of a row.
pub(super) fn of_row<const N: usize>(row: Row) -> [Option<String>; N]
where
    [Option<String>; N]: Default,
{
    row.try_into().unwrap_or_default()
}
