//! The commit (PROTOCOL 4.2): for a prefix one conditional write of the slot's record, whatever the number of objects.
//! For a single object the record first says what will stand there; `single` carries it out.

use super::manifest::{Listed, Manifest, Reference};
use super::place::Place;
use super::record::{Intent, Kept, Record, Seen, Step, Tag};
use super::{ObjectKind, seal, single};
use crate::local::digest_text;
use refrain_core::{
    Adopt, CommitAnswer, CommitDecision, CommitOptions, CommitRequest, CrashPoint, CrashProbe, Error, ErrorKind,
    Guards, Head, Result, SealedData, StagingId, decide_commit,
};
use refrain_object::{Bucket, Object};

/// Commits.
///
/// # Crash safety
/// For a prefix, readers that follow the record see the old or the new version; the store decides. For a single object,
/// dying after the record named the intent leaves it to whoever comes next.
pub(super) fn commit(
    (bucket, seen, probe): (&Bucket, &Seen, &dyn CrashProbe),
    place: &Place,
    (request, is_there): (&CommitRequest, bool),
    options: CommitOptions,
) -> Result<CommitAnswer> {
    let Some(data) = request.publication.data_for(&place.slot()) else {
        return Err(Error::new(ErrorKind::Internal, format!("nothing was sealed for {}", place.target)));
    };
    // Whoever sealed it knows that it is there; a successor asks.
    if !is_there && bucket.head(&Reference::of(data)?.key)?.is_none() {
        let landed = seen.read(bucket, place)?.is_some_and(|record| record.head.version == request.fresh_version);
        return Ok(if landed { CommitAnswer::Committed } else { CommitAnswer::DataLost });
    }
    match place.kind {
        ObjectKind::Prefix => seen.change(bucket, place, |record| match decide(record, request) {
            Err(answer) => Ok(Step::Answer(answer)),
            Ok((record, head)) => {
                let kept = kept(record, place, request);
                Ok(Step::Write(Box::new(Record { kept, ..record.with(head) }), CommitAnswer::Committed))
            }
        }),
        ObjectKind::Object => {
            let answer = intend((bucket, seen, probe), place, request, options)?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
            probe.reach(CrashPoint::AfterIntent);
            single::settle((bucket, seen, probe), place).map_err(|error| undecided(place, &error))?;
            answer_of(seen, bucket, place, request)
        }
    }
}

/// Writes the intent into the record; an answer when there is nothing to carry out.
fn intend(
    (bucket, seen, probe): (&Bucket, &Seen, &dyn CrashProbe),
    place: &Place,
    request: &CommitRequest,
    options: CommitOptions,
) -> Result<Option<CommitAnswer>> {
    loop {
        // Not on a guess: who stands there now decides what may be replaced.
        seen.read(bucket, place)?;
        single::settle((bucket, seen, probe), place)?;
        let stood = seen.guess(bucket, place)?;
        let target = bucket.head(&place.target.key)?;
        let intended = seen.change(bucket, place, |record| {
            let (record, head) = match decide(record, request) {
                Err(answer) => return Ok(Step::Answer(Some(answer))),
                Ok(decided) => decided,
            };
            let kept = preserve(bucket, place, (record, target.as_ref()), (request, options))?;
            let replaces = target.as_ref().map(|object| Tag::from(&object.version));
            let intent = Some(Box::new(Intent { head, replaces, kept, uploads: Vec::new() }));
            Ok(Step::Write(Box::new(Record { intent, ..record.clone() }), None))
        });
        // An object that was published between the two looks is nobody's change by hand.
        match intended {
            Err(error) if error.kind == ErrorKind::Conflict && seen.read(bucket, place)? != stood => {}
            intended => return intended,
        }
    }
}

/// 9.6: whoever comes next carries the intent out, so that a failure of this call is no failure of the publication.
fn undecided(place: &Place, error: &Error) -> Error {
    let mut undecided =
        Error::new(ErrorKind::Unknown, format!("{} is to be replaced, and is not yet: {error}", place.target));
    undecided.hint.clone_from(&error.hint);
    undecided
}

