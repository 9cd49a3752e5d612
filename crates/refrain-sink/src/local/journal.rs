//! The head of a slot on disk: a journal of whole records, the last of which counts (docs/FORMATS.md).
//!
//! Each line is a checksum, a blank, the record as JSON, and a newline. A claim is appended without fsync: whoever it
//! fences on this host dies in the same power cut. An intent is made durable, and every line before it with it. So the
//! only lines that a power cut can damage come after the last durable one, and all it can leave of them is a cut or a
//! hole of NUL bytes; any other damage is reported as such.
//!
//! A claim takes the room of the intent that follows it, as NUL bytes behind its line. The intent then overwrites blocks
//! that the file has already, so that a full disk is met before the task runs, and fdatasync has no metadata to write where
//! the claim reached the disk with the seal.

use super::durable;
use super::problem::problem;
use super::record::{FORMAT, Record};
use refrain_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A journal longer than this is written anew with only its last record.
const LONGEST: u64 = 64 * 1024;
/// Room is taken in whole blocks, as filesystems do anyway.
const BLOCK: u64 = 4096;
/// What an intent says of a slot but its names, amply.
const TOLD_OF_A_SLOT: u64 = 640;
const CHECKSUM_DIGITS: usize = 16;

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The state of the slot.
    pub(crate) last: Option<Record>,
    /// The state before the intent, if the last record has one.
    pub(crate) before: Option<Record>,
    /// Where the next line goes: beyond lies its room, or what a crash left of a line.
    end: u64,
    /// Whether something other than room lies there.
    remains: bool,
}

/// A journal in the hands of whoever holds the slot's lock.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
    created: bool,
    contents: Contents,
}

/// Reads a journal without a lock. Nothing when there is none.
pub(crate) fn read(path: &Path) -> Result<Contents> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(error) => return Err(problem("open the head", path, error)),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| problem("read the head", path, error))?;
    parse(&bytes, path)
}

impl Journal {
    /// Opens the journal, making an empty one if there is none. The slot's lock must be held.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let options =
            |create: bool| OpenOptions::new().read(true).write(true).create_new(create).mode(0o600).open(path);
        let (mut file, created) = match options(false) {
            Ok(file) => (file, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (options(true).map_err(|error| problem("make the head", path, error))?, true)
            }
            Err(error) => return Err(problem("open the head", path, error)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| problem("read the head", path, error))?;
        let contents = parse(&bytes, path)?;
        Ok(Self { file, path: path.to_owned(), length: bytes.len() as u64, created, contents })
    }

    /// Whether this call made the file: its name is not durable yet.
    pub(crate) fn is_new(&self) -> bool {
        self.created
    }

    /// The state of the slot.
    pub(crate) fn last(&self) -> Option<&Record> {
        self.contents.last.as_ref()
    }

    /// The state before the intent of the last record.
    pub(crate) fn before(&self) -> Option<&Record> {
        self.contents.before.as_ref()
    }

    /// Appends a record that need not survive a power cut.
    pub(crate) fn append(&mut self, record: Record) -> Result<()> {
        if self.contents.end > LONGEST && record.intent.is_none() {
            return self.rewrite(record);
        }
        self.write(record)
    }

    /// Appends a record and makes it durable, with all before it.
    pub(crate) fn append_durably(&mut self, record: Record) -> Result<()> {
        self.write(record)?;
        self.make_durable()
    }

    /// Makes all records durable, whoever wrote them.
    pub(crate) fn make_durable(&self) -> Result<()> {
        durable::sync_data(&self.file).map_err(|error| problem("make the head durable", &self.path, error))
    }

    fn write(&mut self, record: Record) -> Result<()> {
        let mut line = encode(&record, &self.path)?;
        let start = self.contents.end;
        if self.contents.remains {
            // LEDG-11: what a crash left of a line goes before the next one is written.
            self.file.set_len(start).map_err(|error| problem("repair the head", &self.path, error))?;
            self.length = start;
            self.contents.remains = false;
        }
        let end = start + line.len() as u64;
        line.resize(line.len() + self.room_to_take(&record, end), 0);
        self.file.write_all_at(&line, start).map_err(|error| {
            // Part of the line may be written; the next writer cuts it off should this fail too.
            durable::best_effort(self.file.set_len(start));
            self.contents.remains = true;
            problem("write the head", &self.path, error)
        })?;
        self.length = self.length.max(start + line.len() as u64);
        self.contents.end = end;
        let former = self.contents.last.replace(record);
        self.contents.before = former.filter(|former| former.intent.is_none());
        Ok(())
    }

