//! Traces tell whose call it was, and injections hit the call they name.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use refrain_testkit::program::Output;
use refrain_testkit::strace::{count_syscalls, inject, inject_everywhere, inject_on_path, trace};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

const RENAMES: [&str; 3] = ["rename", "renameat", "renameat2"];
const SIGKILL: i32 = 9;

/// A directory with the file `a`, and a shell in it.
fn shell(script: &str) -> (TempDir, Command) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), "content").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(directory.path());
    (directory, command)
}

#[test]
fn the_first_process_is_told_from_its_children() {
    let (_directory, mut command) = shell("sync a; sync a; mv a b; exec python3 -c \"$PROGRAM\"");
    command.env(
        "PROGRAM",
        "import os,threading\n\
         f=os.open('b',os.O_RDONLY)\n\
         os.fdatasync(f)\n\
         t=threading.Thread(target=lambda: os.fsync(f)); t.start(); t.join()\n\
         os.rename('b','c')",
    );
    let trace = trace(&command, &["fsync", "fdatasync", "rename", "renameat2"]);
    assert_eq!(trace.output.code, Some(0), "{}", trace.output);
    let counts = trace.count(&["fsync", "fdatasync", "syncfs"]);
    assert_eq!(counts["fsync"], 1, "the thread's, not those of `sync`: {:?}", trace.calls);
    assert_eq!(counts["fdatasync"], 1);
    assert_eq!(counts["syncfs"], 0);
    let of_sync: Vec<_> = trace.calls.iter().filter(|call| call.program == "sync").collect();
    assert_eq!(of_sync.len(), 2);
    assert!(of_sync[0].args.ends_with("/a>"), "{of_sync:?}");
    let rename = trace.of_first().find(|call| call.name == "rename").expect("the rename of the first process");
    assert_eq!(rename.args, r#""b", "c""#);
    assert!(rename.succeeded());
    let moved = trace.calls.iter().find(|call| call.program == "mv").expect("the child's rename");
    assert_ne!(moved.pid, trace.first);
}

#[test]
fn failed_calls_are_recorded_as_failed() {
    let (_directory, command) = shell("exec python3 -c 'import os; os.rename(\"absent\", \"b\")'");
    let trace = trace(&command, &RENAMES);
    let [call] = &trace.calls[..] else { panic!("{:?}", trace.calls) };
    assert!(!call.succeeded());
    assert!(call.result.contains("ENOENT"));
    assert_eq!(trace.output.code, Some(1));
}

#[test]
fn an_injected_kill_arrives_before_the_call() {
    let program = "import os; os.rename('a','b'); os.rename('b','c')";
    let (directory, mut command) = shell("exec python3 -c \"$PROGRAM\"");
    command.env("PROGRAM", program);
    let output = inject(&command, "rename,renameat,renameat2:signal=SIGKILL:when=2");
    assert_eq!(output.signal, Some(SIGKILL), "{output}");
    assert!(directory.path().join("b").exists(), "the first rename was done, the second was not");
}

#[test]
fn an_injection_leaves_children_alone_unless_asked() {
    let script = "mv a b; test -e b";
    let (_directory, command) = shell(script);
    assert_eq!(inject(&command, "rename,renameat2:error=EIO").code, Some(0));
    let (_directory, command) = shell(script);
    let output = inject_everywhere(&command, "rename,renameat2:error=EIO");
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("Input/output error"), "{output}");
}

#[test]
fn an_injection_can_be_bound_to_a_path() {
    let script = "exec python3 -c 'import os\nfor n in (\"a\",\"b\"): os.fsync(os.open(n,os.O_RDWR|os.O_CREAT))'";
    let (directory, command) = shell(script);
    let output = inject_on_path(&command, "fsync:error=EIO", &directory.path().join("b"));
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("OSError"), "{output}");
    let output = inject_on_path(&command, "fsync:error=EIO", &directory.path().join("other"));
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn the_environment_and_the_directory_of_the_command_are_kept() {
    let (directory, mut command) = shell("echo $GIVEN ${HOME-none}; pwd; exec sync a");
    command.env("GIVEN", "given").env_remove("HOME");
    let plain = Output::of(&mut command, b"");
    let traced = trace(&command, &["fsync"]);
    assert_eq!(traced.output.stdout, plain.stdout);
    assert!(plain.stdout.starts_with("given none\n"), "{plain}");
    assert_eq!(count_syscalls(&command, &["fsync"])["fsync"], 1);
    drop(directory);
}
