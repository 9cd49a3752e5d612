//! `refrain check`: every fault of the corpus is named, what is clean passes, and the real files are never touched.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod causes;
mod clean;
mod faulty;
mod kills;
mod reach;
mod scene;
mod untouched;
