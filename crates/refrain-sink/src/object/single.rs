//! A single object, which readers name themselves. It cannot change in one step with the slot's record, so the record says
//! first what is to stand there, the object is replaced on the condition that nobody changed it since, and then the record
//! says that it stands. Whoever finds the first half carries it to its end (PROTOCOL 9.3, without a lock: each step is a
//! compare-and-set that any number of processes may try).

use super::manifest::Manifest;
use super::place::Place;
use super::record::{Intent, Record, Seen, Step, Tag};
use super::seal;
use refrain_core::{CrashPoint, CrashProbe, Error, Result};
use refrain_object::{Bucket, Content, Object, Swapped, Version};

/// What became of the object.
enum Landed {
    /// It stands there, or stood.
    Yes(Version),
    /// Somebody else replaced the object that it was to replace, so that it never can.
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
    let content = Content::named(content(bucket, place, intent)?, id, metadata(intent));
    tracing::info!(rule = "9.3", target = %place.target, "replacing the object");
    Ok(match bucket.swap(key, expected.as_ref(), &content)? {
        Swapped::Done(version) => Landed::Yes(version),
        Swapped::Moved(_) => Landed::Never,
    })
}

fn written(object: &Object, id: &str) -> Option<Version> {
    (object.write_id() == Some(id)).then(|| object.version.clone())
}

fn content(bucket: &Bucket, place: &Place, intent: &Intent) -> Result<Vec<u8>> {
    let data = intent.head.publication.as_ref().and_then(|publication| publication.data_for(&place.slot()));
    let lost =
        || Error::refused(format!("what was sealed for {} is gone", place.target)).hint("run it again with --rerun");
    let manifest = Manifest::of(bucket, data.ok_or_else(lost)?)?.ok_or_else(lost)?;
    let object = manifest.objects.first().ok_or_else(lost)?;
    let source = place.target.key_of(&manifest.prefix)?;
    let mut content = Vec::new();
    seal::read(bucket, &format!("{source}{}", object.name), object.bytes, &mut |chunk| {
        content.extend_from_slice(chunk);
        Ok(())
    })?;
    if format!("blake3:{}", blake3::hash(&content).to_hex()) != object.digest {
        return Err(Error::corrupt(format!("the copy of {} that is to be published was changed", place.target)));
    }
    Ok(content)
}

fn metadata(intent: &Intent) -> Vec<(&'static str, String)> {
    let Some(publication) = &intent.head.publication else { return Vec::new() };
    vec![
        ("refrainrun", publication.run.run_id.to_string()),
        ("refrainattempt", publication.attempt.to_string()),
        ("refrainversion", publication.run.generation.to_string()),
    ]
}
