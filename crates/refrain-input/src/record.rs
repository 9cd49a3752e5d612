//! The list of what was pinned: names, sizes and digests, one entry a line, as docs/FORMATS.md gives it.

use crate::listing::{Entry, Listing, Node};
use crate::stat::Stat;
use blake3::Hash;
use refrain_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    format: u32,
    file: bool,
    /// Size of all files, in bytes.
    pub(crate) bytes: u64,
}

/// Writes the list of a listing whose contents are known.
///
/// # Crash safety
/// Not synced. A list without its last line is not used, and nothing but the names in messages depends on one.
pub(crate) fn write(listing: &Listing, path: &Path) -> Result<()> {
    let header = Header { format: FORMAT, file: listing.is_file, bytes: listing.bytes() };
    let failed = |error: std::io::Error| Error::io(format!("cannot write `{}`", path.display()), error);
    let mut text = serde_json::to_string(&header).map_err(|error| failed(error.into()))?;
    text.push('\n');
    for entry in &listing.entries {
        let (kind, bytes, content) = match &entry.node {
            Node::File { stat, digest, .. } => {
                let kind = if stat.executable { 'x' } else { 'f' };
                (kind, stat.bytes, digest.map_or_else(|| "-".to_owned(), |digest| digest.to_hex().to_string()))
            }
            Node::Link(target) => ('l', 0, escape(target.as_os_str().as_bytes())),
            Node::Directory => ('d', 0, "-".to_owned()),
        };
        // Writing to a text cannot fail.
        let _infallible = writeln!(text, "{kind} {bytes} {content} {}", escape(entry.path.as_os_str().as_bytes()));
    }
    text.push_str(&format!("end {}\n", listing.entries.len()));
    fs::write(path, text).map_err(failed)
}

/// Reads a list; nothing if there is none, or not all of it.
pub(crate) fn read(path: &Path) -> Option<Listing> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let header = header(lines.next()?)?;
    let mut entries = Vec::new();
    for line in lines {
        if let Some(count) = line.strip_prefix("end ") {
            let whole = count.parse() == Ok(entries.len());
            let listing = Listing { is_file: header.file, root: PathBuf::new(), entries, followed: Vec::new() };
            return whole.then_some(listing);
        }
        entries.push(entry(line)?);
    }
    None
}

/// The first line of a list.
pub(crate) fn header(line: &str) -> Option<Header> {
    serde_json::from_str(line).ok().filter(|header: &Header| header.format == FORMAT)
}

fn entry(line: &str) -> Option<Entry> {
    let mut parts = line.splitn(4, ' ');
    let (kind, bytes, content, path) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let node = match kind {
        "f" | "x" => Node::File {
            place: None,
            stat: Stat { bytes: bytes.parse().ok()?, executable: kind == "x", ..Stat::default() },
            digest: Hash::from_hex(content).ok(),
        },
        "l" => Node::Link(unescape(content)?),
        "d" => Node::Directory,
        _ => return None,
    };
    Some(Entry { path: unescape(path)?, node })
}

/// Every byte that is not a visible ASCII character, and `%`, as `%` and two hexadecimal digits.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_graphic() && *byte != b'%' {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, code)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(code.get(..2)?, 16).ok()?);
        rest = code.get(2..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written_and_a_part_of_it_is_not_used() {
        let file = |text: &str| Node::File {
            place: None,
            stat: Stat { bytes: 3, executable: text == "x", ..Stat::default() },
            digest: Some(blake3::hash(text.as_bytes())),
        };
        let odd = PathBuf::from(OsString::from_vec(b"a b\n\xff%".to_vec()));
        let entries = vec![
            Entry { path: "d".into(), node: Node::Directory },
            Entry { path: odd.clone(), node: file("f") },
            Entry { path: "l".into(), node: Node::Link(odd) },
            Entry { path: "x".into(), node: file("x") },
        ];
        let listing = Listing { is_file: false, root: PathBuf::new(), entries, followed: Vec::new() };
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("list");
        write(&listing, &path).unwrap();
        let back = read(&path).unwrap();
        assert_eq!(back, listing);
        assert_eq!(back.version(), listing.version());
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.strip_suffix("end 4\n").unwrap()).unwrap();
        assert_eq!(read(&path), None);
        fs::write(&path, text.replace("\"format\":1", "\"format\":2")).unwrap();
        assert_eq!(read(&path), None);
    }
}
