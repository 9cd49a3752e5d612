//! Watches a running command until it and everything it started have ended.
//!
//! Refrain holds no pipe of the command, so nothing here can hang on one that a grandchild inherited. One thread waits for the child; this
//! thread waits for whichever comes first of the child, the time limit and the caller's events.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::guard::{self, Guard};
use super::leftovers::{LEFTOVER_GRACE, Leftover, Pinned, REALLY_GONE, Sweep, wait_gone};
use super::spawn::Running;
use super::terminal::Terminal;

/// What may end a command from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// This process got the signal with this number: the command gets INT for INT, TERM for every other.
    Signal(i32),
    /// The lease is lost: another attempt may start, so this one stops.
    LeaseLost,
}

/// How the direct child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskExit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl TaskExit {
    /// The number a shell would show: the code itself, or 128 + signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Why the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Of itself (or by a signal that came from elsewhere, or from the terminal).
    Exited,
    /// We ended it: its time limit passed.
    TimedOut,
    /// We ended it: this process got this signal.
    Signalled(i32),
    /// We ended it: the lease was lost.
    LeaseLost,
}

/// The end of a command and of all its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Ended {
    /// How the direct child ended.
    pub exit: TaskExit,
    /// What made it end.
    pub why: Why,
    /// Processes that outlived the direct child (and, where we ended it, the grace) and were ended.
    pub leftovers: Vec<Leftover>,
    /// Processes that could not be ended: they may still write, so the caller must refuse the seal.
    pub survivors: Vec<Leftover>,
}

/// Makes the channel of one attempt's events. Use a new one for each attempt: an event left over would end the next.
pub fn channel() -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel();
    let signalled = Arc::new(AtomicBool::new(false));
    (EventSender(sender.clone(), Arc::clone(&signalled)), EventReceiver { receiver, sender, signalled })
}

/// The end of the channel for signal handlers' threads and the lease's heartbeat.
#[derive(Debug, Clone)]
pub struct EventSender(Sender<Message>, Arc<AtomicBool>);

impl EventSender {
    /// Reports an event. After the attempt's end nobody listens, and that is no error.
    pub fn send(&self, event: Event) {
        if matches!(event, Event::Signal(_)) {
            self.1.store(true, Ordering::Relaxed);
        }
        drop(self.0.send(Message::Event(event)));
    }
}

/// The end of the channel that [`supervise`] listens to.
#[derive(Debug)]
pub struct EventReceiver {
    receiver: Receiver<Message>,
    sender: Sender<Message>,
    signalled: Arc<AtomicBool>,
}

impl EventReceiver {
    /// Whether a signal was reported, for whoever waits for something else meanwhile.
    pub(crate) fn signalled(&self) -> &Arc<AtomicBool> {
        &self.signalled
    }

    /// Takes an event that came while nobody supervised: before the start, or after the command's end.
    pub fn try_next(&self) -> Option<Event> {
        loop {
            match self.receiver.try_recv().ok()? {
                Message::Event(event) => return Some(event),
                Message::Child(..) | Message::Gone => {}
            }
        }
    }

    /// Waits at most so long for an event while nobody supervises.
    pub fn next_within(&self, limit: Duration) -> Option<Event> {
        match self.next_until(Some(Instant::now() + limit))? {
            Message::Event(event) => Some(event),
            Message::Child(..) | Message::Gone => None,
        }
    }

    /// `None` when the deadline passes first.
    fn next_until(&self, deadline: Option<Instant>) -> Option<Message> {
        let Some(deadline) = deadline else { return self.receiver.recv().ok() };
        // Our own sender lives as long as this receiver, so the only error is that time is up.
        self.receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }
}

#[derive(Debug)]
enum Message {
    Event(Event),
    /// The child with this process id changed.
    Child(i32, Change),
    /// Those of the group that outlived the child have ended.
    Gone,
}

#[derive(Debug)]
enum Change {
    /// It ended; its exit status is still to be taken.
    Exited,
    Stopped(i32),
    /// It cannot be waited for.
    Lost(Errno),
}

