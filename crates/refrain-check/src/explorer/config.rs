//! What one exploration contains: who takes part, what may go wrong, how often.

use super::{Property, Switch};
use refrain_core::{Goal, Want};

/// The most processes in one exploration.
pub(super) const PROCESSES: usize = 4;
/// The most slots in one exploration.
pub(super) const SLOTS: usize = 2;

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name in reports.
    pub name: String,
    /// The attempts besides the recovery, three at most. They are called A, B and C.
    pub attempts: Vec<Plan>,
    /// The fair attempt R that shows that every state has a good end (P8).
    pub recovery: Recovery,
    /// How often things go wrong.
    pub budget: Budget,
    /// What happens once, at any time.
    pub fault: Fault,
    /// How attempts reach the sink.
    pub medium: Medium,
    /// How staging is judged.
    pub collector: Collector,
    /// Whether the sink can test the claim in the commit's own step (4.2).
    pub claim_tested: bool,
    /// Whether a late copy of a claim may create a dropped slot's head once more, with the same names in it.
    pub late_creation: bool,
    /// A repair that is taken out, to see that its absence is noticed.
    pub without: Option<Switch>,
    /// Properties that this configuration is known not to have.
    pub set_aside: Vec<Property>,
    /// Where the search stops unexhausted.
    pub limit: usize,
}

/// What one attempt is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it wants.
    pub want: Want,
    /// How far it may go.
    pub goal: Goal,
    /// The slots of its configuration, 0 or 1, the anchor first.
    pub outputs: Vec<u8>,
    /// Which of two stores it uses; only with [`Fault::TwoStores`].
    pub store: u8,
}

/// When the fair attempt R begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Never.
    None,
    /// In every state, on a copy, alone.
    Alone(Plan),
    /// In every state, and everybody else goes on meanwhile and after.
    Among(Plan),
}

/// How often things go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Processes that die. (One that stops for ever looks the same to everybody else.)
    pub crashes: u8,
    /// Requests whose answer is given up: late, lost, or never delivered. Answers of the store count as well.
    pub timeouts: u8,
    /// Requests that the network delivers once more.
    pub duplicates: u8,
    /// Power cuts; not with [`Medium::Network`].
    pub power_cuts: u8,
}

/// What happens once, at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The store is lost; an empty successor replaces it (8.1).
    StoreLost,
    /// The store is restored from any earlier state, with a new identity (8.1).
    StoreRestored,
    /// The store is restored from any earlier state and nobody says so.
    StoreRestoredUnnoticed,
    /// Two stores that know nothing of each other are used from the beginning (8.2).
    TwoStores,
    /// Somebody else drops one slot with its head (13.1).
    SlotDropped,
    /// Somebody else replaces what stands at a target (13.2); only with [`Medium::Filesystem`].
    TargetOverwritten,
    /// Somebody removes the sealed data of a decided run for a slot that is still behind (5.5).
    SealedDataLost,
}

/// How attempts reach the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Requests are messages: late, lost, repeated, or delivered after their sender is gone.
    Network,
    /// Calls on one host: each happens or not. Claims and leases are not synced; a power cut kills every
    /// process and takes back any number of the newest unsynced records.
    Local,
    /// The same with every step of chapter 9: lock, recover, intent, rename, sync of the directories, record.
    /// A power cut also takes back renames whose directories are not synced.
    Filesystem,
}

/// How staging is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// Not at all.
    Off,
    /// As soon as the heads allow, which is the worst moment: from then on the data must never be seen.
    Eager,
    /// By heads that are read one after the other, at different times.
    HeadByHead,
}

impl Plan {
    /// Publishes the current run at these slots.
    pub fn continuing(outputs: &[u8]) -> Self {
        Self { want: Want::Continue, goal: Goal::Publish, outputs: outputs.to_vec(), store: 0 }
    }

    /// Replaces the first generation at these slots.
    pub fn rerunning(outputs: &[u8]) -> Self {
        let from = refrain_core::Generation::new(1);
        Self { want: Want::Rerun { from }, ..Self::continuing(outputs) }
    }

    /// The same for a person who says so: gives up a decided run whose sealed data is lost.
    pub fn replacing(outputs: &[u8]) -> Self {
        Self { goal: Goal::Replace, ..Self::rerunning(outputs) }
    }

    /// Fences and rolls forward, and executes nothing.
    pub fn settling(outputs: &[u8]) -> Self {
        Self { goal: Goal::Settle, ..Self::continuing(outputs) }
    }

    /// The same with another store.
    #[must_use]
    pub fn at_store(self, store: u8) -> Self {
        Self { store, ..self }
    }
}

impl Config {
    /// Attempts and a recovery that begins in every state, on a network, with nothing that goes wrong yet.
    pub fn new(name: impl Into<String>, attempts: Vec<Plan>, recovery: Recovery) -> Self {
        Self {
            name: name.into(),
            attempts,
            recovery,
            budget: Budget::default(),
            fault: Fault::None,
            medium: Medium::Network,
            collector: Collector::Eager,
            claim_tested: true,
            late_creation: false,
            without: None,
            set_aside: Vec::new(),
            limit: 80_000_000,
        }
    }

    /// With so many crashes, time-outs and duplicates.
    #[must_use]
    pub fn budget(mut self, crashes: u8, timeouts: u8, duplicates: u8) -> Self {
        self.budget = Budget { crashes, timeouts, duplicates, ..self.budget };
        self
    }

    /// With one fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// On one host, with so many power cuts.
    #[must_use]
    pub fn local(mut self, power_cuts: u8) -> Self {
        self.medium = Medium::Local;
        self.budget.power_cuts = power_cuts;
        self
    }

    /// On one host, step by step through the filesystem, with so many power cuts.
    #[must_use]
    pub fn filesystem(mut self, power_cuts: u8) -> Self {
        self.medium = Medium::Filesystem;
        self.budget.power_cuts = power_cuts;
        self
    }

    /// With another judge of staging.
    #[must_use]
    pub fn collector(mut self, collector: Collector) -> Self {
        self.collector = collector;
        self
    }

    /// At a sink that cannot test the claim when it commits.
    #[must_use]
    pub fn claim_untested(mut self) -> Self {
        self.claim_tested = false;
        self
    }

    /// With one repair taken out.
    #[must_use]
    pub fn without(mut self, switch: Switch) -> Self {
        self.without = Some(switch);
        self
    }

    /// Without these properties.
    #[must_use]
    pub fn set_aside(mut self, properties: &[Property]) -> Self {
        self.set_aside = properties.to_vec();
        self
    }

    /// The plan of a process; the recovery comes after the attempts.
    pub(super) fn plan(&self, process: usize) -> Option<&Plan> {
        match &self.recovery {
            Recovery::Alone(plan) | Recovery::Among(plan) if process == self.attempts.len() => Some(plan),
            _ => self.attempts.get(process),
        }
    }

    /// The recovery's number.
    pub(super) fn recovery_process(&self) -> Option<usize> {
        (self.recovery != Recovery::None).then_some(self.attempts.len())
    }

    pub(super) fn lacks(&self, switch: Switch) -> bool {
        self.without == Some(switch)
    }
}
