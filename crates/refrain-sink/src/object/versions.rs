//! Versions: what readers find, what is kept, and copies of them.

use super::ObjectKind;
use super::manifest::{Listed, Manifest, Reference, tags_of};
use super::place::Place;
use super::record::{Kept, Record, Seen, Step};
use super::{leftovers, seal};
use jiff::Timestamp;
use refrain_core::{Condition, Error, ErrorKind, Generation, Keep, Result, SealedData, Version, counted};
use refrain_object::Bucket;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The versions that can be read, newest first.
pub(super) fn versions(bucket: &Bucket, place: &Place, record: Option<&Record>) -> Result<Vec<Version>> {
    let Some(record) = record else { return Ok(Vec::new()) };
    let mut versions = Vec::new();
    if let Some((generation, data)) = published(record, place) {
        let locations = match place.kind {
            ObjectKind::Prefix => objects(bucket, data)?,
            ObjectKind::Object => vec![place.target.to_string()],
        };
        versions.push(Version { generation, locations, replaced_at: None, current: true, edited: false });
    }
    for kept in &record.kept {
        versions.push(version_of(kept, objects(bucket, &kept.data)?));
    }
    Ok(versions)
}

/// What readers see: also of a former owner, until the new one publishes.
fn published<'r>(record: &'r Record, place: &Place) -> Option<(Generation, &'r SealedData)> {
    let publication = record.head.seen()?;
    Some((publication.run.generation, publication.data_for(&place.slot())?))
}

fn version_of(kept: &Kept, locations: Vec<String>) -> Version {
    Version {
        generation: kept.generation,
        locations,
        replaced_at: Some(kept.replaced_at),
        current: false,
        edited: kept.edited,
    }
}

/// The URLs of a version's objects; none when its manifest is gone.
fn objects(bucket: &Bucket, data: &SealedData) -> Result<Vec<String>> {
    let manifest = Manifest::of(bucket, data)?;
    let all = manifest
        .iter()
        .flat_map(|manifest| manifest.objects.iter().map(|object| format!("{}{}", manifest.prefix, object.name)));
    Ok(all.collect())
}

/// Copies a version to this machine and makes sure that it is what was published.
pub(super) fn restore(
    bucket: &Bucket,
    place: &Place,
    record: Option<&Record>,
    (generation, into): (Generation, &Path),
) -> Result<()> {
    let missing = || Error::invalid(format!("there is no version {generation} of {}", place.target));
    let record = record.ok_or_else(missing)?;
    let current = published(record, place).filter(|(published, _)| *published == generation).map(|(_, data)| data);
    // What was published comes before what became of it by hand.
    let of_it = record.kept.iter().filter(|kept| kept.generation == generation);
    let kept = of_it.min_by_key(|kept| kept.edited).map(|kept| &kept.data);
    let data = current.or(kept).ok_or_else(missing)?;
    let manifest = Manifest::of(bucket, data)?.ok_or_else(missing)?;
    for object in &manifest.objects {
        let file = match place.kind {
            ObjectKind::Prefix => into.join(&object.name),
            ObjectKind::Object => into.to_owned(),
        };
        let key = format!("{}{}", place.target.key_of(&manifest.prefix)?, object.name);
        fetch(bucket, &key, (object.bytes, &object.digest), &file)?;
    }
    if place.kind == ObjectKind::Prefix {
        fs::create_dir_all(into).map_err(|error| Error::io(format!("cannot make `{}`", into.display()), error))?;
    }
    Ok(())
}

fn fetch(bucket: &Bucket, key: &str, (bytes, digest): (u64, &str), file: &Path) -> Result<()> {
    let failed = |error| Error::io(format!("cannot write `{}`", file.display()), error);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut written = fs::File::create_new(file).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    seal::read(bucket, key, bytes, &mut |chunk| {
        hasher.update(chunk);
        written.write_all(chunk).map_err(failed)
    })?;
    if format!("blake3:{}", hasher.finalize().to_hex()) != digest {
        return Err(Error::corrupt(format!("the object {} is not what was published", bucket.address(key))));
    }
    Ok(())
}

/// How many objects are read at once.
const AT_ONCE: usize = 8;

/// Whether objects below a prefix have the content that was sealed. Reads all of it.
pub(super) fn are_as_sealed(bucket: &Bucket, prefix: &str, objects: &[&Listed]) -> Result<bool> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<bool> {
        while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !is_as_sealed(bucket, &format!("{prefix}{}", object.name), object)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (1..AT_ONCE.min(objects.len())).map(|_| scope.spawn(work)).collect();
        let mut whole = work();
        for reader in readers {
            let read =
                reader.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a reading thread ended early")));
            whole = whole.and_then(|whole| Ok(whole && read?));
        }
        whole
    })
}

/// Whether an object has the content that was sealed. Reads all of it.
pub(super) fn is_as_sealed(bucket: &Bucket, key: &str, object: &Listed) -> Result<bool> {
    let mut hasher = blake3::Hasher::new();
    let read = seal::read(bucket, key, object.bytes, &mut |chunk| {
        hasher.update(chunk);
        Ok(())
    });
    match read {
        Err(error) if error.kind == ErrorKind::Corrupt => Ok(false),
        read => read.map(|()| format!("blake3:{}", hasher.finalize().to_hex()) == object.digest),
    }
}

