//! Requests under way, and what happens when one is carried out.

use super::code::{Event, Request};
use super::config::Medium;
use super::intern::Id;
use super::label::{Move, Note};
use super::model::{Explorer, Steps};
use super::names;
use super::probe::Probe;
use super::search::Violation;
use super::sink::SinkAnswer;
use super::switch::Switch;
use super::world::{Status, World, bit, mark, marked};

impl Explorer {
    /// Delivery and repetition of every request under way.
    pub(super) fn network_steps(&mut self, world: &World, steps: &mut Steps) {
        for request in world.under_way.distinct() {
            let sender = self.code.request(request).sender;
            let mut after = *world;
            after.under_way.remove(request);
            let awaiting = self.awaits(world, sender, request).then_some(sender);
            if awaiting.is_none() && world.processes[sender].status != Status::Running {
                self.reach(Probe::Zombie);
            }
            let (note, broken) = self.carry_out(&mut after, request, awaiting);
            self.push(steps, Move::Deliver(request), note, after, broken);
            let mut repeated = *world;
            if world.left.duplicates > 0 && !self.is_recovery(sender) && repeated.under_way.add(request) {
                repeated.left.duplicates -= 1;
                self.push(steps, Move::Duplicate(request), Note::Done, repeated, None);
            }
        }
    }

    pub(super) fn awaits(&self, world: &World, process: usize, request: Id) -> bool {
        world.processes[process].waiting && self.request_of(world, process) == Some(request)
    }

    /// Carries a request out at its sink and answers `awaiting`.
    pub(super) fn carry_out(
        &mut self,
        world: &mut World,
        request: Id,
        awaiting: Option<usize>,
    ) -> (Note, Option<Violation>) {
        let kind = self.code.request(request);
        let place = usize::from(kind.slot);
        let before = world.slots[place];
        let recreates = kind.data_of.is_none() && before.head == 0 && before.drops > 0;
        if recreates && awaiting.is_none() && !self.config().late_creation {
            return (Note::Rejected, None);
        }
        let (mut answer, mut head) = self.code.at_sink(before.head, request, before.drops);
        if answer == SinkAnswer::Committed
            && let Some(data_of) = kind.data_of
            && world.processes[data_of].lost
            && !self.is_anchor(world, data_of, kind.slot)
        {
            self.reach(Probe::DataLost);
            (answer, head) = (SinkAnswer::DataLost, before.head);
        }
        let broken = match (answer, kind.data_of) {
            (SinkAnswer::Claimed, _) => self.check_claim(world, kind.slot, kind.sender),
            (SinkAnswer::Committed, Some(data_of)) => {
                self.check_landing(world, kind.slot, kind.sender, data_of, request)
            }
            _ => None,
        };
        let slot = &mut world.slots[place];
        slot.head = head;
        match (answer, kind.data_of) {
            (SinkAnswer::Claimed, _) => {
                slot.claimer = mark(kind.sender);
                let latest = marked(slot.latest).map_or(0, |latest| world.processes[latest].lease);
                if world.processes[kind.sender].lease >= latest {
                    slot.latest = mark(kind.sender);
                }
                match self.config().medium {
                    Medium::Network => {}
                    Medium::Local => slot.unsynced.push(before.head),
                    Medium::Filesystem => slot.unsynced.push(self.code.records.id((before.head, before.disk.intent))),
                }
            }
            (SinkAnswer::Committed, Some(data_of)) => {
                slot.shown |= bit(data_of);
                slot.ever |= bit(data_of);
                slot.unsynced.sync(); // the intent is synced and decides (9.5)
            }
            _ => {}
        }
        let broken = broken.or_else(|| awaiting.and_then(|process| self.answer(world, process, request, answer)));
        (note(answer), broken)
    }

