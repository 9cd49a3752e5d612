//! P8 on a copy: the fair attempt begins in this state, alone, and must come to a good end.

use super::Property;
use super::config::Recovery;
use super::explorer::{Explorer, broken};
use super::intern::Id;
use super::search::Violation;
use super::world::{Status, World};

/// Steps after which an attempt that is alone counts as stuck.
const PATIENCE: usize = 64;

/// Everything that a lonely attempt can notice.
pub(super) type Scene = ([Id; 2], [Id; 2], u8, [u8; 2]);

impl Explorer {
    /// Runs the fair attempt on a copy of the state, if this configuration asks for it.
    pub(super) fn check_recovery_alone(&mut self, world: &World) -> Option<Violation> {
        if !matches!(self.config().recovery, Recovery::Alone(_)) || self.recovering(world) {
            return None;
        }
        let [first, second] = world.slots;
        let scene = ([first.head, second.head], world.stores, world.store, [first.drops, second.drops]);
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
        let mut steps = Vec::new();
        for _ in 0..PATIENCE {
            if world.processes[recovery].status == Status::Over {
                return None;
            }
            self.lonely_steps(&world, recovery, &mut steps);
            let Some(step) = steps.drain(..).next() else { break };
            if step.violation.is_some() {
                return step.violation;
            }
            world = step.state;
        }
        broken(Property::GoodEnd, "a fair attempt that is alone does not come to an end")
    }

    fn lonely_steps(&mut self, world: &World, recovery: usize, steps: &mut super::explorer::Steps) {
        if world.processes[recovery].waiting {
            self.network_steps(world, steps);
        } else {
            self.process_steps(world, recovery, steps);
        }
    }
}
