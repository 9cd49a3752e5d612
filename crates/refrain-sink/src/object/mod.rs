//! Objects in buckets: a prefix, which is published by one conditional write of the slot's record, and a single object,
//! which readers name themselves.
//!
//! The path of the data: `place` (where things are) -> `staging` (a directory on this machine) -> `seal` (digests, the
//! `manifest`, the uploads) -> `commit` of the `record` (for a single object through `single`, and `large` for one
//! in parts) -> `versions` for readers.
//!
//! # Crash safety
//! What decides is one small object for each slot, changed by compare-and-set alone. Whatever an attempt leaves behind is
//! named by its manifest or by its directory, and goes when the attempt is fenced or outdone.

mod buckets;
mod commit;
mod large;
mod leftovers;
mod manifest;
mod place;
mod readers;
mod record;
mod resume;
mod seal;
mod single;
mod staging;
mod versions;

pub use buckets::Buckets;
pub use manifest::{Listed, Manifest};
pub use place::folders;
pub use readers::{PrefixManner, Reader};

use jiff::Timestamp;
use place::Place;
use record::{Record, Seen, Step};
use refrain_core::{
    Adopt, AttemptId, Capabilities, ClaimAnswer, ClaimDecision, ClaimRequest, CommitAnswer, CommitOptions,
    CommitRequest, Condition, CrashProbe, Error, Generation, Guards, Head, Keep, Open, Result, RunId, Sealed,
    SealedData, SealedWork, Sink, SlotAddress, Staged, Staging, StagingId, SwapCost, Version, decide_claim,
};
use refrain_object::{Address, Bucket};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is published in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// All objects of a version, which readers find by its manifest.
    Prefix,
    /// One object.
    Object,
}

impl ObjectKind {
    /// The sink's kind, as in [`SlotAddress::sink`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Object => "object",
        }
    }

    /// What the sink promises.
    pub fn capabilities(self) -> Capabilities {
        Capabilities {
            sink: self.name(),
            atomic: true,
            conditional: true,
            claims: true,
            ledger_in_commit: true,
            swap_cost: SwapCost::Constant,
            rollback: true,
            keeps_changes: self == Self::Object,
        }
    }

    /// The kind that a URL means.
    pub fn of(address: &Address) -> Self {
        if address.is_prefix() { Self::Prefix } else { Self::Object }
    }
}

/// Objects of one kind in the buckets of a home.
pub struct ObjectSink {
    kind: ObjectKind,
    buckets: Arc<Buckets>,
    seen: Seen,
    /// The manifests of what was sealed or taken over through this handle: it is there, and nobody else may remove it
    /// before a commit of it can only be rejected.
    sealed: Mutex<BTreeSet<String>>,
    /// Where tasks write.
    directory: PathBuf,
    probe: Arc<dyn CrashProbe>,
}

impl ObjectSink {
    /// A sink for objects of a kind, whose tasks write below a home's state directory. Nothing is connected yet.
    pub fn new(kind: ObjectKind, buckets: Arc<Buckets>, state: &Path, probe: Arc<dyn CrashProbe>) -> Self {
        let directory = state.join(staging::DIRECTORY);
        Self { kind, buckets, seen: Seen::default(), sealed: Mutex::default(), directory, probe }
    }

    /// The slot that a URL names.
    ///
    /// # Errors
    /// `invalid` when nothing can be published there.
    pub fn address(&self, address: &Address) -> Result<SlotAddress> {
        Ok(Place::new(self.kind, address.clone(), self.buckets.area(address))?.slot())
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, slot: &SlotAddress) -> Result<(Bucket, Place)> {
        let address = Address::parse(&slot.location)?;
        let place = Place::new(self.kind, address.clone(), self.buckets.area(&address))?;
        Ok((self.buckets.open(&address)?, place))
    }

    /// The record, with whatever was begun at a single object carried to its end.
    fn settled(&self, bucket: &Bucket, place: &Place) -> Result<Option<Record>> {
        let record = self.seen.read(bucket, place)?;
        if record.as_ref().is_some_and(|record| record.intent.is_some()) {
            single::settle((bucket, &self.seen, &*self.probe), place)?;
            return self.seen.guess(bucket, place);
        }
        Ok(record)
    }
}

