//! Time limits, and failures that a pipe hides.

use crate::scene::BIN;
use crate::{args, pid_in};
use refrain_testkit::freeze;
use refrain_testkit::program::{Home, Refrain};
use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;

const TIMED_OUT: i32 = 124;
const GUARD: i32 = 123;

#[test]
fn proc_02_the_time_limit_ends_the_whole_tree_and_no_inherited_pipe_hangs() {
    let home = Home::temp(BIN);
    let script =
        "(echo $$ > /dev/null; sh -c 'echo $$ > slow; trap \"\" TERM; sleep 1000; echo late > $REFRAIN_OUT') & wait";
    let mut command = home.refrain().command([
        "run",
        "t",
        "--timeout",
        "1s",
        "--grace",
        "100ms",
        "--out",
        "out.csv",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The end of file comes only when nobody holds the pipe any more.
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(TIMED_OUT), "{printed}");
    assert!(printed.contains("Nothing was published."), "{printed}");
    let slow = pid_in(&home, "slow");
    freeze::wait_for("the slow process is gone", || !freeze::is_alive(slow));
    assert!(!home.exists("out.csv"));
}

fn piped(home: &Home) {
    home.config(
        "[task.dump]\ncommand = \"false | gzip > $REFRAIN_OUT\"\nout.out = \"dump.gz\"\n\
         [task.guarded]\ncommand = \"false | gzip > $REFRAIN_OUT\"\nout.out = { path = \"guarded.gz\", min_bytes = 100 }\n",
    );
}

#[test]
fn proc_07_a_failure_in_a_pipe_is_a_failure_where_a_shell_has_pipefail() {
    let home = Home::temp(BIN);
    piped(&home);
    home.run(["run", "dump"]).expect_code(1).says("Nothing was published.");
    assert!(!home.exists("dump.gz"));
}

/// The program with a search path on which there is a plain sh and no bash.
fn without_bash(home: &Home) -> Refrain {
    let tools = home.join("tools");
    std::fs::create_dir(&tools).unwrap();
    for tool in ["gzip", "false", "sleep", "grep", "tr", "cat"] {
        let found = ["/bin", "/usr/bin"].iter().map(|at| PathBuf::from(at).join(tool)).find(|path| path.exists());
        std::os::unix::fs::symlink(found.expect("a tool of every system"), tools.join(tool)).unwrap();
    }
    std::os::unix::fs::symlink("/bin/dash", tools.join("sh")).unwrap();
    home.refrain().env("PATH", tools)
}

#[test]
fn proc_07_without_pipefail_there_is_a_warning_and_a_guard_catches_it() {
    let home = Home::temp(BIN);
    piped(&home);
    let plain = without_bash(&home);
    let warned = plain.run(["run", "dump"]);
    if warned.code == Some(0) {
        warned.says("hides a failure of any part but the last");
    } else {
        warned.expect_code(1);
    }
    let guarded = plain.run(["run", "guarded"]);
    assert!(matches!(guarded.code, Some(1 | GUARD)), "{guarded}");
    assert!(!home.exists("guarded.gz"));
}

#[test]
fn proc_07_an_empty_result_never_replaces_a_good_file_unasked() {
    let home = Home::temp(BIN);
    home.run(args("t", "out.csv", "echo good > $REFRAIN_OUT")).success();
    let mut empty = args("t", "out.csv", ": > $REFRAIN_OUT");
    empty.insert(2, "--rerun");
    home.run(empty).expect_code(GUARD).says("--allow-empty");
    assert_eq!(home.read("out.csv"), "good\n");
}
