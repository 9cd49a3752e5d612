//! Explorations of the shipped protocol code (docs/PROTOCOL.md, part II). Each prints what it visited.
//!
//! The ordinary ones take seconds. `REFRAIN_EXPLORE=deep` adds larger budgets and a third attempt.

use refrain_check::explorer::{Collector, Config, Fault, Plan, Probe, Property, Recovery, Report, explore};
use std::time::Instant;

const ONE: &[u8] = &[0];
const TWO: &[u8] = &[0, 1];

/// What a store that went back unnoticed, or a dropped slot, is known to cost: a fair attempt may be fenced once
/// or needs a person, and an older lease's claim may be accepted after a later one's. Commits still obey P2.
const LOST_CLAIMS: &[Property] = &[Property::GoodEnd, Property::ClaimOrder];
const DROPPED: &[Property] = &[Property::GoodEnd, Property::ClaimOrder, Property::NotOverMixedSlots];
const TWO_STORES: &[Property] = &[Property::GoodEnd, Property::ClaimOrder];

fn holds(config: Config) -> Report {
    let started = Instant::now();
    let report = explore(config);
    println!("{report} ({:.1} s)", started.elapsed().as_secs_f64());
    assert!(report.holds(), "{report}");
    report
}

fn both_continue(name: &str, slots: &[u8]) -> Config {
    let plan = || Plan::continuing(slots);
    Config::new(name, vec![plan(), plan()], Recovery::Among(plan()))
}

fn second_reruns(name: &str, slots: &[u8]) -> Config {
    let plan = || Plan::continuing(slots);
    Config::new(name, vec![plan(), Plan::rerunning(slots)], Recovery::Among(plan()))
}

fn reached(report: &Report, probes: &[Probe]) {
    for probe in probes {
        assert!(report.probes.contains(probe), "{}: never reached: {probe}", report.name);
    }
}

#[test]
fn one_slot_both_continue() {
    let report = holds(both_continue("1 slot, A and B continue", ONE).budget(1, 2, 1));
    reached(&report, &[Probe::Published, Probe::AlreadyPublished, Probe::NotPublished, Probe::Unknown]);
    reached(&report, &[Probe::Settled, Probe::FencedStaging, Probe::Zombie, Probe::Rejected, Probe::Denied]);
}

#[test]
fn one_slot_second_reruns() {
    let report = holds(second_reruns("1 slot, A continues, B reruns", ONE).budget(1, 1, 1));
    reached(&report, &[Probe::Superseded, Probe::Replaced, Probe::ClaimStood, Probe::CommitStood]);
}

#[test]
fn two_slots_both_continue() {
    let report = holds(both_continue("2 slots, A and B continue", TWO).budget(1, 1, 1));
    reached(&report, &[Probe::Decided, Probe::RolledForward]);
}

#[test]
fn two_slots_second_reruns() {
    holds(second_reruns("2 slots, A continues, B reruns", TWO).budget(1, 1, 0));
}

#[test]
fn store_lost_one_slot() {
    holds(second_reruns("1 slot, store lost", ONE).budget(0, 1, 1).fault(Fault::StoreLost));
}

#[test]
fn store_lost_two_slots() {
    holds(both_continue("2 slots, store lost", TWO).budget(0, 1, 0).fault(Fault::StoreLost));
}

#[test]
fn store_restored_one_slot() {
    holds(second_reruns("1 slot, store restored", ONE).budget(0, 1, 0).fault(Fault::StoreRestored));
}

#[test]
fn store_restored_two_slots() {
    holds(both_continue("2 slots, store restored", TWO).budget(0, 1, 0).fault(Fault::StoreRestored));
}

#[test]
fn store_restored_unnoticed() {
    let fault = Fault::StoreRestoredUnnoticed;
    let one = second_reruns("1 slot, store restored unnoticed", ONE).budget(0, 1, 0);
    let report = holds(one.fault(fault).set_aside(LOST_CLAIMS));
    reached(&report, &[Probe::Raised]);
    let two = both_continue("2 slots, store restored unnoticed", TWO).budget(0, 1, 0);
    holds(two.fault(fault).set_aside(LOST_CLAIMS));
}

#[test]
fn two_stores() {
    for slots in [ONE, TWO] {
        let plans = vec![Plan::continuing(slots), Plan::rerunning(slots).at_store(1)];
        let config = Config::new("two stores", plans, Recovery::Among(Plan::continuing(slots)));
        let report = holds(config.budget(1, 1, 1).fault(Fault::TwoStores).set_aside(TWO_STORES));
        reached(&report, &[Probe::Refused]);
    }
}

#[test]
fn slot_dropped() {
    let one = second_reruns("1 slot, dropped by somebody else", ONE).budget(0, 1, 0);
    holds(one.fault(Fault::SlotDropped).set_aside(DROPPED));
    let two = both_continue("2 slots, one dropped by somebody else", TWO).budget(0, 1, 0);
    holds(two.fault(Fault::SlotDropped).set_aside(DROPPED));
}

#[test]
fn slot_list_changes() {
    let lists: [(&[u8], &[u8]); 5] =
        [(&[0, 1], &[1]), (&[0, 1], &[0]), (&[0, 1], &[1, 0]), (&[0], &[0, 1]), (&[1], &[0, 1])];
    for (first, second) in lists {
        for fault in [Fault::None, Fault::StoreLost, Fault::StoreRestored] {
            let name = format!("slot list {first:?} then {second:?}, {fault:?}");
            let plans = vec![Plan::continuing(first), Plan::continuing(second)];
            holds(Config::new(name, plans, Recovery::Alone(Plan::continuing(second))).budget(0, 1, 0).fault(fault));
        }
    }
}

#[test]
fn heads_read_one_after_the_other() {
    let config = second_reruns("2 slots, staging judged head by head", TWO).collector(Collector::HeadByHead);
    holds(Config { recovery: Recovery::None, ..config }.budget(0, 1, 0));
}

#[test]
fn settling_attempts() {
    for slots in [ONE, TWO] {
        let plans = vec![Plan::continuing(slots), Plan::settling(slots)];
        holds(Config::new("B settles", plans, Recovery::Among(Plan::settling(slots))).budget(1, 1, 0));
    }
}

#[test]
fn one_host_with_power_cuts() {
    for slots in [ONE, TWO] {
        let plans = vec![Plan::continuing(slots), Plan::rerunning(slots)];
        let config = Config::new("one host", plans, Recovery::Among(Plan::continuing(slots)));
        holds(config.budget(1, 0, 0).local(1));
    }
}
