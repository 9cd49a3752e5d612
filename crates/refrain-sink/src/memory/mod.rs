//! A sink in memory: the smallest thing that keeps the protocol. For tests, and as an example of a sink.
//!
//! A staging place is a text such as `memory:ATTEMPT.N`; [`MemorySink::write`] stands for the task that writes there.

use jiff::Timestamp;
use refrain_core::{
    Adopt, Capabilities, ClaimAnswer, ClaimDecision, ClaimRequest, CommitAnswer, CommitDecision, CommitOptions,
    CommitRequest, Condition, Error, Generation, Guards, Head, Keep, Open, Result, Sealed, SealedData, Sink,
    SlotAddress, Staged, Staging, StagingId, SwapCost, Version, decide_claim, decide_commit,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Content of an output. Shared, so that a version costs nothing.
type Bytes = Arc<[u8]>;

/// A sink in memory.
#[derive(Debug, Default)]
pub struct MemorySink {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<SlotAddress, Slot>,
    staged: BTreeMap<String, Attempt>,
}

#[derive(Debug, Default)]
struct Slot {
    head: Option<Head>,
    visible: Option<Bytes>,
    kept: Vec<Former>,
}

#[derive(Debug)]
struct Former {
    generation: Generation,
    content: Bytes,
    edited: bool,
    /// When what replaced it was sealed: this sink has no clock.
    replaced_at: Timestamp,
}

#[derive(Debug)]
struct Attempt {
    slot: SlotAddress,
    id: StagingId,
    content: Option<Bytes>,
}

impl MemorySink {
    /// A sink that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The address of a slot by any name.
    pub fn address(name: &str) -> SlotAddress {
        SlotAddress { sink: "memory".to_owned(), location: name.to_owned() }
    }

    /// Writes to a staging place, as a task does.
    ///
    /// # Errors
    /// `invalid` when there is no such place.
    pub fn write(&self, place: &str, content: &[u8]) -> Result<()> {
        match self.state().staged.get_mut(place) {
            Some(attempt) => attempt.content = Some(content.into()),
            None => return Err(Error::invalid(format!("there is no staging place `{place}`"))),
        }
        Ok(())
    }

    /// What readers see.
    pub fn visible(&self, slot: &SlotAddress) -> Option<Vec<u8>> {
        self.state().slots.get(slot)?.visible.as_deref().map(<[u8]>::to_vec)
    }

    /// Changes what readers see without the head, as a foreign writer does; nothing removes it.
    pub fn overwrite(&self, slot: &SlotAddress, content: Option<&[u8]>) {
        self.state().slots.entry(slot.clone()).or_default().visible = content.map(Into::into);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn condition(&self, address: &SlotAddress, head: Option<&Head>) -> Condition {
        let published = head.and_then(|head| head.publication.as_ref());
        let data = published.and_then(|publication| publication.data_for(address));
        match (published, self.visible.as_deref()) {
            (None, None) => Condition::Absent,
            (None, Some(_)) => Condition::Foreign("something that was not published".to_owned()),
            (Some(_), None) => Condition::Missing,
            (Some(_), Some(content)) if data.is_some_and(|data| data.digest == digest(content)) => Condition::Intact,
            (Some(_), Some(_)) => Condition::Drifted("the content differs".to_owned()),
        }
    }

    /// What a commit replaces must be what the head says, or be replaced with permission; it is kept.
    fn replace(&mut self, address: &SlotAddress, head: Head, content: Bytes, options: CommitOptions) -> Result<()> {
        let condition = self.condition(address, self.head.as_ref());
        let edited = matches!(condition, Condition::Drifted(_));
        match condition {
            Condition::Foreign(what) if options.adopt == Adopt::Never => {
                return Err(Error::new(refrain_core::ErrorKind::Conflict, what));
            }
            Condition::Drifted(what) if !options.overwrite_drift => {
                return Err(Error::new(refrain_core::ErrorKind::Conflict, what));
            }
            _ => {}
        }
        let replaced_at = head.publication.as_ref().map(|publication| publication.sealed_at).unwrap_or_default();
        if let Some(former) = self.visible.replace(content) {
            let generation = self.head.as_ref().map(Head::generation).unwrap_or_default();
            self.kept.insert(0, Former { generation, content: former, edited, replaced_at });
        }
        self.head = Some(head);
        Ok(())
    }
}

impl Sink for MemorySink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sink: "memory",
            atomic: true,
            conditional: true,
            claims: true,
            ledger_in_commit: false,
            swap_cost: SwapCost::Constant,
            rollback: true,
            keeps_changes: true,
        }
    }

    fn location(&self, slot: &SlotAddress) -> String {
        format!("memory:{}", slot.location)
    }

    fn preflight(&self, slot: &SlotAddress, _manner: Option<&str>, adopt: Adopt) -> Result<()> {
        match self.state().slots.get(slot).map(|entry| entry.condition(slot, entry.head.as_ref())) {
            Some(Condition::Foreign(what)) if adopt == Adopt::Never => Err(Error::refused(what)),
            _ => Ok(()),
        }
    }

    fn read(&self, slot: &SlotAddress) -> Result<Option<Head>> {
        Ok(self.state().slots.get(slot).and_then(|slot| slot.head.clone()))
    }

    fn claim(&self, slot: &SlotAddress, request: &ClaimRequest) -> Result<ClaimAnswer> {
        let mut state = self.state();
        let slot = state.slots.entry(slot.clone()).or_default();
        Ok(match decide_claim(slot.head.as_ref(), request) {
            ClaimDecision::Accept(head) => {
                slot.head = Some(head.clone());
                ClaimAnswer::Claimed(head)
            }
            ClaimDecision::Standing(head) => ClaimAnswer::Claimed(head),
            ClaimDecision::Fenced(head) => ClaimAnswer::Fenced(head),
            ClaimDecision::Refused(head, why) => ClaimAnswer::Refused(head, why),
        })
    }

    fn stage(&self, slot: &SlotAddress, _manner: Option<&str>, staging: &StagingId) -> Result<Staging<Open>> {
        let index = staging.slots.iter().position(|other| other == slot).unwrap_or_default();
        let place = format!("memory:{}.{index}", staging.holder.attempt);
        let attempt = Attempt { slot: slot.clone(), id: staging.clone(), content: None };
        self.state().staged.insert(place.clone(), attempt);
        Ok(Staging::open(slot.clone(), staging.clone(), place))
    }

    fn seal(&self, staging: Staging<Open>, guards: &Guards) -> Result<Staging<Sealed>> {
        let content = self.state().staged.get(&staging.place).and_then(|attempt| attempt.content.clone());
        let content = content.ok_or_else(|| Error::guard("the task made no output"))?;
        let bytes = content.len() as u64;
        if bytes == 0 && !guards.allow_empty {
            return Err(Error::guard("the output is empty"));
        }
        if guards.min_bytes.is_some_and(|least| bytes < least) || guards.min_files.is_some_and(|least| least > 1) {
            return Err(Error::guard("the output is smaller than it must be"));
        }
        let data = SealedData {
            slot: staging.slot.clone(),
            staged: staging.place.clone(),
            digest: digest(&content),
            bytes,
            files: 1,
            rows: None,
            identity: staging.place.clone(),
        };
        Ok(staging.sealed(data))
    }

    fn commit(&self, slot: &SlotAddress, request: &CommitRequest, options: &CommitOptions) -> Result<CommitAnswer> {
        let mut state = self.state();
        let State { slots, staged } = &mut *state;
        let entry = slots.entry(slot.clone()).or_default();
        let head = match decide_commit(entry.head.as_ref(), request) {
            CommitDecision::Accept(head) => *head,
            CommitDecision::Standing(_) => return Ok(CommitAnswer::Committed),
            CommitDecision::Rejected => return Ok(CommitAnswer::Rejected),
        };
        let data = request.publication.data_for(slot);
        let content = data.and_then(|data| {
            let content = staged.get(&data.staged)?.content.clone()?;
            (digest(&content) == data.digest).then_some((data.staged.clone(), content))
        });
        let Some((place, content)) = content else { return Ok(CommitAnswer::DataLost) };
        entry.replace(slot, head, content, *options)?;
        staged.remove(&place);
        Ok(CommitAnswer::Committed)
    }

    fn condition(&self, slot: &SlotAddress, head: Option<&Head>) -> Result<Condition> {
        Ok(self.state().slots.get(slot).map_or(Condition::Absent, |entry| entry.condition(slot, head)))
    }

    fn versions(&self, slot: &SlotAddress) -> Result<Vec<Version>> {
        let state = self.state();
        let Some(entry) = state.slots.get(slot) else { return Ok(Vec::new()) };
        let current = entry.head.as_ref().and_then(Head::seen).filter(|_| entry.visible.is_some());
        let current = current.map(|publication| Version {
            generation: publication.run.generation,
            locations: vec![format!("memory:{}", slot.location)],
            replaced_at: None,
            current: true,
            edited: false,
        });
        Ok(current.into_iter().chain(entry.kept.iter().map(|former| version_of(slot, former))).collect())
    }

    fn restore(&self, slot: &SlotAddress, generation: Generation, into: &str) -> Result<()> {
        let content = {
            let state = self.state();
            let entry = state.slots.get(slot);
            let seen = |head: &Head| head.seen().is_some_and(|seen| seen.run.generation == generation);
            let current = entry.filter(|it| it.head.as_ref().is_some_and(seen));
            let kept = || entry?.kept.iter().find(|former| former.generation == generation);
            current
                .and_then(|it| it.visible.clone())
                .or_else(|| kept().map(|former| Arc::clone(&former.content)))
                .ok_or_else(|| Error::invalid(format!("there is no version {generation} of `{slot}`")))?
        };
        self.write(into, &content)
    }

    fn staged(&self) -> Result<Vec<Staged>> {
        let named = |(place, attempt): (&String, &Attempt)| Staged {
            place: place.clone(),
            owner: Some((attempt.slot.clone(), attempt.id.clone())),
        };
        Ok(self.state().staged.iter().map(named).collect())
    }

    fn discard(&self, staged: &Staged) -> Result<()> {
        self.state().staged.remove(&staged.place);
        Ok(())
    }

    fn trim(&self, slot: &SlotAddress, keep: &Keep, now: Timestamp, dry_run: bool) -> Result<Vec<Version>> {
        let mut state = self.state();
        let Some(entry) = state.slots.get_mut(slot) else { return Ok(Vec::new()) };
        let newest = usize::try_from(keep.versions).unwrap_or(usize::MAX);
        let mut removed = Vec::new();
        let mut place = 0;
        entry.kept.retain(|former| {
            let age = std::time::Duration::try_from(now.duration_since(former.replaced_at)).unwrap_or_default();
            let superfluous = place >= newest && age >= keep.grace;
            place += 1;
            if superfluous {
                removed.push(version_of(slot, former));
            }
            dry_run || !superfluous
        });
        Ok(removed)
    }
}

fn version_of(slot: &SlotAddress, former: &Former) -> Version {
    Version {
        generation: former.generation,
        locations: vec![format!("memory:{} version {}", slot.location, former.generation)],
        replaced_at: Some(former.replaced_at),
        current: false,
        edited: former.edited,
    }
}

fn digest(content: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(content).to_hex())
}
