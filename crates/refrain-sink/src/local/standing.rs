//! What stands at the target, compared with what the head says (PROTOCOL 13.2).

use super::problem::{look, problem};
use super::seal::Measured;
use super::site::Site;
use super::stat::Stat;
use super::{LocalKind, durable, hash_file};
use refrain_core::{Condition, Error, Head, Result};
use std::path::Path;

/// How closely a directory is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// By its root: the cost does not depend on the number of files.
    Root,
    /// Every entry, by what the kernel says of it.
    Entries,
}

/// What stands at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing.
    Nothing,
    /// What the head says.
    Ours(Stat),
    /// Something, although nothing was published.
    Foreign(Stat),
    /// Not what was published, and what differs.
    Drifted(Stat, String),
}

impl Site<'_> {
    pub(crate) fn standing(&self, head: Option<&Head>, depth: Depth) -> Result<Standing> {
        let Some(stat) = look(&self.target)? else {
            return Ok(Standing::Nothing);
        };
        let publication = head.and_then(|head| head.publication.as_ref());
        let Some((publication, data)) = publication.and_then(|it| Some((it, it.data_for(self.slot)?))) else {
            return Ok(Standing::Foreign(stat));
        };
        let difference = match self.kind() {
            LocalKind::File => crate::file::difference(data, &self.target, &stat)?,
            LocalKind::Directory => crate::directory::difference(self, publication, data, &stat, depth)?,
        };
        Ok(match difference {
            None => Standing::Ours(stat),
            Some(difference) => Standing::Drifted(stat, difference),
        })
    }

    pub(crate) fn condition(&self, head: Option<&Head>) -> Result<Condition> {
        let published = head.is_some_and(|head| head.publication.is_some());
        Ok(match self.standing(head, Depth::Entries)? {
            Standing::Nothing if published => Condition::Missing,
            Standing::Nothing => Condition::Absent,
            Standing::Ours(_) => Condition::Intact,
            // It was to be adopted: whoever takes the lock next publishes and keeps it aside.
            Standing::Foreign(_) if self.is_decided()? => Condition::Intact,
            Standing::Foreign(stat) => Condition::Foreign(format!(
                "`{}` is {} that Refrain did not publish",
                self.target.display(),
                stat.noun()
            )),
            Standing::Drifted(_, difference) => Condition::Drifted(difference),
        })
    }
}

impl Site<'_> {
    /// Whether what lies at the path is by its content what was sealed. Sizes come first: nothing is read in vain.
    pub(crate) fn holds(&self, path: &Path, stat: &Stat, sealed: &Measured) -> Result<bool> {
        match self.kind() {
            LocalKind::File => {
                Ok(stat.is_file() && stat.size == sealed.bytes && has_digest(path, stat.size, &sealed.digest)?)
            }
            LocalKind::Directory => Ok(stat.is_directory() && crate::directory::holds(path, sealed)?),
        }
    }
}

/// Whether a file has this digest. The only comparison that reads content; made when everything cheaper is in doubt.
pub(crate) fn has_digest(path: &Path, size: u64, digest: &str) -> Result<bool> {
    let file = durable::open_file(path).map_err(|error| problem("open", path, error))?;
    match hash_file(&file, size) {
        Ok(hash) => Ok(digest_text(&hash) == digest),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(problem("read", path, error)),
    }
}

/// A digest as records show it.
pub(crate) fn digest_text(hash: &blake3::Hash) -> String {
    format!("blake3:{}", hash.to_hex())
}

/// The sealed data's identity, which only this sink wrote.
pub(crate) fn identity_of(data: &refrain_core::SealedData) -> Result<super::Identity> {
    data.identity.parse().map_err(|error: String| Error::corrupt(format!("the record of `{}`: {error}", data.slot)))
}
