//! What a command leaves running behind it: found, ended, named.
//!
//! A process belongs to an attempt when it is in the command's process group, when it was started with the attempt's marker in its environment, or
//! when it descends from such a process. Pids are pinned (pidfd_open(2)) before they are signalled, so that a reused pid is never hit.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::procfs::{self, Stat};

/// How long a leftover has between TERM and KILL.
pub(super) const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// How long after KILL a process may take to go before it counts as a survivor (one that hangs in the kernel, say).
pub(super) const REALLY_GONE: Duration = Duration::from_secs(5);

/// A process that outlived the command it belonged to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// Its process id (it may be reused once the process is gone: for people, not for signals).
    pub pid: i32,
    /// Its command line, shortened.
    pub command: String,
    /// Whether it had an output of the command open for writing when it was found: it may have been ended in the middle.
    pub writes: bool,
}

/// What became of an attempt's processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Sweep {
    /// Were running and are gone now.
    pub ended: Vec<Leftover>,
    /// Still run: they may still write, so nothing that they can reach may be sealed.
    pub survivors: Vec<Leftover>,
}

/// Lists what still runs of an attempt, on this host and in this pid namespace. Looks at every process once (some 10 microseconds each).
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn find_by_attempt(attempt: &str) -> io::Result<Vec<Leftover>> {
    Ok({
        let tree = Tree::of_attempt(attempt);
        tree.members()?.iter().map(|stat| tree.leftover(stat)).collect()
    })
}

/// Ends what still runs of an attempt whose Refrain is dead: TERM, a second of grace, KILL; back within about 6 seconds.
///
/// The calling process, its ancestors and everything without the attempt's marker are never touched.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn end_by_attempt(attempt: &str) -> io::Result<Sweep> {
    Tree::of_attempt(attempt).end(LEFTOVER_GRACE)
}

/// The processes of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    attempt: String,
    /// The command's process group, while its leader has not been waited for: until then the number cannot be reused.
    group: Option<i32>,
    /// This program starts processes only through this module, so a child that it does not know is an orphan of an attempt.
    sole_parent: bool,
    /// Orphans come to us, so our own list of children shows whether there are any.
    orphans_come_here: bool,
    /// Where the command writes its outputs.
    outputs: Vec<PathBuf>,
}

impl Tree {
    fn of_attempt(attempt: &str) -> Self {
        let attempt = attempt.to_owned();
        Self { attempt, group: None, sole_parent: false, orphans_come_here: false, outputs: Vec::new() }
    }

    pub(super) fn of_command(attempt: &str, group: i32, sole_parent: bool, orphans_come_here: bool) -> Self {
        Self { group: Some(group), sole_parent, orphans_come_here, ..Self::of_attempt(attempt) }
    }

    pub(super) fn writing_to(self, outputs: Vec<PathBuf>) -> Self {
        Self { outputs, ..self }
    }

    /// Whether the command has left nothing behind, after its direct child has ended. Nearly always so, and then this costs one
    /// look at the list of our children: as orphans come to us, each living descendant hangs below one of them.
    pub(super) fn nothing_is_left(&self) -> bool {
        if !self.orphans_come_here || !procfs::is_ours() {
            return false;
        }
        let known = Known::lock();
        procfs::own_children().is_some_and(|children| children.iter().all(|pid| known.processes.contains(pid)))
    }

    /// TERM, wait up to `grace`, KILL, wait until really gone. Looks again after each round, because a process may fork meanwhile.
    pub(super) fn end(&self, grace: Duration) -> io::Result<Sweep> {
        let kill_at = Instant::now() + grace;
        let give_up_at = kill_at + REALLY_GONE;
        let mut seen = BTreeMap::new();
        loop {
            self.reap(&seen);
            let members = self.members()?;
            let now = Instant::now();
            let mut pinned = Vec::with_capacity(members.len());
            for stat in &members {
                let first_time = !seen.contains_key(&(stat.pid, stat.start_ticks));
                if first_time {
                    // As it is before it is told to end.
                    seen.insert((stat.pid, stat.start_ticks), self.leftover(stat));
                }
                let Some(process) = Pinned::new(stat) else { continue };
                if now >= kill_at {
                    process.signal(Signal::KILL);
                } else if first_time {
                    process.signal(Signal::TERM);
                    // A stopped process cannot see TERM.
                    process.signal(Signal::CONT);
                }
                pinned.push(process);
            }
            if members.is_empty() || now >= give_up_at {
                let survivors: Vec<_> = members.iter().map(|stat| self.leftover(stat)).collect();
                let survives = |one: &Leftover| survivors.iter().any(|survivor| survivor.pid == one.pid);
                let ended = seen.into_values().filter(|one| !survives(one)).collect();
                return Ok(Sweep { ended, survivors });
            }
            // After KILL look again soon: only a pass that finds nothing proves that nothing was forked in time.
            let limit = if now < kill_at { kill_at } else { give_up_at.min(now + Duration::from_millis(100)) };
            wait_gone(&pinned, limit.saturating_duration_since(now));
        }
    }

    /// Sends a signal to every living member that left the command's process group, without waiting.
    pub(super) fn signal_outside_group(&self, signal: Signal) -> io::Result<()> {
        let outside = self.members()?.into_iter().filter(|stat| self.group != Some(stat.group));
        for process in outside.filter_map(|stat| Pinned::new(&stat)) {
            process.signal(signal);
            process.signal(Signal::CONT);
        }
        Ok(())
    }

    /// The living members that have an output open for writing, pinned.
    pub(super) fn writers(&self) -> io::Result<Vec<Pinned>> {
        let members = self.members()?;
        Ok(members.iter().filter(|stat| self.writes(stat)).filter_map(Pinned::new).collect())
    }