impl fmt::Debug for ObjectSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSink").field("kind", &self.kind).field("buckets", &self.buckets).finish_non_exhaustive()
    }
}

/// Whether two locations of objects meet.
pub fn overlap(one: &SlotAddress, other: &SlotAddress) -> bool {
    let parse = |slot: &SlotAddress| Address::parse(&slot.location).ok();
    let is_object =
        |slot: &SlotAddress| slot.sink == ObjectKind::Prefix.name() || slot.sink == ObjectKind::Object.name();
    if !is_object(one) || !is_object(other) {
        return false;
    }
    let (Some(one), Some(other)) = (parse(one), parse(other)) else { return false };
    one == other || (!one.key.is_empty() && one.contains(&other)) || (!other.key.is_empty() && other.contains(&one))
}

impl Sink for ObjectSink {
    fn capabilities(&self) -> Capabilities {
        self.kind.capabilities()
    }

    fn location(&self, slot: &SlotAddress) -> String {
        slot.location.clone()
    }

    fn preflight(&self, slot: &SlotAddress, _manner: Option<&str>, adopt: Adopt) -> Result<()> {
        let (bucket, place) = self.find(slot)?;
        self.buckets.prove(&place.target)?;
        if self.kind == ObjectKind::Object {
            self.buckets.prove_writable(&place.target)?;
        }
        let record = self.seen.guess(&bucket, &place)?;
        let is_published = record.as_ref().is_some_and(|record| record.head.publication.is_some());
        if adopt == Adopt::Never
            && !is_published
            && let Condition::Foreign(what) = versions::condition(&bucket, &place, record.as_ref())?
        {
            return Err(Error::refused(format!("{} exists and was not published by refrain: {what}", place.target)).hint(
                match self.kind {
                    ObjectKind::Object => "move it away, or publish over it with `--adopt` (it is kept as version 0)",
                    ObjectKind::Prefix => {
                        "readers that list would take them for the publication, which lies elsewhere: move them away, or \
                         leave them there with `--adopt`"
                    }
                },
            ));
        }
        Ok(())
    }

    fn read(&self, slot: &SlotAddress) -> Result<Option<Head>> {
        let (bucket, place) = self.find(slot)?;
        Ok(self.seen.read(&bucket, &place)?.map(|record| record.head))
    }

