//! Whether what stands is what was published.

use super::address::scope_of;
use super::cluster;
use super::heads::{self, Applied};
use super::modes::number;
use refrain_core::{Condition, are, counted, were};
use refrain_postgres::{Fault, Transaction, quote_literal};

/// Compares the scope's rows with what the last commit left: so many, and all written by its transaction, or none later
/// where a merge left rows as they were. A row that was changed by hand has another one; so has every row after the table
/// was rewritten or restored, and then their number is all there is to compare.
pub(super) fn condition(transaction: &mut Transaction<'_>, slot: &str, published: bool) -> Result<Condition, Fault> {
    let Some((table, scope)) = scope_of(slot) else {
        return Ok(if published { Condition::Intact } else { Condition::Absent });
    };
    let there = transaction.query(&format!("SELECT to_regclass({})::text", quote_literal(table)), &[])?;
    if there.first().is_none_or(|row| row.first().is_none_or(Option::is_none)) {
        return Ok(if published { Condition::Missing } else { Condition::Absent });
    }
    if !published {
        let sql = format!("SELECT count(*)::text FROM {table} WHERE {scope}");
        return Ok(match number(transaction.query(&sql, &[])?.first().and_then(|row| row.first())) {
            0 => Condition::Absent,
            rows => Condition::Foreign(counted(rows, "row")),
        });
    }
    let applied = heads::read(transaction, slot)?.and_then(|standing| standing.applied);
    let Some(Applied { rows: Some(rows), transaction: written, earlier, cluster: there, partition, .. }) = applied
    else {
        return Ok(Condition::Intact);
    };
    let here = cluster(transaction)?;
    if let Some(partition) = partition.filter(|_| here.is_some() && here == there) {
        let sql = format!(
            "SELECT 1::text FROM pg_inherits WHERE inhrelid = $1::text::oid AND inhparent = to_regclass({})::oid",
            quote_literal(table)
        );
        if transaction.query(&sql, &[Some(&partition)])?.is_empty() {
            return Ok(Condition::Drifted(
                "another partition stands in the place of the one that was published".to_owned(),
            ));
        }
    }
    let changed = match written {
        // A row shows the low half of the number of the transaction that wrote it.
        Some(written) if here.is_some() && here == there && earlier => {
            // So many transactions later than that one, counted as far as there have been any.
            let later = format!("(xmin::text::numeric - {written} % 4294967296 + 4294967296) % 4294967296");
            let latest = format!("pg_snapshot_xmax(pg_current_snapshot())::text::numeric - {written}");
            format!("count(*) FILTER (WHERE {later} BETWEEN 1 AND {latest})")
        }
        Some(written) if here.is_some() && here == there => {
            format!("count(*) FILTER (WHERE xmin::text::bigint <> {written}::numeric % 4294967296)")
        }
        _ => "0".to_owned(),
    };
    let sql = format!("SELECT count(*)::text, ({changed})::text FROM {table} WHERE {scope}");
    let found = transaction.query(&sql, &[])?;
    let row = found.first();
    let (stand, changed) = (number(row.and_then(|row| row.first())), number(row.and_then(|row| row.get(1))));
    Ok(match (stand, changed) {
        (0, _) if rows > 0 => Condition::Missing,
        (stand, _) if stand != rows => Condition::Drifted(format!(
            "{} {} published, and there {} {stand}",
            counted(rows, "row"),
            were(rows),
            are(stand)
        )),
        (_, 0) => Condition::Intact,
        (_, changed) => Condition::Drifted(format!(
            "{changed} of {} {} changed or written anew",
            counted(rows, "row"),
            were(changed)
        )),
    })
}
