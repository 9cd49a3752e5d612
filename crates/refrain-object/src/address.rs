//! URLs of objects: `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/KEY`.

use object_store::path::Path;
use refrain_core::{Error, Result};
use std::fmt;

/// The longest key of an object, in bytes
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html>; the others allow as much).
pub(crate) const LONGEST_KEY: usize = 1024;

/// Which protocol a store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Amazon S3 and what is compatible.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

/// Names an object, or all objects below a key that ends with `/`. Two spellings of one place are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The protocol.
    pub scheme: Scheme,
    /// The bucket or container.
    pub bucket: String,
    /// The key; empty for the whole bucket.
    pub key: String,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Self; 3] = [Self::S3, Self::Gcs, Self::Azure];

    /// As URLs begin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "s3" | "s3a" | "s3n" => Self::S3,
            "gs" | "gcs" => Self::Gcs,
            "az" | "azure" => Self::Azure,
            _ => return None,
        })
    }
}

impl Address {
    /// Whether a text is meant as the URL of an object.
    pub fn is_one(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| Scheme::of(scheme).is_some())
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// `invalid` when it is none, or names what no store can hold.
    pub fn parse(text: &str) -> Result<Self> {
        let malformed = |what: &str| {
            Error::invalid(format!("`{}` is no URL of an object: {what}", refrain_core::without_password(text)))
                .hint("write s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY; a trailing `/` means a prefix")
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| malformed("it has no scheme"))?;
        let scheme = Scheme::of(scheme).ok_or_else(|| malformed("its scheme is unknown"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return Err(malformed("it may carry no user or password")
                .hint("keys of access come from the environment, a profile, or the machine's own identity"));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(fits) {
            return Err(malformed("the bucket's name must be of letters, digits, `.`, `-` and `_`"));
        }
        if key.contains(['?', '#']) {
            return Err(malformed("`?` and `#` cannot be part of a key here"));
        }
        check_key(key).map_err(|what| malformed(&what))?;
        Ok(Self { scheme, bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// The bucket of a URL, of whose key parts may still have to be filled in; nothing when that is true of the bucket's own
    /// name, or the text is no such URL.
    pub fn bucket_of(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://").filter(|_| Self::is_one(text))?;
        let bucket = rest.split('/').next()?;
        Self::parse(&format!("{scheme}://{bucket}/")).ok()
    }

    /// The place below this one.
    #[must_use]
    pub fn join(&self, relative: &str) -> Self {
        let slash = if self.key.is_empty() || self.key.ends_with('/') { "" } else { "/" };
        Self { key: format!("{}{slash}{relative}", self.key), ..self.clone() }
    }

    /// The same bucket with another key.
    #[must_use]
    pub fn at(&self, key: impl Into<String>) -> Self {
        Self { key: key.into(), ..self.clone() }
    }

    /// The key of a URL in the same bucket.
    ///
    /// # Errors
    /// `corrupt` when it names another bucket.
    pub fn key_of(&self, url: &str) -> Result<String> {
        match Self::parse(url) {
            Ok(other) if other.scheme == self.scheme && other.bucket == self.bucket => Ok(other.key),
            _ => Err(Error::corrupt(format!("`{url}` is not in the bucket of {self}"))),
        }
    }

    /// Whether it stands for all objects below its key.
    pub fn is_prefix(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }

    /// Whether `other` lies below this prefix, or is it.
    pub fn contains(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.bucket == other.bucket
            && self.is_prefix()
            && other.key.starts_with(&self.key)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme.name(), self.bucket, self.key)
    }
}

/// Whether a key can be that of an object with every store.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    if key.len() > LONGEST_KEY {
        return Err(format!("the key has {} bytes, and stores take {LONGEST_KEY}", key.len()));
    }
    let inner = key.strip_suffix('/').unwrap_or(key);
    if inner.is_empty() {
        return if key.is_empty() { Ok(()) } else { Err("the key begins with `/`".to_owned()) };
    }
    if inner.split('/').any(str::is_empty) {
        return Err("the key has an empty part between two `/`".to_owned());
    }
    Path::parse(inner).map(drop).map_err(|_| "the key has a part `.` or `..`, or a control character".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Address, Scheme};

    #[test]
    fn spellings_of_one_place_are_one_address() {
        for (text, shown) in [
            ("s3://lake/delays/dt=2013-01-01/", "s3://lake/delays/dt=2013-01-01/"),
            ("S3A://lake/a b/ü.csv", "s3://lake/a b/ü.csv"),
            ("gs://lake", "gs://lake/"),
            ("az://container/x", "az://container/x"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown);
        }
        assert!(Address::is_one("s3a://b/k") && !Address::is_one("reports/x.csv") && !Address::is_one("http://h/x"));
    }

    #[test]
    fn what_no_store_can_hold_is_refused_without_its_secret() {
        for text in ["s3://", "s3:///key", "s3://b//k", "s3://b/a//k", "s3://b/a/../k", "s3://b/k?x=1", "s3://b u/k"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        let error = Address::parse("s3://AKIA:secret@lake/k").unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
        assert!(Address::parse(&format!("s3://b/{}", "k".repeat(1025))).is_err());
    }

    #[test]
    fn a_prefix_contains_what_is_below_it() {
        let lake = Address::parse("s3://lake/a/").unwrap();
        assert!(lake.contains(&lake.join("x")) && !lake.contains(&lake.at("ab")) && lake.scheme == Scheme::S3);
    }
}
