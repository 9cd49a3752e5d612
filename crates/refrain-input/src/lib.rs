//! Pins: the recorded, immutable versions of what a task reads.
//!
//! A run records the version of each declared input before its first attempt, and every attempt of the run
//! reads exactly that: a retry never sees newer input than the attempt before it. [`LocalInput`] does so for
//! files, directories and patterns, and [`Inputs`] for objects in buckets, too.
//!
//! The path of an input through this crate: its location (`location`, `pattern`) is listed (`listing`), files that did
//! not change are known by their stats (`seen`, `moment`) and the others are read (`content`), what there is becomes a
//! read-only view (`views`) or a list of what to compare with (`record`), and at the seal the differences are named
//! (`changes`). Objects (`object`) are listed by their store, and what is fetched of them becomes a view like any other.
//! A survey looks at the inputs of many partitions (`glance`). [`meets`] tells before anything is pinned whether an input can meet an output.

mod changes;
mod content;
mod cores;
mod digest;
mod glance;
mod held;
mod inputs;
mod listing;
mod local;
mod location;
mod moment;
mod object;
mod pattern;
mod place;
mod reach;
mod read_only;
mod record;
mod seen;
mod stat;
mod views;

pub use digest::{Digest, digest_path, stat_digest};
pub use glance::{Glance, GlanceLimits, Glanced};
pub use held::Held;
pub use inputs::Inputs;
pub use local::{LocalInput, PINS, owner_of, reads_original};
pub use location::escape;
pub use reach::meets;
pub use read_only::make_read_only;
