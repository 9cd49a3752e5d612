//! Directories outside the tree that hold programs which the tests run.

use crate::command::{Outcome, capture, command, text};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether there is such a directory. One that another user has put there is an error: its programs are not run.
pub(super) fn is_there(directory: &Path) -> Outcome<bool> {
    let Ok(metadata) = fs::symlink_metadata(directory) else { return Ok(false) };
    if metadata.uid() != 0 && metadata.uid() != own_id()? {
        return Err(format!("{} belongs to user {}; remove it", directory.display(), metadata.uid()));
    }
    Ok(true)
}

/// Makes the directory whole or not at all, for other tests may start meanwhile: `fill` fills one beside it, which then
/// takes its place.
pub(super) fn replace(directory: &Path, fill: impl FnOnce(&Path) -> Outcome) -> Outcome {
    let failed = |error: std::io::Error| format!("cannot install in {}: {error}", directory.display());
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let staged = directory.with_file_name(format!("{name}.{}", std::process::id()));
    fs::create_dir(&staged).map_err(failed)?;
    if let Err(error) = fill(&staged) {
        fs::remove_dir_all(&staged).map_err(failed)?;
        return Err(error);
    }
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed)?;
    }
    fs::rename(&staged, directory).map_err(failed)
}

fn own_id() -> Outcome<u32> {
    let mut ask = command("id");
    ask.arg("-u");
    let wanted = text(&ask);
    let answer = capture(ask)?;
    let id = String::from_utf8_lossy(&answer).trim_end().parse();
    id.map_err(|error| format!("`{wanted}` answered no number: {error}"))
}
