//! The collector of staging: which staging may be deleted (7), by the shipped rule.

use super::config::Collector;
use super::intern::Id;
use super::label::{Move, Note};
use super::model::{Explorer, Steps};
use super::names;
use super::probe::Probe;
use super::switch::Switch;
use super::world::{Look, Status, World, mark, marked};
use refrain_core::{Staleness, staleness};
use std::collections::BTreeMap;

impl Explorer {
    /// Marks all staging that the heads allow to delete. Looking is one step and deleting a later one, so
    /// that from the look on, whenever the deletion comes, the data must not be seen any more.
    pub(super) fn collect_eagerly(&mut self, world: &mut World) {
        for process in 0..world.processes.len() {
            let at = world.processes[process];
            if at.staging == 0 || at.deletable {
                continue;
            }
            let heads = [world.slots[0].head, world.slots[1].head];
            let stale = if self.config().lacks(Switch::StagingGoesByHeads) {
                let holder = self.code.lease_of(world.stores[usize::from(world.store)]);
                holder != Some(process) && !(0..2).any(|slot| self.shows(world, slot, process))
            } else {
                self.is_stale(at.staging, heads, world.store)
            };
            world.processes[process].deletable = stale;
        }
    }

    /// Steps of a collector that reads one head after the other.
    pub(super) fn collector_steps(&mut self, world: &World, steps: &mut Steps) {
        if self.config().collector != Collector::HeadByHead {
            return;
        }
        match marked(world.look.at) {
            None => {
                for process in 0..world.processes.len() {
                    let at = world.processes[process];
                    if at.staging != 0 && !at.deletable && at.status != Status::Idle {
                        for slot in 0..2 {
                            self.first_reading(world, process, slot, steps);
                        }
                    }
                }
            }
            Some(process) => self.second_reading(world, process, steps),
        }
    }

    fn first_reading(&mut self, world: &World, process: usize, slot: u8, steps: &mut Steps) {
        let mut after = *world;
        after.look = Look { at: mark(process), slot, head: world.slots[usize::from(slot)].head };
        self.push(steps, Move::ReadHead(super::process::small(process), slot), Note::Done, after, None);
    }

    fn second_reading(&mut self, world: &World, process: usize, steps: &mut Steps) {
        let mut after = *world;
        after.look = Look::default();
        let other = 1 - world.look.slot;
        let mut heads = [0; 2];
        heads[usize::from(world.look.slot)] = world.look.head;
        heads[usize::from(other)] = world.slots[usize::from(other)].head;
        let staging = world.processes[process].staging;
        let stale = staging != 0 && self.is_stale(staging, heads, world.store);
        after.processes[process].deletable |= stale;
        self.push(steps, Move::ReadHead(super::process::small(process), other), Note::Done, after, None);
    }

    fn is_stale(&mut self, staging: Id, heads: [Id; 2], store: u8) -> bool {
        if let Some(known) = self.code.stale.get(&(staging, heads, store)) {
            return *known;
        }
        let Some(named) = self.code.stagings.get(staging).cloned() else { return false };
        let by_slot: BTreeMap<_, _> = [0_u8, 1]
            .iter()
            .map(|slot| (names::address(*slot), self.code.heads.get(heads[usize::from(*slot)]).cloned()))
            .collect();
        let identity = self.code.identity(store);
        let verdict = if self.config().lacks(Switch::ClaimOnAllSlots) {
            let shown = by_slot.values().flatten().any(|head| head.shows(named.holder.attempt));
            let anchor = refrain_core::StagingId { slots: named.slots[..1].to_vec(), ..named };
            if shown { Staleness::Needed } else { staleness(&anchor, &by_slot, &identity) }
        } else {
            staleness(&named, &by_slot, &identity)
        };
        match verdict {
            Staleness::Settled => self.reach(Probe::Settled),
            Staleness::Fenced => self.reach(Probe::FencedStaging),
            Staleness::Needed => {}
        }
        let stale = verdict != Staleness::Needed;
        self.code.stale.insert((staging, heads, store), stale);
        stale
    }
}
