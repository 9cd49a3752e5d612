//! What is written beside the objects of a version for programs that know nothing of Refrain: on request, at the seal, into
//! the version's own prefix. No part of the content: it is named in the manifest, and neither listed for readers nor
//! digested with the rest.

use super::manifest::{Listed, Manifest};
use super::place::Place;
use crate::local::digest_text;
use refrain_core::{Error, ErrorKind, Result};
use refrain_object::{Bucket, Scheme};
use serde::{Deserialize, Serialize};

/// For whom a version of a prefix is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// Hive, Presto, Trino and Athena: the URLs of the objects, one a line, in `_symlink_format_manifest/manifest`
    /// (`SymlinkTextInputFormat`, <https://docs.aws.amazon.com/redshift/latest/dg/r_CREATE_EXTERNAL_TABLE.html>).
    Symlink,
    /// Whoever waits for `_SUCCESS`, which Hadoop's committers write when a job has ended.
    Success,
}

/// How a prefix is published, as an output's manner says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixManner {
    /// For whom, each once and in order.
    pub readers: Vec<Reader>,
}

impl Reader {
    /// Every reader.
    pub const ALL: [Self; 2] = [Self::Symlink, Self::Success];

    /// As refrain.toml names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symlink => "symlink",
            Self::Success => "success",
        }
    }

    /// What is written for it, below the version's prefix.
    const fn object(self) -> &'static str {
        match self {
            Self::Symlink => "_symlink_format_manifest/manifest",
            Self::Success => "_SUCCESS",
        }
    }
}

impl PrefixManner {
    /// The manner of these readers; nothing for none.
    pub fn of(readers: &[Reader]) -> Option<Self> {
        let mut readers = readers.to_vec();
        readers.sort_unstable();
        readers.dedup();
        (!readers.is_empty()).then_some(Self { readers })
    }

    /// As text, for [`refrain_core::OutputSlot::manner`].
    ///
    /// # Errors
    /// `internal`.
    pub fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the manner of a prefix").because(error))
    }

    pub(super) fn read(text: Option<&str>) -> Result<Self> {
        text.map_or(Ok(Self::default()), |text| {
            serde_json::from_str(text)
                .map_err(|error| Error::corrupt(format!("the manner of a prefix cannot be read: {error}")))
        })
    }

    /// The objects for the readers of a version whose content is listed, each with its text. What the task wrote for them
    /// itself is left as it is.
    ///
    /// # Errors
    /// `guard` when the task wrote what would have to be another text; `unsupported` where no such reader knows the URLs.
    pub(super) fn objects(&self, place: &Place, prefix: &str, content: &[Listed]) -> Result<Vec<(Listed, Vec<u8>)>> {
        let mut objects = Vec::new();
        for reader in &self.readers {
            let name = reader.object();
            let own = content.iter().any(|object| object.name == name);
            let text = match reader {
                Reader::Success if own => continue,
                Reader::Success => Vec::new(),
                Reader::Symlink if own => {
                    return Err(Error::guard(format!(
                        "the task wrote `{name}` for {}, which is made for readers",
                        place.target
                    ))
                    .hint("leave `symlink` out of `readers`, or let the task not write it"));
                }
                Reader::Symlink => symlinks(place, prefix, content)?,
            };
            let digest = digest_text(&blake3::hash(&text));
            objects.push((Listed { name: name.to_owned(), bytes: text.len() as u64, digest, upload: None }, text));
        }
        Ok(objects)
    }
}

/// Writes what a manifest names for readers.
///
/// # Crash safety
/// Repeating it writes the same.
pub(super) fn put(bucket: &Bucket, place: &Place, prefix: &str, manifest: &Manifest) -> Result<()> {
    let named = |reader: &Reader| manifest.for_readers.iter().any(|listed| listed.name == reader.object());
    let manner = PrefixManner { readers: Reader::ALL.into_iter().filter(named).collect() };
    for (listed, text) in manner.objects(place, prefix, &manifest.objects)? {
        bucket.put(&format!("{prefix}{}", listed.name), text)?;
    }
    Ok(())
}

/// The URLs of what readers see: names that begin with `_` or `.` are hidden from them
/// (<https://spark.apache.org/docs/latest/sql-data-sources-generic-options.html>).
fn symlinks(place: &Place, prefix: &str, content: &[Listed]) -> Result<Vec<u8>> {
    refuse_unknown(place.target.scheme).map_err(|error| error.within(place.target.to_string()))?;
    let seen = content.iter().filter(|object| !object.name.split('/').any(|part| part.starts_with(['_', '.'])));
    let lines = seen.map(|object| format!("{}\n", place.target.at(format!("{prefix}{}", object.name))));
    Ok(lines.collect::<String>().into_bytes())
}

fn refuse_unknown(scheme: Scheme) -> Result<()> {
    if scheme == Scheme::Azure {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "readers of symlink manifests name Azure's objects by abfss://",
        )
        .hint("leave `symlink` out of `readers`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PrefixManner, Reader};
    use crate::object::ObjectKind;
    use crate::object::manifest::Listed;
    use crate::object::place::Place;
    use refrain_object::Address;

    fn listed(name: &str) -> Listed {
        Listed { name: name.to_owned(), bytes: 1, digest: "blake3:x".to_owned(), upload: None }
    }

    fn place(url: &str) -> Place {
        let target = Address::parse(url).unwrap();
        let area = target.at("_refrain/");
        Place::new(ObjectKind::Prefix, target, area).unwrap()
    }

    #[test]
    fn a_symlink_manifest_names_what_readers_see() {
        let manner = PrefixManner::of(&[Reader::Success, Reader::Symlink, Reader::Success]).unwrap();
        assert_eq!(PrefixManner::read(Some(&manner.write().unwrap())).unwrap(), manner);
        let content = [listed("a=1/x.csv"), listed("_metadata"), listed("a=1/.crc"), listed("y.csv")];
        let objects = manner.objects(&place("s3://lake/d/"), "_refrain/data/d/v1-x/", &content).unwrap();
        let texts: Vec<_> =
            objects.iter().map(|(listed, text)| (listed.name.as_str(), str::from_utf8(text).unwrap())).collect();
        let urls = "s3://lake/_refrain/data/d/v1-x/a=1/x.csv\ns3://lake/_refrain/data/d/v1-x/y.csv\n";
        assert_eq!(texts, [("_symlink_format_manifest/manifest", urls), ("_SUCCESS", "")]);
    }

    #[test]
    fn what_the_task_wrote_for_readers_is_kept_or_refused() {
        let place = place("s3://lake/d/");
        let success = PrefixManner::of(&[Reader::Success]).unwrap();
        assert!(success.objects(&place, "v/", &[listed("_SUCCESS")]).unwrap().is_empty());
        let symlink = PrefixManner::of(&[Reader::Symlink]).unwrap();
        let error = symlink.objects(&place, "v/", &[listed("_symlink_format_manifest/manifest")]).unwrap_err();
        assert_eq!(error.kind, refrain_core::ErrorKind::Guard);
        assert!(symlink.objects(&self::place("az://lake/d/"), "v/", &[]).is_err());
    }
}
