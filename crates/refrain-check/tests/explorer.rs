//! Explorations of the shipped protocol code (docs/PROTOCOL.md, part II). Each prints what it visited.
//!
//! The ordinary ones take seconds. `REFRAIN_EXPLORE=deep` adds larger budgets and a third attempt.

#![allow(clippy::print_stdout, reason = "what was visited is the result")]

use refrain_check::explorer::{Collector, Config, Fault, Plan, Probe, Property, Recovery, Report, explore};
use std::time::Instant;

const ONE: &[u8] = &[0];
const TWO: &[u8] = &[0, 1];

/// What a store that went back unnoticed is known to cost: a fair attempt may be fenced once, and an older lease's
/// claim may be accepted after a later one's. Commits still happen under the last claim only.
const UNNOTICED: &[Property] = &[Property::GoodEnd, Property::ClaimOrder];
/// The same for a slot that somebody else dropped; and a damaged anchor is refused.
const DROPPED: &[Property] = &[Property::GoodEnd, Property::ClaimOrder, Property::NotOverMixedSlots];
/// A store that knows nothing of the one in the head is refused (8.2).
const STRANGERS: &[Property] = &[Property::GoodEnd];

fn holds(config: Config) -> Report {
    let started = Instant::now();
    let report = explore(config);
    println!("{report} ({:.1} s)", started.elapsed().as_secs_f64());
    assert!(report.holds(), "{report}");
    report
}

fn deep() -> bool {
    std::env::var("REFRAIN_EXPLORE").is_ok_and(|value| value == "deep")
}

fn both_continue(name: &str, slots: &[u8]) -> Config {
    let plan = || Plan::continuing(slots);
    Config::new(name, vec![plan(), plan()], Recovery::Among(plan()))
}

fn second_reruns(name: &str, slots: &[u8]) -> Config {
    let plan = || Plan::continuing(slots);
    Config::new(name, vec![plan(), Plan::rerunning(slots)], Recovery::Among(plan()))
}

/// The recovery begins in every state, alone: fewer states, for configurations that have many.
fn alone(config: Config) -> Config {
    let recovery = match config.recovery {
        Recovery::Among(plan) => Recovery::Alone(plan),
        other => other,
    };
    Config { recovery, ..config }
}

fn reached(report: &Report, probes: &[Probe]) {
    for probe in probes {
        assert!(report.probes.contains(probe), "{}: never reached: {probe}", report.name);
    }
}

#[test]
fn one_slot() {
    let report = holds(both_continue("1 slot, A and B continue", ONE).budget(1, 1, 1));
    reached(&report, &[Probe::Published, Probe::AlreadyPublished, Probe::NotPublished, Probe::Unknown]);
    reached(&report, &[Probe::Settled, Probe::FencedStaging, Probe::Zombie, Probe::Rejected, Probe::Denied]);
    let report = holds(second_reruns("1 slot, A continues, B reruns", ONE).budget(1, 1, 1));
    reached(&report, &[Probe::Superseded, Probe::Replaced, Probe::ClaimStood, Probe::CommitStood, Probe::Recovered]);
}

#[test]
fn two_slots() {
    let report = holds(both_continue("2 slots, A and B continue", TWO).budget(0, 1, 1));
    reached(&report, &[Probe::Decided, Probe::Pending, Probe::RolledForward]);
    holds(second_reruns("2 slots, A continues, B reruns", TWO).budget(1, 1, 0));
    let untested = second_reruns("2 slots, the sink cannot test the claim", TWO).budget(0, 1, 0);
    holds(untested.claim_untested());
}

#[test]
fn store_lost() {
    holds(second_reruns("1 slot, store lost", ONE).budget(0, 1, 0).fault(Fault::StoreLost));
    holds(alone(second_reruns("2 slots, store lost", TWO)).budget(1, 1, 0).fault(Fault::StoreLost));
}

#[test]
fn store_restored() {
    holds(alone(second_reruns("1 slot, store restored", ONE)).budget(1, 1, 1).fault(Fault::StoreRestored));
    holds(alone(second_reruns("2 slots, store restored", TWO)).budget(1, 1, 0).fault(Fault::StoreRestored));
}

