//! The contract of the command line (DESIGN section 4), with the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod child;
mod commands;
mod configuration;
mod exit_codes;
mod failures;
mod help;
mod hints;
mod looks;
mod ranges;
mod reports;
mod retries;
mod secrets;
