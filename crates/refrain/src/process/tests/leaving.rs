//! What a command leaves behind.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::{attempt, run, shell, start_wrapper, witnessed};
use crate::process::{ATTEMPT_VARIABLE, TaskExit, Why, end_by_attempt, find_by_attempt, spawn};

/// Leaves a process in a session of its own, re-parented, and prints its pid before the command ends.
const DAEMON: &str = "( setsid sh -c 'echo $$; exec sleep 300' & ) | head -n 1";

#[test]
fn lease_11_background_process_does_not_hold_the_run() {
    // Until it has become `sleep` the process in the background is a second shell.
    let (spec, mut output) =
        witnessed(shell("sleep 300 & until read -r name </proc/$!/comm && test $name = sleep; do :; done; exit 0"));
    let ended = run(spec);
    assert_eq!((ended.exit, ended.why), (TaskExit::Code(0), Why::Exited));
    assert_eq!(ended.leftovers.len(), 1, "{ended:?}");
    assert_eq!(ended.leftovers[0].command, "sleep 300");
    assert!(ended.survivors.is_empty());
    assert_eq!(output.rest(), "");
}

#[test]
fn lease_11_background_process_deaf_to_term_is_killed() {
    let (spec, mut output) = witnessed(shell("(trap '' TERM; sleep 300; echo late) & exit 5"));
    let ended = run(spec);
    assert_eq!(ended.exit, TaskExit::Code(5));
    assert!(!ended.leftovers.is_empty() && ended.survivors.is_empty(), "{ended:?}");
    assert_eq!(output.rest(), "");
}

#[test]
fn spk_07_detached_worker_is_ended_before_the_seal() {
    let (spec, mut output) = witnessed(shell(DAEMON));
    let attempt = spec.attempt.clone();
    let ended = run(spec);
    let daemon: i32 = output.rest().trim().parse().unwrap();
    assert_eq!(ended.exit, TaskExit::Code(0));
    assert_eq!(ended.leftovers.iter().map(|one| one.pid).collect::<Vec<_>>(), [daemon]);
    assert_eq!(find_by_attempt(&attempt).unwrap(), []);
}

#[test]
fn proc_11_nobody_writes_after_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("(while :; do echo more; done >out) & until test -s out; do :; done; exit 0");
    spec.cwd = folder.path().to_owned();
    let ended = run(spec);
    assert_eq!(ended.leftovers.len(), 1, "{ended:?}");
    let size = || std::fs::metadata(folder.path().join("out")).unwrap().len();
    let sealed = size();
    assert!(sealed > 0);
    assert_eq!(run(shell("sleep 0.2")).exit, TaskExit::Code(0));
    assert_eq!(size(), sealed);
}

#[test]
fn spk_07_worker_without_marker_and_group_is_ended_where_refrain_is_the_sole_parent() {
    let hidden = DAEMON.replace("setsid", "env -i setsid").replace("$$", "daemon=$$");
    let (mut wrapper, mut output) = start_wrapper(&hidden, &attempt());
    let daemon = output.line_with("daemon=");
    let ended = output.line_with("ended ");
    assert!(ended.contains(&format!("leftovers: [Leftover {{ pid: {daemon},")), "{daemon}: {ended}");
    wrapper.wait().unwrap();
}

#[test]
fn an_unrelated_process_is_never_touched() {
    let marker = attempt();
    // Another attempt's marker that begins with ours; a group of its own; a child of this very program.
    let mut stranger = Command::new("sleep");
    stranger.arg("300").env(ATTEMPT_VARIABLE, format!("{marker}0")).env("NOTE", format!("{ATTEMPT_VARIABLE}={marker}"));
    let mut stranger = stranger.stdout(Stdio::null()).process_group(0).spawn().unwrap();
    let mut nameless = Command::new("sleep").arg("300").env_clear().stdout(Stdio::null()).spawn().unwrap();

    let mut spec = shell("sleep 300 & exit 0");
    spec.attempt.clone_from(&marker);
    let ended = run(spec);
    assert_eq!(ended.leftovers.len(), 1, "{ended:?}");
    assert_eq!(end_by_attempt(&marker).unwrap().ended, []);

    for process in [&mut stranger, &mut nameless] {
        assert_eq!(process.try_wait().unwrap(), None);
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

#[test]
fn two_commands_of_one_program_leave_each_other_alone() {
    let (spec, mut output) = witnessed(shell("echo ready; sleep 300"));
    let running = spawn(spec).unwrap();
    assert_eq!(output.line(), "ready");
    assert_eq!(run(shell("sleep 300 & exit 0")).leftovers.len(), 1);
    assert!(rustix::process::test_kill_process(rustix::process::Pid::from_raw(running.pid()).unwrap()).is_ok());
    // Dropping a running command ends all of it.
    drop(running);
    output.rest();
}
