//! What is packed: streams, and the headers that differ when their content does not.

use crate::error::Error;
use crate::options::Options;
use crate::report::{Finding, FindingKind, Format};
use crate::story::cut;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// Memory that an xz stream may ask for, in KiB.
const XZ_MEMORY_KIB: u32 = 128 << 10;

/// Whether the format is one stream of bytes, packed.
pub(crate) fn is_stream(format: Format) -> bool {
    matches!(format, Format::Gzip | Format::Zstd | Format::Bzip2 | Format::Xz)
}

/// What is inside, as a stream.
pub(crate) fn open(path: &Path, format: Format) -> Result<Box<dyn Read + Send>, Error> {
    let file = BufReader::with_capacity(128 << 10, File::open(path).map_err(Error::read(path))?);
    Ok(match format {
        Format::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Format::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(Error::read(path))?),
        Format::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(file)),
        Format::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB)),
        _ => Box::new(file),
    })
}

/// The name of what is inside: without the packing's own ending.
pub(crate) fn inner_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let ending = [".gz", ".gzip", ".zst", ".zstd", ".bz2", ".xz"].into_iter().find(|ending| lower.ends_with(ending));
    match (ending, [".tgz", ".tzst", ".tbz2", ".txz"].into_iter().find(|ending| lower.ends_with(ending))) {
        (Some(ending), _) => name[..name.len() - ending.len()].to_owned(),
        (None, Some(ending)) => format!("{}.tar", &name[..name.len() - ending.len()]),
        (None, None) => name.to_owned(),
    }
}

/// Why a stream could not be copied.
pub(crate) enum Failed {
    /// It holds more than is allowed.
    TooLarge,
    /// It is broken.
    Broken(io::Error),
    /// There is no room for it.
    NoRoom(Error),
}

/// Copies a stream to a file, at most `most` bytes of it; returns how many there were.
pub(crate) fn copy(from: &mut dyn Read, to: &Path, most: u64, options: &Options) -> Result<u64, Failed> {
    let no_room = |source| Failed::NoRoom(options.no_room()(source));
    let mut target = File::create(to).map_err(no_room)?;
    let mut buffer = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failed::Broken(error)),
        };
        total += count as u64;
        if total > most {
            return Err(Failed::TooLarge);
        }
        target.write_all(&buffer[..count]).map_err(no_room)?;
    }
}

/// Says how two packings of the same bytes differ.
pub(crate) fn findings(left: &Path, right: &Path, format: Format) -> Result<Vec<Finding>, Error> {
    let mut findings = vec![];
    if format == Format::Gzip {
        let header = |path: &Path| {
            let file = BufReader::new(File::open(path).map_err(Error::read(path))?);
            Ok::<_, Error>(flate2::bufread::GzDecoder::new(file).header().cloned())
        };
        if let (Some(left), Some(right)) = (header(left)?, header(right)?) {
            if left.mtime() != right.mtime() {
                let text = format!("the time in the gzip header differs: {} and {}", left.mtime(), right.mtime());
                let hint = "Use `gzip -n`, or set the time to 0 (`SOURCE_DATE_EPOCH`, `mtime=0`).";
                findings.push(Finding::new(FindingKind::GzipTime, false, text).hint(hint));
            }
            if left.filename() != right.filename() {
                let name = |name: Option<&[u8]>| cut(&String::from_utf8_lossy(name.unwrap_or_default()));
                let (a, b) = (name(left.filename()), name(right.filename()));
                let text = format!("the name in the gzip header differs: `{a}` and `{b}`");
                let hint = "Use `gzip -n`, or compress from standard input.";
                findings.push(Finding::new(FindingKind::GzipName, false, text).hint(hint).example(Some(a), Some(b)));
            }
            if left.operating_system() != right.operating_system()
                || left.comment() != right.comment()
                || left.extra() != right.extra()
            {
                let text = "other fields of the gzip header differ (written by another program)";
                findings.push(Finding::new(FindingKind::Compression, false, text));
            }
        }
        if !findings.is_empty() {
            return Ok(findings);
        }
    }
    let text = format!("the same content, compressed in another way ({}: level, program or blocks)", format.name());
    Ok(vec![Finding::new(FindingKind::Compression, false, text).hint("Fix the level and the number of threads.")])
}
