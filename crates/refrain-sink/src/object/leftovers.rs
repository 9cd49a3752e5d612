//! What attempts left behind, on this machine and in the buckets, with whose it is. What a record names is none of it.

use super::buckets::Buckets;
use super::manifest::{Manifest, Reference};
use super::place::Place;
use super::record::{Record, Seen};
use super::{ObjectKind, staging};
use refrain_core::{AttemptId, Result, Staged, StagingId};
use refrain_object::{Address, Bucket, Content, Multipart, Swapped};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The directories on this machine.
pub(super) fn local(directory: &Path, kind: ObjectKind) -> Result<Vec<Staged>> {
    let is_ours = |staged: &Staged| staged.owner.as_ref().is_none_or(|(slot, _)| slot.sink == kind.name());
    let mut all = staging::all(directory)?;
    // One without a name is reported once.
    all.retain(|staged| is_ours(staged) && (staged.owner.is_some() || kind == ObjectKind::Prefix));
    Ok(all)
}

/// The manifests of a bucket that no record names. Objects without any manifest are shown without an owner, so that they
/// are reported and never deleted.
pub(super) fn remote(
    bucket: &Bucket,
    (kind, buckets): (ObjectKind, &Buckets),
    seen: &Seen,
    staged: &mut Vec<Staged>,
) -> Result<()> {
    let root = bucket.address("");
    let area = buckets.area(&root);
    let suffix = format!(".{}.json", kind.name());
    let (mut manifests, mut prefixes) = (Vec::new(), BTreeSet::new());
    bucket.list(&Place::manifests(&area), |entry| {
        prefixes.insert(Place::data_of_manifest(&area, &entry.key));
        if entry.key.ends_with(&suffix) {
            manifests.push(entry.key);
        }
        Ok(())
    })?;
    let mut records: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for key in manifests {
        let Some(object) = bucket.get(&key)? else { continue };
        let Ok(manifest) = Manifest::parse(&object.content, &key) else {
            staged.push(Staged { place: bucket.address(&key).to_string(), owner: None });
            continue;
        };
        let place = Place::new(kind, Address::parse(&manifest.location)?, area.clone())?;
        if !records.contains_key(&manifest.location) {
            let record = seen.read(bucket, &place)?;
            records.insert(manifest.location.clone(), named_by(record.as_ref(), &place));
        }
        if !records.get(&manifest.location).is_some_and(|named| named.contains(&key)) {
            let owner = Some((place.slot(), manifest.owner));
            staged.push(Staged { place: bucket.address(&key).to_string(), owner });
        }
    }
    if kind == ObjectKind::Prefix {
        strange(bucket, (&area, &prefixes), staged)?;
    }
    Ok(())
}

/// The manifests that a record names: of what is published, kept, or about to be.
fn named_by(record: Option<&Record>, place: &Place) -> BTreeSet<String> {
    let Some(record) = record else { return BTreeSet::new() };
    let slot = place.slot();
    let heads = std::iter::once(&record.head).chain(record.intent.iter().map(|intent| &intent.head));
    let publications = heads.flat_map(|head| {
        let taken = head.taken_from.as_ref().map(|former| &former.publication);
        head.publication.iter().chain(taken)
    });
    let data = publications.filter_map(|publication| publication.data_for(&slot));
    let kept = record.kept.iter().chain(record.intent.iter().flat_map(|intent| &intent.kept)).map(|kept| &kept.data);
    data.chain(kept).filter_map(|data| Reference::of(data).ok()).map(|reference| reference.key).collect()
}

/// Objects in the area that no manifest accounts for, by the prefix they are below.
fn strange(bucket: &Bucket, (area, known): (&Address, &BTreeSet<String>), staged: &mut Vec<Staged>) -> Result<()> {
    let mut strange = BTreeSet::new();
    bucket.list(&Place::data_of_all(area), |entry| {
        let is_known = entry.key.match_indices('/').any(|(end, _)| known.contains(&entry.key[..=end]));
        if !is_known {
            let end = entry.key.rfind('/').unwrap_or_default();
            strange.insert(entry.key[..=end].to_owned());
        }
        Ok(())
    })?;
    if strange.is_empty() {
        return Ok(());
    }
    // A publication that was begun since the manifests were listed has its manifest before its objects.
    let mut begun = BTreeSet::new();
    bucket.list(&Place::manifests(area), |entry| {
        begun.insert(Place::data_of_manifest(area, &entry.key));
        Ok(())
    })?;
    strange.retain(|prefix| !prefix.match_indices('/').any(|(end, _)| begun.contains(&prefix[..=end])));
    let mine: BTreeSet<String> = staged.iter().filter_map(|staged| own_prefix(staged, area)).collect();
    let unknown = strange.into_iter().filter(|prefix| !mine.iter().any(|mine| prefix.starts_with(mine)));
    staged.extend(unknown.map(|prefix| Staged { place: bucket.address(&prefix).to_string(), owner: None }));
    Ok(())
}

/// Where the attempt of a directory on this machine may have written itself.
fn own_prefix(staged: &Staged, area: &Address) -> Option<String> {
    let (slot, id) = staged.owner.as_ref()?;
    let place = Place::new(ObjectKind::Prefix, Address::parse(&slot.location).ok()?, area.clone()).ok()?;
    Some(place.data(id.generation, id.holder.attempt))
}

/// Removes everything that an attempt may have left in the bucket.
pub(super) fn remove(bucket: &Bucket, place: &Place, directory: &Path, id: &StagingId) -> Result<()> {
    let (generation, attempt) = (id.generation, id.holder.attempt);
    for prefix in [place.data(generation, attempt), place.replaced(generation, attempt)] {
        remove_one(bucket, &prefix, &place.manifest_of(&prefix), Some(attempt))?;
    }
    // Whoever took the manifest over goes on with the uploads that it names.
    if bucket.head(&place.manifest_of(&place.data(generation, attempt)))?.is_none() {
        for (key, id) in staging::noted_uploads(directory, &place.slot(), id) {
            bucket.abort(&key, &Multipart { id })?;
        }
    }
    Ok(())
}

/// Removes the objects below a prefix, the uploads in parts that their manifest names, and the manifest last, so that a
/// removal which dies is found again. What another attempt than `of` has taken over meanwhile stays.
pub(super) fn remove_one(bucket: &Bucket, prefix: &str, manifest: &str, of: Option<AttemptId>) -> Result<()> {
    if let Some(object) = bucket.get(manifest)? {
        let listed = Manifest::parse(&object.content, manifest)?;
        if of.is_some_and(|of| of != listed.owner.holder.attempt) {
            return Ok(());
        }
        if !listed.removing {
            let (text, _) = Manifest { removing: true, ..listed.clone() }.write(manifest.to_owned())?;
            match bucket.swap(manifest, Some(&object.version), &Content::unique(text))? {
                Swapped::Done(_) => {}
                Swapped::Moved(_) => return Ok(()),
            }
        }
        for object in listed.objects {
            if let Some(id) = object.upload {
                bucket.abort(&format!("{prefix}{}", object.name), &Multipart { id })?;
            }
        }
    }
    let mut keys = Vec::new();
    bucket.list(prefix, |entry| {
        keys.push(entry.key);
        Ok(())
    })?;
    keys.iter().try_for_each(|key| bucket.delete(key))?;
    bucket.delete(manifest)
}
