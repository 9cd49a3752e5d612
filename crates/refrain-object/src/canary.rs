//! A canary: small objects under a fresh name that show, before any work is done, whether a store keeps the promises that
//! a publication rests on (OBJ-04) and grants the rights that it needs (OBJ-11).

use crate::assemble::version_of;
use crate::bucket::{Bucket, PATIENCE, Version, path_of};
use crate::fault::Fault;
use crate::swap::Content;
use bytes::Bytes;
use object_store::{ObjectStore, PutMode, PutOptions, UpdateVersion};
use refrain_core::{Error, ErrorKind, Result};

/// How often it is tried out while answers are lost.
const TRIES: u32 = 3;

impl Bucket {
    /// Tries out, below a key that ends with `/`, everything that a publication and a state need: writing, creating only
    /// where nothing is, replacing only what was read, reading what was written, listing, uploads in parts, deleting.
    ///
    /// # Errors
    /// `unsupported` when the store ignores a condition; the store's own refusal, led by what was tried, when a right is
    /// missing.
    ///
    /// # Crash safety
    /// A canary that is left behind is a few bytes under `canary/`, which nothing reads.
    pub fn prove(&self, area: &str) -> Result<()> {
        self.repeatedly(|| self.try_out(area))
    }

    /// Tries out whether the request that makes an object of parts keeps a condition, one request after the other: it is
    /// what large single objects rest on.
    ///
    /// # Errors
    /// As [`Self::prove`].
    ///
    /// # Crash safety
    /// As [`Self::prove`]; an upload that is left behind has one byte.
    pub fn prove_parts(&self, area: &str) -> Result<()> {
        self.repeatedly(|| {
            let key = format!("{area}canary/{}", uuid::Uuid::new_v4());
            let proved = self.try_parts(&key);
            let deleted = self.delete(&key).map_err(|error| error.within("deleting an object"));
            proved.and(deleted)
        })
    }

