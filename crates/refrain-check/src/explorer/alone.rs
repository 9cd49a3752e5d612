//! P8 on a copy: the fair attempt begins in this state, alone, and must come to a good end.

use super::Property;
use super::config::Recovery;
use super::intern::Id;
use super::model::{Explorer, broken};
use super::search::Violation;
use super::world::{Process, Status, World, bit};

/// Steps after which an attempt that is alone counts as stuck.
const PATIENCE: usize = 64;

/// Everything that a lonely attempt can notice, and everything that its steps are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scene {
    heads: [Id; 2],
    stores: [Id; 2],
    store: u8,
    drops: [u8; 2],
    intents: [Id; 2],
    files: [Id; 2],
    seen: [u8; 4],
    said: [u8; 3],
}

impl Scene {
    fn of(world: &World) -> Self {
        let [first, second] = &world.slots;
        let said = |what: fn(&Process) -> bool| {
            world.processes.iter().enumerate().filter(|(_, at)| what(at)).fold(0, |set, (at, _)| set | bit(at))
        };
        Self {
            heads: [first.head, second.head],
            stores: world.stores,
            store: world.store,
            drops: [first.drops, second.drops],
            intents: [first.disk.intent, second.disk.intent],
            files: [first.disk.files.number(), second.disk.files.number()],
            seen: [first.shown, first.ever, second.shown, second.ever],
            said: [said(|at| at.denied), said(|at| at.deletable), said(|at| at.lost)],
        }
    }
}

impl Explorer {
    /// Runs the fair attempt on a copy of the state, if this configuration asks for it.
    pub(super) fn check_recovery_alone(&mut self, world: &World) -> Option<Violation> {
        if !matches!(self.config().recovery, Recovery::Alone(_)) || self.recovering(world) {
            return None;
        }
        let scene = Scene::of(world);
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
