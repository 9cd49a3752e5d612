//! The terminal: a command in a process group of its own may read it only while that group is the foreground group.
//!
//! With a terminal on stdin the command gets it at once, so that Ctrl-C, Ctrl-\ and Ctrl-Z reach it as if Refrain were not there. In a pipeline
//! (`refrain run ... | less`) it does not, because the neighbours in our group need the terminal as well; it gets it when it asks, which the
//! kernel reports by stopping it with SIGTTIN or SIGTTOU. See credentials(7) and termios(3).

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as MaskedSignal};
use rustix::fs::FileType;
use rustix::process::{Pid, Signal};
use rustix::termios::{OptionalActions, Termios};

/// The controlling terminal of this process.
#[derive(Debug)]
pub(super) struct Terminal {
    device: File,
    /// The settings to return to when the command is killed in the middle of changing them.
    settings: Option<Termios>,
    given: bool,
}

impl Terminal {
    /// The terminal, when the command is to have it from the start.
    pub(super) fn for_command() -> Option<Self> {
        if !io::stdin().is_terminal() || is_pipe(&io::stdout()) {
            return None;
        }
        Self::controlling().filter(Self::is_ours)
    }

    /// The controlling terminal; a scheduler's process has none.
    pub(super) fn controlling() -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let settings = rustix::termios::tcgetattr(&device).ok();
        Some(Self { device, settings, given: false })
    }

    /// Whether our own process group is in the foreground.
    pub(super) fn is_ours(&self) -> bool {
        self.foreground() == Some(rustix::process::getpgrp())
    }

    /// Gives the terminal to a process group, and wakes those of it that had already been stopped for asking.
    pub(super) fn give(&mut self, group: Pid) {
        if self.is_ours() && rustix::termios::tcsetpgrp(&self.device, group).is_ok() {
            self.given = true;
        }
        let _ = rustix::process::kill_process_group(group, Signal::CONT);
    }

    /// Takes the terminal back if it is still where we gave it.
    pub(super) fn take_back(&mut self, group: Pid) {
        if !std::mem::take(&mut self.given) || self.foreground() != Some(group) {
            return;
        }
        without_stopping(|| {
            let _ = rustix::termios::tcsetpgrp(&self.device, rustix::process::getpgrp());
        });
    }

    /// Undoes a half-made change of settings (no echo, raw mode) that a killed command left.
    pub(super) fn restore_settings(&self) {
        if let (true, Some(settings)) = (self.is_ours(), &self.settings) {
            let _ = rustix::termios::tcsetattr(&self.device, OptionalActions::Drain, settings);
        }
    }

    /// Follows a command that was stopped from the terminal: stops our own group, as the terminal would have without us, and returns
    /// when somebody continues it (`fg` or `bg`).
    pub(super) fn stop_with(&mut self, group: Pid) {
        let had_it = self.given;
        self.take_back(group);
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
        // The stop reaches a thread of this process within microseconds, not necessarily this one: do not run on meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(50));
        if had_it && self.is_ours() {
            self.give(group);
        } else {
            let _ = rustix::process::kill_process_group(group, Signal::CONT);
        }
    }

    /// Whether the command has the terminal.
    pub(super) fn is_given(&self) -> bool {
        self.given
    }

    fn foreground(&self) -> Option<Pid> {
        rustix::termios::tcgetpgrp(&self.device).ok()
    }
}

/// Runs something that a process in the background may do only while SIGTTOU is blocked or ignored (tcsetpgrp(3)): else the kernel stops us.
///
/// A handler would not do: the call is restarted after it, and raises the signal again, for ever. Blocked is it for this thread only.
fn without_stopping(action: impl FnOnce()) {
    let mut set = SigSet::empty();
    set.add(MaskedSignal::SIGTTOU);
    let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    action();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
}

fn is_pipe(stream: &impl std::os::fd::AsFd) -> bool {
    rustix::fs::fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}