/// What became of the intent.
fn answer_of(seen: &Seen, bucket: &Bucket, place: &Place, request: &CommitRequest) -> Result<CommitAnswer> {
    let record = seen.guess(bucket, place)?;
    if record.as_ref().is_some_and(|record| record.head.shows(request.publication.attempt)) {
        return Ok(CommitAnswer::Committed);
    }
    // Another one carried the intent out, or withdrew it, and went on: what the head shows now tells which (5.11).
    if record.is_none_or(|record| record.head.version != request.expected) {
        return Ok(CommitAnswer::Rejected);
    }
    if !single::is_whole(bucket, place, &request.publication)? {
        return Ok(CommitAnswer::DataLost);
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!("{} was changed by somebody else at the moment when it was to be replaced", place.target),
    )
    .hint("look at it; a repeat publishes over it"))
}

fn decide<'r>(record: Option<&'r Record>, request: &CommitRequest) -> Result<(&'r Record, Head), CommitAnswer> {
    match (decide_commit(record.map(|record| &record.head), request), record) {
        (CommitDecision::Accept(head), Some(record)) => Ok((record, *head)),
        (CommitDecision::Standing(_), _) => Err(CommitAnswer::Committed),
        _ => Err(CommitAnswer::Rejected),
    }
}

/// The replaced versions, with the one that is being replaced.
fn kept(record: &Record, place: &Place, request: &CommitRequest) -> Vec<Kept> {
    let former = former(record, place).map(|former| Kept { replaced_at: request.publication.sealed_at, ..former });
    former.into_iter().chain(record.kept.iter().cloned()).collect()
}

/// The published version, as one that is kept.
fn former(record: &Record, place: &Place) -> Option<Kept> {
    let publication = record.head.seen()?;
    let data = publication.data_for(&place.slot())?.clone();
    Some(Kept { generation: publication.run.generation, data, replaced_at: publication.sealed_at, edited: false })
}

/// The replaced versions of a single object, with what stands there now: what a person wrote is copied aside first.
fn preserve(
    bucket: &Bucket,
    place: &Place,
    (record, target): (&Record, Option<&Object>),
    (request, options): (&CommitRequest, CommitOptions),
) -> Result<Vec<Kept>> {
    let kept = kept(record, place, request);
    let Some(target) = target else { return Ok(kept) };
    let published = former(record, place).map(|former| former.generation);
    let is_ours = published.is_some() && record.published.as_ref().is_some_and(|tag| target.version.is(&tag.into()));
    if is_ours {
        return Ok(kept);
    }
    let (what, allowed) = match published {
        None => ("was not published by refrain", options.adopt == Adopt::Foreign),
        Some(_) => ("was changed by hand", options.overwrite_drift),
    };
    if !allowed {
        return Err(Error::new(ErrorKind::Conflict, format!("{} {what}", place.target)));
    }
    let data = copy_aside(bucket, place, target, request)?;
    let generation = published.unwrap_or_default();
    let edited = Kept { generation, data, replaced_at: request.publication.sealed_at, edited: published.is_some() };
    // What was published lies in its attempt's own prefix, where nobody changed it: it is kept too, before what became of it.
    let former = kept.len() - record.kept.len();
    let (former, earlier) = kept.split_at(former);
    Ok([former, &[edited], earlier].concat())
}

fn copy_aside(bucket: &Bucket, place: &Place, target: &Object, request: &CommitRequest) -> Result<SealedData> {
    let run = &request.publication.run;
    let owner = StagingId { holder: request.holder, generation: run.generation, slots: run.slots().cloned().collect() };
    let key = format!("{}{}", place.replaced(run.generation, request.holder.attempt), place.base_name());
    bucket.copy(&place.target.key, &key)?;
    let mut hasher = blake3::Hasher::new();
    seal::read(bucket, &key, target.size, &mut |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    let digest = digest_text(&hasher.finalize());
    let listed = Listed { name: place.base_name().to_owned(), bytes: target.size, digest, upload: None };
    let prefix = place.replaced(run.generation, request.holder.attempt);
    let manifest = Manifest::new(place, &prefix, vec![listed], &Guards::default(), &owner);
    let (text, reference) = manifest.write(place.manifest_of(&prefix))?;
    bucket.put(&reference.key, text)?;
    manifest.sealed(&place.slot(), &reference)
}
