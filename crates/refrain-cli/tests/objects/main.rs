//! Objects in buckets under faults: whatever is killed, cut, held, repeated or raced, one ordinary repetition of the call gives
//! the right end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod denied;
mod faults;
mod held;
mod kills;
mod large;
mod races;
mod scene;
mod sealed;
mod stores;
mod tasks;
mod told;
mod uploads;
