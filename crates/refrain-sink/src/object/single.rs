//! A single object, which readers name themselves. It cannot change in one step with the slot's record, so the record says
//! first what is to stand there, the object is replaced on the condition that nobody changed it since, and then the record
//! says that it stands. Whoever finds the first half carries it to its end (PROTOCOL 9.3, without a lock: each step is a
//! compare-and-set that any number of processes may try).

use super::large::{self, Sent};
use super::manifest::{Listed, Manifest};
use super::place::Place;
use super::record::{Intent, Record, Seen, Step, Tag};
use super::{seal, versions};
use crate::local::digest_text;
use refrain_core::{CrashPoint, CrashProbe, ErrorKind, Publication, Result};
use refrain_object::{Bucket, Content, Object, Swapped, Version};
use std::time::Duration;

/// How often an upload in parts is begun anew when somebody else ended it.
const TRIES: u32 = 3;

/// The pause before that.
const PAUSE: Duration = Duration::from_millis(500);

/// What became of the object.
enum Landed {
    /// It stands there, or stood.
    Yes(Version),
    /// It never can: somebody else replaced the object that it was to replace, or what was sealed for it is gone.
    Never,
    /// Not yet: it is to be tried again.
    Again,
}

/// Carries what the record intends to its end, if it intends anything.
///
/// # Crash safety
/// Repeating it is harmless at every point.
pub(super) fn settle((bucket, seen, probe): (&Bucket, &Seen, &dyn CrashProbe), place: &Place) -> Result<()> {
    let mut tries = 0;
    loop {
        // What is settled already may be settled on a guess: whoever writes next finds out.
        let Some(record) = seen.guess(bucket, place)? else { return Ok(()) };
        let Some(intent) = record.intent.clone() else { return Ok(()) };
        let landed = carry_out((bucket, seen, probe), place, &intent)?;
        if let Landed::Again = landed {
            tries += 1;
            if tries == TRIES {
                return Err(large::ended(place));
            }
            std::thread::sleep(PAUSE);
            seen.read(bucket, place)?;
            continue;
        }
        probe.reach(CrashPoint::BeforeRecord);
        // With the uploads that were begun for it meanwhile.
        let Some(intent) = seen.guess(bucket, place)?.and_then(|now| now.intent).filter(|now| now.is(&intent)) else {
            continue;
        };
        large::end_uploads(bucket, place, &intent)?;
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
                Landed::Never | Landed::Again => Record { intent: None, ..now.clone() },
            };
            Ok(Step::Write(Box::new(next), true))
        })?;
        if settled {
            probe.reach(CrashPoint::AfterRecord);
            return Ok(());
        }
    }
}

fn carry_out(
    (bucket, seen, probe): (&Bucket, &Seen, &dyn CrashProbe),
    place: &Place,
    intent: &Intent,
) -> Result<Landed> {
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
    let Some((source, listed)) = sealed(bucket, place, intent.head.publication.as_ref())? else {
        return Ok(gone(place));
    };
    let sent = if large::is_large(listed.bytes) {
        let content = Content::in_parts(id, metadata(intent));
        large::carry_out((bucket, seen, probe), (place, intent), (&source, &listed), &content)?
    } else {
        let Some(content) = content(bucket, &source, &listed)? else { return Ok(gone(place)) };
        tracing::info!(rule = "9.3", target = %place.target, "replacing the object");
        Sent::Told(bucket.swap(key, expected.as_ref(), &Content::named(content, id, metadata(intent)))?)
    };
    Ok(match sent {
        Sent::Told(Swapped::Done(version)) => Landed::Yes(version),
        Sent::Told(Swapped::Moved(_)) => Landed::Never,
        Sent::Changed => gone(place),
        Sent::Again => Landed::Again,
    })
}

fn gone(place: &Place) -> Landed {
    tracing::warn!(rule = "5.5", target = %place.target, "what was sealed for it is gone: it is given up");
    Landed::Never
}

fn written(object: &Object, id: &str) -> Option<Version> {
    (object.write_id() == Some(id)).then(|| object.version.clone())
}

/// Whether what was sealed for the object is there as it was sealed.
pub(super) fn is_whole(bucket: &Bucket, place: &Place, publication: &Publication) -> Result<bool> {
    let Some((source, listed)) = sealed(bucket, place, Some(publication))? else { return Ok(false) };
    versions::is_as_sealed(bucket, &source, &listed)
}

/// The key of what was sealed for the object, and what it must be; nothing when that is not known any more.
fn sealed(bucket: &Bucket, place: &Place, publication: Option<&Publication>) -> Result<Option<(String, Listed)>> {
    let Some(data) = publication.and_then(|publication| publication.data_for(&place.slot())) else { return Ok(None) };
    let Some(manifest) = Manifest::of(bucket, data)? else { return Ok(None) };
    let prefix = place.target.key_of(&manifest.prefix)?;
    Ok(manifest.objects.into_iter().next().map(|object| (format!("{prefix}{}", object.name), object)))
}

/// The content of what was sealed; nothing when it is gone, or is not what it was.
fn content(bucket: &Bucket, source: &str, listed: &Listed) -> Result<Option<Vec<u8>>> {
    let mut content = Vec::with_capacity(usize::try_from(listed.bytes).unwrap_or_default());
    let read = seal::read(bucket, source, listed.bytes, &mut |chunk| {
        content.extend_from_slice(chunk);
        Ok(())
    });
    match read {
        Err(error) if error.kind == ErrorKind::Corrupt => return Ok(None),
        read => read?,
    }
    Ok((digest_text(&blake3::hash(&content)) == listed.digest).then_some(content))
}

fn metadata(intent: &Intent) -> Vec<(&'static str, String)> {
    let Some(publication) = &intent.head.publication else { return Vec::new() };
    vec![
        ("refrainrun", publication.run.run_id.to_string()),
        ("refrainattempt", publication.attempt.to_string()),
        ("refrainversion", publication.run.generation.to_string()),
    ]
}
