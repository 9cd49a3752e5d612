//! The extended attribute by which a published path says where it came from.

use super::durable;
use refrain_core::Result;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::io;
use std::path::Path;

const NAME: &str = "user.refrain";
/// The largest value that any Linux filesystem takes (xattr(7)).
const LONGEST: usize = 64 * 1024;

/// What the published file or directory at the path says of its origin; nothing when it says nothing, or when the
/// filesystem keeps no such attributes.
///
/// # Errors
/// `invalid` when the path does not exist.
pub fn provenance_of(path: &Path) -> Result<Option<String>> {
    let mut value = vec![0_u8; LONGEST];
    match rustix::fs::getxattr(path, NAME, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(String::from_utf8(value).ok())
        }
        Err(errno @ (Errno::NOENT | Errno::NOTDIR)) => {
            Err(refrain_core::Error::invalid(format!("`{}` does not exist", path.display()))
                .because(io::Error::from(errno)))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(None),
        Err(errno) => Err(super::problem("read the provenance of", path, errno.into())),
    }
}

/// Attaches the provenance. It is a convenience: a filesystem without such attributes, or without room for this one,
/// takes none, and the publication is none the worse.
pub(crate) fn attach(path: &Path, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    match rustix::fs::lsetxattr(path, NAME, text.as_bytes(), XattrFlags::empty()) {
        Ok(()) => Ok(()),
        Err(errno) => {
            let error = io::Error::from(errno);
            let harmless =
                [Errno::PERM, Errno::ACCESS, Errno::NOSPC, Errno::DQUOT, Errno::TOOBIG, Errno::RANGE].contains(&errno);
            if harmless || durable::is_lacking(&error) { Ok(()) } else { Err(error) }
        }
    }
}
