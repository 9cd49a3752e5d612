//! Work that an earlier attempt of the same run sealed and could not publish: the bucket denied the commit, or the attempt
//! died on the way. A later attempt makes it its own by one compare-and-set of the manifest, and uploads what is missing as
//! long as the files are still on this machine.

use super::manifest::{Listed, Manifest};
use super::place::Place;
use super::record::Seen;
use super::{ObjectKind, leftovers, readers, staging, versions};
use refrain_core::{AttemptId, Error, ErrorKind, Generation, Holder, Result, RunId, SealedData, SealedWork, StagingId};
use refrain_object::{Bucket, Content, Multipart, Object, Swapped, Upload};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What is there of some work, and what is still to be uploaded.
struct Found<'m> {
    there: Vec<&'m Listed>,
    missing: Vec<Upload>,
}

/// The work of a run, newest first, of which each object is there in its size, or the file that it is made from.
pub(super) fn sealed(
    bucket: &Bucket,
    place: &Place,
    directory: &Path,
    (generation, run): (Generation, RunId),
) -> Result<Vec<SealedWork>> {
    let folder = place.manifest_folder();
    let mut keys = Vec::new();
    bucket.list(&folder, |entry| {
        if place.is_manifest(&entry.key, generation) {
            keys.push(entry.key);
        }
        Ok(())
    })?;
    let mut works = Vec::new();
    for key in keys {
        let Some((_, manifest)) = read(bucket, &key)? else { continue };
        let Some(origin) = manifest.origin.as_ref().filter(|origin| origin.run == run) else { continue };
        let prefix = place.target.key_of(&manifest.prefix)?;
        let Some(maker) = Place::attempt_of(&prefix) else { continue };
        if find(bucket, place, directory, (&prefix, maker, &manifest))?.is_some() {
            let place = bucket.address(&key).to_string();
            works.push(SealedWork { maker, made_from: origin.made_from.clone(), place });
        }
    }
    // An attempt's id begins with its time.
    works.sort_by_key(|work| std::cmp::Reverse(work.maker));
    Ok(works)
}

/// Takes over what an attempt made, if it is as it was sealed, or can be made so.
///
/// # Errors
/// `fenced` when the claim of the attempt that takes it stands no more.
pub(super) fn take_over(
    (bucket, seen): (&Bucket, &Seen),
    place: &Place,
    directory: &Path,
    (id, maker): (&StagingId, AttemptId),
) -> Result<Option<SealedData>> {
    let prefix = place.data(id.generation, maker);
    let key = place.manifest_of(&prefix);
    let Some((object, manifest)) = read(bucket, &key)? else { return Ok(None) };
    let Some(found) = find(bucket, place, directory, (&prefix, maker, &manifest))? else { return Ok(None) };
    if !versions::are_as_sealed(bucket, &prefix, &found.there)? {
        return Ok(None);
    }
    // Asked after the manifest was read: whoever took it over, or published it, had claimed the slot before.
    let claim = seen.read(bucket, place)?.and_then(|record| record.head.claim);
    if claim.is_none_or(|claim| claim.holder != id.holder) {
        return Err(Error::new(ErrorKind::Fenced, format!("another attempt has claimed {}", place.target)));
    }
    let missing = found.missing;
    let taken = Manifest { owner: id.clone(), ..manifest };
    let (text, reference) = taken.write(key.clone())?;
    match bucket.swap(&key, Some(&object.version), &Content::unique(text))? {
        Swapped::Done(_) => {}
        Swapped::Moved(_) => return Ok(None),
    }
    tracing::info!(rule = "5.7", target = %place.target, objects = missing.len(), "taking over what was sealed before");
    match bucket.upload(missing).and_then(|()| readers::put(bucket, place, &prefix, &taken)) {
        Ok(()) => taken.sealed(&place.slot(), &reference).map(Some),
        // A file that was changed since, an upload that the bucket's own rule ended: it will never be whole.
        Err(error) if error.kind == ErrorKind::Guard => {
            tracing::info!(target = %place.target, %error, "what was sealed before cannot be made whole");
            leftovers::remove_one(bucket, &prefix, &key, Some(id.holder.attempt))?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The manifest of work that nobody removes. One that cannot be read is reported by gc.
fn read(bucket: &Bucket, key: &str) -> Result<Option<(Object, Manifest)>> {
    let Some(object) = bucket.get(key)? else { return Ok(None) };
    let manifest = Manifest::parse(&object.content, key).ok().filter(|manifest| !manifest.removing);
    Ok(manifest.map(|manifest| (object, manifest)))
}

/// Looks for the objects in the bucket, and for files where there is none; nothing when one of them is nowhere any more.
fn find<'m>(
    bucket: &Bucket,
    place: &Place,
    directory: &Path,
    (prefix, maker, manifest): (&str, AttemptId, &'m Manifest),
) -> Result<Option<Found<'m>>> {
    let mut sizes = BTreeMap::new();
    bucket.list(prefix, |entry| {
        sizes.insert(entry.key, entry.size);
        Ok(())
    })?;
    // Whoever took it over since has uploaded from there too.
    let holder = Holder { attempt: maker, ..manifest.owner.holder };
    let output = staging::output(directory, place, &StagingId { holder, ..manifest.owner.clone() });
    let is_there = |listed: &&Listed| sizes.get(&format!("{prefix}{}", listed.name)) == Some(&listed.bytes);
    let (there, absent): (Vec<_>, Vec<_>) = manifest.objects.iter().partition(is_there);
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
    Ok(Some(Found { there, missing }))
}

fn upload(key: String, file: std::path::PathBuf, listed: &Listed) -> Upload {
    let multipart = listed.upload.clone().map(|id| Multipart { id });
    Upload { key, file, bytes: listed.bytes, digest: listed.digest.clone(), multipart }
}
