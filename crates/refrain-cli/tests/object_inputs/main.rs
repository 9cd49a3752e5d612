//! Inputs in buckets: what is pinned and how, what is noticed, what a kill leaves; and versions that come back as files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod fetches;
mod pins;
mod readers;
mod refusals;

use refrain_testkit::object::{Bucket, Kind, Server};
use refrain_testkit::program::{Home, Output, Refrain, Running};
use std::fs;

/// A bucket and a home that reaches it.
struct Scene {
    bucket: Bucket,
    home: Home,
}

impl Scene {
    fn new(kind: Kind) -> Self {
        Self { bucket: Server::shared(kind).bucket(), home: Home::temp(env!("CARGO_BIN_EXE_refrain")) }
    }

    /// The same by way of what listens at a port.
    fn through(self, port: u16) -> Self {
        Self { bucket: self.bucket.through(port), ..self }
    }

    /// A task `job` that concatenates what it reads of `in.in`, after a line of shell.
    fn declare(&self, input: &str, script: &str) {
        self.home.config(&format!(
            "[task.job]\npartition = \"daily\"\ncommand = '''\n{script}\n{CONCATENATE}\n'''\nin.in = {input}\n\
             out.out = \"out/{{date}}.txt\"\n"
        ));
    }

    fn url(&self, key: &str) -> String {
        format!("\"{}\"", self.bucket.url(key))
    }

    fn refrain(&self) -> Refrain {
        let variables = self.bucket.environment();
        variables.iter().fold(self.home.refrain(), |refrain, (name, value)| refrain.env(name, value))
    }

    fn refrain_for(&self, command: &str, task: &str, flags: &[&str]) -> Output {
        self.refrain().run([&[command, task, "--date", DATE], flags].concat())
    }

    fn job(&self, flags: &[&str]) -> Output {
        self.refrain_for("run", "job", flags)
    }

    fn start_job(&self) -> Running {
        self.refrain().spawn(["run", "job", "--date", DATE])
    }

    fn published(&self) -> String {
        self.home.read(format!("out/{DATE}.txt"))
    }

    /// What is in a directory of the home's state.
    fn in_state(&self, directory: &str) -> usize {
        fs::read_dir(self.home.join(".refrain").join(directory)).map_or(0, Iterator::count)
    }
}

const DATE: &str = "2013-01-01";
const CONCATENATE: &str =
    r#"find -L "$REFRAIN_IN_IN" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat > "$REFRAIN_OUT""#;

/// The output of a call that fails and says all of this.
#[track_caller]
fn fails(output: &Output, texts: &[&str]) {
    assert_ne!(output.code, Some(0), "{}", output.stderr);
    for text in texts {
        assert!(output.stderr.contains(text), "`{text}` is missing in:\n{}", output.stderr);
    }
}
