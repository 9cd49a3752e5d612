//! FS-10: whatever ends a block that writes an output, only `publish` publishes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use refrain::core::{Outcome, PartitionScheme, Window};
use refrain::{Attempt, Begun, Boundary, Error, ErrorKind, Home, Options, Task};
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

/// Set for the process that leaves in the middle of an attempt.
const HOME_OF_CHILD: &str = "FS_10_HOME";

fn task(home: &Path) -> Task {
    Task::new("t", PartitionScheme::None, home).unwrap().output("out", "out.csv").unwrap()
}

fn begin<'b>(boundary: &'b Boundary, home: &Path) -> Attempt<'b> {
    let task = task(home);
    let partition = task.partitions.partition(None, None, None).unwrap();
    match boundary.begin(&task, &partition, &Options::default()).unwrap() {
        Begun::Attempt(attempt) => attempt,
        Begun::Ended(conclusion) => panic!("nothing is published yet: {conclusion:?}"),
    }
}

fn write_half(attempt: &Attempt<'_>) {
    fs::write(attempt.output("out").unwrap(), "half").unwrap();
}

/// Nothing is published, no staging is left, and the next attempt publishes.
fn check(home: &Path) {
    assert!(!home.join("out.csv").exists(), "half an output was published");
    let boundary = Boundary::open(home).unwrap();
    let attempt = begin(&boundary, home);
    // A file that this program itself has not closed yet keeps nobody from publishing.
    let mut file = fs::File::create(attempt.output("out").unwrap()).unwrap();
    file.write_all(b"whole").unwrap();
    let report = attempt.publish().into_result().unwrap();
    assert_eq!((report.outcome, report.window), (Outcome::Published, Window::Published));
    assert_eq!(fs::read_to_string(home.join("out.csv")).unwrap(), "whole");
    boundary.collect(false).unwrap();
    for entry in fs::read_dir(home.join(".refrain/slots")).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.extension().is_some_and(|it| it == "head" || it == "lock"), "left over: {}", path.display());
    }
}

fn home() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Home::make(directory.path()).unwrap();
    directory
}

#[test]
fn fs_10_a_dropped_attempt_publishes_nothing() {
    let home = home();
    let boundary = Boundary::open(home.path()).unwrap();
    let attempt = begin(&boundary, home.path());
    write_half(&attempt);
    drop(attempt);
    check(home.path());
}

#[test]
fn fs_10_an_abandoned_attempt_publishes_nothing_and_says_why() {
    let home = home();
    let boundary = Boundary::open(home.path()).unwrap();
    let attempt = begin(&boundary, home.path());
    write_half(&attempt);
    let conclusion = attempt.abandon(Error::new(ErrorKind::TaskFailed, "the source ran dry"));
    assert_eq!(conclusion.report.window, Window::NothingPublished);
    assert!(conclusion.into_result().unwrap_err().message.contains("the source ran dry"));
    check(home.path());
}

#[test]
fn fs_10_an_early_return_by_an_error_publishes_nothing() {
    fn write(home: &Path) -> Result<(), std::io::Error> {
        let boundary = Boundary::open(home).unwrap();
        let attempt = begin(&boundary, home);
        write_half(&attempt);
        fs::read("/nowhere/at/all")?;
        attempt.publish().into_result().unwrap();
        Ok(())
    }
    let home = home();
    write(home.path()).unwrap_err();
    check(home.path());
}

#[test]
fn fs_10_a_panic_in_the_middle_publishes_nothing() {
    let home = home();
    let boundary = Boundary::open(home.path()).unwrap();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let attempt = begin(&boundary, home.path());
        write_half(&attempt);
        panic!("in the middle");
    }));
    assert!(ended.is_err());
    check(home.path());
}

#[test]
fn fs_10_an_exit_or_an_abort_in_the_middle_publishes_nothing() {
    for how in ["exit", "abort"] {
        let home = home();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_leaves_in_the_middle", "--nocapture"])
            .env(HOME_OF_CHILD, home.path())
            .env("FS_10_HOW", how)
            .status()
            .unwrap();
        assert!(!status.success(), "the child left in the middle");
        check(home.path());
    }
}

/// Not a test of its own: what the test above runs in another process.
#[test]
fn child_that_leaves_in_the_middle() {
    let Some(home) = std::env::var_os(HOME_OF_CHILD) else { return };
    let boundary = Boundary::open(&home).unwrap();
    let attempt = begin(&boundary, Path::new(&home));
    write_half(&attempt);
    match std::env::var("FS_10_HOW").as_deref() {
        #[allow(clippy::exit, reason = "this is what is tested")]
        Ok("exit") => std::process::exit(1),
        _ => std::process::abort(),
    }
}

#[test]
fn fs_10_an_attempt_that_is_never_closed_publishes_nothing_and_keeps_its_lease() {
    let home = home();
    let boundary = Boundary::open(home.path()).unwrap();
    let attempt = begin(&boundary, home.path());
    write_half(&attempt);
    // Its destructor never runs; this process lives, so the lease is held.
    std::mem::forget(attempt);
    assert!(!home.path().join("out.csv").exists());
    let task = task(home.path());
    let partition = task.partitions.partition(None, None, None).unwrap();
    let Begun::Ended(conclusion) = boundary.begin(&task, &partition, &Options::default()).unwrap() else {
        panic!("a second attempt beside one that is alive")
    };
    assert_eq!(conclusion.report.outcome, Outcome::Held);
}
