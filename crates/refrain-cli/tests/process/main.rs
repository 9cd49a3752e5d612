//! Processes, signals, terminals and pipes around a publication.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod ends;
#[path = "../kill/scene.rs"]
mod scene;
mod signals;
mod streams;
mod trees;

use refrain_testkit::program::Home;
use std::path::Path;

/// The arguments of a run of an ad hoc task with one output.
fn args<'a>(task: &'a str, out: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["run", task, "--out", out, "--", "sh", "-c", script]
}

/// The process id that a script wrote into a file of the home, once it is there whole.
fn pid_in(home: &Home, file: &str) -> u32 {
    refrain_testkit::freeze::wait_for_some(&format!("a process id in {file}"), || {
        let text = std::fs::read_to_string(home.join(file)).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    })
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
