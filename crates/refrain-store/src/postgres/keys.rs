//! The record of a key: locked, changed by core's rules, saved, all in one transaction.

use super::attempts::{self, number};
use super::fault::Fault;
use super::identity;
use super::watermarks;
use super::work::{Work, columns, of_row};
use crate::stored::{self, Stored};
use jiff::Timestamp;
use refrain_core::{
    Acquired, Generation, Holder, Key, KeyRecord, KeyState, KeySummary, LeaseRequest, OpenRun, RunProposal, RunRecord,
    Shown, StoreIdentity, StoreTime, TaskName, Token, Want,
};
use refrain_postgres::Row;

/// Keys read at a time by a walk over all of them.
const BATCH: u32 = 512;

/// The moment by the server's clock, in milliseconds. It is read after the row's lock was waited for: a lease is judged
/// by the moment of the judgement.
pub(super) const CLOCK: &str =
    "pg_catalog.floor(EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint::text";

/// The server's clock outlives the server: the holders live on other hosts.
const EPOCH: &str = "server";

/// A key's row, locked until the transaction ends.
struct Locked {
    identity: StoreIdentity,
    now: StoreTime,
    stored: Option<Stored>,
}

pub(super) fn acquire(
    work: &mut Work<'_>,
    key: &Key,
    request: &LeaseRequest,
    started_at: Timestamp,
) -> Result<Acquired, Fault> {
    let (now, mut stored) = lock_or_begin(work, key)?;
    match stored.record.acquire(&now, request) {
        Err(lease) => Ok(Acquired::Held(lease)),
        Ok(granted) => {
            let attempt = [
                Some(request.attempt.to_string()),
                Some(number(granted.token.get())),
                Some(request.process.clone()),
                Some(started_at.to_string()),
            ];
            let row = row_of(key, &stored)?;
            let values: Vec<_> = row.iter().chain(&attempt).map(Option::as_deref).collect();
            work.change_with(
                &format!("saved AS ({SAVE}),"),
                "INSERT INTO refrain.attempt AS known (attempt, task, partition, token, process, started_at, settled) \
                 VALUES ($7::text, $1::text, $2::text, $8::text::bigint, $9::text, $10::text, false) ON CONFLICT \
                 (attempt) DO UPDATE SET token = excluded.token",
                &values,
            )?;
            Ok(Acquired::Granted(granted))
        }
    }
}

pub(super) fn renew(work: &mut Work<'_>, key: &Key, holder: &Holder, ttl_ms: u64) -> Result<bool, Fault> {
    let Some((now, mut stored)) = lock_for(work, key, holder)? else {
        return Ok(false);
    };
    if stored.record.renew(&now, holder, ttl_ms).is_err() {
        return Ok(false);
    }
    save(work, key, &stored)?;
    Ok(true)
}

/// `given` is the token that an earlier try gave to this holder, if its answer was lost.
pub(super) fn raise(
    work: &mut Work<'_>,
    key: &Key,
    holder: &Holder,
    floor: Token,
    given: Option<Token>,
) -> Result<Option<Token>, Fault> {
    let Some((_, mut stored)) = lock_for(work, key, holder)? else {
        return Ok(None);
    };
    let Ok(token) = stored.record.raise(holder, floor) else {
        let lease = stored.record.lease.as_ref().filter(|lease| lease.attempt == holder.attempt);
        return Ok(lease.map(|lease| lease.token).filter(|token| given == Some(*token)));
    };
    save(work, key, &stored)?;
    attempts::raise(work, holder.attempt, token)?;
    Ok(Some(token))
}

/// Ends the holder's lease; does nothing when somebody else has it, or nobody.
pub(super) fn release(work: &mut Work<'_>, key: &Key, holder: &Holder) -> Result<(), Fault> {
    if let Some((_, mut stored)) = lock_for(work, key, holder)?
        && stored.record.release(holder).is_ok()
    {
        save(work, key, &stored)?;
    }
    Ok(())
}

pub(super) fn open_run(
    work: &mut Work<'_>,
    key: &Key,
    holder: &Holder,
    want: Want,
    seen: Option<&RunRecord>,
    proposal: Option<&RunProposal>,
) -> Result<Option<OpenRun>, Fault> {
    let Some((_, mut stored)) = lock_for(work, key, holder)? else {
        return Ok(None);
    };
    let before = stored.record.run.clone();
    let Ok(answer) = stored.record.open_run(holder, want, seen, proposal) else {
        return Ok(None);
    };
    if stored.record.run != before {
        save(work, key, &stored)?;
    }
    if let OpenRun::Run(run) = &answer {
        attempts::open(work, holder.attempt, run)?;
    }
    Ok(Some(answer))
}

