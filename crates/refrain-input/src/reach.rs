//! Placeholder to be filled.

/// x
#[derive(Debug)]
pub struct Reach;
