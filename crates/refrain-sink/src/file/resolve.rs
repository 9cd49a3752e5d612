//! Whether a file is what was sealed.

use crate::local::{Stat, has_digest, identity_of};
use refrain_core::{Result, SealedData};
use std::path::Path;

/// What differs; nothing when it is what was sealed. The content is read only when the same size comes with another
/// inode or time of change: after a restore from backup, a move of the home, a `touch`.
pub(crate) fn difference(data: &SealedData, path: &Path, stat: &Stat) -> Result<Option<String>> {
    let path_text = path.display();
    if !stat.is_file() {
        return Ok(Some(format!("`{path_text}` is {}", stat.noun())));
    }
    if stat.size != data.bytes {
        return Ok(Some(format!("`{path_text}` has {} bytes, and {} were published", stat.size, data.bytes)));
    }
    if identity_of(data)?.is_unchanged(stat) || has_digest(path, stat.size, &data.digest)? {
        return Ok(None);
    }
    Ok(Some(format!("the content of `{path_text}` differs from what was published")))
}
