//! What happens to everybody: stores lost and restored, slots dropped, power cuts.

use super::config::{Fault, Medium};
use super::label::{Move, Note};
use super::model::{Explorer, Steps};
use super::probe::Probe;
use super::store::StoreCall;
use super::world::{Slot, Status, World};

impl Explorer {
    /// Every fault that may strike now.
    pub(super) fn fault_steps(&mut self, world: &World, steps: &mut Steps) {
        if self.recovering(world) {
            return;
        }
        if world.left.power_cuts > 0 {
            self.power_cut_steps(world, steps);
        }
        if world.left.faults == 0 {
            return;
        }
        let mut after = *world;
        after.left.faults -= 1;
        match self.config().fault {
            Fault::None | Fault::TwoStores => {}
            Fault::StoreLost => {
                after.store = 1;
                after.stores[1] = self.code.empty_record();
                after.decided = 0;
                self.push(steps, Move::LoseStore, Note::Done, after, None);
            }
            Fault::StoreRestored => {
                self.backup_step(world, steps);
                let (void, _) = self.code.at_store(world.backup, StoreCall::Void);
                after.store = 1;
                after.stores[1] = void;
                self.push(steps, Move::RestoreStore, Note::Done, after, None);
            }
            Fault::StoreRestoredUnnoticed => {
                self.backup_step(world, steps);
                after.stores[0] = world.backup;
                self.push(steps, Move::RestoreStore, Note::Done, after, None);
            }
            Fault::SlotDropped => self.drop_steps(&after, steps),
            Fault::TargetOverwritten => self.overwrite_steps(&after, steps),
            Fault::SealedDataLost => self.lose_data_steps(&after, steps),
        }
    }

    fn backup_step(&mut self, world: &World, steps: &mut Steps) {
        let present = world.stores[usize::from(world.store)];
        if !world.backup_made && present != world.backup {
            let mut after = *world;
            after.backup_made = true;
            after.backup = present;
            self.push(steps, Move::Backup, Note::Done, after, None);
        }
    }

    fn drop_steps(&mut self, world: &World, steps: &mut Steps) {
        for (number, slot) in world.slots.iter().enumerate().filter(|(_, slot)| slot.head != 0) {
            let mut after = *world;
            after.slots[number] = Slot { drops: slot.drops + 1, ever: slot.ever, ..Slot::default() };
            self.push(steps, Move::DropSlot(super::process::small(number)), Note::Done, after, None);
        }
    }

    /// What is published has left its staging: only a slot that is behind can lose its data.
    fn lose_data_steps(&mut self, world: &World, steps: &mut Steps) {
        for process in 0..world.processes.len() {
            let decided = (0..world.slots.len()).map(super::process::small);
            let (mut at_anchor, mut behind) = (false, false);
            for slot in decided.filter(|slot| self.has_slot(world, process, *slot)) {
                let shows = self.shows(world, slot, process);
                if self.is_anchor(world, process, slot) {
                    at_anchor = shows;
                } else {
                    behind |= !shows;
                }
            }
            if at_anchor && behind {
                let mut after = *world;
                after.processes[process].lost = true;
                self.push(steps, Move::LoseData(super::process::small(process)), Note::Done, after, None);
            }
        }
    }

    fn has_slot(&self, world: &World, process: usize, slot: u8) -> bool {
        let run = self.code.runs.get(world.processes[process].run);
        run.is_some_and(|run| run.slots().any(|of| super::names::slot_of(of) == slot))
    }

    /// Every process dies. Of the store and of each head any number of the newest unsynced records is lost.
    fn power_cut_steps(&mut self, world: &World, steps: &mut Steps) {
        let mut dark = *world;
        dark.left.power_cuts -= 1;
        dark.under_way.clear();
        dark.store_unsynced.sync();
        for process in &mut dark.processes {
            if process.status == Status::Running {
                process.status = Status::Dead;
            }
        }
        for slot in &mut dark.slots {
            slot.unsynced.sync();
            // Nobody of before the cut is left: no claim of theirs can come after another.
            (slot.claimer, slot.latest) = (0, 0);
        }
        if self.config().medium == Medium::Filesystem {
            return self.power_cut_of_files(world, &dark, steps);
        }
        let [first, second] = &world.slots;
        for record in world.store_unsynced.iter().chain([world.stores[0]]) {
            for first in first.unsynced.iter().chain([first.head]) {
                for second in second.unsynced.iter().chain([second.head]) {
                    let mut after = dark;
                    after.stores[0] = record;
                    after.slots[0].head = first;
                    after.slots[1].head = second;
                    if after.stores != world.stores || first != world.slots[0].head {
                        self.reach(Probe::TakenBack);
                    }
                    self.push(steps, Move::PowerCut, Note::Done, after, None);
                }
            }
        }
    }
}
