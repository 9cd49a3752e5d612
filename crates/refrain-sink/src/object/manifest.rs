//! The manifest: which objects one attempt staged. It is written once, before the first of them, so that whatever an
//! attempt leaves behind is named; a head names it by key and digest.

use super::place::Place;
use refrain_core::{Error, ErrorKind, Guards, Origin, Result, SealedData, SlotAddress, StagingId};
use refrain_object::Bucket;
use serde::{Deserialize, Serialize};

/// The format of manifests.
const FORMAT: u32 = 1;

/// What an attempt staged (docs/FORMATS.md). Stable: readers may rely on `format`, `prefix` and `objects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// 1.
    pub format: u32,
    /// What readers name.
    pub location: String,
    /// Where the objects are: their names follow it. Ends with `/`.
    pub prefix: String,
    /// The objects, in the order of their names.
    pub objects: Vec<Listed>,
    /// What is written beside them for programs that know nothing of Refrain, in the same prefix; no part of the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub for_readers: Vec<Listed>,
    /// What they were made for: task, partition, run, attempt, output.
    pub provenance: serde_json::Value,
    /// Whose they are.
    pub owner: StagingId,
    /// What they come from: a later attempt of the same origin may take over what was never published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Whether they are being removed, so that nobody takes them over any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Listed {
    /// Its name, below the manifest's prefix.
    pub name: String,
    /// Size, in bytes.
    pub bytes: u64,
    /// Digest of its content, as `blake3:<hex>`.
    pub digest: String,
    /// The upload in parts that it came by, to be aborted if it never was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
}

/// How sealed data names its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reference {
    /// The manifest's key.
    pub(super) key: String,
    /// Digest of its text, as `blake3:<hex>`.
    pub(super) digest: String,
    /// Digest of the entity tags that a listing showed of objects which the task wrote itself, by which a look tells that
    /// one was written again. What an upload was answered is not compared: some stores list other tags (OBJ-05).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tags: Option<String>,
}

/// Digest of the entity tags of objects, by their names; nothing when one has none.
pub(super) fn tags_of<'t>(objects: &[Listed], tag: impl Fn(&str) -> Option<&'t str>) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    for object in objects {
        hasher.update(object.name.as_bytes()).update(&[0]).update(tag(&object.name)?.as_bytes()).update(&[0]);
    }
    Some(hasher.finalize().to_hex().to_string())
}

impl Manifest {
    pub(super) fn new(place: &Place, prefix: &str, objects: Vec<Listed>, guards: &Guards, owner: &StagingId) -> Self {
        Self {
            format: FORMAT,
            location: place.target.to_string(),
            prefix: place.target.at(prefix).to_string(),
            objects,
            for_readers: Vec::new(),
            provenance: serde_json::from_str(&guards.provenance).unwrap_or_default(),
            owner: owner.clone(),
            origin: guards.origin.clone(),
            removing: false,
        }
    }

    /// Digest of what readers see: names, sizes and contents.
    fn content_digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"refrain objects 1\0");
        for object in &self.objects {
            for part in [object.name.as_str(), &object.bytes.to_string(), &object.digest] {
                hasher.update(part.as_bytes()).update(&[0]);
            }
        }
        format!("blake3:{}", hasher.finalize().to_hex())
    }

    /// What is sealed, as a head says it.
    pub(super) fn sealed(&self, slot: &SlotAddress, reference: &Reference) -> Result<SealedData> {
        Ok(SealedData {
            slot: slot.clone(),
            staged: self.prefix.clone(),
            digest: self.content_digest(),
            bytes: self.objects.iter().map(|object| object.bytes).sum(),
            files: self.objects.len() as u64,
            rows: None,
            identity: reference.text()?,
        })
    }

    /// The manifest's text and how it is named by it.
    pub(super) fn write(&self, key: String) -> Result<(Vec<u8>, Reference)> {
        let text = serde_json::to_vec(self)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write a manifest").because(error))?;
        let digest = format!("blake3:{}", blake3::hash(&text).to_hex());
        Ok((text, Reference { key, digest, tags: None }))
    }

    /// Reads the manifest of sealed data; nothing when it is gone or is another one.
    pub(super) fn of(bucket: &Bucket, data: &SealedData) -> Result<Option<Self>> {
        let reference = Reference::of(data)?;
        let Some(object) = bucket.get(&reference.key)? else { return Ok(None) };
        if format!("blake3:{}", blake3::hash(&object.content).to_hex()) != reference.digest {
            return Ok(None);
        }
        Self::parse(&object.content, &reference.key).map(Some)
    }

    /// Reads the text of a manifest.
    pub(super) fn parse(text: &[u8], key: &str) -> Result<Self> {
        serde_json::from_slice(text)
            .map_err(|error| Error::corrupt(format!("the manifest `{key}` cannot be read: {error}")))
    }
}

impl Reference {
    pub(super) fn of(data: &SealedData) -> Result<Self> {
        serde_json::from_str(&data.identity)
            .map_err(|_| Error::corrupt(format!("the head of {} does not name a manifest", data.slot)))
    }

    fn text(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot name a manifest").because(error))
    }
}
