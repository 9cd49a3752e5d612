//! Which homes share a store in a database.

use super::PostgresStore;
use super::fault::Fault;
use super::work::{Work, columns, of_row};
use crate::homes::{Entry, HomeRecord, Known, Stranger, judge};
use crate::stored::Unreadable;
use jiff::Timestamp;
use refrain_core::Result;
use refrain_postgres::Row;

impl PostgresStore {
    /// Lets a home work with this store, or tells whose store it is.
    ///
    /// A newcomer is let in if the store knows no home yet, or one that declares the same: every task that both have is
    /// written alike, or reads and publishes at the same places, and there is such a task. A home without tasks cannot be
    /// taken for another's, and is looked at again once it has some.
    ///
    /// # Errors
    /// `Unavailable`: the server cannot be reached.
    ///
    /// # Crash safety
    /// One transaction. Repeating it changes nothing.
    pub fn admit(&self, home: &HomeRecord, entry: Entry) -> Result<Option<Stranger>> {
        let now = self.options.clock.now();
        self.transact(|work| admit(work, home, entry, now))
    }
}

fn admit(work: &mut Work<'_>, home: &HomeRecord, entry: Entry, now: Timestamp) -> Result<Option<Stranger>, Fault> {
    if home.tasks.is_empty() || is_known(work, home)? {
        return Ok(None);
    }
    // Of two that come at once, one is looked at first.
    work.simple("LOCK TABLE refrain.home IN SHARE ROW EXCLUSIVE MODE")?;
    if is_known(work, home)? {
        return Ok(None);
    }
    if entry == Entry::Newcomer {
        let known = work.query("SELECT tasks, place FROM refrain.home ORDER BY joined_at DESC", &[])?;
        let known = known.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if let Some(stranger) = judge(home, &known) {
            return Ok(Some(stranger));
        }
    }
    let tasks = serde_json::to_string(&home.tasks).map_err(|error| Unreadable::new("the tasks of a home", error))?;
    work.change(
        "INSERT INTO refrain.home (digest, tasks, place, joined_at) VALUES ($1::text, $2::text, $3::text, $4::text) ON \
         CONFLICT (digest) DO NOTHING",
        &[Some(&home.digest), Some(&tasks), Some(&home.place), Some(&now.to_string())],
    )?;
    Ok(None)
}

fn is_known(work: &mut Work<'_>, home: &HomeRecord) -> Result<bool, Fault> {
    let [digest] =
        columns(work.query("SELECT digest FROM refrain.home WHERE digest = $1::text", &[Some(&home.digest)])?);
    Ok(digest.is_some())
}

fn read(row: Row) -> Result<Known, Fault> {
    let [tasks, place] = of_row(row);
    let tasks = serde_json::from_str(&tasks.unwrap_or_default())
        .map_err(|error| Unreadable::new("the tasks of a home", error))?;
    Ok((tasks, place.unwrap_or_default()))
}
