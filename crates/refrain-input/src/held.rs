//! A copy that only one run reads, and whether a command left it as it was.

use crate::changes::Changes;
use crate::listing::{Listing, Node};
use crate::local::is_change;
use crate::location::Location;
use crate::moment::Moment;
use crate::seen::Seen;
use refrain_core::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a copy was before a command could touch it.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    listing: Listing,
    /// What is written to from this moment on shows in the times of files that are clearly older.
    moment: Moment,
}

impl Held {
    /// Reads all of it.
    ///
    /// # Errors
    /// `invalid` when nothing is there, `unavailable` when it changes meanwhile, `internal` when it cannot be read.
    pub fn take(path: &Path) -> Result<Self> {
        let mut listing = Listing::take(&Location::Path(path.to_owned()))?;
        Seen::nothing().complete(&mut listing)?;
        Ok(Self { path: path.to_owned(), listing, moment: Moment::now() })
    }

    /// Its digest, as [`digest_path`](crate::digest_path) gives it.
    pub fn digest(&self) -> Option<String> {
        self.listing.version()
    }

    /// What differs now, as part of a sentence; nothing if its content is what it was. Files whose times tell that they
    /// were left alone are not read.
    ///
    /// # Errors
    /// `internal` when it cannot be read.
    pub fn changes(&self) -> Result<Option<String>> {
        let changes = match self.look() {
            Ok(now) => Changes::between(&self.listing, &now),
            Err(error) if is_change(&error) => return Ok(Some(error.message)),
            Err(error) => return Err(error),
        };
        let base = Path::new(self.path.file_name().unwrap_or_default());
        Ok((!changes.is_none()).then(|| changes.describe(base)))
    }

    fn look(&self) -> Result<Listing> {
        let mut now = Listing::take(&Location::Path(self.path.clone()))?;
        let known: BTreeMap<&Path, &Node> =
            self.listing.entries.iter().map(|entry| (entry.path.as_path(), &entry.node)).collect();
        for entry in &mut now.entries {
            if let Node::File { stat, digest, .. } = &mut entry.node
                && let Some(Node::File { stat: was, digest: read, .. }) = known.get(entry.path.as_path())
                && was == stat
                && self.moment.is_clearly_after(was)
            {
                *digest = *read;
            }
        }
        Seen::nothing().complete(&mut now)?;
        Ok(now)
    }
}
