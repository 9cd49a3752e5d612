//! The list of what was pinned of an input of objects: keys, sizes, versions and checksums (docs/FORMATS.md).

use super::found::{Found, Listed};
use refrain_core::{Error, Result};
use refrain_object::Address;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    location: String,
    objects: Vec<Listed>,
}

/// Writes the list.
///
/// # Crash safety
/// Not synced. Nothing but the names in messages depends on it.
pub(super) fn write(found: &Found, path: &Path) -> Result<()> {
    let record = Record { format: FORMAT, location: found.address.to_string(), objects: found.objects.clone() };
    let failed = |error| Error::io(format!("cannot write `{}`", path.display()), error);
    let text = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
    fs::write(path, text).map_err(failed)
}

/// Reads a list; nothing if there is none, or not all of it.
pub(super) fn read(path: &Path) -> Option<Found> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let address = Address::parse(&record.location).ok()?;
    (record.format == FORMAT).then_some(Found { address, objects: record.objects })
}
