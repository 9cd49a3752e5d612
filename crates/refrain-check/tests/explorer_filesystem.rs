//! Chapter 9 step by step: lock, intent, rename, syncs and record, with crashes, power cuts and foreign writers.

#![allow(clippy::print_stdout, reason = "what was visited is the result")]

use refrain_check::explorer::{Config, Fault, Plan, Probe, Property, Recovery, Switch, explore};
use std::time::Instant;

fn both_continue() -> Config {
    let plan = || Plan::continuing(&[0]);
    Config::new("file, A and B continue", vec![plan(), plan()], Recovery::Alone(plan())).filesystem(1)
}

fn second_reruns() -> Config {
    let plans = vec![Plan::continuing(&[0]), Plan::rerunning(&[0])];
    let recovery = Recovery::Alone(Plan::continuing(&[0]));
    Config::new("file, A continues, B reruns", plans, recovery).filesystem(1)
}

fn holds(config: Config) -> Vec<Probe> {
    let started = Instant::now();
    let report = explore(config);
    println!("{report} ({:.1} s)", started.elapsed().as_secs_f64());
    assert!(report.holds(), "{report}");
    report.probes
}

/// The shipped steps hold in this configuration; without the repair exactly this property breaks.
fn repaired(config: Config, switch: Switch, watched: Property) {
    holds(config.clone());
    let others: Vec<_> = Property::ALL.iter().copied().filter(|property| *property != watched).collect();
    let report = explore(config.without(switch).set_aside(&others));
    println!("without {switch:?}, {report}");
    let found = report.outcome.found.as_ref().map(|found| found.violation.property);
    assert_eq!(found, Some(watched), "the explorer does not miss {switch:?}: {report}");
}

#[test]
fn crash_at_every_step() {
    holds(both_continue().budget(2, 1, 0));
    holds(both_continue().budget(0, 2, 0));
    let probes = holds(second_reruns().budget(2, 1, 0));
    assert!(probes.contains(&Probe::TakenBack) && probes.contains(&Probe::Replaced));
}

#[test]
fn two_slots_on_files() {
    let plans = vec![Plan::continuing(&[0, 1]), Plan::rerunning(&[0, 1])];
    let config = Config::new("two files", plans, Recovery::Alone(Plan::continuing(&[0, 1])));
    let probes = holds(config.filesystem(1).budget(1, 0, 0));
    assert!(probes.contains(&Probe::RolledForward));
}

#[test]
fn foreign_writer() {
    let named = |config: Config| Config { name: format!("{}, overwritten", config.name), ..config };
    holds(named(both_continue()).budget(1, 0, 0).fault(Fault::TargetOverwritten));
    holds(named(second_reruns()).budget(1, 0, 0).fault(Fault::TargetOverwritten));
}

#[test]
fn counterexample_26_crash_between_rename_and_record() {
    repaired(both_continue().budget(1, 0, 0), Switch::RecoverFirst, Property::OneAttemptPerGeneration);
}

#[test]
fn counterexample_26_undo_after_a_power_cut() {
    repaired(both_continue().budget(1, 0, 0), Switch::RedoOnly, Property::OneAttemptPerGeneration);
}

#[test]
fn counterexample_26_second_exchange() {
    repaired(second_reruns().budget(1, 0, 0), Switch::InodeTest, Property::GenerationsRise);
}

#[test]
fn counterexample_26_directories_not_synced() {
    repaired(both_continue(), Switch::SyncDirectories, Property::DurableWhenTold);
}

#[test]
fn counterexample_26_stealable_lock() {
    repaired(both_continue(), Switch::KernelLock, Property::OneAttemptPerGeneration);
}

#[test]
fn withdrawal_needs_the_inode_test() {
    repaired(both_continue().budget(0, 1, 0), Switch::WithdrawalTested, Property::TrueAnswers);
}

#[test]
fn withdrawal_needs_a_sync() {
    repaired(both_continue().budget(0, 1, 0), Switch::WithdrawalSynced, Property::TrueAnswers);
}

#[test]
fn failure_after_a_lost_answer_is_not_definite() {
    repaired(both_continue().budget(0, 1, 0), Switch::DoubtRemains, Property::TrueAnswers);
}

/// Found here: the writer of an intent dies before its sync, the next holder of the lock carries it out, and a power
/// cut takes the intent back but not the rename.
#[test]
fn recovery_needs_to_sync_the_intent() {
    for watched in [Property::DurableWhenTold, Property::OneAttemptPerGeneration] {
        repaired(both_continue().budget(1, 0, 0), Switch::RecoverySyncsIntent, watched);
    }
}

#[test]
fn deep_explorations() {
    if !std::env::var("REFRAIN_EXPLORE").is_ok_and(|value| value == "deep") {
        println!("not asked for: REFRAIN_EXPLORE=deep");
        return;
    }
    let plans = |slots: &[u8]| vec![Plan::continuing(slots), Plan::rerunning(slots), Plan::rerunning(slots)];
    let one = Recovery::Alone(Plan::continuing(&[0]));
    holds(Config::new("deep: file, A continues, B and C rerun", plans(&[0]), one).budget(1, 1, 0).filesystem(2));
    let two = Recovery::Alone(Plan::continuing(&[0, 1]));
    holds(Config::new("deep: 2 files, A continues, B and C rerun", plans(&[0, 1]), two).budget(0, 1, 0).filesystem(1));
}
