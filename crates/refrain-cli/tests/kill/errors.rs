//! System calls that fail: what is told is true, and the next call works.

use crate::scene::{
    BIN, BOTH_REPLACED, Case, DIRECTORY_NEW, DIRECTORY_REPLACED, FILE_NEW, FILE_REPLACED, Shape, attempt_at,
    beside_heads, check_ends, end_all,
};
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::{Home, Output};
use refrain_testkit::strace::{inject, inject_on_path, trace};
use std::collections::BTreeMap;
use std::process::Command;

const RENAMES: &str = "rename,renameat,renameat2,link,linkat,symlink,symlinkat";
const SYNCS: &str = "fsync,fdatasync,syncfs";
const WRITES: &str = "write,pwrite64";
const DIRECTORIES: &str = "mkdir,mkdirat";

const PUBLISHED: i32 = 0;
const DECIDED: i32 = 118;
const UNKNOWN: i32 = 122;
const FAILED: i32 = 125;

/// How often the main thread makes each call of the list in one publication. strace counts each call by itself.
fn counts(home: &Home, shape: Shape, list: &str) -> BTreeMap<String, usize> {
    let case = Case::new(home, shape, "counted");
    let trace = trace(&home.refrain().command(case.publishing()), &list.split(',').collect::<Vec<_>>());
    trace.output.clone().success();
    let mut counts = BTreeMap::new();
    for call in trace.of_first().filter(|call| call.thread == call.pid) {
        *counts.entry(call.name.clone()).or_default() += 1;
    }
    counts
}

/// The exit code, the sentence and what stands must agree.
fn check_answer(case: &Case<'_>, output: &Output, context: &str) {
    let shown: Vec<_> = case.targets().iter().map(|target| attempt_at(target)).collect();
    let anchor_is_new = shown[0].is_some() && shown[0] != case.first;
    let one = shown.iter().all(|it| *it == shown[0]);
    match output.code.expect("an exit code") {
        PUBLISHED => assert!(anchor_is_new && one, "{context}: not published: {shown:?}\n{output}"),
        DECIDED => assert!(anchor_is_new, "{context}: not decided: {shown:?}\n{output}"),
        UNKNOWN => {}
        code => {
            assert!(!anchor_is_new && one, "{context}: exit code {code}, but {shown:?} stands\n{output}");
            assert!(!output.stderr.contains("is published."), "{context}\n{output}");
        }
    }
    if output.stderr.contains("Nothing was published.") {
        assert!(!anchor_is_new, "{context}: {shown:?} stands\n{output}");
    }
}

/// Lets each call of the list fail once, each in a publication of its own.
fn fail_each_call(shape: Shape, list: &str, errors: &[&str], step: usize) {
    let memory = Mount::tmpfs(64);
    let home = Home::at(BIN, memory.path().join("home"));
    let counts = counts(&home, shape, list);
    assert!(!counts.is_empty(), "no publication of {shape:?} calls any of {list}");
    let mut cases = vec![(Case::standing(&home, shape, "counted"), "nothing failed".to_owned())];
    for (call, count) in counts {
        for error in errors {
            for n in (1..=count).step_by(step) {
                let context = format!("{call}:error={error}:when={n}");
                let case = Case::new(&home, shape, format!("{call}-{}-{n}", error.to_lowercase()));
                let watch = case.watch();
                let output = inject(&home.refrain().command(case.publishing()), &context);
                end_all(watch, &context);
                check_answer(&case, &output, &context);
                case.repeat(&context);
                cases.push((case, context));
            }
        }
    }
    let cases: Vec<_> = cases.iter().map(|(case, context)| (case, context.clone())).collect();
    check_ends(&home, &cases);
}

#[test]
fn fs_13_any_failed_sync_is_told_and_the_next_call_publishes() {
    fail_each_call(FILE_REPLACED, SYNCS, &["EIO"], 1);
    fail_each_call(DIRECTORY_NEW, SYNCS, &["EIO"], 1);
}

