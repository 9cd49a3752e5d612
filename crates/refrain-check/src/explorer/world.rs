//! One state of the world, as a handful of numbers. What nobody can notice any more is not in it.

use super::config::{PROCESSES, SLOTS};
use super::intern::Id;

/// Requests that may be under way at once.
pub(super) const UNDER_WAY: usize = 12;
/// Unsynced records that may pile up behind one durable one.
pub(super) const UNSYNCED: usize = 6;

/// The world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) processes: [Process; PROCESSES],
    pub(super) slots: [Slot; SLOTS],
    /// The stores' records of the key; a successor is the second.
    pub(super) stores: [Id; 2],
    /// The store that answers.
    pub(super) store: u8,
    /// What a restore brings back, and whether it was saved on the way.
    pub(super) backup: Id,
    pub(super) backup_made: bool,
    /// Earlier records that a power cut may bring back; the oldest is durable.
    pub(super) store_unsynced: Unsynced,
    /// Leases granted so far.
    pub(super) leases: u8,
    pub(super) under_way: Requests,
    pub(super) left: Left,
    /// Only without [`super::Switch::HeadIsDecision`]: the process whose data the store says is decided, from 1.
    pub(super) decided: u8,
    /// Only with [`super::Collector::HeadByHead`].
    pub(super) look: Look,
}

/// What may still go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) crashes: u8,
    pub(super) timeouts: u8,
    pub(super) duplicates: u8,
    pub(super) power_cuts: u8,
    pub(super) faults: u8,
}

/// One attempt's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) status: Status,
    /// The state machine; 0 unless it runs.
    pub(super) machine: Id,
    /// A request is sent and its answer awaited.
    pub(super) waiting: bool,
    /// The store asked for a proposal.
    pub(super) proposing: bool,
    /// The how manyth lease of all it was granted, from 1.
    pub(super) lease: u8,
    /// The store that granted it.
    pub(super) store: u8,
    /// What it executes or executed for: its run and its staging's name.
    pub(super) run: Id,
    pub(super) staging: Id,
    pub(super) sealed: bool,
    /// Its staging may be deleted: from here on its data must not be seen.
    pub(super) deletable: bool,
    /// It, or somebody entitled to, said that its data is not and will not be published.
    pub(super) denied: bool,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// Not started.
    #[default]
    Idle,
    Running,
    /// Died without a report.
    Dead,
    /// Reported and ended.
    Over,
}

/// One slot at its sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub(super) head: Id,
    /// Earlier heads that a power cut may bring back; the oldest is durable.
    pub(super) unsynced: Unsynced,
    /// Whose data was visible here since the slot was created, one bit a process.
    pub(super) shown: u8,
    /// The same, since the beginning of time.
    pub(super) ever: u8,
    /// The last accepted claim's process, from 1.
    pub(super) claimer: u8,
    /// The process of the latest lease among accepted claims, from 1.
    pub(super) latest: u8,
    /// How often the slot was dropped.
    pub(super) drops: u8,
}

/// A short list of records, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Unsynced {
    length: u8,
    records: [Id; UNSYNCED],
}

impl Unsynced {
    /// A newer record follows `record`, which is kept until everything is synced.
    pub(super) fn push(&mut self, record: Id) {
        if let Some(place) = self.records.get_mut(usize::from(self.length)) {
            *place = record;
            self.length += 1;
        }
    }

    /// Everything is durable.
    pub(super) fn sync(&mut self) {
        *self = Self::default();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Id> + use<> {
        let Self { length, records } = *self;
        records.into_iter().take(usize::from(length))
    }
}

/// Copies of requests that the network has not delivered; sorted, 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Requests([Id; UNDER_WAY]);

impl Requests {
    pub(super) fn add(&mut self, request: Id) -> bool {
        let Some(free) = self.0.iter_mut().find(|place| **place == 0) else { return false };
        *free = request;
        self.0.sort_unstable();
        true
    }

    pub(super) fn remove(&mut self, request: Id) {
        if let Some(place) = self.0.iter_mut().find(|place| **place == request) {
            *place = 0;
        }
        self.0.sort_unstable();
    }

    pub(super) fn contains(&self, request: Id) -> bool {
        self.0.contains(&request)
    }

    /// Each request once, however many copies there are.
    pub(super) fn distinct(&self) -> impl Iterator<Item = Id> + use<> {
        let all = self.0;
        (0..UNDER_WAY).filter(move |at| all[*at] != 0 && (*at == 0 || all[at - 1] != all[*at])).map(move |at| all[at])
    }

    pub(super) fn retain(&mut self, keep: impl Fn(Id) -> bool) {
        for place in &mut self.0 {
            if *place != 0 && !keep(*place) {
                *place = 0;
            }
        }
        self.0.sort_unstable();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A collector between its two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Look {
    /// The process whose staging is judged, from 1; 0 for no collector.
    pub(super) at: u8,
    /// The slot that was read and the head that stood there.
    pub(super) slot: u8,
    pub(super) head: Id,
}

/// One bit for a process.
pub(super) fn bit(process: usize) -> u8 {
    1 << process
}

/// The processes of a set of bits.
pub(super) fn members(set: u8) -> impl Iterator<Item = usize> {
    (0..PROCESSES).filter(move |process| set & bit(*process) != 0)
}

/// A process as it is stored where 0 means nobody.
pub(super) fn mark(process: usize) -> u8 {
    u8::try_from(process + 1).unwrap_or(u8::MAX)
}

/// The process of a [`mark`].
pub(super) fn marked(mark: u8) -> Option<usize> {
    usize::from(mark).checked_sub(1)
}
