//! Inputs: what did not change is neither copied nor read again.

use super::directory::step;
use super::rounds::medians;
use super::space::{Space, remove, write};
use super::table::{Row, Target};
use crate::command::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROUNDS: u32 = 9;
const FILES: usize = 10_000;

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let source = space.fresh("pins-source")?;
    for number in 0..FILES {
        write(&source.join(format!("part-{number:05}")), format!("{number}\n").repeat(20))?;
    }
    let reader = Reader { space, home: space.home("pins-home")?, source };
    let times = medians(
        ROUNDS,
        &mut [
            Box::new(|_| {
                space.time(space.refrain(&reader.home, ["gc"]))?;
                remove(&reader.home.join(".refrain/seen"))?;
                reader.pin()
            }),
            // The same again, for another run; the contender before it has left everything in place, whoever began.
            Box::new(|_| {
                reader.pin()?;
                reader.pin()
            }),
            Box::new(|_| copy(space, &reader.source)),
        ],
    )?;
    Ok(vec![
        Row::speed(
            "pinning 10,000 unchanged small files again (times as fast)",
            times[1],
            ("the first time", times[0]),
            Target::AtLeast(20.0),
        ),
        Row::ratio("pinning 10,000 small files the first time", times[0], ("`cp -r`", times[2]), Target::None),
    ])
}

/// Runs a task with one input.
struct Reader<'a> {
    space: &'a Space,
    home: PathBuf,
    source: PathBuf,
}

impl Reader<'_> {
    /// The time of the pin alone, as the report tells it.
    fn pin(&self) -> Outcome<Duration> {
        self.space.settle()?;
        let report = self.home.join("report.json");
        let mut command: Command = self.space.refrain(&self.home, ["run", "bench", "--rerun", "--out", "out.txt"]);
        command.arg("--in").arg(format!("source={}", self.source.display()));
        command.arg("--report").arg(&report).args(["--", "sh", "-c", "echo done > $REFRAIN_OUT"]);
        self.space.time(command)?;
        let text = std::fs::read_to_string(&report).map_err(|error| format!("cannot read the report: {error}"))?;
        step(&text, "pin")
    }
}

fn copy(space: &Space, source: &Path) -> Outcome<Duration> {
    let copy = space.join("pins-copy");
    remove(&copy)?;
    space.settle()?;
    let mut command = super::space::program("cp", source, ["-r"]);
    command.arg(source).arg(&copy);
    space.time(command)
}