    fn repeatedly(&self, try_out: impl Fn() -> Result<()>) -> Result<()> {
        for _ in 1..TRIES {
            match try_out() {
                // A lost answer, or one to a request that a layer between repeated, says nothing of the store.
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    tracing::info!(bucket = %self.root, %error, "trying it out again");
                }
                ended => return ended,
            }
        }
        try_out()
    }

    /// Tries whether an object may be written under this key, without writing one: an upload in parts needs the same right
    /// to begin, and is aborted at once. With Azure, where nothing is sent before the first part, this finds nothing.
    ///
    /// # Errors
    /// The store's own refusal when the right is missing.
    ///
    /// # Crash safety
    /// Dying inside leaves an upload without parts, for the bucket's own rule for unfinished ones.
    pub fn prove_writable(&self, key: &str) -> Result<()> {
        let begun = self.begin(key, u64::MAX)?;
        begun.map_or(Ok(()), |begun| self.abort(key, &begun))
    }

    fn try_out(&self, area: &str) -> Result<()> {
        let key = format!("{area}canary/{}", uuid::Uuid::new_v4());
        let proved = self.try_conditions(&key).and_then(|()| self.try_rights(area, &key));
        // Of two failures the first is told.
        let deleted = self.delete(&key).map_err(|error| error.within("deleting an object"));
        proved.and(deleted)
    }

    fn try_conditions(&self, key: &str) -> Result<()> {
        let first = self.try_put(key, "1", None, "creating an object")?;
        let Some(first) = first else {
            return Err(self.refuses("to create an object under a name that nobody has used"));
        };
        if self.try_put(key, "2", None, "creating an object twice")?.is_some() {
            return Err(self.ignores("creates an object that is there already (If-None-Match is ignored)"));
        }
        let read = self.get(key).map_err(|error| error.within("reading an object"))?;
        let read = read.filter(|object| object.content.as_ref() == b"1");
        let Some(read) = read else { return Err(self.ignores("does not show what was just written")) };
        if !read.version.is(&first) {
            return Err(self.ignores("tells another version to who reads than to who wrote"));
        }
        let Some(second) = self.try_put(key, "3", Some(&read.version), "replacing an object")? else {
            return Err(self.refuses("to replace the version that was just read"));
        };
        if self.try_put(key, "4", Some(&first), "replacing an old version")?.is_some() {
            return Err(self.ignores("replaces a version that is not there any more (If-Match is ignored)"));
        }
        let now = self.get(key)?.filter(|object| object.content.as_ref() == b"3" && object.version.is(&second));
        now.map(drop).ok_or_else(|| self.ignores("does not show what was just replaced"))
    }

    fn try_rights(&self, area: &str, key: &str) -> Result<()> {
        let (prefix, mut seen) = (format!("{area}canary/"), false);
        let listed = self.list(&prefix, |entry| {
            seen |= entry.key == key;
            Ok(())
        });
        listed.map_err(|error| error.within("listing objects"))?;
        if !seen {
            return Err(self.ignores("does not list what was just written"));
        }
        let parts = format!("{key}.parts");
        let begun = self.begin(&parts, u64::MAX).map_err(|error| error.within("beginning an upload in parts"))?;
        begun.map_or(Ok(()), |begun| {
            self.abort(&parts, &begun).map_err(|error| error.within("aborting an upload in parts"))
        })
    }

    fn try_parts(&self, key: &str) -> Result<()> {
        let Some(first) = self.try_put(key, "1", None, "creating an object")? else {
            return Err(self.refuses("to create an object under a name that nobody has used"));
        };
        if self.try_completion(key, None, "creating an object twice, in parts")?.is_some() {
            return Err(
                self.ignores("completes an upload over an object that is there already (If-None-Match is ignored)")
            );
        }
        let Some(second) = self.try_put(key, "2", Some(&first), "replacing an object")? else {
            return Err(self.refuses("to replace the version that was just written"));
        };
        if self.try_completion(key, Some(&first), "replacing an old version, in parts")?.is_some() {
            return Err(
                self.ignores("completes an upload over a version that is not the one it names (If-Match is ignored)")
            );
        }
        let Some(third) = self.try_completion(key, Some(&second), "replacing an object in parts")? else {
            return Err(self.refuses("to replace the version that was just written by an upload in parts"));
        };
        let now = self.head(key)?.filter(|now| now.version.is(&third) && now.write_id() == Some(key));
        now.map(drop).ok_or_else(|| self.ignores("does not show what an upload in parts has just replaced"))
    }

    /// Completes an upload of one byte, whose id is the key; nothing when the condition was refused.
    fn try_completion(&self, key: &str, expected: Option<&Version>, what: &str) -> Result<Option<Version>> {
        let content = Content::in_parts(key.to_owned(), Vec::new());
        let begun = self.begin_in_parts(key, &content).map_err(|error| error.within(what))?;
        let parts = self.put_only_part(key, &begun, b"3");
        let completed = parts.and_then(|parts| {
            let completed = self.completion(key, expected, (&begun, &parts), |put| match put {
                Ok(put) => Ok(Some(version_of(put))),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(None),
                Err(error) => Err(error),
            });
            completed.map_err(|fault| match fault {
                // Completed already, by a request that a layer between repeated.
                Fault::Missing => self.refuses("to complete an upload that was just begun"),
                fault => fault.into_error(&self.address(key)),
            })
        });
        if !matches!(completed, Ok(Some(_))) {
            self.abort(key, &begun).map_err(|error| error.within("aborting an upload in parts"))?;
        }
        completed.map_err(|error| error.within(what))
    }

    /// Writes; nothing when the condition was refused.
    fn try_put(
        &self,
        key: &str,
        content: &'static str,
        expected: Option<&Version>,
        what: &str,
    ) -> Result<Option<Version>> {
        let address = self.address(key);
        let path = path_of(&address)?;
        let mode = match expected {
            None => PutMode::Create,
            Some(version) => {
                PutMode::Update(UpdateVersion { e_tag: version.e_tag.clone(), version: version.version.clone() })
            }
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        let client = self.client.clone();
        let payload = Bytes::from_static(content.as_bytes());
        let put = self.once(&address, PATIENCE, async move {
            match client.objects.put_opts(&path, payload.into(), options).await {
                Ok(put) => Ok(Some(Version { e_tag: put.e_tag, version: put.version })),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        put.map_err(|fault: Fault| fault.into_error(&address).within(what))
    }

    fn refuses(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("the store of `{}` refuses {what}", self.root.bucket))
            .hint("repeat the call; if it stays so, use a store with conditional writes (docs/OBJECTS.md lists them)")
    }

    fn ignores(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unsupported, format!("the store of `{}` {what}", self.root.bucket)).hint(
            "two attempts would overwrite each other there; use a store with conditional writes (docs/OBJECTS.md lists them)",
        )
    }
}
