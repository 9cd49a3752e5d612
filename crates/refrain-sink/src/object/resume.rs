//! Work that an earlier attempt of the same run sealed and could not publish: the bucket denied the commit, or the attempt
//! died on the way. A later attempt makes it its own by one compare-and-set of the manifest, and uploads what is missing as
//! long as the files are still on this machine.

use super::manifest::{Listed, Manifest};
use super::place::Place;
use super::{ObjectKind, leftovers, readers, staging, versions};
use refrain_core::{ErrorKind, Holder, Origin, Result, SealedData, StagingId};
use refrain_object::{Bucket, Content, Multipart, Object, Swapped, Upload};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Takes over the newest work of the origin that is whole, or can be made whole.
pub(super) fn take_over(
    bucket: &Bucket,
    place: &Place,
    directory: &Path,
    (id, origin): (&StagingId, &Origin),
) -> Result<Option<SealedData>> {
    let folder = place.manifest_folder();
    let mut keys = Vec::new();
    bucket.list(&folder, |entry| {
        if place.is_manifest(&entry.key, id.generation) {
            keys.push(entry.key);
        }
        Ok(())
    })?;
    // An attempt's id begins with its time.
    for key in keys.into_iter().rev() {
        let Some(object) = bucket.get(&key)? else { continue };
        // One that cannot be read is reported by gc.
        let Ok(manifest) = Manifest::parse(&object.content, &key) else { continue };
        if manifest.removing || manifest.origin.as_ref() != Some(origin) {
            continue;
        }
        if let Some(sealed) = take(bucket, place, directory, (&key, &object, manifest, id))? {
            return Ok(Some(sealed));
        }
    }
    Ok(None)
}

fn take(
    bucket: &Bucket,
    place: &Place,
    directory: &Path,
    (key, object, manifest, id): (&str, &Object, Manifest, &StagingId),
) -> Result<Option<SealedData>> {
    let prefix = place.target.key_of(&manifest.prefix)?;
    let Some(missing) = missing(bucket, place, directory, (&prefix, &manifest))? else { return Ok(None) };
    let taken = Manifest { owner: id.clone(), ..manifest };
    let (text, reference) = taken.write(key.to_owned())?;
    match bucket.swap(key, Some(&object.version), &Content::unique(text))? {
        Swapped::Done(_) => {}
        Swapped::Moved(_) => return Ok(None),
    }
    tracing::info!(rule = "5.7", target = %place.target, objects = missing.len(), "taking over what was sealed before");
    match bucket.upload(missing).and_then(|()| readers::put(bucket, place, &prefix, &taken)) {
        Ok(()) => taken.sealed(&place.slot(), &reference).map(Some),
        // A file that was changed since, an upload that the bucket's own rule ended: it will never be whole.
        Err(error) if error.kind == ErrorKind::Guard => {
            tracing::info!(target = %place.target, %error, "what was sealed before cannot be made whole");
            leftovers::remove_one(bucket, &prefix, key, Some(id.holder.attempt))?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What is not in the bucket yet; nothing when it is nowhere any more.
fn missing(
    bucket: &Bucket,
    place: &Place,
    directory: &Path,
    (prefix, manifest): (&str, &Manifest),
) -> Result<Option<Vec<Upload>>> {
    let mut there = BTreeMap::new();
    bucket.list(prefix, |entry| {
        there.insert(entry.key, entry.size);
        Ok(())
    })?;
    // Whoever took it over since has uploaded from there too.
    let Some(maker) = Place::attempt_of(prefix) else { return Ok(None) };
    let holder = Holder { attempt: maker, ..manifest.owner.holder };
    let output = staging::output(directory, place, &StagingId { holder, ..manifest.owner.clone() });
    let is_there = |listed: &Listed| there.get(&format!("{prefix}{}", listed.name)) == Some(&listed.bytes);
    let (there, absent): (Vec<_>, Vec<_>) = manifest.objects.iter().partition(|listed| is_there(listed));
    if !versions::are_as_sealed(bucket, prefix, &there)? {
        return Ok(None);
    }
    let mut missing = Vec::new();
    for listed in absent {
        let key = format!("{prefix}{}", listed.name);
        let file = match place.kind {
            ObjectKind::Prefix => output.join(&listed.name),
            ObjectKind::Object => output.clone(),
        };
        if !fs::metadata(&file).is_ok_and(|data| data.is_file() && data.len() == listed.bytes) {
            return Ok(None);
        }
        missing.push(upload(key, file, listed));
    }
    Ok(Some(missing))
}

fn upload(key: String, file: std::path::PathBuf, listed: &Listed) -> Upload {
    let multipart = listed.upload.clone().map(|id| Multipart { id });
    Upload { key, file, bytes: listed.bytes, digest: listed.digest.clone(), multipart }
}
