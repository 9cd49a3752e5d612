//! A single object that is too large for one request: what was sealed is copied, in parts, to an upload at the object's own
//! key, and the request that makes an object of them carries the condition.
//!
//! Each process that carries the intent out has an upload of its own, which the record names before the first part is sent.
//! Whichever completes first wins: all have the same content and the same write id. Whoever takes the intent out of the
//! record ends the others first.

use super::manifest::Listed;
use super::place::Place;
use super::record::{Intent, Record, Seen, Step};
use super::{Buckets, ObjectKind};
use refrain_core::{CrashPoint, CrashProbe, Error, ErrorKind, Result};
use refrain_object::{Bucket, Completed, Content, Copied, Multipart, Swapped, Version};

const MIB: u64 = 1024 * 1024;

/// The largest object whose content is sent in one request, the one that decides, and lies in memory meanwhile.
const IN_ONE_REQUEST: u64 = 64 * MIB;

/// How many uploads the record names at most: whoever dies in the middle, again and again, leaves no more than these.
const MOST_UPLOADS: usize = 8;

/// What became of a large object.
pub(super) enum Sent {
    /// It was told by the store.
    Told(Swapped),
    /// What was sealed for it is not what it was.
    Changed,
    /// Somebody else ended the upload, or carried the intent out.
    Again,
}

/// Whether an object of this size goes in parts.
pub(super) fn is_large(bytes: u64) -> bool {
    bytes > IN_ONE_REQUEST
}

/// Makes sure that an output of this size can be published, before any of it is uploaded.
///
/// # Errors
/// `guard` when it is too large for the store's protocol; as [`Buckets::prove`] when the store breaks it.
pub(super) fn check(buckets: &Buckets, place: &Place, bytes: u64) -> Result<()> {
    if place.kind != ObjectKind::Object || !is_large(bytes) {
        return Ok(());
    }
    let in_parts = buckets.open(&place.target)?.largest_in_parts();
    let largest = in_parts.unwrap_or(IN_ONE_REQUEST);
    if bytes > largest {
        let why = if in_parts.is_some() { "here" } else { "with this kind of store" };
        return Err(Error::guard(format!(
            "the output for {} has {bytes} bytes; a single object has at most {largest} ({} MiB) {why}",
            place.target,
            largest / MIB
        ))
        .hint("publish to a prefix, which takes files of any size: end the URL with `/`"));
    }
    buckets.prove_parts(&place.target)
}

/// Carries out an intent whose object is large.
///
/// # Crash safety
/// Each upload is named by the record before its first part. One whose process dies between the two is empty, and left to
/// the bucket's own rule.
pub(super) fn carry_out(
    (bucket, seen, probe): (&Bucket, &Seen, &dyn CrashProbe),
    (place, intent): (&Place, &Intent),
    (source, listed): (&str, &Listed),
    content: &Content,
) -> Result<Sent> {
    let key = &place.target.key;
    let upload = bucket.begin_in_parts(key, content)?;
    match record(bucket, seen, place, (intent, &upload)) {
        Ok(true) => {}
        Ok(false) => return bucket.abort(key, &upload).map(|()| Sent::Again),
        Err(error) => return Err(given_up(bucket, key, &upload, error)),
    }
    probe.reach(CrashPoint::AfterUploadBegun);
    tracing::info!(rule = "9.3", target = %place.target, bytes = listed.bytes, "replacing the object in parts");
    let copied = bucket.copy_in_parts((source, listed.bytes, &listed.digest), (key, &upload));
    let parts = match copied.map_err(|error| given_up(bucket, key, &upload, error))? {
        Copied::Whole(parts) => parts,
        Copied::Changed => return Ok(Sent::Changed),
        Copied::Ended => return Ok(Sent::Again),
    };
    probe.reach(CrashPoint::BeforeCompletion);
    let expected = intent.replaces.as_ref().map(Version::from);
    let completed = bucket.complete_in_parts(key, expected.as_ref(), content, (&upload, &parts));
    Ok(match completed.map_err(|error| given_up(bucket, key, &upload, error))? {
        Completed::Swapped(swapped) => Sent::Told(swapped),
        Completed::Ended => Sent::Again,
    })
}

/// Ends the uploads that an intent names. One that was completed counts as ended.
pub(super) fn end_uploads(bucket: &Bucket, place: &Place, intent: &Intent) -> Result<()> {
    let end = |id: &String| bucket.abort(&place.target.key, &Multipart { id: id.clone() });
    intent.uploads.iter().try_for_each(end)
}

/// Names the upload in the record; whether the intent is still there.
fn record(bucket: &Bucket, seen: &Seen, place: &Place, (intent, upload): (&Intent, &Multipart)) -> Result<bool> {
    let recorded = seen.change(bucket, place, |now| {
        let still = now.and_then(|now| now.intent.as_ref().filter(|still| still.is(intent)).map(|still| (now, still)));
        let Some((now, still)) = still else { return Ok(Step::Answer(None)) };
        let mut next = still.clone();
        let excess = (next.uploads.len() + 1).saturating_sub(MOST_UPLOADS);
        let dropped: Vec<_> = next.uploads.drain(..excess).collect();
        // Before the record forgets them.
        end_uploads(bucket, place, &Intent { uploads: dropped, ..Intent::clone(&next) })?;
        next.uploads.push(upload.id.clone());
        Ok(Step::Write(Box::new(Record { intent: Some(next), ..now.clone() }), Some(())))
    })?;
    Ok(recorded.is_some())
}

/// What failed leaves nothing that takes room; the record goes on naming it, and whoever comes next begins anew.
fn given_up(bucket: &Bucket, key: &str, upload: &Multipart, error: Error) -> Error {
    if let Err(left) = bucket.abort(key, upload) {
        tracing::info!(upload = upload.id, error = %left, "an upload that failed cannot be ended yet");
    }
    error
}

/// Every upload was ended by somebody else.
pub(super) fn ended(place: &Place) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the uploads that were to replace {} were ended by somebody else, again and again", place.target),
    )
    .hint("look whether a rule of the bucket ends uploads too early, or another program; then repeat the call")
}