    fn claim(&self, slot: &SlotAddress, request: &ClaimRequest) -> Result<ClaimAnswer> {
        let (bucket, place) = self.find(slot)?;
        loop {
            // An intent is the business of whoever comes next, before anything else (9.3).
            single::settle((&bucket, &self.seen, &*self.probe), &place)?;
            let answer = self.seen.change(&bucket, &place, |record| {
                if record.is_some_and(|record| record.intent.is_some()) {
                    return Ok(Step::Answer(None));
                }
                let head = record.map(|record| &record.head);
                Ok(match decide_claim(head, request) {
                    ClaimDecision::Accept(head) => {
                        let next = match record {
                            Some(record) => record.with(head.clone()),
                            None => Record::new(head.clone()),
                        };
                        Step::Write(Box::new(next), Some(ClaimAnswer::Claimed(head)))
                    }
                    ClaimDecision::Standing(head) => Step::Answer(Some(ClaimAnswer::Claimed(head))),
                    ClaimDecision::Fenced(head) => Step::Answer(Some(ClaimAnswer::Fenced(head))),
                    ClaimDecision::Refused(head, why) => Step::Answer(Some(ClaimAnswer::Refused(head, why))),
                })
            })?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    fn stage(&self, slot: &SlotAddress, manner: Option<&str>, id: &StagingId) -> Result<Staging<Open>> {
        let (_, place) = self.find(slot)?;
        let output = staging::make(&self.directory, &place, (id, manner))?;
        let mut open = Staging::open(slot.clone(), id.clone(), output);
        if self.kind == ObjectKind::Prefix {
            let prefix = place.target.at(place.data(id.generation, id.holder.attempt));
            open.extra.push(("URL".to_owned(), prefix.to_string()));
        }
        Ok(open)
    }

    fn seal(&self, staging: Staging<Open>, guards: &Guards) -> Result<Staging<Sealed>> {
        let (_, place) = self.find(&staging.slot)?;
        let manner = staging::manner(&self.directory, &staging.slot, &staging.id)?;
        let at = (&place, self.directory.as_path());
        let sealed = seal::seal((&self.buckets, &*self.probe), at, (&staging, &manner), guards)?;
        self.known().insert(sealed.identity.clone());
        staging::remove(&self.directory, &staging.slot, &staging.id)?;
        Ok(staging.sealed(sealed))
    }

    fn keeps_sealed(&self) -> bool {
        true
    }

    fn sealed(&self, slot: &SlotAddress, generation: Generation, run: RunId) -> Result<Vec<SealedWork>> {
        let (bucket, place) = self.find(slot)?;
        resume::sealed(&bucket, &place, &self.directory, (generation, run))
    }

    fn take_over(&self, slot: &SlotAddress, id: &StagingId, maker: AttemptId) -> Result<Option<SealedData>> {
        let (bucket, place) = self.find(slot)?;
        let taken = resume::take_over((&bucket, &self.seen), &place, &self.directory, (id, maker))?;
        if let Some(taken) = &taken {
            self.known().insert(taken.identity.clone());
            staging::remove(&self.directory, slot, id)?;
        }
        Ok(taken)
    }

    fn commit(&self, slot: &SlotAddress, request: &CommitRequest, options: &CommitOptions) -> Result<CommitAnswer> {
        let (bucket, place) = self.find(slot)?;
        let data = request.publication.data_for(slot);
        let is_there = data.is_some_and(|data| self.known().contains(&data.identity));
        commit::commit((&bucket, &self.seen, &*self.probe), &place, (request, is_there), *options)
    }

    fn condition(&self, slot: &SlotAddress, _head: Option<&Head>) -> Result<Condition> {
        let (bucket, place) = self.find(slot)?;
        let record = self.seen.guess(&bucket, &place)?;
        versions::condition(&bucket, &place, record.as_ref())
    }

    fn versions(&self, slot: &SlotAddress) -> Result<Vec<Version>> {
        let (bucket, place) = self.find(slot)?;
        let record = self.settled(&bucket, &place)?;
        versions::versions(&bucket, &place, record.as_ref())
    }

    fn restore(&self, slot: &SlotAddress, generation: Generation, into: &str) -> Result<()> {
        let (bucket, place) = self.find(slot)?;
        let record = self.settled(&bucket, &place)?;
        versions::restore(&bucket, &place, record.as_ref(), (generation, Path::new(into)))
    }

    fn staged(&self) -> Result<Vec<Staged>> {
        let mut staged = leftovers::local(&self.directory, self.kind)?;
        for bucket in self.buckets.all()? {
            leftovers::remote(&bucket, (self.kind, &self.buckets), &self.seen, &mut staged)?;
        }
        Ok(staged)
    }

    fn discard(&self, staged: &Staged) -> Result<()> {
        let Some((slot, id)) = &staged.owner else { return Ok(()) };
        self.known().clear();
        let (bucket, place) = self.find(slot)?;
        if Address::is_one(&staged.place) {
            let named = place.target.key_of(&staged.place)?;
            let (prefix, manifest) = if named.ends_with('/') {
                (named.clone(), place.manifest_of(&named))
            } else {
                (Place::data_of_manifest(&self.buckets.area(&place.target), &named), named)
            };
            return leftovers::remove_one(&bucket, &prefix, &manifest, Some(id.holder.attempt));
        }
        leftovers::remove(&bucket, &place, &self.directory, id)?;
        staging::remove(&self.directory, slot, id)
    }

    fn trim(&self, slot: &SlotAddress, keep: &Keep, now: Timestamp, dry_run: bool) -> Result<Vec<Version>> {
        let (bucket, place) = self.find(slot)?;
        versions::trim(&bucket, &self.seen, &place, (keep, now, dry_run))
    }
}
