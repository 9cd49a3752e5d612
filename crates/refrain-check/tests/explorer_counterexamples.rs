//! The counterexamples of docs/PROTOCOL.md part II by number: the shipped code holds where the drafts broke, and
//! with the repair taken out the explorer finds the break again, so that these tests can fail.
//!
//! Not here, because what they concern is not built: 22 and 23 and the lazy half of 21 (lazy claims, chapter 6),
//! 27 (append-only ledger, chapter 12), 28 (effects, chapter 10), 29 (slots shared by partitions, chapter 11).
//! 26 (files) is in `explorer_filesystem.rs`.

#![allow(clippy::print_stdout, reason = "what was visited is the result")]

use refrain_check::explorer::{Collector, Config, Fault, Plan, Property, Recovery, Switch, explore};

const ONE: &[u8] = &[0];
const TWO: &[u8] = &[0, 1];

/// The shipped code holds in this configuration; without the repair exactly this property breaks.
fn repaired(config: Config, switch: Switch, watched: Property) {
    let whole = explore(config.clone());
    assert!(whole.holds(), "{whole}");
    let others: Vec<_> = Property::ALL.iter().copied().filter(|property| *property != watched).collect();
    let report = explore(config.without(switch).set_aside(&others));
    println!("without {switch:?}, {report}");
    let found = report.outcome.found.as_ref().map(|found| found.violation.property);
    assert_eq!(found, Some(watched), "the explorer does not miss {switch:?}: {report}");
}

fn continuing(slots: &[u8]) -> Config {
    let plan = || Plan::continuing(slots);
    Config::new("A and B continue", vec![plan(), plan()], Recovery::Alone(plan()))
}

fn rerunning(slots: &[u8]) -> Config {
    let plans = vec![Plan::continuing(slots), Plan::rerunning(slots)];
    Config::new("A continues, B reruns", plans, Recovery::Alone(Plan::continuing(slots)))
}

#[test]
fn counterexample_01_fresh_token_overwrites_the_same_run() {
    let config = continuing(ONE).budget(0, 1, 0).collector(Collector::Off);
    repaired(config, Switch::OneTokenPerAttempt, Property::OneAttemptPerGeneration);
}

#[test]
fn counterexample_02_fresh_token_commits_deleted_staging() {
    repaired(continuing(ONE).budget(0, 1, 0), Switch::OneTokenPerAttempt, Property::StagingKept);
}

#[test]
fn counterexample_03_superseded_not_denied() {
    repaired(rerunning(ONE).budget(0, 1, 0), Switch::SupersededIsNoDenial, Property::TrueAnswers);
}

#[test]
fn counterexample_04_lost_answer_resolved_by_reading() {
    repaired(continuing(ONE).budget(0, 1, 0), Switch::ResolveBySending, Property::TrueAnswers);
}

#[test]
fn counterexample_05_claim_fenced_by_itself() {
    repaired(continuing(ONE).budget(0, 1, 0), Switch::StandingClaim, Property::NotFencedByItself);
}

#[test]
fn counterexample_06_wish_opens_two_generations() {
    repaired(rerunning(ONE).budget(0, 1, 0), Switch::RerunNamesGeneration, Property::OneGenerationPerWish);
}

#[test]
fn counterexample_07_staging_deleted_for_a_lost_lease() {
    repaired(continuing(ONE).budget(0, 1, 0), Switch::StagingGoesByHeads, Property::StagingKept);
}

#[test]
fn counterexample_08_fenced_behind_the_anchor() {
    repaired(continuing(TWO), Switch::DecidedAtAnchor, Property::TrueAnswers);
}

#[test]
fn counterexample_09_decision_in_the_store_and_staging() {
    repaired(continuing(TWO), Switch::HeadIsDecision, Property::StagingKept);
}

#[test]
fn counterexample_10_rerun_over_mixed_slots() {
    repaired(rerunning(TWO), Switch::RollForwardFirst, Property::NotOverMixedSlots);
}

#[test]
fn counterexample_11_decision_in_a_lost_store() {
    let config = Config { recovery: Recovery::None, ..continuing(TWO) }.fault(Fault::StoreLost);
    repaired(config, Switch::HeadIsDecision, Property::SlotsAgree);
}

