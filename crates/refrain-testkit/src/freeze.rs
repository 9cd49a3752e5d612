//! Stopping, waking and killing processes, and waiting for an event.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long an awaited event may take before the test is declared hung; far beyond any event's real time.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(2);

/// Waits until `condition` holds and fails the test, naming `description`, when it never does.
pub fn wait_for(description: &str, mut condition: impl FnMut() -> bool) {
    wait_for_some(description, || condition().then_some(()));
}

/// Waits until `probe` returns a value.
pub fn wait_for_some<T>(description: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for: {description}");
        sleep(POLL);
    }
}

/// Waits until something is at `path`.
pub fn wait_for_path(path: &Path) {
    wait_for(&format!("{} exists", path.display()), || fs::symlink_metadata(path).is_ok());
}

/// Stops one process (SIGSTOP), which must not end meanwhile, and returns once each of its threads stands still.
pub fn stop(pid: u32) {
    assert!(try_stop(pid), "process {pid} ended where it was to be stopped");
}

/// Lets a stopped process go on (SIGCONT).
pub fn wake(pid: u32) {
    send(pid, Signal::CONT);
}

/// Kills one process (SIGKILL) and returns once it is gone, or is a zombie that only its parent can reap.
pub fn kill(pid: u32) {
    send(pid, Signal::KILL);
    wait_for(&format!("process {pid} is dead"), || !is_alive(pid));
}

/// Sends `signal` to one process, which must exist.
pub fn send(pid: u32, signal: Signal) {
    kill_process(to_pid(pid), signal).unwrap_or_else(|error| panic!("cannot send {signal:?} to {pid}: {error}"));
}

/// Sends `signal` to every process of a group, of which there must be one.
pub fn send_group(group: u32, signal: Signal) {
    kill_process_group(to_pid(group), signal)
        .unwrap_or_else(|error| panic!("cannot send {signal:?} to group {group}: {error}"));
}

/// Stops a process and all its descendants, the parent first, and returns their ids.
///
/// A descendant that has moved to a group or session of its own is stopped as well.
pub fn stop_tree(pid: u32) -> Vec<u32> {
    let mut stopped = vec![];
    let mut found = vec![pid];
    // A process born while its parent was being stopped shows up in the next round.
    while !found.is_empty() {
        for &member in &found {
            // One that ends meanwhile does nothing more either.
            try_stop(member);
        }
        stopped.append(&mut found);
        found = descendants(pid).into_iter().filter(|member| !stopped.contains(member)).collect();
    }
    stopped
}

/// Wakes every process of the list that still lives.
pub fn wake_all(pids: &[u32]) {
    for &pid in pids {
        // The list is of processes that existed; one that was killed since has nothing to wake for.
        let _woken_or_gone = kill_process(to_pid(pid), Signal::CONT);
    }
}

/// The state letter of a process (`R`, `S`, `D`, `T`, `Z`, ...), or nothing when there is no such process.
///
/// Source: proc_pid_stat(5).
pub fn state(pid: u32) -> Option<char> {
    stat(&format!("/proc/{pid}/stat")).map(|stat| stat.state)
}

/// Whether the process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
}

/// Stops a process if it lives, and returns whether it still lives when all its threads stand still.
fn try_stop(pid: u32) -> bool {
    if kill_process(to_pid(pid), Signal::STOP).is_err() {
        return false;
    }
    wait_for(&format!("process {pid} is stopped or gone"), || !is_alive(pid) || threads_stand_still(pid));
    is_alive(pid)
}

fn threads_stand_still(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        stat(&format!("/proc/{pid}/task/{}/stat", thread.file_name().display()))
            .is_none_or(|stat| matches!(stat.state, 'T' | 't' | 'Z' | 'X'))
    })
}

/// The process's living descendants, parents before children.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("read /proc").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(stat) = stat(&format!("/proc/{id}/stat"))
            && stat.state != 'Z'
        {
            children.entry(stat.parent).or_default().push(id);
        }
    }
    let mut found = vec![];
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(child);
            open.push(child);
        }
    }
    found
}

/// What the tools need of a `stat` file.
struct Stat {
    state: char,
    parent: u32,
}

/// Reads a `stat` file; the program's name may contain blanks and parentheses, so the fields count from the last one.
fn stat(path: &str) -> Option<Stat> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
}

fn to_pid(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap_or_else(|| panic!("{pid} is no process id"))
}
