//! A single object, which readers name themselves. It cannot change in one step with the slot's record, so the record says
//! first what is to stand there, the object is replaced on the condition that nobody changed it since, and then the record
//! says that it stands. Whoever finds the first half carries it to its end (PROTOCOL 9.3, without a lock: each step is a
//! compare-and-set that any number of processes may try).

use super::manifest::Manifest;
use super::place::Place;
use super::record::{Intent, Record, Seen, Step, Tag};
use super::seal;
use crate::local::digest_text;
use refrain_core::{CrashPoint, CrashProbe, ErrorKind, Publication, Result};
use refrain_object::{Bucket, Content, Object, Swapped, Version};

/// What became of the object.
enum Landed {
    /// It stands there, or stood.
    Yes(Version),
    /// It never can: somebody else replaced the object that it was to replace, or what was sealed for it is gone.
    Never,
}

/// Carries what the record intends to its end, if it intends anything.
///
/// # Crash safety
/// Repeating it is harmless at every point.
pub(super) fn settle((bucket, seen, probe): (&Bucket, &Seen, &dyn CrashProbe), place: &Place) -> Result<()> {
    loop {
        // What is settled already may be settled on a guess: whoever writes next finds out.
        let Some(record) = seen.guess(bucket, place)? else { return Ok(()) };
        let Some(intent) = record.intent.clone() else { return Ok(()) };
        let landed = carry_out(bucket, place, &intent)?;
        probe.reach(CrashPoint::BeforeRecord);
        let settled = seen.change(bucket, place, |now| {
            let Some(now) = now.filter(|now| now.intent.as_ref() == Some(&intent)) else {
                return Ok(Step::Answer(false));
            };
            let next = match &landed {
                Landed::Yes(version) => Record {
                    published: Some(Tag::from(version)),
                    kept: intent.kept.clone(),
                    intent: None,
                    ..now.with(intent.head.clone())
                },
                Landed::Never => Record { intent: None, ..now.clone() },
            };
            Ok(Step::Write(Box::new(next), true))
        })?;
        if settled {
            probe.reach(CrashPoint::AfterRecord);
            return Ok(());
        }
    }
}

fn carry_out(bucket: &Bucket, place: &Place, intent: &Intent) -> Result<Landed> {
    let key = &place.target.key;
    let standing = bucket.head(key)?;
    let id = intent.head.version.to_string();
    if let Some(version) = standing.as_ref().and_then(|object| written(object, &id)) {
        return Ok(Landed::Yes(version));
    }
    let expected = intent.replaces.as_ref().map(Version::from);
    let unmoved = match (&standing, &expected) {
        (None, None) => true,
        (Some(object), Some(expected)) => object.version.is(expected),
        _ => false,
    };
    if !unmoved {
        return Ok(Landed::Never);
    }
    let publication = intent.head.publication.as_ref();
    let Some(content) = publication.map(|publication| content(bucket, place, publication)).transpose()?.flatten()
    else {
        tracing::warn!(rule = "5.5", target = %place.target, "what was sealed for it is gone: it is given up");
        return Ok(Landed::Never);
    };
    let content = Content::named(content, id, metadata(intent));
    tracing::info!(rule = "9.3", target = %place.target, "replacing the object");
    Ok(match bucket.swap(key, expected.as_ref(), &content)? {
        Swapped::Done(version) => Landed::Yes(version),
        Swapped::Moved(_) => Landed::Never,
    })
}

fn written(object: &Object, id: &str) -> Option<Version> {
    (object.write_id() == Some(id)).then(|| object.version.clone())
}

/// Whether what was sealed for the object is there as it was sealed.
pub(super) fn is_whole(bucket: &Bucket, place: &Place, publication: &Publication) -> Result<bool> {
    content(bucket, place, publication).map(|content| content.is_some())
}

/// What was sealed for the object; nothing when it is gone, or is not what it was.
fn content(bucket: &Bucket, place: &Place, publication: &Publication) -> Result<Option<Vec<u8>>> {
    let Some(data) = publication.data_for(&place.slot()) else { return Ok(None) };
    let Some(manifest) = Manifest::of(bucket, data)? else { return Ok(None) };
    let Some(object) = manifest.objects.first() else { return Ok(None) };
    let source = place.target.key_of(&manifest.prefix)?;
    let mut content = Vec::new();
    let read = seal::read(bucket, &format!("{source}{}", object.name), object.bytes, &mut |chunk| {
        content.extend_from_slice(chunk);
        Ok(())
    });
    match read {
        Err(error) if error.kind == ErrorKind::Corrupt => return Ok(None),
        read => read?,
    }
    Ok((digest_text(&blake3::hash(&content)) == object.digest).then_some(content))
}

fn metadata(intent: &Intent) -> Vec<(&'static str, String)> {
    let Some(publication) = &intent.head.publication else { return Vec::new() };
    vec![
        ("refrainrun", publication.run.run_id.to_string()),
        ("refrainattempt", publication.attempt.to_string()),
        ("refrainversion", publication.run.generation.to_string()),
    ]
}
