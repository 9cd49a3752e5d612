//! The record of attempts: who tried what, when, and how it ended.

use super::fault::Fault;
use super::work::{Work, of_row};
use crate::stored::{self, AttemptColumns};
use refrain_core::{AttemptFilter, AttemptId, AttemptRecord, Ending, Key, RunRecord, Shown, Token};
use refrain_postgres::Row;
use std::fmt::Write as _;

/// What [`read`] reads.
pub(super) const COLUMNS: &str = "attempt.task, attempt.partition, attempt.attempt, attempt.token::text, attempt.run, \
                                  attempt.generation::text, attempt.process, attempt.started_at, attempt.ending";

/// The number of [`COLUMNS`].
pub(super) const WIDTH: usize = 9;

/// Records an attempt that a head shows. One that is known keeps what is known of it.
pub(super) fn learn(work: &mut Work<'_>, shown: &Shown) -> Result<(), Fault> {
    let AttemptRecord { attempt, key, token, process, started_at, ending, .. } = &shown.attempt;
    let values = [
        Some(attempt.to_string()),
        Some(key.task.to_string()),
        Some(key.partition.clone()),
        Some(number(token.get())),
        Some(process.clone()),
        Some(started_at.to_string()),
    ];
    work.change(
        "INSERT INTO refrain.attempt (attempt, task, partition, token, process, started_at, settled) VALUES ($1::text, \
         $2::text, $3::text, $4::text::bigint, $5::text, $6::text, false) ON CONFLICT (attempt) DO NOTHING",
        &values.each_ref().map(Option::as_deref),
    )?;
    open(work, *attempt, &shown.run)?;
    ending.as_ref().map_or(Ok(()), |ending| settle(work, *attempt, ending))
}

/// Records the attempt's new token.
pub(super) fn raise(work: &mut Work<'_>, attempt: AttemptId, token: Token) -> Result<(), Fault> {
    work.change(
        "UPDATE refrain.attempt SET token = $1::text::bigint WHERE attempt = $2::text",
        &[Some(&number(token.get())), Some(&attempt.to_string())],
    )?;
    Ok(())
}

/// Records which run the attempt works for.
pub(super) fn open(work: &mut Work<'_>, attempt: AttemptId, run: &RunRecord) -> Result<(), Fault> {
    work.change(
        "UPDATE refrain.attempt SET run = $1::text, generation = $2::text::bigint WHERE attempt = $3::text AND run IS \
         DISTINCT FROM $1::text",
        &[Some(&run.run_id.to_string()), Some(&number(run.generation.get())), Some(&attempt.to_string())],
    )?;
    Ok(())
}

/// Records how the attempt ended, unless that is settled already.
pub(super) fn settle(work: &mut Work<'_>, attempt: AttemptId, ending: &Ending) -> Result<(), Fault> {
    let settled = if ending.is_settled() { "true" } else { "false" };
    work.change(
        "UPDATE refrain.attempt SET ending = $1::text, settled = $2::text::boolean WHERE attempt = $3::text AND NOT \
         settled",
        &[Some(&stored::ending_to_text(ending)?), Some(settled), Some(&attempt.to_string())],
    )?;
    Ok(())
}

/// Attempts, newest first.
pub(super) fn list(work: &mut Work<'_>, filter: &AttemptFilter) -> Result<Vec<AttemptRecord>, Fault> {
    let (sql, values) = query(filter);
    let values: Vec<_> = values.iter().map(|value| Some(value.as_str())).collect();
    work.query(&sql, &values)?.into_iter().map(read).collect()
}

/// Keys with more attempts than are kept.
pub(super) fn crowded(work: &mut Work<'_>, keep_per_key: u32) -> Result<Vec<Key>, Fault> {
    let rows = work.query(
        "SELECT task, partition FROM refrain.attempt GROUP BY task, partition HAVING pg_catalog.count(*) > \
         $1::text::bigint",
        &[Some(&keep_per_key.max(1).to_string())],
    )?;
    rows.into_iter()
        .map(|row| {
            let [task, partition] = of_row(row);
            Ok(stored::key(&task.unwrap_or_default(), partition.unwrap_or_default())?)
        })
        .collect()
}

/// Forgets at most `batch` attempts of these keys; returns how many.
pub(super) fn forget(work: &mut Work<'_>, keys: &[Key], keep_per_key: u32, batch: u32) -> Result<u64, Fault> {
    let names: Vec<[&str; 2]> = keys.iter().map(|key| [key.task.as_str(), key.partition.as_str()]).collect();
    let keys = serde_json::to_string(&names).map_err(|error| crate::stored::Unreadable::new("keys", error))?;
    work.change(
        "DELETE FROM refrain.attempt WHERE seq IN (SELECT old.seq FROM pg_catalog.json_array_elements($1::text::json) AS \
         name CROSS JOIN LATERAL (SELECT seq FROM refrain.attempt AS one WHERE one.task = name ->> 0 AND one.partition = \
         name ->> 1 AND one.settled AND one.seq < (SELECT kept.seq FROM refrain.attempt AS kept WHERE kept.task = name \
         ->> 0 AND kept.partition = name ->> 1 ORDER BY kept.seq DESC LIMIT 1 OFFSET $2::text::bigint) ORDER BY one.seq) \
         AS old LIMIT $3::text::bigint)",
        &[Some(&keys), Some(&(keep_per_key.max(1) - 1).to_string()), Some(&batch.max(1).to_string())],
    )
}

/// The attempt in the first nine columns.
pub(super) fn read(row: Row) -> Result<AttemptRecord, Fault> {
    let [task, partition, attempt, token, run, generation, process, started_at, ending] = of_row::<WIDTH>(row);
    let columns = AttemptColumns {
        task: task.unwrap_or_default(),
        partition: partition.unwrap_or_default(),
        attempt: attempt.unwrap_or_default(),
        token: token.and_then(|text| text.parse().ok()).unwrap_or_default(),
        run,
        generation: generation.and_then(|text| text.parse().ok()),
        process: process.unwrap_or_default(),
        started_at: started_at.unwrap_or_default(),
        ending,
    };
    Ok(columns.read()?)
}

/// A number of ours as the server's, which has a sign.
pub(super) fn number(value: u64) -> String {
    value.cast_signed().to_string()
}

/// With a whole key in the filter the key's own index is walked, else the table's, from its newest end.
fn query(filter: &AttemptFilter) -> (String, Vec<String>) {
    let mut sql = format!("SELECT {COLUMNS} FROM refrain.attempt AS attempt WHERE true");
    let mut values = Vec::new();
    let mut condition = |text: &str, value: String| {
        values.push(value);
        let _infallible = write!(sql, " AND {}", text.replace('?', &format!("${}::text", values.len())));
    };
    if let Some(task) = &filter.task {
        condition("attempt.task = ?", task.to_string());
    }
    if let Some(partition) = &filter.partition {
        condition("attempt.partition = ?", partition.clone());
    }
    if let Some(part) = &filter.id_part {
        // Ids are stored in lower case; `strpos` knows no wildcards.
        let part = part.to_ascii_lowercase();
        condition("(pg_catalog.strpos(attempt.attempt, ?) > 0 OR pg_catalog.strpos(attempt.run, ?) > 0)", part);
    }
    if filter.unfinished {
        sql.push_str(" AND NOT attempt.settled"); // no parameter: a partial index serves it
    }
    sql.push_str(" ORDER BY attempt.seq DESC");
    if let Some(limit) = filter.limit {
        let _infallible = write!(sql, " LIMIT {limit}");
    }
    (sql, values)
}