/// Waits for the command's end, or brings it about.
///
/// On the time limit, a signal or the loss of the lease the whole tree gets TERM (INT for INT), then `grace`, then KILL; a second signal during
/// the grace means KILL at once. A command that ended of itself leaves nothing behind: what still writes to its outputs has the grace to come to its
/// end, then everything that is left is ended within about a second and named.
///
/// # Errors
///
/// When the child cannot be waited for (`SIGCHLD` is ignored, or another part of the program waits for all children), or `/proc` cannot be read. The
/// tree has been killed then.
pub fn supervise(mut running: Running, events: &EventReceiver) -> io::Result<Ended> {
    start_watcher(&mut running, events)?;
    let mut watch = Watch { running, events, exited: false, ending: false };
    let mut why = watch.until_something_happens()?;
    if why == Why::Exited {
        if watch.running.tree.nothing_is_left() {
            return watch.finish(why, Sweep::default());
        }
        why = watch.until_nobody_writes()?;
    }
    let sweep = match why {
        Why::Exited => watch.running.tree.end(LEFTOVER_GRACE)?,
        Why::Signalled(number) if number == Signal::INT.as_raw() => watch.terminate(Signal::INT)?,
        Why::Signalled(_) | Why::TimedOut | Why::LeaseLost => watch.terminate(Signal::TERM)?,
    };
    watch.finish(why, sweep)
}

struct Watch<'events> {
    running: Running,
    events: &'events EventReceiver,
    exited: bool,
    /// We are ending the command ourselves; no stop may come between.
    ending: bool,
}

impl Watch<'_> {
    fn until_something_happens(&mut self) -> io::Result<Why> {
        loop {
            match self.events.next_until(self.running.deadline) {
                None => return Ok(Why::TimedOut),
                Some(Message::Event(Event::Signal(number))) => return Ok(Why::Signalled(number)),
                Some(Message::Event(Event::LeaseLost)) => return Ok(Why::LeaseLost),
                Some(Message::Child(pid, change)) => self.child_changed(pid, &change)?,
                Some(Message::Gone) => {}
            }
            if self.exited {
                return Ok(Why::Exited);
            }
        }
    }

    /// The command has ended; what it left behind may still be writing its outputs, for as long as the grace.
    fn until_nobody_writes(&mut self) -> io::Result<Why> {
        let grace = Instant::now().checked_add(self.running.grace);
        let until = grace.into_iter().chain(self.running.deadline).min();
        while self.wait_for(self.running.tree.writers()?, until)? {
            match self.events.next_until(until) {
                None => break,
                Some(Message::Event(Event::Signal(number))) => return Ok(Why::Signalled(number)),
                Some(Message::Event(Event::LeaseLost)) => return Ok(Why::LeaseLost),
                Some(Message::Child(..) | Message::Gone) => {}
            }
        }
        Ok(Why::Exited)
    }

    /// Signals the tree, gives it the grace, then kills what is left of it.
    fn terminate(&mut self, signal: Signal) -> io::Result<Sweep> {
        self.ending = true;
        // The group in one step, so that none of it can fork away from the signal; then whoever left the group.
        let _ = rustix::process::kill_process_group(self.running.group, signal);
        let _ = rustix::process::kill_process_group(self.running.group, Signal::CONT);
        self.running.tree.signal_outside_group(signal)?;
        let until = Instant::now().checked_add(self.running.grace);
        loop {
            match self.events.next_until(until) {
                None | Some(Message::Event(Event::Signal(_))) => break,
                Some(Message::Event(Event::LeaseLost)) => {}
                Some(Message::Child(pid, change)) => {
                    self.child_changed(pid, &change)?;
                    if self.exited && self.wait_for_the_rest(until)? {
                        break;
                    }
                }
                Some(Message::Gone) => {
                    if self.wait_for_the_rest(until)? {
                        break;
                    }
                }
            }
        }
        let _ = rustix::process::kill_process_group(self.running.group, Signal::KILL);
        let sweep = self.running.tree.end(Duration::ZERO)?;
        self.await_exit(Instant::now() + REALLY_GONE)?;
        Ok(sweep)
    }

    /// Says whether nothing is left; else has a [`Message::Gone`] sent when it may be so.
    fn wait_for_the_rest(&self, until: Option<Instant>) -> io::Result<bool> {
        Ok(!self.wait_for(self.running.tree.pinned()?, until)?)
    }

    /// Has a [`Message::Gone`] sent when these processes have ended; false when there are none.
    fn wait_for(&self, rest: Vec<Pinned>, until: Option<Instant>) -> io::Result<bool> {
        if rest.is_empty() {
            return Ok(false);
        }
        let reply = self.events.sender.clone();
        let limit = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        thread::Builder::new().name("refrain-grace".to_owned()).spawn(move || {
            wait_gone(&rest, limit);
            drop(reply.send(Message::Gone));
        })?;
        Ok(true)
    }

    fn await_exit(&mut self, until: Instant) -> io::Result<()> {
        while !self.exited {
            match self.events.next_until(Some(until)) {
                None => break,
                Some(Message::Child(pid, change)) => self.child_changed(pid, &change)?,
                Some(Message::Event(_) | Message::Gone) => {}
            }
        }
        Ok(())
    }

    fn child_changed(&mut self, pid: i32, change: &Change) -> io::Result<()> {
        if pid != self.running.pid() {
            return Ok(());
        }
        match change {
            Change::Exited => self.exited = true,
            Change::Stopped(signal) => self.child_stopped(*signal),
            Change::Lost(Errno::CHILD) => {
                return Err(io::Error::other(
                    "the command's exit status was taken by somebody else: SIGCHLD is ignored, or this program waits for all its children",
                ));
            }
            Change::Lost(error) => return Err((*error).into()),
        }
        Ok(())
    }

    /// A stop from the terminal is the shell's job control and is followed; any other is somebody's wish and none of our business.
    fn child_stopped(&mut self, signal: i32) {
        let group = self.running.group;
        let asks = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        if self.running.terminal.is_none() && asks {
            self.running.terminal = Terminal::controlling();
        }
        let Some(terminal) = &mut self.running.terminal else { return };
        let told_to_stop = terminal.is_given() && (signal == Signal::TSTP.as_raw() || signal == Signal::STOP.as_raw());
        if asks && (terminal.is_ours() || terminal.is_given()) {
            terminal.give(group);
        } else if (asks || told_to_stop) && !self.ending {
            terminal.stop_with(group);
        }
    }

    fn finish(mut self, why: Why, mut sweep: Sweep) -> io::Result<Ended> {
        // Before the exit status is taken: until then the group's number cannot be reused, so the guard cannot hit a stranger.
        if let Some(guard) = self.running.guard.take() {
            guard.dismiss();
        }
        self.running.waited_for = true;
        let exit = if self.exited {
            task_exit(self.running.child.wait()?)
        } else {
            // KILL was sent and the child hangs in the kernel; it can only end by that signal.
            let command = "the command itself".to_owned();
            if sweep.survivors.iter().all(|one| one.pid != self.running.pid()) {
                sweep.survivors.push(Leftover { pid: self.running.pid(), command, writes: false });
            }
            TaskExit::Signal(Signal::KILL.as_raw())
        };
        if let Some(terminal) = &mut self.running.terminal {
            terminal.take_back(self.running.group);
            if matches!(exit, TaskExit::Signal(_)) {
                terminal.restore_settings();
            }
        }
        Ok(Ended { exit, why, leftovers: sweep.ended, survivors: sweep.survivors })
    }
}