    pub(super) fn answer(
        &mut self,
        world: &mut World,
        process: usize,
        request: Id,
        answer: SinkAnswer,
    ) -> Option<Violation> {
        let kind = self.code.request(request);
        let (slot, head) = (kind.slot, world.slots[usize::from(kind.slot)].head);
        let event = match answer {
            SinkAnswer::Claimed | SinkAnswer::ClaimStands => {
                if answer == SinkAnswer::ClaimStands {
                    self.reach(Probe::ClaimStood);
                }
                Event::Claimed { slot, head: self.head_as_shown(world, slot, head) }
            }
            SinkAnswer::ClaimFenced => {
                self.reach(Probe::Fenced);
                let broken = self.check_fence(head, process);
                if broken.is_some() {
                    return broken;
                }
                Event::ClaimFenced { head }
            }
            SinkAnswer::ClaimRefused { owner } => Event::ClaimRefused { slot, head, owner },
            SinkAnswer::Committed | SinkAnswer::CommitStands => {
                if answer == SinkAnswer::CommitStands {
                    self.reach(Probe::CommitStood);
                }
                Event::Committed { slot, head }
            }
            SinkAnswer::DataLost if kind.data_of == Some(process) => Event::CommitFailed,
            SinkAnswer::DataLost => Event::DataLost { slot },
            SinkAnswer::Rejected => {
                self.reach(Probe::Rejected);
                let landed = kind.data_of.filter(|data_of| *data_of != process && self.shows(world, slot, *data_of));
                if landed.is_some() && self.config().lacks(Switch::LearnRule) {
                    Event::Committed { slot, head }
                } else {
                    Event::Rejected
                }
            }
        };
        self.tell(world, process, event);
        if matches!(event, Event::Claimed { .. }) { self.judge_others(world, process) } else { None }
    }

    /// The head as the machine is shown it: as it is, unless a repair is taken out.
    fn head_as_shown(&mut self, world: &World, slot: u8, head: Id) -> Id {
        let Some(mut shown) = self.code.heads.get(head).cloned() else { return head };
        let anchor = self.code.heads.get(world.slots[0].head);
        if self.config().lacks(Switch::HeadIsDecision) {
            let decided = marked(world.decided).map(|process| (process, world.processes[process].run));
            let decided = decided.and_then(|(process, run)| Some((process, self.code.runs.get(run)?.clone())));
            let here = shown.publication.take();
            shown.publication = match decided {
                Some((process, run)) if run.anchor().map(names::slot_of) == Some(slot) => {
                    Some(super::code::publication(process, run))
                }
                Some((process, _)) => here.filter(|here| here.attempt == names::attempt(process)),
                None => None,
            };
        } else if self.config().lacks(Switch::RollForwardFirst) && slot > 0 {
            shown.publication = anchor.and_then(|anchor| anchor.publication.clone());
        } else if self.config().lacks(Switch::AnchorCheck) && slot > 0 {
            let borne_out = |publication: &refrain_core::Publication| {
                anchor.is_some_and(|at| at.shows(publication.attempt) || at.generation() > publication.run.generation)
            };
            shown.publication = shown.publication.filter(borne_out);
        }
        self.code.heads.id(shown)
    }

    /// Whether the slot is the anchor of what the process executed for.
    pub(super) fn is_anchor(&self, world: &World, process: usize, slot: u8) -> bool {
        let anchor = self.code.runs.get(world.processes[process].run).and_then(refrain_core::RunRecord::anchor);
        anchor.map(names::slot_of) == Some(slot)
    }

    /// The run that a commit publishes.
    pub(super) fn published_run(&mut self, request: Id) -> Id {
        match self.code.requests.get(request) {
            Some(Request::Commit(_, commit)) => {
                let run = commit.publication.run.clone();
                self.code.runs.id(run)
            }
            _ => 0,
        }
    }
}

fn note(answer: SinkAnswer) -> Note {
    match answer {
        SinkAnswer::Claimed | SinkAnswer::Committed => Note::Accepted,
        SinkAnswer::ClaimStands | SinkAnswer::CommitStands => Note::Stood,
        SinkAnswer::ClaimFenced => Note::Fenced,
        SinkAnswer::ClaimRefused { .. } => Note::Refused,
        SinkAnswer::DataLost => Note::DataLost,
        SinkAnswer::Rejected => Note::Rejected,
    }
}
