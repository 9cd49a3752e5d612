//! One attempt as a state machine (PROTOCOL 5): [`Attempt::next`] says what to do, a method named after
//! what happened says how it ended. No input or output happens here, so that the explorer of
//! `refrain-check` walks through the very code that ships.

mod action;
mod answer;

pub use action::{Action, CommitStep, Goal};
pub use answer::{Answer, Cause, Doubt, Refusal};

use crate::{
    Claim, Generation, Granted, Head, HeadVersion, Holder, Publication, RunRecord, SlotAddress, SlotId, StoreIdentity,
    Token,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Acquiring,
    Claiming,
    Raising(Token),
    Opening,
    RollingForward,
    Executing,
    Committing(usize),
    Looking(usize),
    Finishing(Answer),
    Reporting(Answer),
}

/// The state of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    id: crate::AttemptId,
    goal: Goal,
    phase: Phase,
    lease: Option<(StoreIdentity, Token)>,
    to_claim: BTreeSet<SlotAddress>,
    forgone: BTreeSet<SlotAddress>,
    given_up: BTreeMap<SlotAddress, Head>,
    heads: BTreeMap<SlotAddress, Head>,
    run: Option<RunRecord>,
    decided: Option<Box<Publication>>,
    sealed: Option<Box<Publication>>,
    anchor_sent: bool,
    anchor_landed: bool,
    repairs: bool,
}

impl Attempt {
    /// An attempt that knows the slots of the configuration.
    pub fn new(id: crate::AttemptId, goal: Goal, configured: impl IntoIterator<Item = SlotAddress>) -> Self {
        Self {
            id,
            goal,
            phase: Phase::Acquiring,
            lease: None,
            to_claim: configured.into_iter().collect(),
            forgone: BTreeSet::new(),
            given_up: BTreeMap::new(),
            heads: BTreeMap::new(),
            run: None,
            decided: None,
            sealed: None,
            anchor_sent: false,
            anchor_landed: false,
            repairs: false,
        }
    }

    /// 13.1: the same, for a person who has decided that a damaged anchor is replaced. The run it works for must be of a
    /// later generation than every head.
    #[must_use]
    pub fn repairing(self) -> Self {
        Self { repairs: true, ..self }
    }

    /// What to do next.
    pub fn next(&self) -> Action {
        match &self.phase {
            Phase::Acquiring => Action::Acquire,
            Phase::Claiming => self.next_claim(),
            Phase::Raising(floor) => Action::Raise(*floor),
            Phase::Opening => Action::OpenRun(self.seen()),
            Phase::RollingForward => self.next_roll_forward(),
            Phase::Executing => match &self.run {
                Some(run) => Action::Execute(run.clone()),
                None => Action::Finish,
            },
            Phase::Committing(index) => self.own_commit(*index),
            Phase::Looking(index) => self.own_slot(*index).map_or(Action::Finish, Action::Read),
            Phase::Finishing(_) => Action::Finish,
            Phase::Reporting(answer) => Action::Report(answer.clone()),
        }
    }

    /// Who this attempt is at sinks and store; nothing before the lease is granted.
    pub fn holder(&self) -> Option<Holder> {
        let (store, token) = self.lease.as_ref()?;
        Some(Holder { store_id: store.store_id, token: *token, attempt: self.id })
    }

    /// The slots that this attempt knows of: what its claims carry (4.1).
    pub fn known_slots(&self) -> &BTreeSet<SlotAddress> {
        &self.to_claim
    }

    /// The heads as they stood when this attempt claimed them or committed to them.
    pub fn heads(&self) -> &BTreeMap<SlotAddress, Head> {
        &self.heads
    }

    /// What was decided before for the run at hand, or a later one, and stands at its anchor.
    pub fn decided(&self) -> Option<&Publication> {
        self.decided.as_deref().filter(|decided| decided.run.generation >= self.generation())
    }

    /// The slots at which another key publishes now, with their heads: see [`give_up`](Self::give_up).
    pub fn given_up(&self) -> &BTreeMap<SlotAddress, Head> {
        &self.given_up
    }

