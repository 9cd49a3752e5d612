//! Inputs that are publications: which ones a partition reads, how a run pins them, and whether what was made from them
//! still stands on what is published.
//!
//! `graph` checks the tasks of a configuration, `reads` chooses the partitions, `standing` finds what is published,
//! `pin` copies it for a run, `stale` follows the pins of publications backwards.

mod graph;
mod pin;
mod reads;
mod stale;
mod standing;

pub(crate) use graph::{check, check_reader};
pub(crate) use reads::no_order;
pub(crate) use stale::{Lineages, StaleInput};
