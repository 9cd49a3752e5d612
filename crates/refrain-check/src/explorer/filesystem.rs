//! A filesystem sink step by step (9): lock, recover by inode, intent, rename, sync, record.
//!
//! Claims and records are appended without a sync; the intent is synced and is the commit point. Every step is
//! one [`Move::File`], so that a crash or a power cut may come between any two.

use super::Property;
use super::code::Event;
use super::intern::Id;
use super::label::{FileStep, Move, Note};
use super::model::{Explorer, Steps, broken};
use super::names;
use super::process::small;
use super::search::Violation;
use super::sink::SinkAnswer;
use super::switch::Switch;
use super::world::{Call, FOREIGN, Files, World, bit, mark, marked};

type Broken = Option<Violation>;

impl Explorer {
    /// The next step of a call.
    pub(super) fn file_steps(&mut self, world: &World, process: usize, request: Id, steps: &mut Steps) {
        let slot = self.code.request(request).slot;
        let place = usize::from(slot);
        let mut after = *world;
        match world.processes[process].call {
            Call::None => {
                self.cannot_ask_step(world, process, request, steps);
                let free = world.slots[place].disk.lock == 0 || self.config().lacks(Switch::KernelLock);
                if free {
                    after.slots[place].disk.lock = mark(process);
                    after.processes[process].call = Call::Locked;
                    self.push_file(steps, process, FileStep::Lock, after, None);
                }
            }
            Call::Locked => {
                if world.slots[place].disk.intent != 0 && !self.config().lacks(Switch::RecoverFirst) {
                    self.recover_step(world, process, slot, steps);
                } else {
                    self.decide_step(world, process, request, steps);
                }
            }
            Call::Redone => {
                after.slots[place].disk.unsynced.sync();
                after.processes[process].call = Call::RedoneSynced;
                self.push_file(steps, process, FileStep::Sync, after, None);
            }
            Call::RedoneSynced => {
                let at = world.slots[place];
                let (answer, head) = self.code.at_sink(at.head, at.disk.intent, at.drops);
                let head = if answer == SinkAnswer::Committed { head } else { at.head };
                self.write_head(&mut after, slot, head, 0, false);
                after.processes[process].call = Call::Locked;
                self.push_file(steps, process, FileStep::RecordRecovered, after, None);
            }
            Call::Accepted => {
                self.write_head(&mut after, slot, world.slots[place].head, request, false);
                after.processes[process].call = Call::Written;
                self.push_file(steps, process, FileStep::Intend, after, None);
            }
            Call::Written => {
                self.intent_fails_step(world, process, steps);
                after.slots[place].unsynced.sync();
                after.processes[process].call = Call::Intended;
                self.push_file(steps, process, FileStep::SyncIntent, after, None);
            }
            Call::Intended => self.rename_steps(world, process, request, steps),
            Call::RenameFailed => self.withdraw_step(world, process, slot, steps),
            Call::Renamed => self.sync_steps(world, process, slot, steps),
            Call::Synced => {
                let head = world.processes[process].decided_head;
                self.write_head(&mut after, slot, head, 0, false);
                after.slots[place].disk.told = mark(self.code.request(request).data_of.unwrap_or_default());
                unlock(&mut after, process, slot);
                let broken = self.answer(&mut after, process, request, SinkAnswer::Committed);
                self.push_file(steps, process, FileStep::Record, after, broken);
            }
        }
    }

    /// The lock cannot be had or the head cannot be read: definite only if nothing was asked before.
    fn cannot_ask_step(&mut self, world: &World, process: usize, request: Id, steps: &mut Steps) {
        let commits = self.code.request(request).data_of.is_some();
        if !commits || self.is_recovery(process) {
            return;
        }
        let mut after = *world;
        let definite = !world.processes[process].in_doubt || self.config().lacks(Switch::DoubtRemains);
        self.tell(&mut after, process, if definite { Event::CommitFailed } else { Event::GaveUp });
        self.push(steps, Move::DefiniteFailure(small(process)), Note::Done, after, None);
    }

