//! Watermarks: the bound under which a task's keys are forgotten (PROTOCOL 12).

use super::attempts::number;
use super::fault::Fault;
use super::work::{Work, columns, of_row};
use crate::stored::{Stored, Unreadable};
use refrain_core::{Foldable, Key, TaskName, Token, Watermark};
use std::collections::BTreeMap;

/// The watermark of a task.
pub(super) fn load(work: &mut Work<'_>, task: &TaskName) -> Result<Option<Watermark>, Fault> {
    let found = work.query(
        "SELECT through, ends_at, token::text, folded::text FROM refrain.watermark WHERE task = $1::text",
        &[Some(task.as_str())],
    )?;
    let [Some(through), Some(ends_at), Some(token), Some(folded)] = columns(found) else { return Ok(None) };
    let bad =
        |source: &dyn std::fmt::Display| Unreadable::new(format!("the watermark of `{task}`"), source.to_string());
    Ok(Some(Watermark {
        through,
        ends_at: ends_at.parse().map_err(|error| bad(&error))?,
        token_floor: Token::new(token.parse::<i64>().map_err(|error| bad(&error))?.cast_unsigned()),
        folded: folded.parse::<i64>().map_err(|error| bad(&error))?.cast_unsigned(),
    }))
}

/// Forgets the keys that are as they were seen, and raises the watermark over them; returns those that stay.
pub(super) fn fold(work: &mut Work<'_>, task: &TaskName, keys: &[Foldable]) -> Result<Vec<String>, Fault> {
    // Two who fold take turns; whoever attempts a key meanwhile waits for its row alone.
    work.simple("LOCK TABLE refrain.watermark IN SHARE ROW EXCLUSIVE MODE")?;
    let rows = locked(work, task, keys)?;
    let mut watermark = load(work, task)?;
    let (mut stay, mut gone) = (Vec::new(), Vec::new());
    for seen in keys {
        let Some(row) = rows.get(&seen.partition) else { continue };
        if row.is_as_seen(seen) {
            watermark = Some(Watermark::raised(watermark, seen, row.stored.record.last_token));
            gone.push(seen.partition.as_str());
        } else {
            stay.push(seen.partition.clone());
        }
    }
    if let Some(watermark) = watermark.filter(|_| !gone.is_empty()) {
        let gone = json(&gone)?;
        for table in ["attempt", "key"] {
            work.change(
                &format!(
                    "DELETE FROM refrain.{table} WHERE task = $1::text AND partition IN (SELECT \
                     pg_catalog.json_array_elements_text($2::text::json))"
                ),
                &[Some(task.as_str()), Some(&gone)],
            )?;
        }
        save(work, task, &watermark)?;
    }
    Ok(stay)
}

/// A key's row, locked, with what decides whether it may be forgotten.
struct Row {
    stored: Stored,
    last_attempt: Option<String>,
    settled: bool,
}

impl Row {
    fn is_as_seen(&self, seen: &Foldable) -> bool {
        let record = &self.stored.record;
        record.lease.is_none()
            && self.settled
            && record.run.as_ref().map(|run| run.run_id) == seen.run
            && self.last_attempt == seen.last_attempt.map(|attempt| attempt.to_string())
    }
}

/// The rows of these keys by partition, locked in one order, so that two of us never wait for each other. A key that is
/// gone has none.
fn locked(work: &mut Work<'_>, task: &TaskName, keys: &[Foldable]) -> Result<BTreeMap<String, Row>, Fault> {
    let names: Vec<_> = keys.iter().map(|key| key.partition.as_str()).collect();
    let names = json(&names)?;
    work.query(
        "SELECT partition FROM refrain.key WHERE task = $1::text AND partition IN (SELECT \
         pg_catalog.json_array_elements_text($2::text::json)) ORDER BY partition FOR UPDATE",
        &[Some(task.as_str()), Some(&names)],
    )?;
    // Asked again, now that nobody can lease them: the first answer may show an attempt less.
    let rows = work.query(
        "SELECT key.partition, key.record, (SELECT one.attempt FROM refrain.attempt AS one WHERE one.task = key.task AND \
         one.partition = key.partition ORDER BY one.seq DESC LIMIT 1), (NOT EXISTS (SELECT FROM refrain.attempt AS one \
         WHERE one.task = key.task AND one.partition = key.partition AND NOT one.settled))::text FROM refrain.key AS key \
         WHERE key.task = $1::text AND key.partition IN (SELECT pg_catalog.json_array_elements_text($2::text::json))",
        &[Some(task.as_str()), Some(&names)],
    )?;
    rows.into_iter()
        .map(|row| {
            let [partition, record, last_attempt, settled] = of_row(row);
            let key = Key { task: task.clone(), partition: partition.unwrap_or_default() };
            let stored = Stored::read(&key, &record.unwrap_or_default())?;
            Ok((key.partition, Row { stored, last_attempt, settled: settled.as_deref() == Some("true") }))
        })
        .collect()
}

pub(super) fn save(work: &mut Work<'_>, task: &TaskName, watermark: &Watermark) -> Result<(), Fault> {
    let Watermark { through, ends_at, token_floor, folded } = watermark;
    work.change(
        "INSERT INTO refrain.watermark (task, through, ends_at, token, folded) VALUES ($1::text, $2::text, $3::text, \
         $4::text::bigint, $5::text::bigint) ON CONFLICT (task) DO UPDATE SET through = excluded.through, ends_at = \
         excluded.ends_at, token = excluded.token, folded = excluded.folded",
        &[
            Some(task.as_str()),
            Some(through),
            Some(&ends_at.to_string()),
            Some(&number(token_floor.get())),
            Some(&number(*folded)),
        ],
    )?;
    Ok(())
}

fn json(names: &[&str]) -> Result<String, Fault> {
    Ok(serde_json::to_string(names).map_err(|error| Unreadable::new("names of partitions", error))?)
}
