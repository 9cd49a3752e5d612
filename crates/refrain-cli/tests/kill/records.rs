//! What the log says of attempts that could not say it themselves.

use crate::scene::{BIN, BOTH_REPLACED, Case, FILE_NEW, check_ends, has_ending, names};
use refrain_testkit::program::Home;
use std::fs;

const SIGKILL: i32 = 9;
const DECIDED: i32 = 118;

fn locks(home: &Home) -> Vec<String> {
    names(&home.join(".refrain/slots")).into_iter().filter(|name| has_ending(name, "lock")).collect()
}

#[test]
fn a_call_that_fails_before_its_claims_says_nothing_of_a_dead_attempt_that_published() {
    let home = Home::temp(BIN);
    let case = Case::new(&home, FILE_NEW, "t");
    case.crashing("after-commit=kill").run(case.publishing()).expect_signal(SIGKILL);
    let published = case.shown().expect("the dead attempt published");

    // The slot cannot be claimed for a while.
    let lock = home.join(".refrain/slots").join(&locks(&home)[0]);
    let aside = home.join("lock");
    fs::rename(&lock, &aside).unwrap();
    fs::create_dir(&lock).unwrap();
    let told = home.run(case.plain()).expect_code(DECIDED);
    told.says("a step of it may still be to follow").says("The output is published.");
    let records = case.records();
    let of_dead = records.attempts("t").into_iter().find(|entry| entry["attempt"] == published.as_str()).unwrap();
    assert!(of_dead["ending"].is_null(), "nobody could look, so nobody can tell: {of_dead:#}");

    fs::remove_dir(&lock).unwrap();
    fs::rename(&aside, &lock).unwrap();
    case.recovers("after a call that could not claim");
    assert_eq!(case.shown(), Some(published));
}

#[test]
fn what_a_dead_attempt_published_before_a_rerun_replaced_it_is_recorded_as_published() {
    for point in ["after-intent", "after-rename", "after-commit", "before-finish"] {
        let home = Home::temp(BIN);
        let case = Case::new(&home, FILE_NEW, "t");
        case.crashing(&format!("{point}=kill")).run(case.publishing()).expect_signal(SIGKILL);
        let mut rerun = case.plain();
        rerun.insert(2, "--rerun".to_owned());
        home.run(rerun).success();
        let records = case.records();
        assert_eq!(records.state("t"), ("published".to_owned(), 2), "{point}");
        assert_eq!(records.published("t", 1).len(), 1, "{point}: generation 1 stood: {:#?}", records.log);
        assert_eq!(records.published("t", 2), [case.shown().unwrap()], "{point}");
    }
}

#[test]
fn a_rerun_killed_before_its_run_was_opened_leaves_what_stands() {
    for point in ["after-acquire", "after-claim#2", "before-open-run"] {
        let home = Home::temp(BIN);
        let case = Case::new(&home, BOTH_REPLACED, "t");
        case.crashing(&format!("{point}=kill")).run(case.publishing()).expect_signal(SIGKILL);
        assert_eq!(case.shown(), case.first);
        case.repeat(point);
        assert_eq!(case.shown(), case.first, "{point}: the wish was never recorded, and the call did not repeat it");
        // Repeating the wish itself fulfils it, once.
        home.run(case.publishing()).success();
        assert_ne!(case.shown(), case.first, "{point}");
        check_ends(&home, &[(&case, point.to_owned())]);
    }
}
