//! Ends or freezes this very process, for tests that let it die at a named step.

use rustix::process::{Signal, getpid, kill_process};

/// What [`signal_self`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnEnd {
    /// SIGKILL: nothing of this process runs any more.
    Kill,
    /// SIGSTOP: it goes on with SIGCONT.
    Stop,
}

/// Sends this process the signal. Returns only after SIGCONT, or when the system refuses.
pub fn signal_self(end: OwnEnd) {
    let signal = match end {
        OwnEnd::Kill => Signal::KILL,
        OwnEnd::Stop => Signal::STOP,
    };
    if let Err(error) = kill_process(getpid(), signal) {
        tracing::error!(%error, "cannot signal this process");
    }
}
