//! Which homes share a store in a bucket: one object lists those that were let in.

use super::place::Place;
use super::{BucketStore, names};
use crate::chance::fresh_nonce;
use crate::homes::{Entry, HomeRecord, Stranger, TaskRecord, judge};
use jiff::Timestamp;
use refrain_core::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The object: the newest home first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Homes {
    nonce: String,
    homes: Vec<Member>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    digest: String,
    tasks: BTreeMap<String, TaskRecord>,
    place: String,
    joined_at: Timestamp,
}

impl BucketStore {
    /// Lets a home work with this store, or tells whose store it is; as
    /// [`PostgresStore::admit`](crate::PostgresStore::admit).
    ///
    /// # Errors
    /// `Unavailable`: the object store cannot be reached.
    ///
    /// # Crash safety
    /// One write. Repeating it changes nothing.
    pub fn admit(&self, home: &HomeRecord, entry: Entry) -> Result<Option<Stranger>> {
        if home.tasks.is_empty() {
            return Ok(None);
        }
        let joined_at = self.options.clock.now();
        self.place.tried(|| admit(&self.place, home, entry, joined_at))
    }
}

fn admit(place: &Place, home: &HomeRecord, entry: Entry, joined_at: Timestamp) -> Result<Option<Stranger>> {
    loop {
        let standing = place.read_json::<Homes>(names::HOMES)?;
        let (version, mut homes) = standing.map_or((None, Homes::default()), |(version, homes)| (Some(version), homes));
        if homes.homes.iter().any(|known| known.digest == home.digest) {
            return Ok(None);
        }
        if entry == Entry::Newcomer {
            let known: Vec<_> = homes.homes.iter().map(|known| (known.tasks.clone(), known.place.clone())).collect();
            if let Some(stranger) = judge(home, &known) {
                return Ok(Some(stranger));
            }
        }
        let (digest, tasks, at) = (home.digest.clone(), home.tasks.clone(), home.place.clone());
        homes.homes.insert(0, Member { digest, tasks, place: at, joined_at });
        homes.nonce = fresh_nonce();
        if place.swap_json(names::HOMES, version.as_ref(), &homes)?.is_ok() {
            return Ok(None);
        }
    }
}
