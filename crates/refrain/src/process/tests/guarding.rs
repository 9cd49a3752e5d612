//! Refrain itself is killed without a chance to act.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::{Witness, attempt, start_program, wrapper_command};
use crate::process::leftovers::{Tree, wait_gone};
use crate::process::{ATTEMPT_VARIABLE, end_by_attempt, find_by_attempt, procfs};

/// A shell with a child, a grandchild and a worker in a session of its own; all of them deaf to everything but KILL.
const TREE: &str = "trap '' TERM HUP INT; sh -c 'sh -c \"sleep 300; echo late\" & wait' & \
    setsid sh -c 'echo worker $$; sleep 300; echo late' & echo command $$; wait";

struct Killable {
    wrapper: Child,
    output: Witness,
    attempt: String,
    command: i32,
    worker: i32,
    guard: procfs::Stat,
}

impl Drop for Killable {
    /// A test that fails leaves nothing running either: the guard sees to the rest.
    fn drop(&mut self) {
        drop(self.wrapper.kill());
        drop(self.wrapper.wait());
    }
}

fn start() -> Killable {
    let attempt = attempt();
    // Whoever calls Refrain may have left descriptors open; the guard must not hold them.
    let plain = wrapper_command(TREE, &attempt);
    let mut calling = Command::new("bash");
    calling
        .args(["-c", "exec 9</dev/zero 42</dev/zero; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args());
    calling.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (wrapper, mut output) = start_program(calling);
    let mut command = None;
    let mut worker = None;
    while command.is_none() || worker.is_none() {
        let line = output.line();
        let number = |name: &str| line.split_once(name)?.1.trim().parse::<i32>().ok();
        command = number("command ").or(command);
        worker = number("worker ").or(worker);
    }
    let parent = i32::try_from(wrapper.id()).unwrap();
    // The wrapper has two children.
    let is_guard = |stat: &procfs::Stat| stat.parent == parent && Some(stat.pid) != command;
    let guard = procfs::all().unwrap().into_iter().find(is_guard).unwrap();
    Killable { wrapper, output, attempt, command: command.unwrap(), worker: worker.unwrap(), guard }
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn proc_01_kill_9_of_refrain_ends_the_whole_tree() {
    let mut killed = start();
    let living: Vec<_> = find_by_attempt(&killed.attempt).unwrap().iter().map(|one| one.pid).collect();
    assert!(living.contains(&killed.command) && living.contains(&killed.worker), "{living:?}");
    let guard = Tree::of_command("", killed.guard.group, false, false).pinned().unwrap();
    assert_eq!(guard.len(), 1);
    killed.wrapper.kill().unwrap();
    killed.wrapper.wait().unwrap();
    assert_eq!(killed.output.rest(), "", "the tree is gone and wrote nothing more");
    wait_gone(&guard, Duration::from_mins(1));
    assert!(
        procfs::stat(killed.guard.pid).map_or(true, |stat| stat.ended || stat.start_ticks != killed.guard.start_ticks)
    );
}

#[test]
fn proc_01_the_next_run_ends_what_even_the_guard_could_not() {
    let mut killed = start();
    kill(killed.guard.pid);
    killed.wrapper.kill().unwrap();
    killed.wrapper.wait().unwrap();
    let living = find_by_attempt(&killed.attempt).unwrap();
    assert!(living.iter().any(|one| one.pid == killed.command), "{living:?}");
    let sweep = end_by_attempt(&killed.attempt).unwrap();
    assert!(sweep.ended.iter().any(|one| one.pid == killed.command), "{sweep:?}");
    assert_eq!(sweep.survivors, []);
    assert_eq!(find_by_attempt(&killed.attempt).unwrap(), []);
    assert_eq!(killed.output.rest(), "");
}

#[test]
fn the_guard_holds_nothing_and_is_no_leftover() {
    let mut running = start();
    let guard = running.guard.pid;
    let links = |pid: i32| -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        entries
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, fs::read_link(entry.path()).ok()?)))
            .collect()
    };
    let held = links(guard);
    let pipe = held.iter().find(|(number, _)| number == "0").unwrap().1.clone();
    assert!(links(running.command).iter().any(|(_, target)| target == &PathBuf::from("/dev/zero")), "no such test");
    for (number, target) in &held {
        // A plain sh cannot close what is above 9.
        let closable = number.parse::<u32>().is_ok_and(|number| number <= 9);
        assert!(!closable || number == "0" || target == &PathBuf::from("/dev/null"), "{held:?}");
    }
    assert!(links(running.command).iter().all(|(_, target)| target != &pipe), "the command holds the guard's pipe");
    assert_eq!(fs::read_link(format!("/proc/{guard}/cwd")).unwrap(), PathBuf::from("/"));
    let environment = String::from_utf8(fs::read(format!("/proc/{guard}/environ")).unwrap()).unwrap();
    assert!(!environment.contains(&running.attempt));
    assert!(!environment.contains(&format!("{ATTEMPT_VARIABLE}=")), "{environment}");
    assert_ne!(running.guard.group, running.command);
    running.wrapper.kill().unwrap();
    running.wrapper.wait().unwrap();
    running.output.rest();
}
