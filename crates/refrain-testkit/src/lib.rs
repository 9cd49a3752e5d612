//! Tools of the integration tests. Nothing here is part of the program.
//!
//! - [`mounts`]: small filesystems of every kind that matters, and power cuts on them;
//! - [`strace`]: which system calls a command makes, and what happens when one of them kills it;
//! - [`program`]: the `refrain` program under test and a home for it;
//! - [`reader`]: a reader that polls a publication at full speed and remembers everything it saw;
//! - [`object`]: object stores, and a proxy that cuts, delays and repeats requests;
//! - [`postgres`]: PostgreSQL servers, a pooler, and a proxy that cuts connections;
//! - [`freeze`]: stopping, waking and killing processes, and waiting for an event.
//!
//! Everything here panics with a message that says what was attempted: a tool that cannot do its work fails the test
//! that needs it. Nothing is skipped, whether for want of a program, of root or of a kernel feature.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    reason = "a test tool reports failure by failing the test"
)]

pub mod freeze;
pub mod mounts;
pub mod object;
mod place;
mod port;
pub mod postgres;
pub mod program;
pub mod reader;
mod start;
pub mod strace;
mod tool;