    /// Whether the lease is no longer needed by anything that this attempt may still do.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finishing(_) | Phase::Reporting(_))
    }

    /// What will be reported, once nothing can change it any more.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.phase {
            Phase::Finishing(answer) | Phase::Reporting(answer) => Some(answer),
            _ => None,
        }
    }

    /// 5.1: the lease was granted.
    pub fn acquired(&mut self, store: StoreIdentity, granted: &Granted) {
        self.lease = Some((store, granted.token));
        if let Some(run) = &granted.run {
            self.to_claim.extend(run.slots().cloned());
        }
        self.phase = Phase::Claiming;
        if self.to_claim.is_empty() {
            self.check_anchors(); // an attempt that died before it knew a slot left nothing at any sink
        }
    }

    /// A slot that nobody reaches any more, and at which nothing of this key stands, is not claimed: no attempt that could
    /// commit there is left.
    pub fn forgo(&mut self, slot: SlotAddress) {
        self.to_claim.remove(&slot);
        self.forgone.insert(slot);
        if self.to_claim.is_empty() && matches!(self.phase, Phase::Claiming) {
            self.check_anchors();
        }
    }

    /// 2.4: another key has published at the slot, as `head` says, and this one publishes elsewhere now. That key's claim
    /// gave the slot a new version, so that every attempt of this key is fenced there for good.
    pub fn give_up(&mut self, slot: &SlotAddress, head: Head) {
        self.to_claim.remove(slot);
        self.given_up.insert(slot.clone(), head);
        self.claim_on();
    }

    /// 5.1: another attempt has the lease.
    pub fn held(&mut self) {
        self.phase = Phase::Reporting(Answer::NotPublished(Cause::Held));
    }

    /// 5.2: the claim stands; `head` is the head after it.
    pub fn claimed(&mut self, slot: &SlotAddress, head: Head) {
        if let Some(Claim { slots, .. }) = &head.claim {
            let known = slots.difference(&self.forgone).filter(|slot| !self.given_up.contains_key(*slot));
            self.to_claim.extend(known.cloned());
        }
        if let Some(publication) = &head.publication {
            self.learn(publication.run.slots());
        }
        self.heads.insert(slot.clone(), head);
        self.claim_on();
    }

    /// 5.2: slots that have to be claimed, too.
    fn learn<'s>(&mut self, slots: impl Iterator<Item = &'s SlotAddress>) {
        self.to_claim.extend(slots.filter(|slot| !self.given_up.contains_key(slot)).cloned());
    }

    fn claim_on(&mut self) {
        if self.to_claim.iter().all(|slot| self.heads.contains_key(slot)) {
            self.check_anchors();
        }
    }

    /// 4.3: a later claim stands in the head. If the store says that this attempt holds the lease, the store
    /// went backwards; the next action asks it.
    pub fn claim_fenced(&mut self, head: &Head) {
        let floor = head.claim.as_ref().map(|claim| claim.holder.token).unwrap_or_default();
        self.phase = Phase::Raising(floor);
    }

    /// 4.3: the claim was refused.
    pub fn claim_refused(&mut self, refusal: Refusal) {
        self.phase = Phase::Finishing(Answer::Refused(refusal));
    }

    /// 4.3: the store gave a higher token; claim again from the first slot.
    pub fn raised(&mut self, token: Token) {
        if let Some((_, current)) = &mut self.lease {
            *current = token;
        }
        self.heads.clear();
        self.phase = Phase::Claiming;
    }

    /// The store or a heartbeat says that this attempt does not hold the lease. Before the first commit this
    /// is final; after it the sink decides, not the lease (5.7).
    pub fn lease_lost(&mut self) {
        if !self.anchor_sent {
            self.finish(Answer::NotPublished(Cause::Fenced));
        }
    }

    /// 5.4: the run to work for.
    pub fn opened(&mut self, run: RunRecord) {
        self.learn(run.slots());
        if self.to_claim.iter().any(|slot| !self.heads.contains_key(slot)) {
            self.phase = Phase::Claiming; // 5.2: never decide before all is claimed
            return;
        }
        self.run = Some(run);
        self.phase = Phase::RollingForward;
        self.settle_roll_forward();
    }

    /// The commit landed; the head has this version now.
    pub fn committed(&mut self, slot: &SlotAddress, version: HeadVersion) {
        let Some(publication) = self.in_flight() else { return };
        if let Some(head) = self.heads.get_mut(slot) {
            head.version = version; // 4.4 (ii)
            head.publication = Some(publication);
        }
        self.landed();
    }

    /// 5.11: the commit was rejected.
    pub fn rejected(&mut self) {
        match self.phase {
            Phase::Committing(index) => self.phase = Phase::Looking(index),
            // 5.11d: whoever fenced this attempt goes on with the roll-forward.
            _ => self.finish(Answer::NotPublished(Cause::Fenced)),
        }
    }

    /// 5.11: no definite answer to the commit can be had now.
    pub fn gave_up(&mut self) {
        self.failed();
    }

    /// The sink answered that the commit was not applied and never will be: a definite failure, such as a target
    /// that appeared, or sealed data that is gone. Not for a failure that follows a lost answer to the same
    /// request: the request that was not answered may still land (5.11, 9.6), so that is [`gave_up`](Self::gave_up).
    pub fn commit_failed(&mut self) {
        let answer = self.standing().unwrap_or(Answer::NotPublished(Cause::Failed));
        self.finish(answer);
    }

    /// 5.5: the sealed data to roll forward is gone. Only an attempt that was told to replace the publication goes on:
    /// no other can heal the slots.
    pub fn data_lost(&mut self, slot: &SlotAddress) {
        let rolling = matches!(self.phase, Phase::RollingForward);
        if self.goal == Goal::Replace && rolling && self.standing().is_none() {
            self.phase = Phase::Executing;
            return;
        }
        self.finish(if self.anchor_landed {
            Answer::Decided // 5.11: no denial after the anchor
        } else {
            Answer::Refused(Refusal::DataLost(slot.clone()))
        });
    }

    /// 5.11: the head of the slot whose commit was rejected.
    pub fn looked(&mut self, slot: &SlotAddress, head: Option<&Head>) {
        let claimed = self.heads.get(slot).map(|head| head.slot_id);
        let same = |id: SlotId| claimed == Some(id);
        let at_anchor = matches!(self.phase, Phase::Looking(0));
        let answer = match head {
            Some(head) if same(head.slot_id) => {
                if head.shows(self.id) {
                    return self.landed(); // 5.11b
                }
                if !at_anchor {
                    Answer::Decided // 5.11d
                } else if head.generation() > self.generation() {
                    Answer::Superseded // 5.11c
                } else {
                    Answer::NotPublished(Cause::Fenced)
                }
            }
            _ if at_anchor => Answer::Unknown(Doubt::SlotRecreated), // 5.11a
            _ => Answer::Decided,
        };
        self.finish(answer);
    }

    /// 5.7: only the task could publish the run, and this attempt executes nothing.
    pub fn stood_down(&mut self) {
        if matches!(self.phase, Phase::Opening | Phase::Executing) {
            self.finish(Answer::NotPublished(Cause::Settled));
        }
    }

    /// 5.8: the task succeeded and its output is sealed.
    pub fn executed(&mut self, publication: Publication) {
        if matches!(self.phase, Phase::Executing) {
            self.sealed = Some(Box::new(publication));
            self.anchor_sent = true;
            self.phase = Phase::Committing(0);
        }
    }

    /// A step failed and will not be repeated by this attempt: the task, a guard, the store or a sink.
    pub fn failed(&mut self) {
        let answer = self.standing().unwrap_or(if self.anchor_sent {
            Answer::Unknown(Doubt::AnswerLost)
        } else {
            Answer::NotPublished(Cause::Failed)
        });
        self.finish(answer);
    }

    /// 5.10: the store was told, or could not be: bookkeeping changes no answer.
    pub fn finished(&mut self) {
        if !self.is_over() {
            self.failed();
        }
        if let Phase::Finishing(answer) = &self.phase {
            self.phase = Phase::Reporting(answer.clone());
        }
    }

    fn next_claim(&self) -> Action {
        self.to_claim
            .iter()
            .find(|slot| !self.heads.contains_key(slot))
            .map_or(Action::Finish, |slot| Action::Claim(slot.clone()))
    }

    /// 5.3: every published head must stand at its own anchor, or be older than what stands there.
    fn check_anchors(&mut self) {
        for head in self.heads.values() {
            let Some(publication) = &head.publication else { continue };
            let anchor = publication.run.anchor().and_then(|anchor| Some((anchor, self.heads.get(anchor)?)));
            // What follows a decision stays, whoever publishes at the anchor afterwards.
            let left_behind = publication.run.anchor().is_some_and(|anchor| self.given_up.contains_key(anchor));
            let sound = left_behind
                || anchor.is_some_and(|(_, at)| {
                    at.shows(publication.attempt) || at.generation() > publication.run.generation
                });
            if !sound && !self.repairs {
                let anchor = publication
                    .run
                    .anchor()
                    .cloned()
                    .unwrap_or_else(|| SlotAddress { sink: String::new(), location: String::new() });
                return self.finish(Answer::Refused(Refusal::AnchorDamaged(anchor)));
            }
        }
        match self.goal {
            Goal::Publish | Goal::Replace => self.phase = Phase::Opening,
            Goal::Settle => {
                self.phase = Phase::RollingForward;
                self.settle_roll_forward();
            }
        }
    }

    fn seen(&self) -> Option<RunRecord> {
        self.heads
            .values()
            .filter_map(|head| head.publication.as_ref())
            .map(|publication| &publication.run)
            .max_by_key(|run| run.generation)
            .cloned()
    }

    /// 5.5: D, the claimed head with the highest generation that stands at its own anchor.
    fn find_decided(&self) -> Option<&Publication> {
        self.heads
            .iter()
            .filter_map(|(slot, head)| Some((slot, head.publication.as_ref()?)))
            .filter(|(slot, publication)| publication.run.anchor() == Some(slot))
            .map(|(_, publication)| publication)
            .max_by_key(|publication| publication.run.generation)
    }

    fn behind(&self, decided: &Publication) -> Option<SlotAddress> {
        let behind = |slot: &&SlotAddress| {
            self.heads
                .get(*slot)
                .is_some_and(|head| !head.shows(decided.attempt) && head.generation() < decided.run.generation)
        };
        decided.run.slots().find(behind).cloned()
    }

    fn next_roll_forward(&self) -> Action {
        let step = self.decided.as_deref().and_then(|decided| {
            let slot = self.behind(decided)?;
            Some((self.step(&slot, decided)?, slot))
        });
        step.map_or(Action::Finish, |(step, slot)| Action::Commit(slot, Box::new(step)))
    }

    /// 5.5 and 5.6: goes on once no slot of the decided run is behind.
    fn settle_roll_forward(&mut self) {
        if self.decided.is_none() {
            self.decided = self.find_decided().cloned().map(Box::new);
        }
        if self.decided.as_deref().is_some_and(|decided| self.behind(decided).is_some()) {
            return;
        }
        let published = self.decided.as_ref().map(|decided| decided.run.generation).unwrap_or_default();
        if self.goal == Goal::Settle {
            let answer = match self.decided.take() {
                Some(decided) => Answer::AlreadyPublished(decided),
                None => Answer::NotPublished(Cause::Settled),
            };
            return self.finish(answer);
        }
        if published >= self.generation()
            && let Some(decided) = self.decided.take()
        {
            return self.finish(Answer::AlreadyPublished(decided)); // 5.6
        }
        self.phase = match self.lost_slot() {
            Some((slot, head)) => Phase::Finishing(Answer::Refused(Refusal::Owner(slot, Box::new(head)))),
            None => Phase::Executing,
        };
    }

    /// A slot of the run at hand that this key gave up: the run can be published no more.
    fn lost_slot(&self) -> Option<(SlotAddress, Head)> {
        let slots = self.run.iter().flat_map(RunRecord::slots);
        let mut lost = slots.filter_map(|slot| Some((slot.clone(), self.given_up.get(slot)?.clone())));
        lost.next()
    }

    fn own_slot(&self, index: usize) -> Option<SlotAddress> {
        self.run.as_ref()?.slots().nth(index).cloned()
    }

    fn own_commit(&self, index: usize) -> Action {
        let step = self.sealed.as_deref().and_then(|sealed| {
            let slot = self.own_slot(index)?;
            Some((self.step(&slot, sealed)?, slot))
        });
        step.map_or(Action::Finish, |(step, slot)| Action::Commit(slot, Box::new(step)))
    }

    /// 4.4: the expected version is the one of this attempt's own claim, or of its own commit.
    fn step(&self, slot: &SlotAddress, publication: &Publication) -> Option<CommitStep> {
        let expected = self.heads.get(slot)?.version;
        Some(CommitStep { holder: self.holder()?, expected, publication: publication.clone() })
    }

    fn in_flight(&self) -> Option<Publication> {
        match self.phase {
            Phase::RollingForward => self.decided.as_deref().cloned(),
            Phase::Committing(_) => self.sealed.as_deref().cloned(),
            _ => None,
        }
    }

    fn landed(&mut self) {
        match self.phase {
            Phase::RollingForward => self.settle_roll_forward(),
            Phase::Committing(index) | Phase::Looking(index) => {
                self.anchor_landed = true;
                let last = self.own_slot(index + 1).is_none();
                self.phase = if last { Phase::Finishing(Answer::Published) } else { Phase::Committing(index + 1) };
            }
            _ => {}
        }
    }

    /// What a failure now leaves standing: what this attempt decided, or the run at hand as an attempt before decided
    /// it. Nothing if neither is so.
    pub fn standing(&self) -> Option<Answer> {
        if self.anchor_landed {
            return Some(Answer::Decided);
        }
        let decided = self.decided()?;
        matches!(self.phase, Phase::RollingForward).then(|| Answer::Pending(Box::new(decided.clone())))
    }

    fn generation(&self) -> Generation {
        self.run.as_ref().map(|run| run.generation).unwrap_or_default()
    }

    /// An answer is final: what comes after it changes nothing.
    fn finish(&mut self, answer: Answer) {
        if !self.is_over() {
            self.phase = Phase::Finishing(answer);
        }
    }
}