    /// How many NUL bytes to write behind the next record, which ends at `end`.
    ///
    /// The claim on a published slot names a publication, as the intent and the record that follow it do, and is about as
    /// long as each of them. A first claim only names the slots, of each of which the intent tells more. The record after a
    /// commit waits for nothing: it fills its block, and takes no other.
    fn room_to_take(&self, record: &Record, end: u64) -> usize {
        let line = end - self.contents.end;
        let is_claim = self.last().is_none_or(|last| last.intent.is_none());
        let wanted = match (&record.head.publication, &record.head.claim) {
            _ if !is_claim => end,
            (None, Some(claim)) => end + 4 * line + claim.slots.len() as u64 * TOLD_OF_A_SLOT,
            _ => end + 2 * line,
        };
        if record.intent.is_some() || wanted <= self.length {
            return 0;
        }
        usize::try_from(wanted.next_multiple_of(BLOCK) - end).unwrap_or_default()
    }

    /// Replaces the journal by one of a single record, durably.
    fn rewrite(&mut self, record: Record) -> Result<()> {
        let name = self.path.with_extension("head-new");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&name);
        let file = file.map_err(|error| problem("make", &name, error))?;
        let mut fresh = Self { file, path: name, length: 0, created: false, contents: Contents::default() };
        let replaced = fresh.write(record).and_then(|()| {
            let replace = || {
                durable::sync_file(&fresh.file)?;
                durable::replace(&fresh.path, &self.path)?;
                self.path.parent().map_or(Ok(()), durable::sync_directory)
            };
            replace().map_err(|error| problem("rewrite the head", &self.path, error))
        });
        if let Err(error) = replaced {
            // On a full disk it would only take room.
            durable::best_effort(durable::remove(&fresh.path));
            return Err(error);
        }
        *self = Self { path: std::mem::take(&mut self.path), created: self.created, ..fresh };
        Ok(())
    }
}

fn encode(record: &Record, path: &Path) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(record).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("cannot write `{}`", path.display())).because(error)
    })?;
    let mut line = checksum(&json).into_bytes();
    line.push(b' ');
    line.extend(json);
    line.push(b'\n');
    Ok(line)
}

fn checksum(json: &[u8]) -> String {
    let mut digits = blake3::hash(json).to_hex().to_string();
    digits.truncate(CHECKSUM_DIGITS);
    digits
}

fn parse(bytes: &[u8], path: &Path) -> Result<Contents> {
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut start = 0;
    let mut end = 0;
    // What comes after the last newline is room, or cut off.
    for newline in memchr::memchr_iter(b'\n', bytes) {
        let line = &bytes[start..newline];
        match payload(line) {
            Some(json) => {
                lines.push(json);
                end = newline + 1;
            }
            None if line.contains(&0) => {}
            None => return Err(damaged(path, start)),
        }
        start = newline + 1;
    }
    let last = lines.last().map(|json| decode(json, path)).transpose()?;
    let before = match &last {
        Some(Record { intent: Some(_), .. }) => {
            let before = lines.iter().rev().nth(1).map(|json| decode(json, path)).transpose()?;
            before.filter(|before| before.intent.is_none())
        }
        _ => None,
    };
    let remains = bytes[end..].iter().any(|byte| *byte != 0);
    Ok(Contents { last, before, end: end as u64, remains })
}

/// The record of a line whose checksum is right; a hole may end right before it.
fn payload(line: &[u8]) -> Option<&[u8]> {
    let line = memchr::memrchr(0, line).map_or(line, |hole| &line[hole + 1..]);
    let (digits, rest) = line.split_at_checked(CHECKSUM_DIGITS)?;
    let json = rest.strip_prefix(b" ")?;
    (checksum(json).as_bytes() == digits).then_some(json)
}

fn decode(json: &[u8], path: &Path) -> Result<Record> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    let unreadable = |error: serde_json::Error| {
        Error::corrupt(format!("the head `{}` cannot be read", path.display())).hint(REPAIR).because(error)
    };
    let decoded = serde_json::from_slice::<Record>(json);
    let found = match &decoded {
        Ok(record) => record.format,
        Err(_) => serde_json::from_slice::<Versioned>(json).map_err(unreadable)?.format,
    };
    if found == FORMAT {
        return decoded.map_err(unreadable);
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("the head `{}` has format {found}; this program reads format {FORMAT}", path.display()),
    )
    .hint("use the version of refrain that wrote it, or a newer one"))
}

const REPAIR: &str = "restore the file from a backup; without one, move it away and publish with `--adopt`, which keeps \
                      what stands at the target as version 0";

fn damaged(path: &Path, offset: usize) -> Error {
    Error::corrupt(format!(
        "the head `{}` is damaged at byte {offset}: a line does not match its checksum, and no crash of this program \
         leaves that",
        path.display()
    ))
    .hint(REPAIR)
}

#[cfg(test)]
mod tests;
