//! `cargo xtask test`: everything that must hold before a change is merged, in the order of what is quick to know.

use crate::command::{self, Outcome, cargo, text};
use crate::{generate, setup, tidy};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// One step: its name, the command that repeats it alone, and what it does.
struct Step {
    name: &'static str,
    alone: &'static str,
    action: fn() -> Outcome,
}

const STEPS: &[Step] = &[
    Step { name: "setup", alone: "cargo xtask setup", action: setup::for_tests },
    Step { name: "fmt", alone: "cargo fmt --all --check", action: || cargo_step("fmt --all --check") },
    Step {
        name: "clippy",
        alone: "cargo clippy --workspace --all-targets --features xtask/floor -- -D warnings",
        action: || cargo_step("clippy --workspace --all-targets --features xtask/floor -- -D warnings"),
    },
    Step { name: "doc", alone: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps", action: doc },
    Step { name: "tidy", alone: "cargo xtask tidy", action: tidy::run },
    Step { name: "build", alone: "cargo build --bin refrain", action: || cargo_step("build --bin refrain") },
    Step { name: "generate", alone: "cargo xtask generate --check", action: generate::check },
    Step { name: "doctests", alone: "cargo test --workspace --doc", action: || cargo_step("test --workspace --doc") },
    Step { name: "tests", alone: "cargo test --workspace --lib --bins --tests --examples", action: tests },
];

/// Runs all steps and stops at the first that fails.
pub(crate) fn run() -> Outcome {
    for step in STEPS {
        println!("==> {}: {}", step.name, step.alone);
        (step.action)().map_err(|error| {
            format!("{error}\n\nxtask: step `{}` failed; to run it alone: {}", step.name, step.alone)
        })?;
    }
    Ok(())
}

fn cargo_step(arguments: &str) -> Outcome {
    command::run(cargo(&arguments.split(' ').collect::<Vec<_>>()))
}

fn doc() -> Outcome {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    command::run(doc)
}

/// All tests but the doctests; the sum of the runner's own summaries is the last that is printed.
///
/// A test binary is one process, whose tests share the servers it starts. A shell that starts this in the background
/// lets it ignore SIGINT and SIGQUIT, which children inherit: `env` gives the tests, which send them, the defaults back.
fn tests() -> Outcome {
    let cargo = cargo(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests", "--examples"]);
    let mut plain = command::command("env");
    plain.arg("--default-signal=INT,QUIT").arg(cargo.get_program()).args(cargo.get_args());
    let (success, totals) = tee(&mut plain)?;
    println!("{} passed, {} failed", totals.passed, totals.failed);
    if success { Ok(()) } else { Err(format!("`{}` failed", text(&plain))) }
}

/// The sums over all test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
}

impl Totals {
    /// Adds the numbers of a line `test result: ok. 3 passed; 0 failed; ...`, and of no other line.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let numbers = result.split_once(". ").map_or("", |(_, numbers)| numbers);
        for part in numbers.split("; ") {
            match part.split_once(' ').map(|(number, what)| (number.parse::<u64>(), what)) {
                Some((Ok(number), "passed")) => self.passed += number,
                Some((Ok(number), "failed")) => self.failed += number,
                _ => {}
            }
        }
    }
}

/// Runs `command`, passes its output on line by line and adds up the tests.
fn tee(command: &mut Command) -> Outcome<(bool, Totals)> {
    let mut totals = Totals::default();
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("cannot start `{}`: {error}", text(command)))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|error| format!("cannot read what the tests print: {error}"))?;
            println!("{line}");
            totals.add(&line);
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for the tests: {error}"))?;
    Ok((status.success(), totals))
}

#[cfg(test)]
mod tests {
    use super::Totals;

    #[test]
    fn the_total_is_the_sum_of_the_result_lines() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "8 passed; 8 failed",
        ] {
            totals.add(line);
        }
        assert_eq!(totals, Totals { passed: 7, failed: 2 });
    }
}
