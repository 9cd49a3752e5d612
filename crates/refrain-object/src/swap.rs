//! The one write that decides: an object is replaced only if it is still the one that was read, and whatever the answer
//! was, or that there was none, it is known afterwards whose content stands there.
//!
//! What stands is known by the content alone, or by an id in its metadata: so it must differ from everything that was or
//! will be written there. A store may answer a write that it carried out with 412 or 409 because a layer between repeated
//! it (OBJ-01), with 503, or not at all, and may carry it out after that.

use crate::bucket::{Bucket, Object, PATIENCE, Version, path_of};
use crate::fault::Fault;
use bytes::Bytes;
use object_store::{Attribute, Attributes, ObjectStore, PutMode, PutOptions, UpdateVersion};
use refrain_core::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// For how long a write whose answer is open is sent again.
const RESOLVE: Duration = Duration::from_secs(20);

/// The first pause between tries; each further one is half as long again, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(50);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often a store may refuse a write whose condition holds.
const STUBBORN: u32 = 8;

/// The metadata that carries a write's id; Azure takes letters, digits and `_` alone, and some proxies drop a `_`.
const WRITE_ID: &str = "refrainwrite";

/// What is written.
#[derive(Clone, Debug)]
pub struct Content {
    /// The bytes.
    pub bytes: Bytes,
    /// What is attached to them.
    pub metadata: Vec<(&'static str, String)>,
    id: Option<String>,
}

/// How a conditional write ended.
#[derive(Clone, Debug)]
pub enum Swapped {
    /// The content stands there, under this version; or it did, and was read.
    Done(Version),
    /// Something else stands there, or nothing: this write has not been carried out and cannot be any more, or another one
    /// came after it.
    Moved(Option<Object>),
}

/// How a write that decides ended.
#[derive(Debug)]
pub(crate) enum Decided {
    /// As every conditional write.
    Swapped(Swapped),
    /// What is expected stands there, and the store knows no place for what was sent; as an error.
    Nowhere(Error),
}

impl Content {
    /// A small object that nobody will ever write again: it has a fresh id within.
    pub fn unique(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), metadata: Vec::new(), id: None }
    }

    /// Any object; the id in its metadata tells this write from others.
    pub fn named(bytes: impl Into<Bytes>, id: String, mut metadata: Vec<(&'static str, String)>) -> Self {
        metadata.push((WRITE_ID, id.clone()));
        Self { bytes: bytes.into(), metadata, id: Some(id) }
    }

    fn is_in(&self, object: &Object) -> bool {
        match &self.id {
            Some(id) => object.write_id() == Some(id),
            None => object.content == self.bytes,
        }
    }

    /// An object whose bytes go up in parts.
    pub fn in_parts(id: String, metadata: Vec<(&'static str, String)>) -> Self {
        Self::named(Bytes::new(), id, metadata)
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        for (name, value) in &self.metadata {
            attributes.insert(Attribute::Metadata((*name).into()), value.clone().into());
        }
        attributes
    }
}

impl Object {
    /// The id of the write that it came by, if it was a named one.
    pub fn write_id(&self) -> Option<&str> {
        self.metadata.get(WRITE_ID).map(String::as_str)
    }
}

impl Bucket {
    /// Writes an object if it is still of the version that was read; with no version, if there is none.
    ///
    /// # Errors
    /// `unknown` when it may have been written, or may still be: the same call decides it later. Every other kind means
    /// that it was not written.
    ///
    /// # Crash safety
    /// Readers see the old or the new object, whole; the store decides.
    pub fn swap(&self, key: &str, expected: Option<&Version>, content: &Content) -> Result<Swapped> {
        match self.decide(key, expected, content, || self.send(key, expected, content))? {
            Decided::Swapped(swapped) => Ok(swapped),
            Decided::Nowhere(error) => Err(error),
        }
    }

    /// Sends a write that decides until it is known what became of it.
    pub(crate) fn decide(
        &self,
        key: &str,
        expected: Option<&Version>,
        content: &Content,
        send: impl Fn() -> Result<Version, Fault>,
    ) -> Result<Decided> {
        let address = self.address(key);
        let until = Instant::now() + RESOLVE;
        let (mut pause, mut refused) = (PAUSE, 0);
        // An earlier request of this call may have been carried out, or may still be.
        let mut open = false;
        loop {
            let mut nowhere = false;
            let error = match send() {
                Ok(version) => return Ok(Decided::Swapped(Swapped::Done(version))),
                Err(Fault::Missing) => {
                    nowhere = true;
                    Error::invalid(format!("there is no place for {address}"))
                }
                Err(Fault::Refused(error)) if !open => return Err(error),
                Err(Fault::Refused(error)) => error,
                Err(Fault::Doubt(error)) => {
                    open = true;
                    error
                }
            };
            let standing = match self.look(key, content) {
                Ok(standing) => standing,
                Err(_) if Instant::now() < until => {
                    self.pause(&mut pause, &error);
                    continue;
                }
                Err(_) => return Err(unknown(&error)),
            };
            if let Some(object) = standing.as_ref().filter(|object| content.is_in(object)) {
                return Ok(Decided::Swapped(Swapped::Done(object.version.clone())));
            }
            let unmoved = match (&standing, expected) {
                (None, None) => true,
                (Some(object), Some(version)) => object.version.is(version),
                _ => false,
            };
            if !unmoved {
                return Ok(Decided::Swapped(Swapped::Moved(standing)));
            }
            if nowhere {
                return Ok(Decided::Nowhere(if open { unknown(&error) } else { error }));
            }
            refused += 1;
            if refused >= STUBBORN || Instant::now() >= until {
                return Err(if open { unknown(&error) } else { error });
            }
            self.pause(&mut pause, &error);
        }
    }

    fn send(&self, key: &str, expected: Option<&Version>, content: &Content) -> Result<Version, Fault> {
        let address = self.address(key);
        let path = path_of(&address).map_err(Fault::Refused)?;
        let mode = match expected {
            None => PutMode::Create,
            Some(version) => {
                PutMode::Update(UpdateVersion { e_tag: version.e_tag.clone(), version: version.version.clone() })
            }
        };
        let options = PutOptions { mode, attributes: content.attributes(), ..PutOptions::default() };
        let (client, payload) = (self.client.clone(), content.bytes.clone());
        let put = self
            .once(&address, PATIENCE, async move { client.objects.put_opts(&path, payload.into(), options).await })?;
        Ok(Version { e_tag: put.e_tag, version: put.version })
    }

    fn look(&self, key: &str, content: &Content) -> Result<Option<Object>> {
        if content.id.is_some() { self.head(key) } else { self.get(key) }
    }

    fn pause(&self, pause: &mut Duration, error: &Error) {
        tracing::info!(rule = "5.11", bucket = %self.root, %error, "the write is open: sending it again");
        std::thread::sleep(*pause);
        *pause = (*pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

fn unknown(error: &Error) -> Error {
    let mut unknown = Error::new(ErrorKind::Unknown, format!("it is open whether it was written: {error}"));
    unknown.hint.clone_from(&error.hint);
    unknown
}
