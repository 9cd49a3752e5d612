//! The list of a sealed directory's entries, and the digest of the whole (docs/FORMATS.md).
//!
//! The digest says what readers can see: names, kinds, sizes, contents, link texts, and whether a file is executable.
//! The list adds what the kernel says of each entry, so that a later look need not read any content.

use super::walk::{Entry, Go, walk};
use crate::local::{Measured, Owner, Stat, digest_text, durable, escape, hash_file, problem};
use blake3::{Hash, Hasher};
use refrain_core::{Error, ErrorKind, Result};
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;

/// Entries that are hashed together, by two threads.
const BATCH: usize = 512;
const DOMAIN: &[u8] = b"refrain directory 1\0";
/// Begins the last line: a manifest without it was cut off.
const END: &str = "end ";
const EXECUTABLE: u32 = 0o100;

/// What an entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Directory,
    File(Hash),
    Link(Vec<u8>),
}

/// How much of an entry must be as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// Everything, also the time of the last change of its metadata: for the moment of the seal.
    Untouched,
    /// What readers can see. Content is read only where the size alone speaks for it.
    SameContent,
}

/// Hashes a directory and writes its manifest. The manifest is not durable yet: its file is returned.
pub(super) fn write(root: &Path, path: &Path, owner: &Owner, accept: Accept<'_>) -> Result<(Hash, File)> {
    let trouble = |error: io::Error| problem("write the manifest", path, error);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(trouble)?;
    let mut list = BufWriter::new(file);
    serde_json::to_writer(&mut list, owner).map_err(|error| trouble(error.into()))?;
    writeln!(list).map_err(trouble)?;
    let hash = digest(root, accept, &mut |text| writeln!(list, "{text}").map_err(trouble))?;
    let file = list.into_inner().map_err(|error| trouble(error.into_error()))?;
    Ok((hash, file))
}

/// Whether a file may be hashed as it is.
pub(super) type Accept<'a> = &'a (dyn Fn(&File, &Path) -> Result<()> + Sync);

/// What is published is hashed as it is.
pub(super) const AS_IT_IS: Accept<'static> = &|_, _| Ok(());

/// Hashes a directory and gives every line of its manifest to `list`.
pub(super) fn digest(root: &Path, accept: Accept<'_>, list: &mut dyn FnMut(&str) -> Result<()>) -> Result<Hash> {
    let mut hasher = Hasher::new();
    hasher.update(DOMAIN);
    let mut batch: Vec<Entry> = Vec::with_capacity(BATCH);
    let mut count: u64 = 0;
    let mut fold = |batch: &mut Vec<Entry>| -> Result<()> {
        let contents = contents(batch, accept)?;
        for (entry, content) in batch.drain(..).zip(contents) {
            feed(&mut hasher, &entry, &content);
            list(&line(&entry.path, &entry.stat, &content))?;
            count += 1;
        }
        Ok(())
    };
    walk(root, &mut |entry| {
        batch.push(entry);
        if batch.len() >= BATCH {
            fold(&mut batch)?;
        }
        Ok(Go::On)
    })?;
    fold(&mut batch)?;
    list(&format!("{END}{count}"))?;
    Ok(hasher.finalize())
}

/// What a directory holds, as the seal would say.
pub(crate) fn measure(root: &Path) -> Result<Measured> {
    let (mut bytes, mut files) = (0, 0);
    let hash = digest(root, AS_IT_IS, &mut |line| {
        if let Some(size) = line.strip_prefix("f ").or_else(|| line.strip_prefix("x ")) {
            files += 1;
            bytes += size.split(' ').next().and_then(|size| size.parse::<u64>().ok()).unwrap_or_default();
        }
        Ok(())
    })?;
    Ok(Measured { digest: digest_text(&hash), bytes, files })
}

/// Whether a directory holds what was sealed. It is read only when the number and the sizes of its files speak for it.
pub(crate) fn holds(root: &Path, sealed: &Measured) -> Result<bool> {
    let (mut bytes, mut files) = (0, 0);
    walk(root, &mut |entry| {
        if entry.stat.is_file() {
            files += 1;
            bytes += entry.stat.size;
        }
        Ok(Go::On)
    })?;
    Ok((bytes, files) == (sealed.bytes, sealed.files) && measure(root)?.digest == sealed.digest)
}

/// Answer of [`compare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The directory is as the manifest says.
    Same,
    /// What differs.
    Differs(String),
    /// There is no whole manifest to compare with.
    NoManifest,
}

/// Compares a directory with its manifest.
pub(super) fn compare(root: &Path, manifest: &Path, strictness: Strictness) -> Result<Comparison> {
    let file = match durable::open_file(manifest) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Comparison::NoManifest),
        Err(error) => return Err(problem("open the manifest", manifest, error)),
    };
    let mut lines = BufReader::new(file).lines();
    let mut next = || lines.next().transpose().map_err(|error| problem("read the manifest", manifest, error));
    if next()?.is_none() {
        return Ok(Comparison::NoManifest);
    }
    let mut found = None;
    walk(root, &mut |entry| {
        found = match next()? {
            Some(listed) => entry_difference(&entry, &listed, strictness)?.map(Comparison::Differs),
            None => Some(Comparison::NoManifest),
        };
        Ok(if found.is_some() { Go::Stop } else { Go::On })
    })?;
    if let Some(found) = found {
        return Ok(found);
    }
    Ok(match next()? {
        Some(line) if line.starts_with(END) => Comparison::Same,
        Some(line) => Comparison::Differs(format!("`{}` is missing", listed_path(&line))),
        None => Comparison::NoManifest,
    })
}