    /// 9.3: the intent of whoever held the lock before.
    fn recover_step(&mut self, world: &World, process: usize, slot: u8, steps: &mut Steps) {
        let place = usize::from(slot);
        let intent = world.slots[place].disk.intent;
        let of = self.code.request(intent).data_of.unwrap_or_default();
        let files = world.slots[place].disk.files;
        let mut after = *world;
        after.processes[process].call = Call::Redone;
        if !self.config().lacks(Switch::RecoverySyncsIntent) {
            after.slots[place].unsynced.sync(); // whoever wrote it may have died before its sync
        }
        let staged = files.staged & bit(of) != 0;
        if staged && self.config().lacks(Switch::RedoOnly) {
            self.write_head(&mut after, slot, world.slots[place].head, 0, true);
            after.processes[process].call = Call::Locked;
            return self.push_file(steps, process, FileStep::Undo, after, None);
        }
        if staged {
            let broken = self.rename(&mut after, slot, intent);
            return self.push_file(steps, process, FileStep::Redo, after, broken);
        }
        if self.config().lacks(Switch::InodeTest) && files.target == mark(of) {
            let undone = Files { target: files.aside, staged: files.staged | bit(of), aside: files.target };
            change_files(&mut after, slot, undone);
            let broken = self.check_replaced(world, files.target, undone.target);
            return self.push_file(steps, process, FileStep::Redo, after, broken);
        }
        let step = if files.target == mark(of) { FileStep::Landed } else { FileStep::Overwritten };
        self.push_file(steps, process, step, after, None);
    }

    /// 9.4: the shipped decision. A claim or a rejection ends the call.
    fn decide_step(&mut self, world: &World, process: usize, request: Id, steps: &mut Steps) {
        let kind = self.code.request(request);
        let at = world.slots[usize::from(kind.slot)];
        let (answer, head) = self.code.at_sink(at.head, request, at.drops);
        let mut after = *world;
        if answer == SinkAnswer::Committed {
            after.processes[process].call = Call::Accepted;
            after.processes[process].decided_head = head;
            return self.push_file(steps, process, FileStep::Decide, after, None);
        }
        unlock(&mut after, process, kind.slot);
        let (note, broken) = self.carry_out(&mut after, request, Some(process));
        if answer == SinkAnswer::Claimed {
            after.slots[usize::from(kind.slot)].disk.intent = 0; // dropped unless it was recovered
        }
        let shown = self.code.heads.get(at.head).and_then(|head| head.publication.as_ref());
        if let (Some(shown), SinkAnswer::Claimed | SinkAnswer::ClaimStands) = (shown, answer) {
            after.slots[usize::from(kind.slot)].disk.told = mark(names::process_of(shown.attempt));
        }
        self.push(steps, Move::Call(small(process), request), note, after, broken);
    }

    /// The sync of the intent failed: whether it is durable is not known, so that it must be withdrawn (9.8).
    fn intent_fails_step(&mut self, world: &World, process: usize, steps: &mut Steps) {
        if world.left.timeouts > 0 && !self.is_recovery(process) {
            let mut after = *world;
            after.left.timeouts -= 1;
            after.processes[process].call = Call::RenameFailed;
            self.push_file(steps, process, FileStep::IntentFails, after, None);
        }
    }

    fn rename_steps(&mut self, world: &World, process: usize, request: Id, steps: &mut Steps) {
        let kind = self.code.request(request);
        let of = kind.data_of.unwrap_or_default();
        let staged = world.slots[usize::from(kind.slot)].disk.files.staged & bit(of) != 0;
        let mut failed = *world;
        failed.processes[process].call = Call::RenameFailed;
        if staged {
            let mut after = *world;
            let broken = self.rename(&mut after, kind.slot, request);
            after.processes[process].call = Call::Renamed;
            self.push_file(steps, process, FileStep::Rename, after, broken.clone());
            if world.left.timeouts > 0 && !self.is_recovery(process) {
                failed.left.timeouts -= 1;
                after.left.timeouts -= 1;
                after.processes[process].call = Call::RenameFailed;
                self.push_file(steps, process, FileStep::RenameFails, failed, None);
                self.push_file(steps, process, FileStep::RenameFailsMoved, after, broken);
            }
        } else {
            self.push_file(steps, process, FileStep::RenameFails, failed, None);
        }
    }

