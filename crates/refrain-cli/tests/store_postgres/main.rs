//! The state store that many hosts share: homes of several hosts, servers that die, links that break, a history that moves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod hosts;
mod moving;
mod outages;
mod projects;
mod rights;
mod scene;
mod sharing;
mod storm;
