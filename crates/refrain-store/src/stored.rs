//! What the stores of this crate write as text, whatever holds the text: records of keys, identities, attempts.

use refrain_core::{AttemptRecord, Ending, Generation, Key, KeyRecord, RunRecord, StoreIdentity, Token, Window};
use serde::{Deserialize, Serialize};

/// A key's record as it is stored. Fields that a later version added are kept.
#[derive(Default, PartialEq, Clone, Serialize, Deserialize)]
pub(crate) struct Stored {
    #[serde(flatten)]
    pub(crate) record: KeyRecord,
    #[serde(flatten)]
    extra: serde_json::Map<String, serde_json::Value>,
}

/// Fewer attempts of a key than this are all that there were: no store forgets any of so few.
pub(crate) const SURELY_ALL: usize = 50;

/// A stored text is not what this program writes.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Unreadable {
    /// Which text.
    pub(crate) what: String,
    /// What is wrong with it.
    pub(crate) source: Box<dyn std::error::Error + Send + Sync>,
}

/// The columns of an attempt, as they are stored.
pub(crate) struct AttemptColumns {
    pub(crate) task: String,
    pub(crate) partition: String,
    pub(crate) attempt: String,
    pub(crate) token: i64,
    pub(crate) run: Option<String>,
    pub(crate) generation: Option<i64>,
    pub(crate) process: String,
    pub(crate) started_at: String,
    pub(crate) ending: Option<String>,
}

impl Unreadable {
    pub(crate) fn new(what: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { what: what.into(), source: source.into() }
    }
}

impl Stored {
    pub(crate) fn read(key: &Key, text: &str) -> Result<Self, Unreadable> {
        serde_json::from_str(text).map_err(|error| Unreadable::new(format!("the record of `{key}`"), error))
    }

    pub(crate) fn text(&self, key: &Key) -> Result<String, Unreadable> {
        serde_json::to_string(self).map_err(|error| Unreadable::new(format!("the record of `{key}`"), error))
    }
}

/// Whether it is certain that nothing was ever published of a key: its first run is its only one, and every attempt is
/// known and ended without.
pub(crate) fn is_unpublished<'e>(
    run: Option<&RunRecord>,
    endings: impl ExactSizeIterator<Item = Option<&'e Ending>>,
) -> bool {
    let without = |ending: &Ending| ending.is_settled() && ending.window == Window::NothingPublished;
    run.is_none_or(|run| run.generation <= Generation::new(1))
        && (1..SURELY_ALL).contains(&endings.len())
        && endings.into_iter().all(|ending| ending.is_some_and(without))
}

impl AttemptColumns {
    pub(crate) fn read(self) -> Result<AttemptRecord, Unreadable> {
        let bad = |source: &dyn std::fmt::Display| Unreadable::new("an attempt", source.to_string());
        Ok(AttemptRecord {
            attempt: self.attempt.parse().map_err(|error| bad(&error))?,
            key: key(&self.task, self.partition)?,
            token: Token::new(self.token.cast_unsigned()),
            run: self.run.map(|text| text.parse().map_err(|error| bad(&error))).transpose()?,
            generation: self.generation.map(|number| Generation::new(number.cast_unsigned())),
            process: self.process,
            started_at: self.started_at.parse().map_err(|error| bad(&error))?,
            ending: self.ending.map(|text| serde_json::from_str(&text).map_err(|error| bad(&error))).transpose()?,
        })
    }
}

/// A key of its two columns.
pub(crate) fn key(task: &str, partition: String) -> Result<Key, Unreadable> {
    Ok(Key { task: task.parse().map_err(|error| Unreadable::new("a key", error))?, partition })
}

/// A store's identity of its two columns.
pub(crate) fn identity(store_id: &str, ancestors: &str) -> Result<StoreIdentity, Unreadable> {
    Ok(StoreIdentity {
        store_id: store_id.parse().map_err(|error| Unreadable::new("the identity", error))?,
        ancestors: serde_json::from_str(ancestors).map_err(|error| Unreadable::new("the identity", error))?,
    })
}

/// What a store replaces, as its column has it.
pub(crate) fn ancestors_to_text(identity: &StoreIdentity) -> Result<String, Unreadable> {
    serde_json::to_string(&identity.ancestors).map_err(|error| Unreadable::new("the identity", error))
}

/// An ending, as its column has it.
pub(crate) fn ending_to_text(ending: &Ending) -> Result<String, Unreadable> {
    serde_json::to_string(ending).map_err(|error| Unreadable::new("an ending", error))
}
