//! Scopes as SQL. Values are literals, cast to the column's own type: the same text serves a statement, a default and a check.

use super::catalog::Target;
use super::manner::{Condition, Manner};
use refrain_core::Error;
use refrain_postgres::{quote_identifier, quote_literal};

/// The condition that every row of the scope meets, `true` where there is no scope; `of` is put before each column.
///
/// # Errors
/// `invalid` when a column is not there.
pub(super) fn condition(target: &Target, manner: &Manner, of: &str) -> Result<String, Error> {
    let all = manner.scope.iter().map(|condition| one(target, condition, of)).collect::<Result<Vec<_>, _>>()?;
    Ok(if all.is_empty() { "true".to_owned() } else { all.join(" AND ") })
}

/// The value of a condition, of the column's type.
pub(super) fn value(target: &Target, condition: &Condition) -> Result<String, Error> {
    let column = target.demand(&condition.column, "`where`")?;
    Ok(format!("CAST({} AS {})", quote_literal(&condition.value), column.data_type))
}

fn one(target: &Target, condition: &Condition, of: &str) -> Result<String, Error> {
    let value = value(target, condition)?;
    Ok(format!("{of}{} {} {value}", quote_identifier(&condition.column), condition.comparison.operator()))
}
