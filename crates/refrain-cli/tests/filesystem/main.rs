//! What filesystems do to a publication, and what a publication does to them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod directories;
mod leftovers;
mod links;
mod metadata;
mod readers;
#[path = "../kill/scene.rs"]
mod scene;
mod volumes;

use refrain_testkit::program::{Home, Output};

const FAILED: i32 = 125;
const GUARD: i32 = 123;

/// The arguments of a run of an ad hoc task with one output.
fn args<'a>(task: &'a str, out: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["run", task, "--out", out, "--", "sh", "-c", script]
}

fn rerun<'a>(task: &'a str, out: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["run", task, "--rerun", "--out", out, "--", "sh", "-c", script]
}

fn run(home: &Home, task: &str, out: &str, script: &str) -> Output {
    home.run(args(task, out, script))
}