/// Takes what a head shows of a key; false when the row knows better.
pub(super) fn learn(work: &mut Work<'_>, shown: &Shown) -> Result<bool, Fault> {
    let key = &shown.attempt.key;
    let (_, mut stored) = lock_or_begin(work, key)?;
    if !stored.record.learn(&shown.run) {
        return Ok(false);
    }
    save(work, key, &stored)?;
    attempts::learn(work, shown)?;
    Ok(true)
}

/// Voids all leases: their holders belong to the store that this one replaces (8.1).
pub(super) fn void_leases(work: &mut Work<'_>) -> Result<(), Fault> {
    // Nobody is granted a lease meanwhile by who still saw the former identity.
    work.simple("LOCK TABLE refrain.key IN EXCLUSIVE MODE")?;
    for row in work.query("SELECT task, partition, record FROM refrain.key WHERE leased", &[])? {
        let [task, partition, record] = of_row(row);
        let key = stored::key(&task.unwrap_or_default(), partition.unwrap_or_default())?;
        let mut stored = Stored::read(&key, &record.unwrap_or_default())?;
        stored.record.lease = None;
        save(work, &key, &stored)?;
    }
    Ok(())
}

/// What is known of one key.
pub(super) fn state(work: &mut Work<'_>, key: &Key) -> Result<Option<KeyState>, Fault> {
    let sql = format!(
        "SELECT {}, key.record FROM refrain.key AS key LEFT JOIN LATERAL ({NEWEST}) AS attempt ON true WHERE key.task = \
         $1::text AND key.partition = $2::text",
        attempts::COLUMNS
    );
    let Some(mut row) = work.query(&sql, &[Some(key.task.as_str()), Some(&key.partition)])?.pop() else {
        return Ok(None);
    };
    let record = row.split_off(attempts::WIDTH).into_iter().next().flatten();
    let KeyRecord { lease, run, .. } = Stored::read(key, &record.unwrap_or_default())?.record;
    let last_attempt = row[0].is_some().then(|| attempts::read(row)).transpose()?;
    Ok(Some(KeyState { key: key.clone(), lease, run, last_attempt }))
}

/// The next keys after `after`, in order.
pub(super) fn summaries(
    work: &mut Work<'_>,
    task: Option<&TaskName>,
    after: Option<&Key>,
) -> Result<Vec<KeySummary>, Fault> {
    // The record's JSON is read only where it holds a lease; everything else has a column. The keys are picked before
    // their newest attempts are looked up, one by one in an index.
    let mut values = Vec::new();
    let mut condition = String::from("true");
    if let Some(task) = task {
        values.push(Some(task.as_str()));
        condition.push_str(" AND task = $1::text");
    }
    if let Some(after) = after {
        values.extend([Some(after.task.as_str()), Some(after.partition.as_str())]);
        let at = values.len();
        condition.push_str(&format!(" AND (task, partition) > (${}::text, ${at}::text)", at - 1));
    }
    let sql = format!(
        "SELECT {}, key.task, key.partition, key.generation::text, key.run, key.record FROM (SELECT task, partition, \
         generation, run, CASE WHEN leased THEN record END AS record FROM refrain.key WHERE {condition} ORDER BY task, \
         partition LIMIT {BATCH}) AS key LEFT JOIN LATERAL ({NEWEST}) AS attempt ON true ORDER BY key.task, \
         key.partition",
        attempts::COLUMNS
    );
    work.query(&sql, &values)?.into_iter().map(summary).collect()
}

/// The newest attempt of `key`.
const NEWEST: &str = "SELECT * FROM refrain.attempt AS one WHERE one.task = key.task AND one.partition = key.partition \
                      ORDER BY one.seq DESC LIMIT 1";

fn summary(mut row: Row) -> Result<KeySummary, Fault> {
    let [task, partition, generation, run, record] = of_row(row.split_off(attempts::WIDTH));
    let key = stored::key(&task.unwrap_or_default(), partition.unwrap_or_default())?;
    let lease = match record {
        Some(text) => Stored::read(&key, &text)?.record.lease,
        None => None,
    };
    let generation = generation.and_then(|text| text.parse::<i64>().ok());
    Ok(KeySummary {
        lease,
        generation: generation.map(|number| Generation::new(number.cast_unsigned())),
        run: run.map(|text| text.parse().map_err(|error| stored::Unreadable::new("a run", error))).transpose()?,
        last_attempt: row[0].is_some().then(|| attempts::read(row)).transpose()?,
        is_unreadable: false,
        key,
    })
}

