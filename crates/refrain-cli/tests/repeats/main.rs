//! Repeats, races and pauses: what FAULTS.md tells of leases, ledgers, keys and guards, with the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod compact;
mod guards;
mod identity;
mod leases;
mod ledger;
mod pauses;
mod repeats;
mod slots;
mod versions;
