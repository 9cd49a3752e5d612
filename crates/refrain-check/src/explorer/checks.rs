//! The properties, checked where they can break.

use super::Property;
use super::code::{Next, claim_of};
use super::config::Fault;
use super::intern::Id;
use super::label::Note;
use super::model::{Explorer, broken};
use super::names;
use super::probe::Probe;
use super::search::Violation;
use super::store::StoreAnswer;
use super::switch::Switch;
use super::world::{Status, World, bit, mark, marked, members};
use refrain_core::{Answer, Cause, Generation, Publication, Verdict, Want, verdict};

type Broken = Option<Violation>;

impl Explorer {
    /// WISH: a wish to rerun opens the generation after the one that it names, or the first.
    pub(super) fn check_wish(&self, process: usize, opened: Option<Generation>) -> Broken {
        let Some(Want::Rerun { from }) = self.config().plan(process).map(|plan| plan.want) else { return None };
        match opened {
            Some(generation) if generation > from.next() => broken(
                Property::OneGenerationPerWish,
                format!("the wish to replace generation {from} opened generation {generation}"),
            ),
            _ => None,
        }
    }

    /// WISH: a wish to rerun is not answered by the generation that it wants replaced.
    fn check_wish_answered(&self, process: usize, answer: &Answer) -> Broken {
        match (self.config().plan(process)?.want, answer) {
            (Want::Rerun { from }, Answer::AlreadyPublished(by)) if by.run.generation <= from => broken(
                Property::OneGenerationPerWish,
                format!("the wish to replace generation {from} is answered by generation {}", by.run.generation),
            ),
            _ => None,
        }
    }

    /// P9 and, unless the attempt is fenced by then, P7b, when the task starts.
    pub(super) fn check_start(&self, world: &World, process: usize, run: Id) -> Broken {
        let record = self.code.runs.get(run)?;
        for (other, at) in world.processes.iter().enumerate() {
            let Some(theirs) = self.code.runs.get(at.run) else { continue };
            if theirs.run_id == record.run_id && theirs != record {
                return broken(
                    Property::SamePins,
                    format!(
                        "{} and {} work for one run with different pins or slots",
                        self.letter(process),
                        self.letter(other)
                    ),
                );
            }
        }
        if world.slots.iter().any(|slot| marked(slot.claimer).is_some_and(|claimer| claimer != process)) {
            return None; // fenced already: it works for nothing, whatever the slots show
        }
        let heads = world.slots.iter().map(|slot| self.code.heads.get(slot.head));
        let publications: Vec<Option<&Publication>> =
            heads.map(|head| head.and_then(|head| head.publication.as_ref())).collect();
        let standing = |slot: usize| publications.get(slot).copied().flatten();
        let decided = (0..publications.len())
            .filter_map(|slot| standing(slot).filter(|shown| anchor_of(shown) == Some(slot)))
            .filter(|shown| shown.run.generation < record.generation)
            .max_by_key(|shown| shown.run.generation)?;
        let behind = decided.run.slots().map(names::slot_of).find(|slot| {
            let generation = standing(usize::from(*slot)).map(|shown| shown.run.generation).unwrap_or_default();
            generation < decided.run.generation
        })?;
        broken(
            Property::NotOverMixedSlots,
            format!(
                "{} starts while s{} is behind generation {}",
                self.letter(process),
                behind + 1,
                decided.run.generation
            ),
        )
    }

    /// COLL, when a lease ended.
    pub(super) fn check_release(&self, answer: StoreAnswer) -> Broken {
        match answer {
            StoreAnswer::EndedForeign(other) => {
                broken(Property::OwnLeaseOnly, format!("the lease of {} was released by another", self.letter(other)))
            }
            _ => None,
        }
    }

    /// SELF, when a claim is fenced.
    pub(super) fn check_fence(&self, head: Id, process: usize) -> Broken {
        let holder = claim_of(self.code.heads.get(head))?.holder;
        if holder.attempt == names::attempt(process) {
            return broken(Property::NotFencedByItself, format!("{} is fenced by its own claim", self.letter(process)));
        }
        None
    }

    /// Claim order, when a claim is accepted.
    pub(super) fn check_claim(&self, world: &World, slot: u8, claimer: usize) -> Broken {
        let latest = marked(world.slots[usize::from(slot)].latest)?;
        let (former, now) = (world.processes[latest], world.processes[claimer]);
        let strangers = former.store != now.store && self.config().fault == Fault::TwoStores;
        let what =
            format!("s{}: the claim of {} follows that of {}", slot + 1, self.letter(claimer), self.letter(latest));
        if strangers {
            return broken(Property::ClaimOrder, format!("{what}, whose store it knows nothing of (8.2)"));
        }
        if now.lease < former.lease {
            return broken(Property::ClaimOrder, format!("{what}, whose lease is later"));
        }
        None
    }

