//! The state in a bucket, as homes of several hosts use it from the command line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod damaged;
mod moving;
mod scene;
mod sharing;
mod storm;
