//! P8 on a copy: the fair attempt begins in this state, alone, and must come to a good end.

use super::Property;
use super::config::Recovery;
use super::intern::Id;
use super::model::{Explorer, broken};
use super::search::Violation;
use super::world::{Status, World};

/// Steps after which an attempt that is alone counts as stuck.
const PATIENCE: usize = 64;

/// Everything that a lonely attempt can notice.
pub(super) type Scene = ([Id; 2], [Id; 2], u8, [u8; 2], [(Id, Id); 2]);

impl Explorer {
    /// Runs the fair attempt on a copy of the state, if this configuration asks for it.
    pub(super) fn check_recovery_alone(&mut self, world: &World) -> Option<Violation> {
        if !matches!(self.config().recovery, Recovery::Alone(_)) || self.recovering(world) {
            return None;
        }
        let [first, second] = world.slots;
        let drops = [first.drops, second.drops];
        let disks = [first, second].map(|slot| (slot.disk.intent, slot.disk.files.number()));
        let scene = ([first.head, second.head], world.stores, world.store, drops, disks);
        if let Some(known) = self.alone.get(&scene) {
            return known.clone();
        }
        let found = self.recover_alone(world);
        self.alone.insert(scene, found.clone());
        found
    }

    fn recover_alone(&mut self, world: &World) -> Option<Violation> {
        let recovery = self.config().recovery_process()?;
        let mut world = *world;
        world.under_way.clear();
        for slot in &mut world.slots {
            slot.disk.lock = 0; // a holder that is frozen for ever is ended by hand (9.6)
        }
        let mut steps = Vec::new();
        for _ in 0..PATIENCE {
            if world.processes[recovery].status == Status::Over {
                return None;
            }
            self.lonely_steps(&world, recovery, &mut steps);
            let Some(step) = steps.drain(..).next() else { break };
            if let Some(Violation { property, what }) = step.violation {
                return broken(property, format!("a fair attempt that begins here: {what}"));
            }
            world = step.state;
        }
        broken(Property::GoodEnd, "a fair attempt that is alone does not come to an end")
    }

    fn lonely_steps(&mut self, world: &World, recovery: usize, steps: &mut super::model::Steps) {
        if world.processes[recovery].waiting {
            self.network_steps(world, steps);
        } else {
            self.process_steps(world, recovery, steps);
        }
    }
}
