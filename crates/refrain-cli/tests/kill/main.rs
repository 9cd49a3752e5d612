//! Whatever kills the program, and wherever: one ordinary repetition of the call gives the right end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod calls;
mod errors;
mod order;
mod points;
mod power;
mod records;
mod scene;
