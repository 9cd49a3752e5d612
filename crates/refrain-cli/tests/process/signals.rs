//! PROC-05: signals at each step of a publication.

use crate::scene::{BIN, BOTH_REPLACED, Case, Kind, attempt_at, check_ends, end_all, with_input};
use refrain_testkit::freeze;
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::{Home, Output};
use rustix::process::{Pid, Signal, kill_process};

const POINTS: &[&str] = &[
    "before-task",
    "after-task",
    "after-seal",
    "before-commit",
    "before-intent",
    "after-intent",
    "after-rename",
    "before-record",
    "after-record",
    "after-commit",
    "after-commit#2",
    "before-finish",
    "after-finish",
];

/// Sends the signals while the program stands at the point, some more once it runs again, and waits for its end.
fn signalled(case: &Case<'_>, point: &str, stopped: &[Signal], running: &[Signal]) -> Output {
    let process = case.crashing(&format!("{point}=stop")).spawn(case.publishing());
    freeze::wait_for(&format!("the program stands at {point}"), || freeze::state(process.pid()) == Some('T'));
    for signal in stopped {
        freeze::send(process.pid(), *signal);
    }
    freeze::wake(process.pid());
    for signal in running {
        // It may have ended by now.
        let pid = Pid::from_raw(i32::try_from(process.pid()).unwrap()).unwrap();
        let _sent_or_gone = kill_process(pid, *signal);
    }
    process.wait()
}

/// Finished or not begun, and the exit code and the last sentence say which.
fn check_answer(case: &Case<'_>, output: &Output, context: &str) {
    let shown: Vec<_> = case.targets().iter().map(|target| attempt_at(target)).collect();
    assert!(shown.iter().all(|it| *it == shown[0]), "{context}: a half publication {shown:?}\n{output}");
    let published = shown[0] != case.first;
    match output.code {
        Some(0) => assert!(published, "{context}\n{output}"),
        Some(code) => {
            assert!(matches!(code, 129..=143), "{context}: the code of a signal\n{output}");
            assert!(!published, "{context}: published, but\n{output}");
            assert!(output.stderr.contains("Nothing was published."), "{context}\n{output}");
        }
        // The signal came before the program listened, or when all was done.
        None => panic!("{context}: ended by the signal\n{output}"),
    }
}

fn at_each_point(stopped: &[Signal], running: &[Signal]) {
    let memory = Mount::tmpfs(64);
    let home = with_input(Home::at(BIN, memory.path().join("home")));
    assert_eq!(BOTH_REPLACED.outputs, [Kind::Directory, Kind::File]);
    let mut cases = vec![];
    let mut codes = vec![];
    for (number, point) in POINTS.iter().enumerate() {
        let case = Case::new(&home, BOTH_REPLACED, format!("t{number}"));
        let watch = case.watch();
        let output = signalled(&case, point, stopped, running);
        end_all(watch, point);
        check_answer(&case, &output, point);
        codes.push(output.code);
        case.repeat(point);
        cases.push((case, format!("{stopped:?} then {running:?} at {point}")));
    }
    assert!(codes.first() != Some(&Some(0)), "a signal before the task ends the attempt: {codes:?}");
    assert_eq!(codes.last(), Some(&Some(0)), "a signal after the publication changes nothing: {codes:?}");
    let cases: Vec<_> = cases.iter().map(|(case, context)| (case, context.clone())).collect();
    check_ends(&home, &cases);
}

#[test]
fn proc_05_a_signal_in_the_seal_ends_the_attempt() {
    let home = Home::temp(BIN);
    // Large enough that the signal is heard while it is hashed.
    let arguments = ["run", "job", "--out", "out.bin", "--", "sh", "-c", "truncate -s 256M $REFRAIN_OUT"];
    let process = home.refrain().env("REFRAIN_CRASH_AT", "after-task=stop").spawn(arguments);
    freeze::wait_for("the program stands still", || freeze::state(process.pid()) == Some('T'));
    freeze::send(process.pid(), Signal::TERM);
    freeze::wake(process.pid());
    let output = process.wait().expect_code(143).says("refrain got SIGTERM before the commit");
    assert!(output.stderr.ends_with("Nothing was published.\n") && !home.exists("out.bin"), "{output}");
}

#[test]
fn proc_05_term_once_at_each_step_finishes_the_publication_or_does_not_begin_it() {
    at_each_point(&[Signal::TERM], &[]);
}

#[test]
fn proc_05_int_once_at_each_step_finishes_the_publication_or_does_not_begin_it() {
    at_each_point(&[Signal::INT], &[]);
}

#[test]
fn proc_05_term_twice_at_each_step_does_not_corrupt() {
    at_each_point(&[Signal::TERM], &[Signal::TERM, Signal::TERM]);
}

#[test]
fn proc_05_int_twice_at_each_step_does_not_corrupt() {
    at_each_point(&[Signal::INT, Signal::TERM], &[Signal::INT]);
}