    /// P1 to P6, when data becomes visible.
    pub(super) fn check_landing(
        &mut self,
        world: &World,
        slot: u8,
        committer: usize,
        data_of: usize,
        request: Id,
    ) -> Broken {
        let place = world.slots[usize::from(slot)];
        let run = self.published_run(request);
        let generation = self.code.generation(run);
        let what = format!("s{} shows {}'s g{generation}", slot + 1, self.letter(data_of));
        if data_of != committer {
            self.reach(Probe::RolledForward);
        }
        let owner = world.processes[data_of];
        if !owner.sealed || owner.run != run {
            return broken(Property::SealedData, format!("{what}, which it did not seal"));
        }
        if owner.deletable {
            return broken(Property::StagingKept, format!("{what}, whose staging may be deleted"));
        }
        if owner.denied {
            return broken(Property::TrueAnswers, format!("{what}, which was said to be not published"));
        }
        for other in members(place.shown) {
            if other == data_of && place.disk.taken_back == mark(data_of) {
                continue; // a power cut took it back, and it is done once more (9.5)
            }
            if self.code.generation(world.processes[other].run) == generation {
                return broken(
                    Property::OneAttemptPerGeneration,
                    format!("{what} after {}'s of the same generation", self.letter(other)),
                );
            }
        }
        let before = self.code.heads.get(place.head).map(refrain_core::Head::generation).unwrap_or_default();
        if before >= generation {
            return broken(Property::GenerationsRise, format!("{what} after g{before}"));
        }
        if before > Generation::default() {
            self.reach(Probe::Replaced);
        }
        if marked(place.claimer).is_some_and(|claimer| claimer != committer) {
            return broken(
                Property::CommitUnderOwnClaim,
                format!("{what} by a commit of {}, whose claim is not the last", self.letter(committer)),
            );
        }
        None
    }

    /// P7, in every state.
    pub(super) fn check_slots_agree(&self, world: &World) -> Broken {
        let [first, second] = world.slots.map(|slot| self.code.heads.get(slot.head));
        let (first, second) = (first?.publication.as_ref()?, second?.publication.as_ref()?);
        if first.run.generation == second.run.generation && first.attempt != second.attempt {
            return broken(
                Property::SlotsAgree,
                format!("s1 and s2 show different attempts of generation {}", first.run.generation),
            );
        }
        None
    }

    /// 5.12: what a process with a later claim on all slots may say of the others.
    pub(super) fn judge_others(&mut self, world: &mut World, judge: usize) -> Broken {
        if matches!(self.next(world, judge), Some(Next::Send(request)) if self.code.request(*request).data_of.is_none())
        {
            return None; // not all of its claims stand
        }
        for process in 0..world.processes.len() {
            let at = world.processes[process];
            let by = world.processes[judge];
            let strangers = at.store != by.store && self.config().fault == Fault::TwoStores;
            if process == judge || at.run == 0 || at.lease >= by.lease || strangers {
                continue;
            }
            let Some(run) = self.code.runs.get(at.run).cloned() else { continue };
            let Some(heads) = self.code.machine(world.processes[judge].machine).map(refrain_core::Attempt::heads)
            else {
                continue;
            };
            if !run.slots().all(|slot| heads.contains_key(slot)) {
                continue;
            }
            if run.slots().any(|slot| world.slots[usize::from(names::slot_of(slot))].drops > 0) {
                continue; // a head made after a drop says nothing of what stood there before it
            }
            let anchor = run.anchor().and_then(|anchor| heads.get(anchor));
            let said = verdict(names::attempt(process), run.run_id, run.generation, anchor);
            let ever = run
                .anchor()
                .is_some_and(|anchor| world.slots[usize::from(names::slot_of(anchor))].ever & bit(process) != 0);
            match said {
                Verdict::Never => {
                    self.reach(Probe::Denied);
                    if let Some(lie) = self.deny(world, process) {
                        return Some(lie);
                    }
                }
                Verdict::Published if !ever => {
                    return broken(Property::TrueAnswers, format!("{} was said to be published", self.letter(process)));
                }
                Verdict::Published | Verdict::Superseded => {}
            }
        }
        None
    }

    /// Somebody says that a process's data is not and will not be published.
    pub(super) fn deny(&self, world: &mut World, process: usize) -> Broken {
        world.processes[process].denied = true;
        if world.slots.iter().any(|slot| slot.ever & bit(process) != 0) {
            return broken(Property::TrueAnswers, format!("{}'s data was visible and is denied", self.letter(process)));
        }
        None
    }

