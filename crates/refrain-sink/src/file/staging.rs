//! Sealing one file.

use crate::local::{
    Measured, Site, Stat, changed, demand_unwritten, digest_text, durable, hash_file, incomplete, look, problem,
};
use refrain_core::{Error, Guards, Result};
use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;

/// From this size on the content is written back while it is hashed.
const LARGE: u64 = 4 * 1024 * 1024;

/// Checks, hashes and makes durable the staged file and its name.
pub(crate) fn seal(site: &Site<'_>, directory: &Path, staged: &Path, guards: &Guards) -> Result<Measured> {
    let file = durable::open_file(staged).map_err(|error| problem("open", staged, error))?;
    let before = look_open(&file, staged)?;
    if before.links > 1 {
        return Err(Error::guard(format!(
            "the output for `{}` has {} names (hard links): a write through another name would change the publication",
            site.target.display(),
            before.links
        ))
        .hint("copy the file to `$REFRAIN_OUT` instead of linking it"));
    }
    demand_unwritten(&file, staged)?;
    site.demand_size(&Measured { digest: String::new(), bytes: before.size, files: 1 }, guards)?;
    let (hashed, synced) = hash_and_sync(&file, before.size);
    let hash = match hashed {
        Ok(hash) => hash,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(changed(staged)),
        Err(error) => return Err(problem("read", staged, error)),
    };
    synced.map_err(|error| incomplete(staged, error))?;
    durable::sync_directory(directory).map_err(|error| incomplete(directory, error))?;
    // By the name, not by the open file: another file may have been renamed to it.
    if !look(staged)?.is_some_and(|now| now.untouched(&before)) {
        return Err(changed(staged));
    }
    Ok(Measured { digest: digest_text(&hash), bytes: before.size, files: 1 })
}

fn look_open(file: &File, staged: &Path) -> Result<Stat> {
    Stat::of_open(file).map_err(|error| problem("look at", staged, error))
}

/// A large file goes to the disk while its digest is computed: the two need different parts of the machine.
fn hash_and_sync(file: &File, size: u64) -> (io::Result<blake3::Hash>, io::Result<()>) {
    if size < LARGE {
        return (hash_file(file, size), durable::sync_file(file));
    }
    thread::scope(|scope| {
        let sync = scope.spawn(|| durable::sync_file(file));
        let hashed = hash_file(file, size);
        let synced = sync.join().unwrap_or_else(|_| Err(io::Error::other("the syncing thread ended early")));
        (hashed, synced)
    })
}