/// Starts the thread that waits for the child, and after it for the guard, whose end nobody else has time for.
fn start_watcher(running: &mut Running, events: &EventReceiver) -> io::Result<()> {
    let (group, reply) = (running.group, events.sender.clone());
    let guard_process = running.guard.as_mut().and_then(Guard::take_process);
    thread::Builder::new().name("refrain-child".to_owned()).spawn(move || {
        watch_child(group, &reply);
        if let Some(guard) = guard_process {
            guard::wait_for(guard);
        }
    })?;
    Ok(())
}

fn watch_child(child: Pid, reply: &Sender<Message>) {
    let pid = child.as_raw_nonzero().get();
    loop {
        // NOWAIT leaves the ended child in place, so that neither its pid nor its group's number can be reused yet.
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let change = match rustix::process::waitid(WaitId::Pid(child), options) {
            Ok(Some(status)) if status.stopped() => {
                let _ = rustix::process::waitid(WaitId::Pid(child), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                Change::Stopped(status.stopping_signal().unwrap_or_default())
            }
            Ok(Some(_)) => Change::Exited,
            Ok(None) | Err(Errno::INTR) => continue,
            Err(error) => Change::Lost(error),
        };
        let last = !matches!(change, Change::Stopped(_));
        if reply.send(Message::Child(pid, change)).is_err() || last {
            return;
        }
    }
}

fn task_exit(status: ExitStatus) -> TaskExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => TaskExit::Code(code),
        (None, Some(signal)) => TaskExit::Signal(signal),
        (None, None) => TaskExit::Code(status.into_raw()),
    }
}

/// A signal's name, for people.
pub fn signal_name(signal: i32) -> String {
    match signal {
        1 => "SIGHUP".to_owned(),
        2 => "SIGINT".to_owned(),
        3 => "SIGQUIT".to_owned(),
        6 => "SIGABRT".to_owned(),
        9 => "SIGKILL".to_owned(),
        11 => "SIGSEGV".to_owned(),
        13 => "SIGPIPE".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}
