//! Files as bytes: whether and where they differ.

use crate::error::Error;
use crate::options::Options;
use crate::report::{Cause, Finding, FindingKind};
use memchr::memmem::Finder;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const BUFFER_BYTES: usize = 256 << 10;

/// The first bytes of a file, as many as there are up to `most`.
pub(crate) fn head(path: &Path, most: usize) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(Error::read(path))?;
    let mut head = vec![];
    file.take(most as u64).read_to_end(&mut head).map_err(Error::read(path))?;
    Ok(head)
}

/// How two streams of bytes differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The offset of the first differing byte, or the length of the shorter stream.
    pub(crate) first: u64,
    /// Bytes that differ, up to the length of the shorter stream.
    pub(crate) differing: u64,
    pub(crate) left_bytes: u64,
    pub(crate) right_bytes: u64,
}

/// Whether both files have the same bytes; stops at the first difference.
pub(crate) fn are_equal(left: &Path, right: &Path) -> Result<bool, Error> {
    let (mut from_left, mut from_right) =
        (File::open(left).map_err(Error::read(left))?, File::open(right).map_err(Error::read(right))?);
    let size = |file: &File, path| file.metadata().map_err(Error::read(path)).map(|metadata| metadata.len());
    if size(&from_left, left)? != size(&from_right, right)? {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    loop {
        let count = fill(&mut from_left, &mut a).map_err(Error::read(left))?;
        let other = fill(&mut from_right, &mut b).map_err(Error::read(right))?;
        if a[..count] != b[..other] {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
    }
}

/// Reads both streams to their ends; nothing when they are equal.
///
/// An error bears the side it came from: true for the right one.
pub(crate) fn difference(left: &mut dyn Read, right: &mut dyn Read) -> Result<Option<Difference>, (bool, io::Error)> {
    let (mut a, mut b) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut found = Difference::default();
    let mut is_different = false;
    loop {
        let count = fill(left, &mut a).map_err(|error| (false, error))?;
        let other = fill(right, &mut b).map_err(|error| (true, error))?;
        let common = count.min(other);
        if a[..common] != b[..common] {
            let pairs = a[..common].iter().zip(&b[..common]);
            let mut places = pairs.enumerate().filter(|(_, (a, b))| a != b).map(|(place, _)| place);
            if let Some(first) = places.next() {
                if !is_different {
                    found.first = found.left_bytes + first as u64;
                }
                is_different = true;
                found.differing += 1 + places.count() as u64;
            }
        }
        if count != other && !is_different {
            found.first = found.left_bytes + common as u64;
            is_different = true;
        }
        found.left_bytes += count as u64;
        found.right_bytes += other as u64;
        if count == 0 && other == 0 {
            return Ok(is_different.then_some(found));
        }
    }
}

fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match from.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Says how the bytes of two files differ.
pub(crate) fn finding(left: &Path, right: &Path, options: &Options) -> Result<Option<Finding>, Error> {
    let open = |path: &Path| File::open(path).map_err(Error::read(path));
    let difference = difference(&mut open(left)?, &mut open(right)?)
        .map_err(|(is_right, error)| Error::read(if is_right { right } else { left })(error))?;
    let Some(difference) = difference else { return Ok(None) };
    let mut finding = tell(&difference);
    for known in &options.known {
        if holds(left, known.left.as_bytes())? && holds(right, known.right.as_bytes())? {
            finding.text += &format!(": contains {}", known.what);
            finding.cause = Some(Cause::KnownString);
            break;
        }
    }
    Ok(Some(finding))
}

/// The words for a difference.
pub(crate) fn tell(difference: &Difference) -> Finding {
    let Difference { first, differing, left_bytes, right_bytes } = *difference;
    let text = if left_bytes == right_bytes {
        format!("{differing} of {left_bytes} bytes differ, the first at offset {first}")
    } else {
        format!("{left_bytes} bytes on the left side, {right_bytes} on the right; they differ from offset {first}")
    };
    Finding::new(FindingKind::Bytes, true, text)
}

/// Whether `needle` stands anywhere in the file.
fn holds(path: &Path, needle: &[u8]) -> Result<bool, Error> {
    if needle.is_empty() {
        return Ok(false);
    }
    let finder = Finder::new(needle);
    let mut file = File::open(path).map_err(Error::read(path))?;
    let mut buffer = vec![0; BUFFER_BYTES.max(needle.len() * 2)];
    let mut kept = 0;
    loop {
        let count = fill(&mut file, &mut buffer[kept..]).map_err(Error::read(path))?;
        if finder.find(&buffer[..kept + count]).is_some() {
            return Ok(true);
        }
        if count == 0 {
            return Ok(false);
        }
        // The needle may lie across the border of two readings.
        let end = kept + count;
        let keep = (needle.len() - 1).min(end);
        buffer.copy_within(end - keep..end, 0);
        kept = keep;
    }
}
