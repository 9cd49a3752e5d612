//! Whether a file is what was sealed.

use crate::local::{Measured, Stat, digest_text, durable, has_digest, hash_file, identity_of, problem};
use refrain_core::{Result, SealedData, counted, were};
use std::path::Path;

/// What differs; nothing when it is what was sealed. The content is read only when the same size comes with another
/// inode or time of change: after a restore from backup, a move of the home, a `touch`.
pub(crate) fn difference(data: &SealedData, path: &Path, stat: &Stat) -> Result<Option<String>> {
    let path_text = path.display();
    if !stat.is_file() {
        return Ok(Some(format!("`{path_text}` is {}", stat.noun())));
    }
    if stat.size != data.bytes {
        return Ok(Some(format!(
            "`{path_text}` has {}, and {} {} published",
            counted(stat.size, "byte"),
            data.bytes,
            were(data.bytes)
        )));
    }
    if identity_of(data)?.is_unchanged(stat) || has_digest(path, stat.size, &data.digest)? {
        return Ok(None);
    }
    Ok(Some(format!("the content of `{path_text}` differs from what was published")))
}

/// What a file holds, as the seal would say.
pub(crate) fn measure(path: &Path) -> Result<Measured> {
    let read = || {
        let file = durable::open_file(path)?;
        let bytes = Stat::of_open(&file)?.size;
        Ok(Measured { digest: digest_text(&hash_file(&file, bytes)?), bytes, files: 1 })
    };
    read().map_err(|error: std::io::Error| problem("read", path, error))
}
