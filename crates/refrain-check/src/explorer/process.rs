//! What a process may do next: the driver around the shipped machine, and the ways in which it fails.

use super::code::{Event, Next};
use super::config::Medium;
use super::intern::Id;
use super::label::{Move, Note};
use super::model::{Explorer, Steps};
use super::probe::Probe;
use super::search::Violation;
use super::store::{StoreAnswer, StoreCall};
use super::switch::Switch;
use super::world::{Call, Status, World, mark};
use super::{Fault, names};

impl Explorer {
    /// Every step that this process may take.
    pub(super) fn process_steps(&mut self, world: &World, process: usize, steps: &mut Steps) {
        match world.processes[process].status {
            Status::Idle if !self.recovering(world) => self.acquire_steps(world, process, steps),
            Status::Running => {
                if !self.is_recovery(process) {
                    self.failing_steps(world, process, steps);
                }
                if !world.processes[process].waiting {
                    self.working_steps(world, process, steps);
                }
            }
            Status::Idle | Status::Dead | Status::Over => {}
        }
    }

    /// The next action of the machine.
    pub(super) fn working_steps(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let Some(next) = self.next(world, process).cloned() else { return };
        match next {
            Next::Acquire => self.acquire_steps(world, process, steps),
            Next::Send(request) => self.send_steps(world, process, request, steps),
            Next::Raise(floor) => self.raise_step(world, process, floor, steps),
            Next::OpenRun(_) => self.open_run_steps(world, process, steps),
            Next::Read(slot) => {
                let mut after = *world;
                let head = world.slots[usize::from(slot)].head;
                self.tell(&mut after, process, Event::Looked { slot, head });
                self.push(steps, Move::Look(small(process)), Note::Done, after, None);
            }
            Next::Execute(run) => self.execute_steps(world, process, run, steps),
            Next::Finish | Next::Report(_) => self.finish_step(world, process, steps),
        }
    }

    /// Death, impatience, and a heartbeat that says that the lease is gone.
    fn failing_steps(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let at = world.processes[process];
        if world.left.crashes > 0 {
            let mut after = *world;
            after.left.crashes -= 1;
            after.processes[process].status = Status::Dead;
            release_locks(&mut after, process);
            self.push(steps, Move::Crash(small(process)), Note::Done, after, None);
        }
        if at.waiting && world.left.timeouts > 0 {
            let mut after = *world;
            after.left.timeouts -= 1;
            after.processes[process].waiting = false;
            self.push(steps, Move::TimeOut(small(process)), Note::Done, after, None);
            let commits =
                self.request_of(world, process).is_some_and(|request| self.code.request(request).data_of.is_some());
            let event = if commits { Event::GaveUp } else { Event::Failed };
            let mut given_up = after;
            self.tell(&mut given_up, process, event);
            self.push(steps, Move::GiveUp(small(process)), Note::Done, given_up, None);
            self.wrong_resolve_steps(&after, process, steps);
        }
        if at.call != Call::None {
            return;
        }
        let early = matches!(
            self.next(world, process),
            Some(Next::Send(_) | Next::Raise(_) | Next::OpenRun(_) | Next::Execute(_))
        );
        let lost = self.code.lease_of(self.record(world, process)) != Some(process);
        if early && lost && !at.waiting && !at.sealed {
            let mut after = *world;
            self.tell(&mut after, process, Event::LeaseLost);
            self.push(steps, Move::NoticeLoss(small(process)), Note::Done, after, None);
        }
    }

    /// The store that answers this process.
    pub(super) fn store_of(&self, world: &World, process: usize) -> u8 {
        if self.config().fault == Fault::TwoStores {
            self.config().plan(process).map_or(0, |plan| plan.store)
        } else {
            world.store
        }
    }

    fn record(&self, world: &World, process: usize) -> Id {
        world.stores[usize::from(self.store_of(world, process))]
    }

    /// Writes the store's record; what is not durable may be taken back by a power cut.
    fn write_record(&self, world: &mut World, process: usize, record: Id, durable: bool) {
        let place = usize::from(self.store_of(world, process));
        let former = world.stores[place];
        world.stores[place] = record;
        if self.config().medium != Medium::Network {
            if durable {
                world.store_unsynced.sync();
            } else if former != record {
                world.store_unsynced.push(former);
            }
        }
    }

