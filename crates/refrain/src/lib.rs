//! Makes a batch task safe to repeat: lease, pins, staging, one atomic commit.

pub mod process;
