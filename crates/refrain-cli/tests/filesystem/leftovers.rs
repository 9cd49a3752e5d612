//! FS-14: what cleaners of old files take away from a running publication.

use crate::scene::{BIN, Case, DIRECTORY_REPLACED, FILE_REPLACED, has_ending, names};
use crate::{GUARD, run};
use refrain_testkit::freeze;
use refrain_testkit::program::{Home, Output};
use std::fs;
use std::path::PathBuf;

/// Stops a publication at the point, lets `meddle` at the staged output, and goes on.
fn meddle(case: &Case<'_>, point: &str, meddle: impl FnOnce(PathBuf)) -> Output {
    let running = case.crashing(&format!("{point}=stop")).spawn(case.publishing());
    freeze::wait_for(&format!("the program stands at {point}"), || freeze::state(running.pid()) == Some('T'));
    let slots = case.home.join(".refrain/slots");
    let attempt = names(&slots).into_iter().find(|name| has_ending(name, "0")).expect("the attempt's directory");
    let base = names(&slots.join(&attempt)).pop().expect("the staged output");
    meddle(slots.join(attempt).join(base));
    freeze::wake(running.pid());
    running.wait()
}

#[test]
fn fs_14_a_part_deleted_before_or_after_the_seal_is_noticed() {
    for point in ["after-task", "before-commit"] {
        let home = Home::temp(BIN);
        let case = Case::new(&home, DIRECTORY_REPLACED, "t");
        let output = meddle(&case, point, |staged| {
            if point == "after-task" {
                // Before the seal whatever is there is the output; that nothing is there is noticed.
                fs::remove_dir_all(staged).unwrap();
            } else {
                fs::remove_file(staged.join("third")).unwrap();
            }
        });
        output.expect_code(GUARD).says("Nothing was published.");
        assert_eq!(case.shown(), case.first, "{point}");
        case.recovers(point);
    }
}

#[test]
fn fs_14_a_file_deleted_or_changed_after_the_seal_is_noticed() {
    for delete in [true, false] {
        let home = Home::temp(BIN);
        let case = Case::new(&home, FILE_REPLACED, "t");
        let output = meddle(&case, "before-commit", |staged| {
            if delete { fs::remove_file(staged).unwrap() } else { fs::write(staged, "late").unwrap() }
        });
        output.expect_code(GUARD).says("Nothing was published.");
        assert_eq!(case.shown(), case.first);
        case.recovers("a changed staging");
    }
}

#[test]
fn fs_14_a_lock_file_deleted_while_the_task_runs_does_no_harm() {
    let home = Home::temp(BIN);
    let case = Case::new(&home, FILE_REPLACED, "t");
    let output = meddle(&case, "after-task", |staged| {
        let slots = staged.parent().unwrap().parent().unwrap().to_owned();
        for lock in names(&slots).into_iter().filter(|name| has_ending(name, "lock")) {
            fs::remove_file(slots.join(lock)).unwrap();
        }
    });
    output.success();
    case.recovers("a deleted lock file");
}

#[test]
fn fs_14_old_times_in_the_staging_mean_nothing() {
    let home = Home::temp(BIN);
    let script = "echo old > $REFRAIN_OUT/part; touch -d 2001-01-01 $REFRAIN_OUT/part $REFRAIN_OUT";
    let refrain = home.refrain().env("REFRAIN_CRASH_AT", "before-commit=stop");
    let running = refrain.spawn(crate::args("t", "out/", script));
    freeze::wait_for("the program stands before its commit", || freeze::state(running.pid()) == Some('T'));
    home.run(["gc"]).success();
    freeze::wake(running.pid());
    running.wait().success();
    assert_eq!(home.read("out/part"), "old\n");
    run(&home, "t", "out/", script).success().says("already published");
}