#[test]
fn store_restored_unnoticed() {
    let one = alone(second_reruns("1 slot, store restored unnoticed", ONE)).budget(1, 1, 1);
    let report = holds(one.fault(Fault::StoreRestoredUnnoticed).set_aside(UNNOTICED));
    reached(&report, &[Probe::Raised, Probe::Fenced]);
    let two = alone(second_reruns("2 slots, store restored unnoticed", TWO)).budget(0, 1, 0);
    holds(two.fault(Fault::StoreRestoredUnnoticed).set_aside(UNNOTICED));
}

#[test]
fn two_stores() {
    for slots in [ONE, TWO] {
        let plans = vec![Plan::continuing(slots), Plan::rerunning(slots).at_store(1)];
        let name = format!("{} slots, two stores", slots.len());
        let config = Config::new(name, plans, Recovery::Among(Plan::continuing(slots)));
        let report = holds(config.budget(1, 1, 1).fault(Fault::TwoStores).set_aside(STRANGERS));
        reached(&report, &[Probe::Refused]);
    }
}

#[test]
fn slot_dropped() {
    let one = second_reruns("1 slot, dropped by somebody else", ONE).budget(0, 1, 0);
    holds(one.fault(Fault::SlotDropped).set_aside(DROPPED));
    let two = alone(second_reruns("2 slots, one dropped by somebody else", TWO)).budget(1, 1, 1);
    holds(two.fault(Fault::SlotDropped).set_aside(DROPPED));
}

/// Two attempts at two slots, somebody who removes sealed data that is still to follow, and this fair attempt. Who gives
/// the decided run up starts while the slots are mixed: only its own commit can heal them.
fn data_lost(name: &str, second: Plan, recovery: Recovery) -> Config {
    let config = Config::new(name, vec![Plan::continuing(TWO), second], recovery);
    config.budget(0, 1, 0).fault(Fault::SealedDataLost).set_aside(&[Property::NotOverMixedSlots])
}

#[test]
fn sealed_data_lost() {
    let recovery = Recovery::Among(Plan::replacing(TWO));
    let report = holds(data_lost("2 slots, sealed data lost, R replaces", Plan::continuing(TWO), recovery));
    reached(&report, &[Probe::DataLost, Probe::GivenUp, Probe::Refused, Probe::Recovered]);
    let report = holds(data_lost("2 slots, sealed data lost, B replaces", Plan::replacing(TWO), Recovery::None));
    reached(&report, &[Probe::DataLost, Probe::GivenUp, Probe::Replaced]);
}

#[test]
fn sealed_data_lost_is_healed_by_nobody_but_who_replaces() {
    let recovery = Recovery::Among(Plan::rerunning(TWO));
    let report = explore(data_lost("2 slots, sealed data lost, R only reruns", Plan::continuing(TWO), recovery));
    println!("{report}");
    let found = report.outcome.found.as_ref().map(|found| found.violation.property);
    assert_eq!(found, Some(Property::GoodEnd), "{report}");
}

#[test]
fn slot_list_changes() {
    let lists: [(&[u8], &[u8]); 5] =
        [(&[0, 1], &[1]), (&[0, 1], &[0]), (&[0, 1], &[1, 0]), (&[0], &[0, 1]), (&[1], &[0, 1])];
    for (first, second) in lists {
        for fault in [Fault::None, Fault::StoreLost, Fault::StoreRestored] {
            let name = format!("slot list {first:?} then {second:?}, {fault:?}");
            let plans = vec![Plan::continuing(first), Plan::rerunning(second)];
            holds(Config::new(name, plans, Recovery::Alone(Plan::continuing(second))).budget(0, 1, 0).fault(fault));
        }
    }
}

#[test]
fn staging_judged_head_by_head() {
    let config = second_reruns("2 slots, staging judged head by head", TWO).collector(Collector::HeadByHead);
    holds(Config { recovery: Recovery::None, ..config }.budget(0, 1, 0));
}

#[test]
fn settling_attempts() {
    for slots in [ONE, TWO] {
        let plans = vec![Plan::continuing(slots), Plan::settling(slots)];
        let name = format!("{} slots, B and R settle", slots.len());
        holds(Config::new(name, plans, Recovery::Among(Plan::settling(slots))).budget(1, 1, 0));
    }
}