    /// P5 and P8, when a process reports.
    pub(super) fn report(&mut self, world: &mut World, process: usize) -> (Note, Broken) {
        let Some(Next::Report(answer)) = self.next(world, process).cloned() else {
            return (Note::Done, broken(Property::GoodEnd, format!("{} ends without a report", self.letter(process))));
        };
        let answer = self.answer_as_said(answer);
        let (note, probe, lie) = match &answer {
            Answer::Published => (Note::Published, Probe::Published, !self.published_everywhere(world, process)),
            Answer::AlreadyPublished(by) => {
                (Note::AlreadyPublished, Probe::AlreadyPublished, !self.was_published(world, by))
            }
            Answer::Decided => (Note::Decided, Probe::Decided, !self.was_decided(world, process)),
            Answer::Pending(by) => (Note::Pending, Probe::Pending, !was_decided_by(world, by)),
            Answer::Superseded => (Note::Superseded, Probe::Superseded, !self.was_superseded(world, process)),
            Answer::NotPublished(_) => (Note::NotPublished, Probe::NotPublished, false),
            Answer::Unknown(_) => (Note::Unknown, Probe::Unknown, false),
            Answer::Refused(_) => (Note::Refused, Probe::Refused, false),
        };
        self.reach(probe);
        let mut found = lie
            .then(|| {
                broken(
                    Property::TrueAnswers,
                    format!("{} says {:?} and it is not so", self.letter(process), kind(&answer)),
                )
            })
            .flatten();
        if matches!(answer, Answer::NotPublished(_)) {
            found = found.or_else(|| self.deny(world, process));
        }
        found = found.or_else(|| self.check_wish_answered(process, &answer));
        if self.is_recovery(process) {
            self.reach(Probe::Recovered);
            found = found.or_else(|| self.check_end(world, &answer));
        }
        world.processes[process].status = Status::Over;
        (note, found)
    }

    /// P8 and the end of P7.
    fn check_end(&self, world: &World, answer: &Answer) -> Broken {
        let by = match answer {
            Answer::Published => None,
            Answer::AlreadyPublished(by) => Some(&by.run),
            Answer::NotPublished(Cause::Settled) => return None,
            other => {
                return broken(Property::GoodEnd, format!("a fair attempt ends with {:?}", kind(other)));
            }
        };
        let recovery = self.config().recovery_process().unwrap_or_default();
        let run = by.or_else(|| self.code.runs.get(world.processes[recovery].run))?;
        let shown: Vec<_> = run
            .slots()
            .map(|slot| self.code.heads.get(world.slots[usize::from(names::slot_of(slot))].head))
            .map(|head| head.and_then(|head| head.publication.as_ref()).map(|shown| shown.attempt))
            .collect();
        if shown.iter().any(|attempt| *attempt != shown[0]) {
            return broken(Property::SlotsAgree, "after a fair attempt the slots show different attempts");
        }
        None
    }

    fn answer_as_said(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Superseded if self.config().lacks(Switch::SupersededIsNoDenial) => {
                Answer::NotPublished(Cause::Fenced)
            }
            Answer::Decided if self.config().lacks(Switch::DecidedAtAnchor) => Answer::NotPublished(Cause::Fenced),
            other => other,
        }
    }

    fn published_everywhere(&self, world: &World, process: usize) -> bool {
        let run = self.code.runs.get(world.processes[process].run);
        run.is_some_and(|run| {
            run.slots().all(|slot| world.slots[usize::from(names::slot_of(slot))].ever & bit(process) != 0)
        })
    }

    fn was_published(&self, world: &World, by: &Publication) -> bool {
        by.run.slots().all(|slot| {
            members(world.slots[usize::from(names::slot_of(slot))].ever).any(|process| {
                names::attempt(process) == by.attempt
                    || self.code.generation(world.processes[process].run) > by.run.generation
            })
        })
    }

    fn was_decided(&self, world: &World, process: usize) -> bool {
        self.at_anchor(world, process).is_some_and(|ever| ever & bit(process) != 0)
    }

    fn was_superseded(&self, world: &World, process: usize) -> bool {
        let generation = self.code.generation(world.processes[process].run);
        let ever = self.at_anchor(world, process).unwrap_or_default();
        members(ever).any(|other| self.code.generation(world.processes[other].run) > generation)
    }

    fn at_anchor(&self, world: &World, process: usize) -> Option<u8> {
        let run = self.code.runs.get(world.processes[process].run)?;
        Some(world.slots[usize::from(names::slot_of(run.anchor()?))].ever)
    }

    fn letter(&self, process: usize) -> char {
        names::letter(process, self.config().recovery_process())
    }
}

fn was_decided_by(world: &World, by: &Publication) -> bool {
    let anchor = anchor_of(by).map(|slot| world.slots[slot].ever);
    anchor.is_some_and(|ever| members(ever).any(|process| names::attempt(process) == by.attempt))
}

fn anchor_of(publication: &Publication) -> Option<usize> {
    publication.run.anchor().map(|anchor| usize::from(names::slot_of(anchor)))
}

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Published => "published",
        Answer::AlreadyPublished(_) => "already published",
        Answer::Decided => "decided",
        Answer::Pending(_) => "pending",
        Answer::Superseded => "superseded",
        Answer::NotPublished(_) => "not published",
        Answer::Unknown(_) => "unknown",
        Answer::Refused(_) => "refused",
    }
}