    /// 9.8: the rename failed; the inode tells whether it did.
    fn withdraw_step(&mut self, world: &World, process: usize, slot: u8, steps: &mut Steps) {
        let at = world.slots[usize::from(slot)];
        let of = self.code.request(at.disk.intent).data_of.unwrap_or_default();
        let mut after = *world;
        let moved = at.disk.files.staged & bit(of) == 0;
        if moved && !self.config().lacks(Switch::WithdrawalTested) {
            after.processes[process].call = Call::Renamed;
            return self.push_file(steps, process, FileStep::FindMoved, after, None);
        }
        self.write_head(&mut after, slot, at.head, 0, !self.config().lacks(Switch::WithdrawalSynced));
        unlock(&mut after, process, slot);
        self.tell(&mut after, process, Event::CommitFailed);
        self.push_file(steps, process, FileStep::Withdraw, after, None);
    }

    fn sync_steps(&mut self, world: &World, process: usize, slot: u8, steps: &mut Steps) {
        let mut after = *world;
        if !self.config().lacks(Switch::SyncDirectories) {
            after.slots[usize::from(slot)].disk.unsynced.sync();
        }
        after.processes[process].call = Call::Synced;
        self.push_file(steps, process, FileStep::Sync, after, None);
        if world.left.timeouts > 0 && !self.is_recovery(process) {
            let mut unknown = *world;
            unknown.left.timeouts -= 1;
            unlock(&mut unknown, process, slot);
            unknown.processes[process].in_doubt = true;
            self.push_file(steps, process, FileStep::SyncFails, unknown, None);
            self.tell(&mut unknown, process, Event::GaveUp);
            self.push_file(steps, process, FileStep::SyncFails, unknown, None);
        }
    }

    /// The intent's data becomes what readers see.
    fn rename(&mut self, world: &mut World, slot: u8, intent: Id) -> Broken {
        let kind = self.code.request(intent);
        let of = kind.data_of.unwrap_or_default();
        let former = world.slots[usize::from(slot)].disk.files.target;
        let broken = self.check_landing(world, slot, kind.sender, of, intent);
        let broken = broken.or_else(|| self.check_replaced(world, former, mark(of)));
        let at = &mut world.slots[usize::from(slot)];
        at.shown |= bit(of);
        at.ever |= bit(of);
        at.disk.taken_back = 0;
        let files = at.disk.files;
        change_files(world, slot, Files { target: mark(of), staged: files.staged & !bit(of), aside: files.target });
        broken
    }

    /// Appends a record to the head's journal. A sync makes it durable and everything before it.
    fn write_head(&mut self, world: &mut World, slot: u8, head: Id, intent: Id, sync: bool) {
        let at = &mut world.slots[usize::from(slot)];
        let former = self.code.records.id((at.head, at.disk.intent));
        if sync {
            at.unsynced.sync();
        } else {
            at.unsynced.push(former);
        }
        (at.head, at.disk.intent) = (head, intent);
    }

    /// Somebody else writes to a target.
    pub(super) fn overwrite_steps(&mut self, world: &World, steps: &mut Steps) {
        for slot in 0..2_u8 {
            let files = world.slots[usize::from(slot)].disk.files;
            if files.target != 0 {
                let mut after = *world;
                change_files(&mut after, slot, Files { target: FOREIGN, ..files });
                self.push(steps, Move::Overwrite(slot), Note::Done, after, None);
            }
        }
    }

    /// Of the store, of each head and of each slot's files any number of the newest unsynced changes is lost.
    pub(super) fn power_cut_of_files(&mut self, world: &World, dark: &World, steps: &mut Steps) {
        let mut states = vec![*dark];
        for slot in 0..2_u8 {
            states = states.iter().flat_map(|state| self.slot_after_cut(world, state, slot)).collect();
        }
        for state in states {
            for record in world.store_unsynced.iter().chain([world.stores[0]]) {
                let mut after = state;
                after.stores[0] = record;
                let broken = self.check_told(&after);
                self.push(steps, Move::PowerCut, Note::Done, after, broken);
            }
        }
    }

