//! Identities by counting: the same thing has the same name on every way to it, so that states merge.

use refrain_core::{
    AttemptId, HeadVersion, Key, OutputSlot, PinnedInput, RunId, RunProposal, SlotAddress, SlotId, StoreId, TaskName,
};
use uuid::Uuid;

/// What a uuid stands for.
#[derive(Clone, Copy)]
enum Kind {
    Attempt = 1,
    Store,
    Run,
    Slot,
    ClaimVersion,
    CommitVersion,
    CountedVersion,
}

fn name(kind: Kind, parts: [u64; 4]) -> Uuid {
    let mut bits = kind as u128;
    for part in parts {
        bits = (bits << 16) | u128::from(part & 0xffff);
    }
    Uuid::from_u128(bits)
}

pub(super) fn attempt(process: usize) -> AttemptId {
    AttemptId::from_uuid(name(Kind::Attempt, [0, 0, 0, process as u64]))
}

/// The process of an attempt.
pub(super) fn process_of(attempt: AttemptId) -> usize {
    usize::try_from(attempt.as_uuid().as_u128() & 0xffff).unwrap_or_default()
}

pub(super) fn store(index: u8) -> StoreId {
    StoreId::from_uuid(name(Kind::Store, [0, 0, 0, u64::from(index)]))
}

/// The number of a store.
pub(super) fn store_index(store: StoreId) -> u8 {
    u8::try_from(store.as_uuid().as_u128() & 0xff).unwrap_or_default()
}

pub(super) fn run(proposer: usize, generation: u64) -> RunId {
    RunId::from_uuid(name(Kind::Run, [0, 0, proposer as u64, generation]))
}

/// Identity of a head that this attempt's claim creates; `creation` tells apart what the sink created for it.
pub(super) fn slot_id(process: usize, token: u64, creation: u8) -> SlotId {
    SlotId::from_uuid(name(Kind::Slot, [0, process as u64, token, u64::from(creation)]))
}

pub(super) fn claim_version(process: usize, token: u64, creation: u8) -> HeadVersion {
    HeadVersion::from_uuid(name(Kind::ClaimVersion, [0, process as u64, token, u64::from(creation)]))
}

pub(super) fn commit_version(process: usize, token: u64, data_of: usize) -> HeadVersion {
    HeadVersion::from_uuid(name(Kind::CommitVersion, [0, process as u64, token, data_of as u64]))
}

/// A version as a mere counter would give it: it repeats after drop and recreation.
pub(super) fn counted_version(number: u64) -> HeadVersion {
    HeadVersion::from_uuid(name(Kind::CountedVersion, [0, 0, 0, number]))
}

/// The number of a counted version.
pub(super) fn count_of(version: HeadVersion) -> u64 {
    u64::try_from(version.as_uuid().as_u128() & 0xffff).unwrap_or_default()
}

/// Another version than this one: what a library that refreshes requests would draw.
pub(super) fn refreshed(version: HeadVersion) -> HeadVersion {
    HeadVersion::from_uuid(Uuid::from_u128(version.as_uuid().as_u128() + (1 << 100)))
}

pub(super) fn address(slot: u8) -> SlotAddress {
    SlotAddress { sink: "s".to_owned(), location: slot.to_string() }
}

/// The slot of an address.
pub(super) fn slot_of(address: &SlotAddress) -> u8 {
    address.location.parse().unwrap_or_default()
}

pub(super) fn outputs(slots: &[u8]) -> Vec<OutputSlot> {
    slots.iter().map(|slot| OutputSlot { name: slot.to_string(), slot: address(*slot), manner: None }).collect()
}

/// What this attempt would open a run with: every attempt pins something else.
pub(super) fn proposal(process: usize, generation: u64, slots: &[u8]) -> RunProposal {
    let pin = PinnedInput {
        name: "in".to_owned(),
        location: String::new(),
        version: process.to_string(),
        digest: None,
        bytes: 0,
        snapshot: None,
        lineage: None,
    };
    RunProposal { run_id: run(process, generation), inputs: vec![pin], outputs: outputs(slots), restores: None }
}

/// The only key.
pub(super) fn key() -> Key {
    // The name is legal; were it not, every claim would be refused and every exploration would say so.
    let task: Option<TaskName> = "t".parse().ok();
    Key { task: task.unwrap_or_else(|| unreachable!("`t` is a task's name")), partition: String::new() }
}

/// A process by its letter.
pub(super) fn letter(process: usize, recovery: Option<usize>) -> char {
    if recovery == Some(process) { 'R' } else { ['A', 'B', 'C', 'D'].get(process).copied().unwrap_or('?') }
}
