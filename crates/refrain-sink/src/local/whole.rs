//! Small files of the program's own that a reader must see whole or not at all.

use super::durable;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file by a temporary name beside it and a rename. Something that is no regular file (a pipe, a terminal)
/// is written as it stands.
///
/// # Crash safety
/// The old file or the new one, whole. Not synced: the file tells of what happened, it decides nothing.
///
/// # Errors
/// As the system reports them.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    // One name per process: what a killed one left is written over by the next with its number.
    let temporary = parent.join(format!(".refrain-{}.tmp", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| durable::replace(&temporary, path));
    if written.is_err() {
        durable::best_effort(durable::remove(&temporary));
    }
    written
}