    fn writes(&self, stat: &Stat) -> bool {
        // Asked of nobody where there is nothing to compare with: it is a look at each open file.
        !self.outputs.is_empty()
            && procfs::written_by(stat.pid)
                .iter()
                .any(|file| self.outputs.iter().any(|output| file.starts_with(output)))
    }

    fn leftover(&self, stat: &Stat) -> Leftover {
        Leftover { pid: stat.pid, command: procfs::command_line(stat), writes: self.writes(stat) }
    }

    /// Every living member, pinned.
    pub(super) fn pinned(&self) -> io::Result<Vec<Pinned>> {
        Ok(self.members()?.iter().filter_map(Pinned::new).collect())
    }

    /// Nobody where `/proc` shows another pid namespace: what has our numbers there are strangers.
    fn members(&self) -> io::Result<Vec<Stat>> {
        if !procfs::is_ours() {
            return Ok(Vec::new());
        }
        let mut living = procfs::all()?;
        living.retain(|stat| !stat.ended);
        let untouchable = lineage_of_self(&living);
        living.retain(|stat| !untouchable.contains(&stat.pid));

        let mut members: BTreeSet<i32> = living.iter().filter(|stat| self.is_root(stat)).map(|stat| stat.pid).collect();
        let mut before = 0;
        while before != members.len() {
            before = members.len();
            let children: Vec<i32> =
                living.iter().filter(|stat| members.contains(&stat.parent)).map(|stat| stat.pid).collect();
            members.extend(children);
        }
        living.retain(|stat| members.contains(&stat.pid));
        Ok(living)
    }

    fn is_root(&self, stat: &Stat) -> bool {
        if self.group == Some(stat.group) {
            return true;
        }
        match procfs::attempt_of(stat.pid) {
            Some(attempt) if attempt == self.attempt.as_bytes() => true,
            // A nested Refrain's attempts are reached by descent, another attempt's leftovers are that attempt's.
            Some(_) if !self.sole_parent => false,
            _ => self.is_nameless_orphan(stat),
        }
    }

    /// A child of ours that hides group and marker (`env -i setsid ...`) is told from other children only where there can be no others.
    fn is_nameless_orphan(&self, stat: &Stat) -> bool {
        if !self.sole_parent || !self.orphans_come_here || stat.parent != own_pid() {
            return false;
        }
        let known = Known::lock();
        known.commands == 1 && !known.processes.contains(&stat.pid)
    }

    /// Waits for ended orphans of this attempt, and only for them: the program's other children are its own.
    fn reap(&self, seen: &BTreeMap<(i32, u64), Leftover>) {
        if !procfs::is_ours() {
            return;
        }
        let known = Known::lock();
        let only_ours = self.sole_parent && self.orphans_come_here;
        for pid in procfs::own_children().unwrap_or_default() {
            if known.processes.contains(&pid) {
                continue;
            }
            let Ok(stat) = procfs::stat(pid) else { continue };
            let ours = only_ours || self.group == Some(stat.group) || seen.contains_key(&(pid, stat.start_ticks));
            if let (true, true, Some(pid)) = (stat.ended, ours, Pid::from_raw(pid)) {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }
}

/// A process held so that its pid cannot come to mean another one.
#[derive(Debug)]
pub(super) struct Pinned {
    pid: Pid,
    start_ticks: u64,
    /// `None` before Linux 5.3 and in some sandboxes: then the start time is compared before each signal.
    handle: Option<OwnedFd>,
}

impl Pinned {
    fn new(stat: &Stat) -> Option<Self> {
        let pid = Pid::from_raw(stat.pid)?;
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
        let pinned = Self { pid, start_ticks: stat.start_ticks, handle };
        // Asked after the handle was opened: only now is it known whose handle it is.
        pinned.runs().then_some(pinned)
    }

    /// Failure is not reported here: who does not go is found again and named as a survivor.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = match &self.handle {
            Some(handle) => rustix::process::pidfd_send_signal(handle, signal),
            None if self.runs() => rustix::process::kill_process(self.pid, signal),
            None => Ok(()),
        };
    }

    fn runs(&self) -> bool {
        procfs::stat(self.pid.as_raw_nonzero().get())
            .is_ok_and(|stat| stat.start_ticks == self.start_ticks && !stat.ended)
    }
}

/// Waits until all have ended, or the limit has passed.
pub(super) fn wait_gone(processes: &[Pinned], limit: Duration) {
    // Bounded, so that the addition cannot overflow; callers look again anyway.
    let until = Instant::now() + limit.min(Duration::from_hours(24));
    for process in processes {
        while process.runs() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match &process.handle {
                Some(handle) => {
                    let wait = Timespec::try_from(left).ok();
                    let _ = rustix::event::poll(&mut [PollFd::new(handle, PollFlags::IN)], wait.as_ref());
                }
                None => std::thread::sleep(left.min(Duration::from_millis(10))),
            }
        }
    }
}

/// The processes that this module started and has not waited for yet, in all threads of the program.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) processes: BTreeSet<i32>,
    /// How many commands are between their start and their end.
    pub(super) commands: usize,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { processes: BTreeSet::new(), commands: 0 });

impl Known {
    /// Held while a process is started and while children are compared, so that no child is ever seen before it is known.
    pub(super) fn lock() -> MutexGuard<'static, Self> {
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lineage_of_self(living: &[Stat]) -> BTreeSet<i32> {
    let parents: BTreeMap<i32, i32> = living.iter().map(|stat| (stat.pid, stat.parent)).collect();
    let mut lineage = BTreeSet::from([1]);
    let mut next = Some(own_pid());
    while let Some(pid) = next.filter(|pid| lineage.insert(*pid)) {
        next = parents.get(&pid).copied();
    }
    lineage
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}
