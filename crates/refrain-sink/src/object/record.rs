//! The record of a slot: one small object, one compare-and-set chain (PROTOCOL 2.3).

use super::place::Place;
use jiff::Timestamp;
use refrain_core::{Error, ErrorKind, Generation, Head, Result, SealedData, SlotAddress};
use refrain_object::{Bucket, Content, Object, Swapped, Version};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// The uploads in parts at the object's key that were begun for it, oldest first: one for each process that has carried
    /// it out. None is there any more when the intent is taken out of the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) uploads: Vec<String>,
}

impl Intent {
    /// Whether both are one intent, whatever was begun for it meanwhile.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.head.version == other.head.version
    }
}

/// A record as it was read or written, with the version that the next write expects; nothing where there was none.
#[derive(Clone, Debug)]
struct Standing(Option<(Record, Version)>);

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
    records: Mutex<HashMap<SlotAddress, Standing>>,
}

/// What of a record can be read whatever its format.
#[derive(Deserialize)]
struct Format {
    format: u32,
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

impl Standing {
    fn of(object: Option<&Object>, place: &Place) -> Result<Self> {
        let read = |object: &Object| Ok((Record::read(object, place)?, object.version.clone()));
        object.map(read).transpose().map(Self)
    }

    fn record(&self) -> Option<&Record> {
        self.0.as_ref().map(|(record, _)| record)
    }
}

impl Seen {
    /// Reads the record.
    pub(super) fn read(&self, bucket: &Bucket, place: &Place) -> Result<Option<Record>> {
        let standing = Standing::of(bucket.get(&place.head())?.as_ref(), place)?;
        self.note(place, standing.clone());
        Ok(standing.0.map(|(record, _)| record))
    }

    /// The record as it was seen last; read, if it never was.
    pub(super) fn guess(&self, bucket: &Bucket, place: &Place) -> Result<Option<Record>> {
        match self.seen(place) {
            Some(standing) => Ok(standing.record().cloned()),
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
        // What is written may rest on a guess, which the write puts to the test; what is answered must not.
        let mut guessed = self.seen(place).is_some();
        loop {
            let before = match self.seen(place) {
                Some(standing) => standing,
                None => Standing::of(bucket.get(&place.head())?.as_ref(), place)?,
            };
            match decide(before.record())? {
                Step::Answer(_) if guessed => {
                    guessed = false;
                    self.read(bucket, place)?;
                }
                Step::Answer(answer) => return Ok(answer),
                Step::Write(record, answer) => {
                    let writes = before.record().map_or(0, |record| record.writes) + 1;
                    let expected = before.0.as_ref().map(|(_, version)| version);
                    let swapped = bucket.swap(&place.head(), expected, &record.write(writes)?);
                    guessed = false;
                    match swapped.inspect_err(|_| self.forget(place))? {
                        Swapped::Done(version) => {
                            self.note(place, Standing(Some((Record { writes, ..*record }, version))));
                            return Ok(answer);
                        }
                        Swapped::Moved(object) => self.note(place, Standing::of(object.as_ref(), place)?),
                    }
                }
            }
        }
    }

    /// What was seen is not trusted any more.
    fn forget(&self, place: &Place) {
        self.records().remove(&place.slot());
    }

    fn seen(&self, place: &Place) -> Option<Standing> {
        self.records().get(&place.slot()).cloned()
    }

    fn note(&self, place: &Place, standing: Standing) {
        self.records().insert(place.slot(), standing);
    }

    fn records(&self) -> MutexGuard<'_, HashMap<SlotAddress, Standing>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