fn entry_difference(entry: &Entry, listed: &str, strictness: Strictness) -> Result<Option<String>> {
    let path = entry.path.display();
    let name = escape(entry.path.as_os_str());
    let listed_name = listed_path(listed);
    if listed.starts_with(END) {
        return Ok(Some(format!("`{path}` was added")));
    }
    if name != listed_name {
        // The walk and the list have one order, so that the smaller of the two names stands alone.
        let added = sort_key(&name) < sort_key(listed_name);
        return Ok(Some(if added { format!("`{path}` was added") } else { format!("`{listed_name}` is missing") }));
    }
    let fields: Vec<&str> = listed.split(' ').collect();
    let [kind, size, ino, mtime, ctime, content, _] = fields.as_slice() else {
        return Ok(Some(format!("the manifest's line of `{path}` cannot be read")));
    };
    let stat = &entry.stat;
    if *kind != letter(stat) || *size != size_of(stat).to_string() {
        return Ok(Some(format!("`{path}` has another kind or size than it had")));
    }
    let same_inode = *ino == stat.ino.to_string() && *mtime == stat.mtime.to_string();
    let untouched = same_inode && *ctime == stat.ctime.to_string();
    let same = match strictness {
        Strictness::Untouched => untouched || (stat.is_directory() && *ino == stat.ino.to_string()),
        Strictness::SameContent => {
            same_inode || stat.is_directory() || field(&content_of(entry, AS_IT_IS)?) == *content
        }
    };
    Ok((!same).then(|| format!("`{path}` changed")))
}

/// The order of paths, for escaped ones: a directory before what is in it, before its longer-named neighbours. An
/// escape sequence stands for its byte.
fn sort_key(escaped: &str) -> Vec<Vec<u8>> {
    escaped.split('/').map(unescape).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (plain, coded) = rest.split_at(at);
        bytes.extend(plain.as_bytes());
        let byte = coded.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend(byte);
        rest = coded.get(3..).unwrap_or_default();
    }
    bytes.extend(rest.as_bytes());
    bytes
}

/// `KIND SIZE INODE MTIME CTIME CONTENT PATH`.
fn line(path: &Path, stat: &Stat, content: &Content) -> String {
    format!(
        "{} {} {} {} {} {} {}",
        letter(stat),
        size_of(stat),
        stat.ino,
        stat.mtime,
        stat.ctime,
        field(content),
        escape(path.as_os_str())
    )
}

fn listed_path(line: &str) -> &str {
    line.rsplit(' ').next().unwrap_or_default()
}

fn letter(stat: &Stat) -> &'static str {
    match stat.kind {
        FileType::Directory => "d",
        FileType::Symlink => "l",
        _ if stat.mode & EXECUTABLE != 0 => "x",
        _ => "f",
    }
}

/// The size of a directory is the filesystem's own affair.
fn size_of(stat: &Stat) -> u64 {
    if stat.is_directory() { 0 } else { stat.size }
}

fn field(content: &Content) -> String {
    match content {
        Content::Directory => "-".to_owned(),
        Content::File(digest) => digest.to_hex().to_string(),
        Content::Link(text) => escape(OsStr::from_bytes(text)),
    }
}

/// What the digest of the whole takes of one entry; every part has a fixed length or its length before it.
fn feed(hasher: &mut Hasher, entry: &Entry, content: &Content) {
    let path = entry.path.as_os_str().as_bytes();
    hasher.update(letter(&entry.stat).as_bytes());
    hasher.update(&(path.len() as u64).to_le_bytes()).update(path);
    match content {
        Content::Directory => {}
        Content::File(digest) => {
            hasher.update(&entry.stat.size.to_le_bytes()).update(digest.as_bytes());
        }
        Content::Link(text) => {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
        }
    }
}

/// Two threads: more of them would wait for the same disk, and the machine has other work.
fn contents(batch: &[Entry], accept: Accept<'_>) -> Result<Vec<Content>> {
    const WORTH_A_THREAD: usize = 16;
    let read = |part: &[Entry]| part.iter().map(|entry| content_of(entry, accept)).collect::<Result<Vec<_>>>();
    if batch.len() < WORTH_A_THREAD {
        return read(batch);
    }
    let (one, other) = batch.split_at(batch.len() / 2);
    thread::scope(|scope| {
        let second = scope.spawn(|| read(other));
        let mut contents = read(one)?;
        let more =
            second.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a hashing thread ended early")));
        contents.extend(more?);
        Ok(contents)
    })
}

fn content_of(entry: &Entry, accept: Accept<'_>) -> Result<Content> {
    let trouble = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => crate::local::changed(&entry.place),
        _ => problem("read", &entry.place, error),
    };
    if entry.stat.is_directory() {
        return Ok(Content::Directory);
    }
    if entry.stat.is_link() {
        let text = fs::read_link(&entry.place).map_err(trouble)?;
        return Ok(Content::Link(text.into_os_string().as_bytes().to_owned()));
    }
    let file = durable::open_file(&entry.place).map_err(trouble)?;
    accept(&file, &entry.place)?;
    hash_file(&file, entry.stat.size).map(Content::File).map_err(trouble)
}
