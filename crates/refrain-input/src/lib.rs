//! Pins: the recorded, immutable versions of what a task reads.
//!
//! A run records the version of each declared input before its first attempt, and every attempt of the run
//! reads exactly that: a retry never sees newer input than the attempt before it. [`LocalInput`] does so for
//! files and directories. The path of an input through this crate: [`LocalInput`] copies it (`copy`),
//! digests the copy (`digest`), and hands the copy to the task.

mod copy;
mod digest;
mod local;
mod read_only;

pub use digest::{digest_path, stat_digest};
pub use local::{LocalInput, PINS, owner_of};
pub use read_only::make_read_only;