/// Compares what stands there with what the record says, without reading any content.
pub(super) fn condition(bucket: &Bucket, place: &Place, record: Option<&Record>) -> Result<Condition> {
    let record = record.filter(|record| record.head.seen().is_some());
    match (place.kind, record) {
        (ObjectKind::Prefix, None) => foreign_below(bucket, place),
        (ObjectKind::Prefix, Some(record)) => match published(record, place) {
            Some((_, data)) => listed(bucket, place, data),
            None => Ok(Condition::Intact),
        },
        (ObjectKind::Object, record) => {
            let standing = bucket.head(&place.target.key)?;
            let tag = record.and_then(|record| record.published.as_ref());
            // One that has landed and is not recorded yet is no change by hand.
            let intent = record.and_then(|record| record.intent.as_ref()).map(|intent| intent.head.version.to_string());
            if intent.is_some() && standing.as_ref().is_some_and(|object| object.write_id() == intent.as_deref()) {
                return Ok(Condition::Intact);
            }
            Ok(match (standing, record) {
                (None, None) => Condition::Absent,
                (None, Some(_)) => Condition::Missing,
                (Some(object), None) => Condition::Foreign(format!(
                    "an object of {}, written {}",
                    counted(object.size, "byte"),
                    object.modified
                )),
                (Some(object), Some(_)) if tag.is_some_and(|tag| object.version.is(&tag.into())) => Condition::Intact,
                (Some(object), Some(_)) => Condition::Drifted(format!("it was written {}", object.modified)),
            })
        }
    }
}

/// Objects below the prefix that readers name: they would be taken for the publication, which lies elsewhere.
fn foreign_below(bucket: &Bucket, place: &Place) -> Result<Condition> {
    Ok(match bucket.any_below(&place.target.key)? {
        None => Condition::Absent,
        Some(first) => Condition::Foreign(format!("there are objects below it, such as `{}`", first.key)),
    })
}

fn listed(bucket: &Bucket, place: &Place, data: &SealedData) -> Result<Condition> {
    let Some(manifest) = Manifest::of(bucket, data)? else { return Ok(Condition::Missing) };
    let prefix = place.target.key_of(&manifest.prefix)?;
    let mut expected: BTreeMap<&str, u64> = manifest
        .objects
        .iter()
        .chain(&manifest.for_readers)
        .map(|object| (object.name.as_str(), object.bytes))
        .collect();
    let (mut difference, mut tags) = (None, BTreeMap::new());
    bucket.list(&prefix, |entry| {
        let name = entry.key.strip_prefix(&prefix).unwrap_or(&entry.key);
        tags.extend(entry.version.tag().map(|tag| (name.to_owned(), tag.to_owned())));
        // What is not in the manifest is not published: a task may have left somebody behind who still writes (SPK-07).
        if expected.remove(name).is_some_and(|bytes| bytes != entry.size) {
            difference = Some(format!("`{name}` has another size"));
        }
        Ok(())
    })?;
    let missing = expected.keys().next().map(|name| format!("`{name}` is missing"));
    let tagged = Reference::of(data)?.tags;
    let now = tags_of(&manifest.objects, |name| tags.get(name).map(String::as_str));
    let rewritten =
        (tagged.is_some() && now.is_some() && tagged != now).then(|| "an object was written again".to_owned());
    Ok(difference.or(missing).or(rewritten).map_or(Condition::Intact, Condition::Drifted))
}

/// The kept versions with how many newer ones there are; what became of one by hand is no further version.
fn numbered(kept: &[Kept]) -> impl Iterator<Item = (usize, &Kept)> {
    let mut newer = 0;
    let mut former: Option<&Kept> = None;
    kept.iter().map(move |kept| {
        if former.is_some_and(|former| former.generation != kept.generation) {
            newer += 1;
        }
        former = Some(kept);
        (newer, kept)
    })
}

/// Removes kept versions beyond the policy: from the record first, so that nobody is sent to what is being deleted.
pub(super) fn trim(
    bucket: &Bucket,
    seen: &Seen,
    place: &Place,
    (keep, now, dry_run): (&Keep, Timestamp, bool),
) -> Result<Vec<Version>> {
    let newest = usize::try_from(keep.versions).unwrap_or(usize::MAX);
    let superfluous = |(at, kept): &(usize, &Kept)| {
        let age = Duration::try_from(now.duration_since(kept.replaced_at)).unwrap_or_default();
        *at >= newest && age >= keep.grace
    };
    let record = seen.guess(bucket, place)?;
    let any = record.is_some_and(|record| numbered(&record.kept).any(|it| superfluous(&it)));
    if !any {
        return Ok(Vec::new());
    }
    let removed = seen.change(bucket, place, |record| {
        let Some(record) = record else { return Ok(Step::Answer(Vec::new())) };
        let (gone, stay): (Vec<_>, Vec<_>) = numbered(&record.kept).partition(superfluous);
        let of = |kept: Vec<(usize, &Kept)>| kept.into_iter().map(|(_, kept)| kept.clone()).collect::<Vec<_>>();
        let (gone, stay) = (of(gone), of(stay));
        if gone.is_empty() || dry_run {
            return Ok(Step::Answer(gone));
        }
        Ok(Step::Write(Box::new(Record { kept: stay, ..record.clone() }), gone))
    })?;
    let mut versions = Vec::new();
    for kept in &removed {
        versions.push(version_of(kept, vec![kept.data.staged.clone()]));
        if !dry_run {
            let prefix = place.target.key_of(&kept.data.staged)?;
            leftovers::remove_one(bucket, &prefix, &Reference::of(&kept.data)?.key, None)?;
        }
    }
    Ok(versions)
}