#[test]
fn fs_13_any_failed_sync_of_two_outputs_is_told_and_the_next_call_publishes() {
    fail_each_call(BOTH_REPLACED, SYNCS, &["EIO"], 1);
}

#[test]
fn proc_08_a_full_disk_at_any_write_is_told_and_the_next_call_publishes() {
    fail_each_call(FILE_REPLACED, WRITES, &["ENOSPC"], 2);
    fail_each_call(DIRECTORY_REPLACED, DIRECTORIES, &["ENOSPC"], 1);
}

#[test]
fn fs_05_a_rename_that_is_refused_publishes_nothing_and_wedges_nothing() {
    fail_each_call(FILE_NEW, RENAMES, &["EXDEV", "EACCES"], 1);
    fail_each_call(DIRECTORY_REPLACED, RENAMES, &["EXDEV", "EACCES"], 1);
}

/// Publishes while the sync number `n` fails; returns what the call said and the trace.
fn with_failing_sync(case: &Case<'_>, n: usize) -> (Output, String) {
    let trace_file = case.home.join("trace");
    let mut command = Command::new("strace");
    command.args(["-y", "-o"]).arg(&trace_file).arg(format!("-etrace={SYNCS}"));
    command.arg(format!("-einject=fsync:error=EIO:when={n}")).arg("--");
    let plain = case.home.refrain().command(case.publishing());
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(case.home.path());
    let output = Output::of(&mut command, b"");
    (output, std::fs::read_to_string(&trace_file).unwrap())
}

#[test]
fn fs_13_a_failed_sync_of_the_output_is_not_repeated_and_the_next_attempt_writes_afresh() {
    const MOST: usize = 6;
    let home = Home::temp(BIN);
    // How many syncs come before depends on the store.
    let found = (1..=MOST).find_map(|n| {
        let case = Case::new(&home, FILE_REPLACED, format!("failing{n}"));
        let (output, trace) = with_failing_sync(&case, n);
        let hit = |line: &str| line.contains("INJECTED") && line.contains(".txt>");
        trace.lines().any(hit).then_some((case, output, trace))
    });
    let (case, output, trace) = found.expect("the output is synced");
    let output = output.expect_code(FAILED).says("Nothing was published.");
    let of_output = trace.lines().filter(|line| line.contains(".txt>")).count();
    assert_eq!(of_output, 1, "the output is synced once, and that failed\n{trace}\n{output}");
    assert_eq!(case.shown(), case.first, "the old publication stands");
    let left = beside_heads(&home.join(".refrain/slots"));
    assert!(left.is_empty(), "the staging is thrown away, not used again: {left:?}");
    case.repeat("a failed sync of the output");
    assert_ne!(case.shown(), case.first);
}

#[test]
fn fs_13_a_failed_sync_of_the_directory_is_never_called_durable() {
    for shape in [FILE_NEW, FILE_REPLACED] {
        let home = Home::temp(BIN);
        Case::new(&home, FILE_REPLACED, "first");
        let case = Case::new(&home, shape, "failing");
        let command = home.refrain().command(case.publishing());
        let output = inject_on_path(&command, "fsync:error=EIO:when=1", &home.join("out"));
        output.expect_code(UNKNOWN).says("It is unknown whether the output was published");
        let published = case.records().published("failing", 1 + u64::from(shape.replacing));
        assert!(published.is_empty(), "the log calls it published: {published:?}");
        assert_eq!(case.records().state("failing").0, "unsettled");
        // The next call makes it durable before it calls it published.
        let trace = trace(&home.refrain().command(case.plain()), &["fsync"]);
        let out = format!("{}>", home.join("out").display());
        assert!(trace.of_first().any(|call| call.args.contains(&out)), "the directory is synced: {:?}", trace.calls);
        trace.output.clone().success().says("already published");
        case.recovers("a failed sync of the directory");
    }
}
