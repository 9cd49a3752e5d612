//! Encodings of text, and what CSV and text have beside their rows: line ends, quotes, the last newline.

use crate::error::Error;
use crate::report::{Finding, FindingKind};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 << 10;

/// How the characters of a text are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf8WithMark,
    Utf16LittleEndian,
    Utf16BigEndian,
    /// One byte a character; read as Latin-1.
    SingleByte,
}

impl Encoding {
    fn is_utf16(self) -> bool {
        matches!(self, Self::Utf16LittleEndian | Self::Utf16BigEndian)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf8WithMark => "UTF-8 with a byte order mark",
            Self::Utf16LittleEndian | Self::Utf16BigEndian => "UTF-16",
            Self::SingleByte => "one byte a character (Latin-1 or the like)",
        }
    }
}

/// What two texts have beside their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Surface {
    encoding: Encoding,
    returns: u64,
    quotes: u64,
    ends_with_newline: bool,
    is_empty: bool,
}

/// Finds the encoding of a file by its start.
pub(crate) fn detect(path: &Path) -> Result<Encoding, Error> {
    let head = super::bytes::head(path, 1 << 20)?;
    let encoding = mark(&head);
    let is_broken = std::str::from_utf8(&head).is_err_and(|error| error.error_len().is_some());
    Ok(if is_broken && encoding == Encoding::Utf8 { Encoding::SingleByte } else { encoding })
}

/// Says what differs beside the rows.
pub(crate) fn findings(left: &Path, right: &Path) -> Result<Vec<Finding>, Error> {
    let (left, right) = (survey(left)?, survey(right)?);
    let mut findings = vec![];
    if left.encoding != right.encoding {
        let text = format!("the left side is {}, the right {}", left.encoding.name(), right.encoding.name());
        let hint = "Write UTF-8 without a byte order mark on both.";
        findings.push(Finding::new(FindingKind::Encoding, false, text).hint(hint));
    }
    if [left, right].iter().any(|surface| surface.encoding.is_utf16()) {
        return Ok(findings);
    }
    if (left.returns == 0) != (right.returns == 0) {
        let name = |surface: Surface| if surface.returns == 0 { "\\n" } else { "\\r\\n" };
        let text = format!("line ends differ: `{}` on the left side, `{}` on the right", name(left), name(right));
        findings.push(Finding::new(FindingKind::LineEnds, false, text).hint("Open the file with a fixed line end."));
    }
    if left.ends_with_newline != right.ends_with_newline && !left.is_empty && !right.is_empty {
        let side = if left.ends_with_newline { "right" } else { "left" };
        let text = format!("no newline at the end of the {side} side");
        findings.push(Finding::new(FindingKind::TrailingNewline, false, text));
    }
    if left.quotes != right.quotes {
        let text = format!("quoting differs: {} quotes on the left side, {} on the right", left.quotes, right.quotes);
        findings.push(Finding::new(FindingKind::Quoting, false, text).hint("Write with a fixed quoting rule."));
    }
    Ok(findings)
}

fn survey(path: &Path) -> Result<Surface, Error> {
    let mut file = File::open(path).map_err(Error::read(path))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut kept, mut is_utf8, mut is_start) = (0, true, true);
    let mut surface =
        Surface { encoding: Encoding::Utf8, returns: 0, quotes: 0, ends_with_newline: false, is_empty: true };
    loop {
        let count = file.read(&mut buffer[kept..]).map_err(Error::read(path))?;
        let bytes = &buffer[..kept + count];
        if std::mem::take(&mut is_start) {
            surface.encoding = mark(bytes);
        }
        if count == 0 {
            is_utf8 &= kept == 0;
            break;
        }
        let new = &bytes[kept..];
        surface.is_empty = false;
        surface.returns += memchr::memchr_iter(b'\r', new).count() as u64;
        surface.quotes += memchr::memchr_iter(b'"', new).count() as u64;
        surface.ends_with_newline = new.last() == Some(&b'\n');
        let rest = match std::str::from_utf8(bytes) {
            Ok(_) => 0,
            // A character cut by the end of the buffer is looked at again with what follows it.
            Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
            Err(_) => {
                is_utf8 = false;
                0
            }
        };
        let end = bytes.len();
        buffer.copy_within(end - rest..end, 0);
        kept = rest;
    }
    if !is_utf8 && matches!(surface.encoding, Encoding::Utf8 | Encoding::Utf8WithMark) {
        surface.encoding = Encoding::SingleByte;
    }
    Ok(surface)
}

fn mark(bytes: &[u8]) -> Encoding {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => Encoding::Utf8WithMark,
        [0xff, 0xfe, ..] => Encoding::Utf16LittleEndian,
        [0xfe, 0xff, ..] => Encoding::Utf16BigEndian,
        _ => Encoding::Utf8,
    }
}

/// Writes the text in UTF-8 into `directory`.
pub(crate) fn to_utf8(path: &Path, encoding: Encoding, directory: &Path, name: &str) -> Result<PathBuf, Error> {
    let target = directory.join(name);
    let temporary = |source| Error::Temporary { directory: Some(directory.to_owned()), source };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, File::open(path).map_err(Error::read(path))?);
    let mut writer = BufWriter::with_capacity(BUFFER_BYTES, File::create(&target).map_err(temporary)?);
    let mut bytes = reader.by_ref().bytes();
    let mut next = || bytes.next().transpose().map_err(Error::read(path));
    let mut put = |c: char| writer.write_all(c.encode_utf8(&mut [0; 4]).as_bytes()).map_err(temporary);
    match encoding {
        Encoding::Utf16LittleEndian | Encoding::Utf16BigEndian => {
            let is_big = encoding == Encoding::Utf16BigEndian;
            let mut high: Option<u16> = None;
            let mut is_start = true;
            while let Some(first) = next()? {
                let pair = [first, next()?.unwrap_or_default()];
                let unit = if is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
                if std::mem::take(&mut is_start) && unit == 0xfeff {
                    continue;
                }
                let units = high.take().into_iter().chain([unit]);
                if (0xd800..0xdc00).contains(&unit) {
                    high = Some(unit);
                    continue;
                }
                for decoded in char::decode_utf16(units) {
                    put(decoded.unwrap_or(char::REPLACEMENT_CHARACTER))?;
                }
            }
        }
        Encoding::Utf8 | Encoding::Utf8WithMark | Encoding::SingleByte => {
            while let Some(byte) = next()? {
                put(char::from(byte))?;
            }
        }
    }
    writer.flush().map_err(temporary)?;
    Ok(target)
}