#[test]
fn one_host_with_power_cuts() {
    let report = holds(second_reruns("1 slot on one host, 2 power cuts", ONE).budget(1, 0, 0).local(2));
    reached(&report, &[Probe::TakenBack, Probe::Raised, Probe::FencedStaging]);
    holds(alone(second_reruns("2 slots on one host, 2 power cuts", TWO)).budget(1, 0, 0).local(2));
    let plans = vec![Plan::continuing(TWO), Plan::continuing(&[1])];
    let config = Config::new("slot list changes on one host", plans, Recovery::Alone(Plan::continuing(&[1])));
    holds(config.budget(1, 0, 0).local(2));
}

#[test]
fn three_attempts() {
    let plans = |slots: &[u8]| vec![Plan::continuing(slots), Plan::rerunning(slots), Plan::rerunning(slots)];
    let one = Config::new("1 slot, A continues, B and C rerun", plans(ONE), Recovery::Alone(Plan::continuing(ONE)));
    holds(one.budget(0, 1, 0));
    let two = Config::new("2 slots, A continues, B and C rerun", plans(TWO), Recovery::Alone(Plan::continuing(TWO)));
    holds(two.budget(0, 0, 1));
}

/// Known: a claim that the sink carries out after its slot was dropped, with nobody waiting for it any more, makes
/// the head anew. Local sinks cannot do that; a sink behind a network must end requests with their connection (4.6).
#[test]
fn limit_late_claim_after_a_drop() {
    let plans = vec![Plan::continuing(ONE), Plan::continuing(ONE)];
    let config = Config::new("late claim after a drop", plans, Recovery::None).budget(0, 1, 0);
    let report = explore(Config { late_creation: true, ..config.fault(Fault::SlotDropped).set_aside(DROPPED) });
    println!("known limit: {report}");
    assert!(report.outcome.found.is_some());
}

/// Known: the slot list moves to other slots altogether and the store is lost as well. Nobody who sees the new slots
/// can know of the old ones, which keep showing the generation that is opened again.
#[test]
fn limit_disjoint_slot_lists_and_a_lost_store() {
    let plans = vec![Plan::continuing(&[0]), Plan::continuing(&[1])];
    holds(Config::new("disjoint slot lists", plans.clone(), Recovery::None));
    let report = explore(Config::new("disjoint slot lists, store lost", plans, Recovery::None).fault(Fault::StoreLost));
    println!("known limit: {report}");
    assert_eq!(report.outcome.found.map(|found| found.violation.property), Some(Property::SlotsAgree));
}

#[test]
fn deep_explorations() {
    if !deep() {
        println!("not asked for: REFRAIN_EXPLORE=deep");
        return;
    }
    holds(both_continue("deep: 1 slot, A and B continue", ONE).budget(2, 2, 2));
    holds(second_reruns("deep: 1 slot, A continues, B reruns", ONE).budget(2, 2, 1));
    holds(both_continue("deep: 2 slots, A and B continue", TWO).budget(2, 2, 1));
    holds(second_reruns("deep: 2 slots, A continues, B reruns", TWO).budget(2, 1, 1));
    for fault in [Fault::StoreLost, Fault::StoreRestored] {
        holds(second_reruns("deep: 1 slot, store", ONE).budget(1, 1, 1).fault(fault));
        holds(second_reruns("deep: 2 slots, store", TWO).budget(0, 1, 0).fault(fault));
    }
    let unnoticed = second_reruns("deep: 2 slots, store restored unnoticed", TWO).budget(0, 1, 0);
    holds(unnoticed.fault(Fault::StoreRestoredUnnoticed).set_aside(UNNOTICED));
    let dropped = second_reruns("deep: 2 slots, one dropped", TWO).budget(0, 1, 0);
    holds(dropped.fault(Fault::SlotDropped).set_aside(DROPPED));
    let plans = |slots: &[u8]| vec![Plan::continuing(slots), Plan::rerunning(slots), Plan::rerunning(slots)];
    let one =
        Config::new("deep: 1 slot, A continues, B and C rerun", plans(ONE), Recovery::Among(Plan::continuing(ONE)));
    holds(one.budget(1, 1, 0));
    let two =
        Config::new("deep: 2 slots, A continues, B and C rerun", plans(TWO), Recovery::Among(Plan::continuing(TWO)));
    holds(two.budget(1, 0, 0));
    let host = Config::new("deep: 1 slot on one host", plans(ONE), Recovery::Among(Plan::continuing(ONE)));
    holds(host.budget(1, 0, 0).local(2));
}