    pub(super) fn acquire_steps(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let record = self.record(world, process);
        let holder = self.code.lease_of(record);
        let other = holder.filter(|holder| *holder != process);
        let mut begun = *world;
        if begun.processes[process].status == Status::Idle {
            begun.processes[process].status = Status::Running;
            begun.processes[process].machine = self.code.start(process);
        }
        if other.is_some() && !self.is_recovery(process) {
            let mut after = begun;
            self.tell(&mut after, process, Event::Held);
            self.push(steps, Move::Acquire(small(process)), Note::Held, after, None);
        }
        if other.is_some_and(|other| self.is_recovery(other)) {
            return; // the fair attempt's lease does not end
        }
        let (record, answer) = self.code.at_store(record, StoreCall::Acquire { process, end: other.is_some() });
        let StoreAnswer::Granted { token, run } = answer else { return };
        let mut granted = begun;
        self.write_record(&mut granted, process, record, false);
        if holder != Some(process) {
            granted.leases += 1;
            granted.processes[process].lease = granted.leases;
        }
        let store = self.store_of(world, process);
        granted.processes[process].store = store;
        if world.left.timeouts > 0 && !self.is_recovery(process) && holder != Some(process) {
            let mut unanswered = granted;
            unanswered.left.timeouts -= 1;
            self.push(steps, Move::AcquireUnanswered(small(process)), Note::Done, unanswered, None);
        }
        self.tell(&mut granted, process, Event::Acquired { store, token, run });
        let note = if other.is_some() { Note::TookOver } else { Note::Granted };
        self.push(steps, Move::Acquire(small(process)), note, granted, None);
    }

    fn send_steps(&mut self, world: &World, process: usize, request: Id, steps: &mut Steps) {
        if self.config().medium == Medium::Filesystem {
            return self.file_steps(world, process, request, steps);
        }
        let kind = self.code.request(request);
        let slot = world.slots[usize::from(kind.slot)];
        if kind.data_of.is_some()
            && !self.is_recovery(process)
            && !world.under_way.contains(request)
            && self.code.at_sink(slot.head, request, slot.drops).0.changes()
        {
            let mut failed = *world;
            self.tell(&mut failed, process, Event::CommitFailed);
            self.push(steps, Move::DefiniteFailure(small(process)), Note::Done, failed, None);
        }
        let mut after = *world;
        if self.config().medium == Medium::Local {
            let (note, broken) = self.carry_out(&mut after, request, Some(process));
            return self.push(steps, Move::Call(small(process), request), note, after, broken);
        }
        if after.under_way.add(request) {
            after.processes[process].waiting = true;
            self.push(steps, Move::Send(small(process), request), Note::Done, after, None);
        }
    }

    fn raise_step(&mut self, world: &World, process: usize, floor: refrain_core::Token, steps: &mut Steps) {
        let machine = world.processes[process].machine;
        let mut after = *world;
        let (record, answer) = self.code.at_store(self.record(world, process), StoreCall::Raise { machine, floor });
        self.write_record(&mut after, process, record, false);
        let note = if let StoreAnswer::Raised(token) = answer {
            self.reach(Probe::Raised);
            self.tell(&mut after, process, Event::Raised(token));
            Note::Granted
        } else {
            self.tell(&mut after, process, Event::LeaseLost);
            Note::NotHolder
        };
        self.push(steps, Move::Raise(small(process)), note, after, None);
    }

    fn open_run_steps(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let at = world.processes[process];
        let call = StoreCall::OpenRun { machine: at.machine, process, propose: at.proposing };
        let (record, answer) = self.code.at_store(self.record(world, process), call);
        let mut after = *world;
        self.write_record(&mut after, process, record, true);
        after.processes[process].proposing = answer == StoreAnswer::Propose;
        let (note, broken) = match answer {
            StoreAnswer::Run { run, opened } => {
                let broken = self.check_wish(process, opened);
                if world.left.timeouts > 0 && !self.is_recovery(process) {
                    let mut unanswered = after;
                    unanswered.left.timeouts -= 1;
                    let made = Move::OpenRunUnanswered(small(process));
                    self.push(steps, made, Note::Done, unanswered, broken.clone());
                }
                self.tell(&mut after, process, Event::Opened { run });
                (if opened.is_some() { Note::Opened } else { Note::Done }, broken)
            }
            StoreAnswer::Propose => (Note::Proposing, None),
            _ => {
                self.tell(&mut after, process, Event::LeaseLost);
                (Note::NotHolder, None)
            }
        };
        self.push(steps, Move::OpenRun(small(process)), note, after, broken);
    }