/// The moment by the server's clock.
pub(super) fn now(work: &mut Work<'_>) -> Result<StoreTime, Fault> {
    let [now] = columns(work.query(&format!("SELECT {CLOCK}"), &[])?);
    Ok(moment(now.as_deref()))
}

fn moment(ms: Option<&str>) -> StoreTime {
    StoreTime { epoch: EPOCH.to_owned(), ms: ms.and_then(|ms| ms.parse().ok()).unwrap_or_default() }
}

/// The key's row with the store's identity and the moment at which the row was ours.
fn lock(work: &mut Work<'_>, key: &Key) -> Result<Locked, Fault> {
    let sql = format!(
        "WITH locked AS MATERIALIZED (SELECT record FROM refrain.key WHERE task = $1::text AND partition = $2::text FOR \
         UPDATE) SELECT store.format::text, store.store_id, store.ancestors, {CLOCK}, locked.record FROM refrain.store \
         LEFT JOIN locked ON true"
    );
    let rows = work.query(&sql, &[Some(key.task.as_str()), Some(&key.partition)])?;
    let [format, store_id, ancestors, now, record] = columns(rows);
    let identity = identity::of(format.as_deref(), store_id.as_deref(), ancestors.as_deref())?;
    let stored = record.map(|text| Stored::read(key, &text)).transpose()?;
    Ok(Locked { identity, now: moment(now.as_deref()), stored })
}

/// The row, unless the holder's lease is another store's: equal tokens of two stores mean nothing (1.5).
fn lock_for(work: &mut Work<'_>, key: &Key, holder: &Holder) -> Result<Option<(StoreTime, Stored)>, Fault> {
    let Locked { identity, now, stored } = lock(work, key)?;
    Ok(stored.filter(|_| identity.store_id == holder.store_id).map(|stored| (now, stored)))
}

/// The row of a key, which is begun if the store does not know it.
fn lock_or_begin(work: &mut Work<'_>, key: &Key) -> Result<(StoreTime, Stored), Fault> {
    loop {
        let Locked { now, stored, .. } = lock(work, key)?;
        if let Some(stored) = stored {
            return Ok((now, stored));
        }
        let mut fresh = Stored::default();
        let row = row_of(key, &fresh)?;
        let begun = work.change(
            "INSERT INTO refrain.key (task, partition, generation, run, leased, record) VALUES ($1::text, $2::text, \
             $3::text::bigint, $4::text, $5::text::boolean, $6::text) ON CONFLICT (task, partition) DO NOTHING",
            &row.each_ref().map(Option::as_deref),
        )?;
        if begun == 1 {
            // The key may have been folded. Whoever folded it has ended, for the row could be made: the watermark is read
            // after that, and the key's tokens go on above those it had (3.1).
            if let Some(watermark) = watermarks::load(work, &key.task)? {
                fresh.record.last_token = watermark.token_floor;
            }
            return Ok((now, fresh));
        }
        // Another attempt began it meanwhile.
    }
}

/// Saves a row that is locked: the values of [`row_of`].
const SAVE: &str = "UPDATE refrain.key SET generation = $3::text::bigint, run = $4::text, leased = $5::text::boolean, \
                    record = $6::text WHERE task = $1::text AND partition = $2::text";

pub(super) fn save(work: &mut Work<'_>, key: &Key, stored: &Stored) -> Result<(), Fault> {
    work.change(SAVE, &row_of(key, stored)?.each_ref().map(Option::as_deref))?;
    Ok(())
}

/// The columns of a key's row.
pub(super) fn row_of(key: &Key, stored: &Stored) -> Result<[Option<String>; 6], Fault> {
    let record = &stored.record;
    let leased = if record.lease.is_some() { "true" } else { "false" };
    Ok([
        Some(key.task.to_string()),
        Some(key.partition.clone()),
        record.run.as_ref().map(|run| number(run.generation.get())),
        record.run.as_ref().map(|run| run.run_id.to_string()),
        Some(leased.to_owned()),
        Some(stored.text(key)?),
    ])
}
