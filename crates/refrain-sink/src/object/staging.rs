//! Where a task writes on this machine: one directory for each attempt and slot, in the home's state. What is in it goes to
//! the bucket when it is sealed.

use super::ObjectKind;
use super::place::Place;
use super::readers::PrefixManner;
use crate::directory::{Go, walk};
use crate::written::{self, OUTPUT, Owner};
use refrain_core::{Error, ErrorKind, Guards, Result, SlotAddress, Staged, StagingId, counted};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The directory's name in the state directory.
pub(super) const DIRECTORY: &str = "objects";

/// Names the uploads in parts that were begun.
const UPLOADS: &str = "uploads.jsonl";

/// A file that a task wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its name below the output.
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) bytes: u64,
}

/// Makes the place: a directory for a prefix, the name of a file for a single object.
pub(super) fn make(directory: &Path, place: &Place, (id, manner): (&StagingId, Option<&str>)) -> Result<String> {
    let slot = place.slot();
    let own = own(directory, &slot, id);
    let output = output(directory, place, id);
    let inner = match place.kind {
        ObjectKind::Prefix => &output,
        ObjectKind::Object => output.parent().unwrap_or(&own),
    };
    written::make(&own, inner, &Owner { slot, id: id.clone(), manner: manner.map(str::to_owned) })?;
    written::text(&output)
}

/// Notes an upload in parts that was begun for an object, until the manifest names it.
pub(super) fn note_upload(
    directory: &Path,
    (slot, id): (&SlotAddress, &StagingId),
    key: &str,
    upload: &str,
) -> Result<()> {
    let file = own(directory, slot, id).join(UPLOADS);
    let line = serde_json::to_string(&(key, upload))
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write an upload's id").because(error))?;
    let noted = OpenOptions::new().create(true).append(true).open(&file).and_then(|mut file| writeln!(file, "{line}"));
    noted.map_err(|error| Error::io(format!("cannot write `{}`", file.display()), error))
}

/// The uploads that were noted: keys and ids.
pub(super) fn noted_uploads(directory: &Path, slot: &SlotAddress, id: &StagingId) -> Vec<(String, String)> {
    let text = fs::read_to_string(own(directory, slot, id).join(UPLOADS)).unwrap_or_default();
    // A line that is torn was of an upload whose attempt died there.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What the task of an attempt writes.
pub(super) fn output(directory: &Path, place: &Place, id: &StagingId) -> PathBuf {
    own(directory, &place.slot(), id).join(OUTPUT).join(place.base_name())
}

/// How what is staged is published.
pub(super) fn manner(directory: &Path, slot: &SlotAddress, id: &StagingId) -> Result<PrefixManner> {
    PrefixManner::read(written::owner(&own(directory, slot, id))?.manner.as_deref())
}

/// Removes the place.
pub(super) fn remove(directory: &Path, slot: &SlotAddress, id: &StagingId) -> Result<()> {
    written::remove(&own(directory, slot, id))
}

/// All places, with whose they are. Beside them are notes, which are files.
pub(super) fn all(directory: &Path) -> Result<Vec<Staged>> {
    let mut all = written::all(directory)?;
    all.retain(|staged| fs::symlink_metadata(&staged.place).is_ok_and(|data| data.is_dir()));
    Ok(all)
}

/// What the task wrote, in the order of the names.
///
/// # Errors
/// `guard` when there is something that no object can be.
pub(super) fn found(place: &Place, output: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let refuse = |name: &Path, what: &str| {
        Error::guard(format!("in the output for {}, `{}` {what}", place.target, name.display()))
    };
    if place.kind == ObjectKind::Object {
        let base = Path::new(place.base_name());
        return match fs::symlink_metadata(output) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(found),
            Err(error) => Err(Error::io(format!("cannot look at `{}`", output.display()), error)),
            Ok(data) if !data.is_file() => Err(refuse(base, "is no file")),
            Ok(data) => {
                found.push(Found { name: place.base_name().to_owned(), file: output.to_owned(), bytes: data.len() });
                Ok(found)
            }
        };
    }
    if !output.is_dir() {
        return Err(Error::guard(format!(
            "the directory for the output {} is gone: `{}`",
            place.target,
            output.display()
        ))
        .hint("write files below `$REFRAIN_OUT` and let the directory be"));
    }
    walk(output, &mut |entry| {
        if entry.stat.is_directory() {
            return Ok(Go::On);
        }
        if !entry.stat.is_file() {
            let refused = refuse(&entry.path, &format!("is {}; an object store holds files alone", entry.stat.noun()));
            return Err(if entry.stat.is_link() {
                refused.hint("copy what the link names into the output instead of linking it")
            } else {
                refused
            });
        }
        let name = entry.path.to_str().ok_or_else(|| refuse(&entry.path, "has a name that is not valid UTF-8"))?;
        let key = place.target.join(name);
        refrain_object::Address::parse(&key.to_string()).map_err(|_| {
            refuse(&entry.path, "has a name that no object is given here")
                .hint("a key has at most 1024 bytes, no `?`, no `#` and no control characters: name the file otherwise")
        })?;
        found.push(Found { name: name.to_owned(), file: entry.place, bytes: entry.stat.size });
        Ok(Go::On)
    })?;
    // By the whole name, as stores order keys.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The guards that need no look into the files.
pub(super) fn check(place: &Place, files: u64, bytes: u64, guards: &Guards) -> Result<()> {
    let target = &place.target;
    if files == 0 && !(guards.allow_empty && place.kind == ObjectKind::Prefix) {
        let error = Error::guard(format!("the task wrote nothing for {target}"));
        return Err(match place.kind {
            ObjectKind::Prefix => error.hint(
                "write files below `$REFRAIN_OUT`, or objects below `$REFRAIN_OUT_<NAME>_URL`; if none are right for this \
                 partition, add `--allow-empty`",
            ),
            ObjectKind::Object => error.hint("write the file `$REFRAIN_OUT`"),
        });
    }
    if bytes == 0 && !guards.allow_empty {
        return Err(Error::guard(format!("the output for {target} is empty"))
            .hint("if that is right for this partition, add `--allow-empty`"));
    }
    if let Some(least) = guards.min_files.filter(|least| files < *least) {
        return Err(Error::guard(format!(
            "the output for {target} has {}, at least {least} are asked for",
            counted(files, "file")
        )));
    }
    if let Some(least) = guards.min_bytes.filter(|least| bytes < *least) {
        return Err(Error::guard(format!(
            "the output for {target} has {}, at least {least} are asked for",
            counted(bytes, "byte")
        )));
    }
    if guards.min_rows.is_some() {
        return Err(Error::guard(format!("rows are not counted in the output for {target}"))
            .hint("count them with `check = \"…\"`; min_rows is for tables"));
    }
    Ok(())
}

fn own(directory: &Path, slot: &SlotAddress, id: &StagingId) -> PathBuf {
    let index = id.slots.iter().position(|other| other == slot).unwrap_or_default();
    directory.join(format!("{}.{index}", id.holder.attempt))
}
