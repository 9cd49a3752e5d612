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
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
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
    /// Its sealed data for the slots after its anchor is gone.
    pub(super) lost: bool,
    /// It, or somebody entitled to, said that its data is not and will not be published.
    pub(super) denied: bool,
    /// Only with [`super::Medium::Filesystem`]: where it stands in its call, and the head it will write.
    pub(super) call: Call,
    pub(super) decided_head: Id,
    /// A call for the same request ended without a definite answer (9.6).
    pub(super) in_doubt: bool,
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
    /// Only with [`super::Medium::Filesystem`].
    pub(super) disk: Disk,
}

/// Where a process stands in a call to a filesystem sink (9.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Call {
    #[default]
    None,
    /// Has the lock.
    Locked,
    /// Redid another's rename; the directories are not synced.
    Redone,
    /// Recovered but for the record.
    RedoneSynced,
    /// The commit may go ahead, the intent is not written.
    Accepted,
    /// The intent is written, not synced.
    Written,
    /// The intent is durable.
    Intended,
    /// The rename said that it failed.
    RenameFailed,
    /// The data is visible.
    Renamed,
    /// Both directories are synced.
    Synced,
}

/// A slot's lock, intent and data on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    /// The lock's holder, from 1.
    pub(super) lock: u8,
    /// The commit that the head's record intends.
    pub(super) intent: Id,
    pub(super) files: Files,
    /// Earlier states of the files that a power cut may bring back, as numbers.
    pub(super) unsynced: Unsynced,
    /// Whose rename a power cut took back, from 1: it may be done once more.
    pub(super) taken_back: u8,
    /// Whose data somebody was told to be published here, from 1.
    pub(super) told: u8,
}

/// What stands where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Files {
    /// Whose data stands at the target, from 1; [`FOREIGN`] for somebody else's.
    pub(super) target: u8,
    /// Whose sealed data lies where it was staged, one bit a process.
    pub(super) staged: u8,
    /// What an exchange left at the staged place.
    pub(super) aside: u8,
}

/// A target that somebody else wrote.
pub(super) const FOREIGN: u8 = u8::MAX;

impl Disk {
    /// What this process sealed is durable where it was staged (5.8), whatever else a power cut takes back.
    pub(super) fn seal(&mut self, process: usize) {
        self.files.staged |= bit(process);
        self.unsynced.change(|number| {
            let files = Files::of_number(number);
            Files { staged: files.staged | bit(process), ..files }.number()
        });
    }
}

impl Files {
    pub(super) fn number(self) -> Id {
        Id::from_be_bytes([0, self.target, self.staged, self.aside])
    }

    pub(super) fn of_number(number: Id) -> Self {
        let [_, target, staged, aside] = number.to_be_bytes();
        Self { target, staged, aside }
    }
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

    /// Changes every record: something durable happened beside them.
    pub(super) fn change(&mut self, change: impl Fn(Id) -> Id) {
        for record in self.records.iter_mut().take(usize::from(self.length)) {
            *record = change(*record);
        }
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
