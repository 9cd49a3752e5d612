//! Child processes: the only module that starts, signals, watches and ends them.
//!
//! The path of a command: [`CommandSpec`] -> [`spawn`] -> [`Running`] -> [`supervise`] -> [`Ended`]. When `supervise` returns, the direct
//! child has ended and so has everything it left behind, or what could not be ended is named in [`Ended::survivors`] and the caller must
//! refuse the seal.
//!
//! A command's tree is recognised three ways, in this order: its process group, the environment variable [`ATTEMPT_VARIABLE`], and descent
//! from a process that has either. Nothing else is ever signalled.
//!
//! What happens when Refrain itself is killed: the guard (`guard.rs`), a tiny helper started before the command, sees its pipe close and kills the tree. What the
//! guard could not reach is ended by the next run through [`end_by_attempt`].
//!
//! # Process-wide effects
//!
//! A library that calls [`spawn`] accepts these; there are no others:
//! - the process becomes, and stays, a child subreaper: orphans among its descendants are re-parented to it instead of to init
//!   (prctl(2), `PR_SET_CHILD_SUBREAPER`). Those of an attempt are waited for here; the program's own children never are;
//! - a table of the processes started here, so that several attempts in one program do not take each other's for leftovers;
//! - with a terminal on stdin the terminal's foreground group changes while the command runs, and Ctrl-Z stops this process's group too.
//!
//! No signal handler is installed here: signals reach [`supervise`] through [`channel`]. `SIGCHLD` must not be ignored (some schedulers start
//! programs so), else the kernel throws exit statuses away; the program registers any handler for it at its start.

mod again;
mod guard;
mod identity;
mod leftovers;
mod own;
mod procfs;
mod rehearsal;
mod relay;
mod shell;
mod spawn;
mod supervise;
mod terminal;

#[cfg(test)]
mod tests;

pub use again::{Again, pass_on};
pub use identity::{Liveness, ProcessIdentity, liveness};
pub use leftovers::{Leftover, Sweep, end_by_attempt, find_by_attempt};
pub use own::{OwnEnd, signal_self};
pub use rehearsal::{Rehearsal, Script};
pub use relay::Relay;
pub use shell::{find_program, has_pipe};
pub use spawn::{CommandSpec, DEFAULT_GRACE, Program, Running, SpawnError, StdoutTarget, Warning, spawn};
pub use supervise::{Ended, Event, EventReceiver, EventSender, TaskExit, Why, channel, signal_name, supervise};

/// The environment variable that every process of an attempt carries.
pub const ATTEMPT_VARIABLE: &str = "REFRAIN_ATTEMPT";
