//! The record of a slot: one small object, one compare-and-set chain (PROTOCOL 2.3).

use super::place::Place;
use jiff::Timestamp;
use refrain_core::{Error, ErrorKind, Generation, Head, Result, SealedData, SlotAddress};
use refrain_object::{Bucket, Content, Object, Swapped, Version};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The format of records, which grows when older programs would misread a newer one.
const FORMAT: u32 = 1;

/// What the slot's object holds (docs/FORMATS.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) format: u32,
    /// Counts the writes, so that no content ever repeats: an entity tag may be a digest of the content alone (OBJ-05).
    pub(super) writes: u64,
    pub(super) head: Head,
    /// The published object as the store calls it; nothing for a prefix, which no reader lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) published: Option<Tag>,
    /// Replaced versions, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) kept: Vec<Kept>,
    /// What is being published, for a single object: whoever comes next carries it to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) intent: Option<Box<Intent>>,
}

/// An object's version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tag {
    e_tag: Option<String>,
    version: Option<String>,
}

/// A version that was replaced and can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) generation: Generation,
    pub(super) data: SealedData,
    pub(super) replaced_at: Timestamp,
    /// Whether a person changed it before it was replaced.
    #[serde(default)]
    pub(super) edited: bool,
}

/// A single object that is being replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    /// The record's head once it has landed.
    pub(super) head: Head,
    /// What the object must be for it to land; nothing when there is none.
    pub(super) replaces: Option<Tag>,
    /// The record's replaced versions once it has landed.
    pub(super) kept: Vec<Kept>,
}

/// A record as it was read or written, with the version that the next write expects.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) record: Record,
    version: Version,
}

/// What is to be done with a record.
pub(super) enum Step<T> {
    /// Nothing more.
    Answer(T),
    /// Write it. If another write came first, the question is asked again.
    Write(Box<Record>, T),
}

/// The records that were seen last. A guess of what stands there, which a write puts to the test.
#[derive(Debug, Default)]
pub(super) struct Seen {
    records: Mutex<HashMap<SlotAddress, Option<Standing>>>,
}

impl Record {
    /// The first record of a slot.
    pub(super) fn new(head: Head) -> Self {
        Self { format: FORMAT, writes: 0, head, published: None, kept: Vec::new(), intent: None }
    }

    /// The same with another head.
    pub(super) fn with(&self, head: Head) -> Self {
        Self { head, ..self.clone() }
    }

    fn read(object: &Object, place: &Place) -> Result<Self> {
        let corrupt = |what: String| {
            Error::corrupt(format!("the record of {} ({}) cannot be read: {what}", place.target, place.head()))
                .hint("put an earlier version of that object back, if the bucket keeps them")
        };
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let format: Format = serde_json::from_slice(&object.content).map_err(|error| corrupt(error.to_string()))?;
        if format.format > FORMAT {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the record of {} has format {}, this program knows {FORMAT}", place.target, format.format),
            )
            .hint("use the newer program everywhere"));
        }
        serde_json::from_slice(&object.content).map_err(|error| corrupt(error.to_string()))
    }

    fn write(&self, writes: u64) -> Result<Content> {
        let record = Self { writes, ..self.clone() };
        let text = serde_json::to_vec(&record)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write a slot's record").because(error))?;
        Ok(Content::unique(text))
    }
}

impl From<&Version> for Tag {
    fn from(version: &Version) -> Self {
        Self { e_tag: version.e_tag.clone(), version: version.version.clone() }
    }
}

impl From<&Tag> for Version {
    fn from(tag: &Tag) -> Self {
        Self { e_tag: tag.e_tag.clone(), version: tag.version.clone() }
    }
}

impl Seen {
    /// Reads the record.
    pub(super) fn read(&self, bucket: &Bucket, place: &Place) -> Result<Option<Record>> {
        let standing = bucket.get(&place.head())?.map(|object| standing(&object, place)).transpose()?;
        self.note(place, standing.clone());
        Ok(standing.map(|standing| standing.record))
    }

    /// The record as it was seen last; read, if it never was.
    pub(super) fn guess(&self, bucket: &Bucket, place: &Place) -> Result<Option<Record>> {
        let seen = self.seen(place);
        match seen {
            Some(standing) => Ok(standing.map(|standing| standing.record)),
            None => self.read(bucket, place),
        }
    }

    /// Asks what is to be done with the record and does it, again with what stands there when another write came first.
    ///
    /// # Errors
    /// `unknown` when it is open whether it was written.
    ///
    /// # Crash safety
    /// One conditional write.
    pub(super) fn change<T>(
        &self,
        bucket: &Bucket,
        place: &Place,
        mut decide: impl FnMut(Option<&Record>) -> Result<Step<T>>,
    ) -> Result<T> {
        // The first decision may rest on a guess; an answer must not.
        let mut guessed = self.seen(place).is_some();
        if !guessed {
            self.read(bucket, place)?;
        }
        loop {
            let before = self.seen(place).flatten();
            match decide(before.as_ref().map(|standing| &standing.record))? {
                Step::Answer(_) if guessed => {
                    guessed = false;
                    self.read(bucket, place)?;
                }
                Step::Answer(answer) => return Ok(answer),
                Step::Write(record, answer) => {
                    let writes = before.as_ref().map_or(0, |standing| standing.record.writes) + 1;
                    let content = record.write(writes)?;
                    let expected = before.as_ref().map(|standing| &standing.version);
                    let swapped = bucket.swap(&place.head(), expected, &content).inspect_err(|_| self.forget(place))?;
                    guessed = false;
                    match swapped {
                        Swapped::Done(version) => {
                            let record = Record { writes, ..*record };
                            self.note(place, Some(Standing { record, version }));
                            return Ok(answer);
                        }
                        Swapped::Moved(object) => {
                            let now = object.map(|object| standing(&object, place)).transpose()?;
                            self.note(place, now);
                        }
                    }
                }
            }
        }
    }

    /// What was seen is not trusted any more.
    pub(super) fn forget(&self, place: &Place) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).remove(&place.slot());
    }

    fn seen(&self, place: &Place) -> Option<Option<Standing>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).get(&place.slot()).cloned()
    }

    fn note(&self, place: &Place, standing: Option<Standing>) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).insert(place.slot(), standing);
    }
}

fn standing(object: &Object, place: &Place) -> Result<Standing> {
    Ok(Standing { record: Record::read(object, place)?, version: object.version.clone() })
}