#[test]
fn counterexample_12_new_store_without_identity() {
    let config = continuing(ONE).fault(Fault::StoreLost);
    let config = Config { recovery: Recovery::Among(Plan::continuing(ONE)), ..config };
    repaired(config.clone(), Switch::StoreIdentity, Property::GoodEnd);
    repaired(config, Switch::StoreIdentity, Property::ClaimOrder);
}

#[test]
fn counterexample_13_generations_restart_with_the_store() {
    // P1 and P3 are also kept by rule 5.6, which the draft did not have; the wish to rerun is not.
    let config = rerunning(ONE).fault(Fault::StoreLost);
    repaired(config, Switch::SeenOutranksStore, Property::OneGenerationPerWish);
}

#[test]
fn counterexample_14_two_runs_of_one_generation() {
    repaired(continuing(ONE).fault(Fault::StoreLost), Switch::RunIdentity, Property::SamePins);
}

#[test]
fn counterexample_15_lease_released_by_token() {
    repaired(continuing(ONE).fault(Fault::StoreLost), Switch::WholeHolder, Property::OwnLeaseOnly);
}

#[test]
fn counterexample_16_any_store_adopted() {
    let plans = vec![Plan::continuing(TWO), Plan::continuing(TWO).at_store(1)];
    // That slots show different attempts then (P7) needs a draft without rule 5.5.
    let config = Config::new("two stores", plans, Recovery::None).fault(Fault::TwoStores);
    repaired(config, Switch::Ancestry, Property::ClaimOrder);
}

const DROPPED: &[Property] = &[Property::GoodEnd, Property::ClaimOrder, Property::NotOverMixedSlots];

#[test]
fn counterexample_17_counted_versions_recur() {
    let config = continuing(ONE).budget(0, 1, 0).fault(Fault::SlotDropped).set_aside(DROPPED).claim_untested();
    repaired(config, Switch::FreshVersions, Property::CommitUnderOwnClaim);
}

#[test]
fn counterexample_18_recreated_slot_read_as_never() {
    let config = continuing(ONE).budget(0, 1, 0).fault(Fault::SlotDropped).set_aside(DROPPED);
    repaired(config, Switch::SlotIdentity, Property::TrueAnswers);
}

#[test]
fn counterexample_19_dropped_anchor_executed_again() {
    let config = Config { recovery: Recovery::None, ..continuing(TWO) };
    let config = config.fault(Fault::SlotDropped).set_aside(DROPPED);
    repaired(config, Switch::AnchorCheck, Property::SlotsAgree);
}

#[test]
fn counterexample_20_staging_fenced_at_the_anchor_only() {
    let config = Config { recovery: Recovery::None, ..continuing(TWO) };
    let config = config.fault(Fault::SlotDropped).set_aside(DROPPED);
    repaired(config, Switch::ClaimOnAllSlots, Property::StagingKept);
}

#[test]
fn counterexample_21_library_refreshes_the_request() {
    repaired(continuing(ONE).budget(0, 1, 0), Switch::IdenticalRequest, Property::OneAttemptPerGeneration);
}

#[test]
fn counterexample_24_slot_list_from_the_configuration() {
    let plans = |second: &[u8]| vec![Plan::continuing(TWO), Plan::continuing(second)];
    let config = Config::new("the anchor is given up", plans(&[1]), Recovery::None);
    repaired(config.clone(), Switch::PinnedSlotList, Property::SlotsAgree);
    repaired(config.fault(Fault::StoreLost), Switch::PinnedSlotList, Property::SlotsAgree);
    let plans = vec![Plan::continuing(TWO), Plan::rerunning(ONE)];
    let config = Config::new("the other slot is given up", plans, Recovery::None).budget(0, 1, 0);
    let config = config.fault(Fault::SlotDropped).set_aside(DROPPED);
    repaired(config, Switch::PinnedSlotList, Property::StagingKept);
}

#[test]
fn counterexample_25_version_learned_under_a_foreign_claim() {
    // The anchor is claimed last, so that C can stand at the other slot and not yet at the anchor.
    let backwards = &[1, 0];
    let plan = || Plan::continuing(backwards);
    let plans = vec![plan(), Plan::rerunning(backwards), plan()];
    let config = Config::new("A and C continue, B reruns", plans, Recovery::None)
        .budget(0, 1, 0)
        .collector(Collector::Off)
        .claim_untested();
    repaired(config, Switch::LearnRule, Property::CommitUnderOwnClaim);
}