    fn slot_after_cut(&mut self, world: &World, dark: &World, slot: u8) -> Vec<World> {
        let before = world.slots[usize::from(slot)];
        let present = self.code.records.id((before.head, before.disk.intent));
        let mut states = Vec::new();
        for record in before.unsynced.iter().chain([present]) {
            for files in before.disk.unsynced.iter().chain([before.disk.files.number()]) {
                let Some((head, intent)) = self.code.records.get(record).copied() else { continue };
                let mut state = *dark;
                let at = &mut state.slots[usize::from(slot)];
                (at.head, at.disk.intent) = (head, intent);
                at.disk.files = Files::of_number(files);
                at.disk.unsynced.sync();
                at.disk.lock = 0;
                let back = at.disk.files.staged & !before.disk.files.staged;
                at.disk.taken_back = super::world::members(back).next().map_or(before.disk.taken_back, mark);
                if (head, files) != (before.head, before.disk.files.number()) {
                    self.reach(super::probe::Probe::TakenBack);
                }
                states.push(state);
            }
        }
        states
    }

    /// What somebody was told to be published is in the head or intended there.
    fn check_told(&self, world: &World) -> Broken {
        for slot in world.slots {
            let Some(told) = marked(slot.disk.told) else { continue };
            let intended = self.code.request(slot.disk.intent).data_of.filter(|_| slot.disk.intent != 0);
            let head = self.code.heads.get(slot.head);
            let generation = head.map(refrain_core::Head::generation).unwrap_or_default();
            let expected = self.code.generation(world.processes[told].run);
            let stands = head.is_some_and(|head| head.shows(names::attempt(told))) || generation > expected;
            if !stands && intended != Some(told) {
                return broken(Property::DurableWhenTold, "what was told to be published is gone after the power cut");
            }
        }
        None
    }

    /// Without an intent readers see what the head says, or what somebody else wrote.
    pub(super) fn check_files(&self, world: &World) -> Broken {
        if self.config().medium != super::Medium::Filesystem {
            return None;
        }
        for slot in world.slots {
            let shown = self.code.heads.get(slot.head).and_then(|head| head.publication.as_ref());
            let expected = shown.map_or(0, |shown| mark(names::process_of(shown.attempt)));
            let target = slot.disk.files.target;
            if slot.disk.intent == 0 && target != expected && target != FOREIGN {
                return broken(Property::DurableWhenTold, "readers do not see what the head says");
            }
        }
        None
    }

    /// P3, seen from readers: what they see is never replaced by something older.
    fn check_replaced(&self, world: &World, former: u8, now: u8) -> Broken {
        let generation = |target: u8| {
            let shown = marked(target).filter(|_| target != FOREIGN);
            shown.map(|process| self.code.generation(world.processes[process].run)).unwrap_or_default()
        };
        if generation(now) < generation(former) {
            return broken(Property::GenerationsRise, "readers see older data again");
        }
        None
    }

    #[allow(clippy::large_types_passed_by_value, reason = "every caller has just made it")]
    fn push_file(&mut self, steps: &mut Steps, process: usize, step: FileStep, after: World, broken: Broken) {
        self.push(steps, Move::File(small(process), step), Note::Done, after, broken);
    }
}

fn change_files(world: &mut World, slot: u8, files: Files) {
    let disk = &mut world.slots[usize::from(slot)].disk;
    disk.unsynced.push(disk.files.number());
    disk.files = files;
}

fn unlock(world: &mut World, process: usize, slot: u8) {
    let disk = &mut world.slots[usize::from(slot)].disk;
    if disk.lock == mark(process) {
        disk.lock = 0;
    }
    world.processes[process].call = Call::None;
    world.processes[process].decided_head = 0;
}
