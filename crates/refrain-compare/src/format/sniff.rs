//! What a file is, by its first bytes and then by its name.

use super::{bytes, csv};
use crate::error::Error;
use crate::report::Format;
use std::path::Path;

const HEAD_BYTES: usize = 64 << 10;

/// The place of the magic number of a tar archive.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

/// Finds the format of the file at `path`, which readers know under `name`.
pub(crate) fn sniff(path: &Path, name: &str) -> Result<Format, Error> {
    let head = bytes::head(path, HEAD_BYTES)?;
    Ok(by_content(&head).unwrap_or_else(|| as_text(&head, name)))
}

fn by_content(head: &[u8]) -> Option<Format> {
    let magic: [(&[u8], Format); 9] = [
        (b"\x1f\x8b\x08", Format::Gzip),
        (b"\x28\xb5\x2f\xfd", Format::Zstd),
        (b"BZh", Format::Bzip2),
        (b"\xfd7zXZ\0", Format::Xz),
        (b"PK\x03\x04", Format::Zip),
        (b"PK\x05\x06", Format::Zip),
        (b"PAR1", Format::Parquet),
        (b"SQLite format 3\0", Format::Sqlite),
        (b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", Format::Bytes),
    ];
    let found = magic.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| *format);
    let is_tar = head.get(TAR_MAGIC).is_some_and(|magic| magic == b"ustar");
    found.or_else(|| is_tar.then_some(Format::Tar))
}

fn as_text(head: &[u8], name: &str) -> Format {
    let is_utf16 = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    let controls = head.iter().filter(|byte| matches!(byte, 1..=8 | 14..=26 | 28..=31)).count();
    if !is_utf16 && (head.contains(&0) || controls * 20 > head.len()) {
        return Format::Bytes;
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
    match extension.as_str() {
        "csv" | "psv" => Format::Csv,
        "tsv" | "tab" => Format::Tsv,
        "json" if is_one_document(head) => Format::Json,
        "json" | "jsonl" | "ndjson" | "jsonlines" => Format::JsonLines,
        "txt" | "log" | "md" | "html" | "xml" | "sql" | "py" | "yaml" | "yml" | "toml" => Format::Text,
        _ if is_utf16 => Format::Text,
        _ => unnamed(head),
    }
}

/// A text whose name says nothing.
fn unnamed(head: &[u8]) -> Format {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    if first.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(first).is_ok() {
        return if is_one_document(head) { Format::Json } else { Format::JsonLines };
    }
    if csv::is_likely(head) {
        return if csv::delimiter(head) == Some(b'\t') { Format::Tsv } else { Format::Csv };
    }
    Format::Text
}

/// Whether the first JSON document is not followed by another one.
fn is_one_document(head: &[u8]) -> bool {
    let mut documents = serde_json::Deserializer::from_slice(head).into_iter::<serde::de::IgnoredAny>();
    match documents.next() {
        Some(Ok(_)) => head[documents.byte_offset()..].trim_ascii().is_empty(),
        _ => true,
    }
}