    fn execute_steps(&mut self, world: &World, process: usize, run: Id, steps: &mut Steps) {
        let mut after = *world;
        if world.processes[process].run == 0 {
            after.processes[process].run = run;
            after.processes[process].staging = self.staging(world, process, run);
            let broken = self.check_start(world, process, run);
            if broken.as_ref().is_some_and(|it| it.property == super::Property::NotOverMixedSlots) {
                self.reach(Probe::GivenUp);
            }
            return self.push(steps, Move::StartTask(small(process)), Note::Done, after, broken);
        }
        if !self.is_recovery(process) {
            let mut failed = *world;
            self.tell(&mut failed, process, Event::Failed);
            self.push(steps, Move::TaskFails(small(process)), Note::Done, failed, None);
        }
        after.processes[process].sealed = true;
        if self.config().medium == Medium::Filesystem {
            for slot in &mut after.slots {
                slot.disk.seal(process);
            }
        }
        self.tell(&mut after, process, Event::Executed);
        if self.config().lacks(Switch::HeadIsDecision)
            && self.code.lease_of(self.record(world, process)) == Some(process)
        {
            after.decided = mark(process);
        }
        self.push(steps, Move::Seal(small(process)), Note::Done, after, None);
    }

    fn staging(&mut self, world: &World, process: usize, run: Id) -> Id {
        let holder = self.code.machine(world.processes[process].machine).and_then(refrain_core::Attempt::holder);
        match (holder, self.code.runs.get(run)) {
            (Some(holder), Some(run)) => {
                let slots = run.slots().cloned().collect();
                let staging = refrain_core::StagingId { holder, generation: run.generation, slots };
                self.code.stagings.id(staging)
            }
            _ => 0,
        }
    }

    fn finish_step(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let machine = world.processes[process].machine;
        let mut after = *world;
        let mut broken: Option<Violation> = None;
        if !matches!(self.next(world, process), Some(Next::Report(_))) {
            let (record, answer) = self.code.at_store(self.record(world, process), StoreCall::Release { machine });
            self.write_record(&mut after, process, record, false);
            broken = self.check_release(answer);
            self.tell(&mut after, process, Event::Finished);
        }
        let (note, lie) = self.report(&mut after, process);
        self.push(steps, Move::Finish(small(process)), note, after, broken.or(lie));
    }

    /// Ways to resolve a lost answer that the rules forbid.
    fn wrong_resolve_steps(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let Some(request) = self.request_of(world, process) else { return };
        let kind = self.code.request(request);
        if kind.data_of != Some(process) {
            return;
        }
        if self.config().lacks(Switch::ResolveBySending) && !self.shows(world, kind.slot, process) {
            let mut after = *world;
            let broken = self.deny(&mut after, process);
            after.processes[process].status = Status::Over;
            self.push(steps, Move::ResolveByReading(small(process)), Note::NotPublished, after, broken);
        }
        if self.config().lacks(Switch::OneTokenPerAttempt) {
            self.fresh_token_step(world, process, steps);
        }
    }

    fn fresh_token_step(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let record = self.record(world, process);
        let machine = world.processes[process].machine;
        let call = if self.code.lease_of(record) == Some(process) {
            StoreCall::Raise { machine, floor: refrain_core::Token::default() }
        } else {
            StoreCall::Acquire { process, end: true }
        };
        let (record, answer) = self.code.at_store(record, call);
        let (StoreAnswer::Granted { token, .. } | StoreAnswer::Raised(token)) = answer else { return };
        let mut after = *world;
        self.write_record(&mut after, process, record, false);
        after.leases += 1;
        after.processes[process].lease = after.leases;
        let claiming = self.code.step(machine, Event::Raised(token));
        let Some(Next::Send(claim)) = self.code.next(claiming).cloned() else { return };
        let slot = self.code.request(claim).slot;
        let (_, broken) = self.carry_out(&mut after, claim, None);
        if self.shows(&after, slot, process) {
            return;
        }
        let (head, run) = (after.slots[usize::from(slot)].head, world.processes[process].run);
        self.tell(&mut after, process, Event::StartedOver { token, slot, head, run });
        self.push(steps, Move::FreshToken(small(process)), Note::Done, after, broken);
    }

    pub(super) fn shows(&self, world: &World, slot: u8, process: usize) -> bool {
        let head = self.code.heads.get(world.slots[usize::from(slot)].head);
        head.is_some_and(|head| head.shows(names::attempt(process)))
    }
}

/// A lock dies with its process (9.2).
fn release_locks(world: &mut World, process: usize) {
    for slot in &mut world.slots {
        if slot.disk.lock == mark(process) {
            slot.disk.lock = 0;
        }
    }
}

pub(super) fn small(process: usize) -> u8 {
    u8::try_from(process).unwrap_or(u8::MAX)
}
