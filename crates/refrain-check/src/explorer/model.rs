//! The world of one [`Config`] as a [`Model`]: what may happen next, and what each step does.

use super::code::{Code, Event, Next};
use super::config::{Collector, Config, Medium, PROCESSES, Recovery};
use super::intern::Id;
use super::label::{Label, Move, Note};
use super::probe::Probe;
use super::search::{Model, Step, Violation};
use super::world::{Left, Process, Status, World};
use super::{Fault, Property};

/// The explorer of one configuration.
#[derive(Debug)]
pub(super) struct Explorer {
    pub(super) code: Code,
    pub(super) probes: u64,
    pub(super) alone: super::hash::SmallMap<super::alone::Scene, Option<Violation>>,
}

pub(super) type Steps = Vec<Step<World, Label>>;

impl Explorer {
    /// An explorer of this configuration.
    pub(super) fn new(config: Config) -> Self {
        Self { code: Code::new(config), probes: 0, alone: super::hash::SmallMap::default() }
    }

    pub(super) fn config(&self) -> &Config {
        &self.code.config
    }

    /// What was reached at least once.
    pub(super) fn probes(&self) -> Vec<Probe> {
        Probe::ALL.iter().copied().filter(|probe| self.probes & probe.bit() != 0).collect()
    }

    pub(super) fn reach(&mut self, probe: Probe) {
        self.probes |= probe.bit();
    }

    /// Ends a step: forgets what nobody can notice, and checks the state that came out.
    #[allow(clippy::large_types_passed_by_value, reason = "every caller has just made it")]
    pub(super) fn push(
        &mut self,
        steps: &mut Steps,
        made: Move,
        note: Note,
        mut state: World,
        broken: Option<Violation>,
    ) {
        self.forget(&mut state);
        let broken = broken.or_else(|| self.check_state(&mut state));
        let broken = broken.filter(|violation| !self.config().set_aside.contains(&violation.property));
        steps.push(Step { label: Label { made, note }, state, violation: broken });
    }

    /// Tells a process's machine what happened.
    pub(super) fn tell(&mut self, world: &mut World, process: usize, event: Event) {
        let machine = self.code.step(world.processes[process].machine, event);
        let at = &mut world.processes[process];
        at.machine = machine;
        at.waiting = false;
        at.in_doubt = false;
    }

    pub(super) fn next(&self, world: &World, process: usize) -> Option<&Next> {
        self.code.next(world.processes[process].machine)
    }

    /// The request that a process sends or awaits.
    pub(super) fn request_of(&self, world: &World, process: usize) -> Option<Id> {
        match self.next(world, process) {
            Some(Next::Send(request)) => Some(*request),
            _ => None,
        }
    }

    pub(super) fn is_recovery(&self, process: usize) -> bool {
        self.config().recovery_process() == Some(process)
    }

    /// Whether the fair attempt began: from then on nobody starts and nothing is lost.
    pub(super) fn recovering(&self, world: &World) -> bool {
        self.config().recovery_process().is_some_and(|process| world.processes[process].status != Status::Idle)
    }

    /// How many processes there are.
    pub(super) fn processes(&self) -> usize {
        let config = self.config();
        (config.attempts.len() + usize::from(matches!(config.recovery, Recovery::Among(_)))).min(PROCESSES)
    }

    fn forget(&mut self, world: &mut World) {
        for process in &mut world.processes {
            if matches!(process.status, Status::Dead | Status::Over) {
                process.machine = 0;
                process.waiting = false;
                process.proposing = false;
                (process.call, process.decided_head, process.in_doubt) = (super::world::Call::None, 0, false);
                if !process.sealed {
                    (process.run, process.staging) = (0, 0);
                }
            }
        }
        let may_recur = self.config().fault == Fault::SlotDropped || self.config().without.is_some();
        if self.config().medium != Medium::Network || may_recur {
            return;
        }
        // A version or claim that was passed never comes back: what changes nothing now never will.
        for request in world.under_way.distinct() {
            let kind = self.code.request(request);
            let slot = world.slots[usize::from(kind.slot)];
            let awaited = world.processes[kind.sender].waiting && self.request_of(world, kind.sender) == Some(request);
            if !awaited && !self.code.at_sink(slot.head, request, slot.drops).0.changes() {
                world.under_way.retain(|other| other != request);
            }
        }
    }

    fn check_state(&mut self, world: &mut World) -> Option<Violation> {
        if self.config().collector == Collector::Eager {
            self.collect_eagerly(world);
        }
        self.check_slots_agree(world).or_else(|| self.check_files(world)).or_else(|| self.check_recovery_alone(world))
    }
}

impl Model for Explorer {
    type State = World;
    type Label = Label;

    fn initial(&mut self) -> World {
        let record = self.code.empty_record();
        let budget = self.config().budget;
        let faults = u8::from(!matches!(self.config().fault, Fault::None | Fault::TwoStores));
        World {
            processes: [Process::default(); PROCESSES],
            stores: [record; 2],
            backup: record,
            left: Left {
                crashes: budget.crashes,
                timeouts: budget.timeouts,
                duplicates: budget.duplicates,
                power_cuts: budget.power_cuts,
                faults,
            },
            ..World::default()
        }
    }

    fn expand(&mut self, world: &World, steps: &mut Steps) {
        for process in 0..self.processes() {
            self.process_steps(world, process, steps);
        }
        self.network_steps(world, steps);
        self.fault_steps(world, steps);
        self.collector_steps(world, steps);
    }

    fn describe(&self, label: Label) -> String {
        label.describe(&self.code)
    }
}

/// A broken property.
#[allow(clippy::unnecessary_wraps, reason = "every check returns an option")]
pub(super) fn broken(property: Property, what: impl Into<String>) -> Option<Violation> {
    Some(Violation { property, what: what.into() })
}
