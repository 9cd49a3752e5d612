//! Tables in PostgreSQL under faults: whatever is killed, cut, frozen or raced, one ordinary repetition of the call gives the
//! right end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod cuts;
mod declarations;
mod errors;
mod freezes;
mod kills;
mod queries;
mod races;
mod scene;
mod servers;
mod standbys;
mod watch;
