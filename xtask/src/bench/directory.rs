//! Directories: the commit must not depend on the number of files, and the seal must be faster than an fsync for each.

use super::rounds::{Contender, medians};
use super::space::{Space, make, program, remove, write};
use super::table::{Row, Target};
use crate::command::Outcome;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROUNDS: u32 = 25;
const FEW: usize = 10;
const MANY: usize = 10_000;
const TASK: &str = r#"mkdir -p "$REFRAIN_OUT" && cp -r "$BENCH_SOURCE/." "$REFRAIN_OUT/""#;

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let few = Publisher::new(space, FEW)?;
    let many = Publisher::new(space, MANY)?;
    let seals = RefCell::new(vec![]);
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|_| Ok(few.publish()?.commit)),
        Box::new(|round| {
            let timings = many.publish()?;
            if round > 0 {
                seals.borrow_mut().push(timings.seal);
            }
            Ok(timings.commit)
        }),
        Box::new(|_| sync_each(space, &many.source)),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let seal = super::rounds::median(seals.into_inner());
    let each = ("an fsync each", times[2]);
    let peak = super::large::peak_memory(space, &many.command())?;
    Ok(vec![
        Row::ratio("commit of a directory of 10,000 files", times[1], ("of 10 files", times[0]), Target::AtMost(1.3)),
        Row::speed("seal of 10,000 small files (times as fast)", seal, each, Target::AtLeast(3.0)),
        Row::number("peak memory, directory of 10,000 files", peak, "MiB", Target::AtMost(32.0)),
    ])
}

/// The times of the steps, from the machine report.
struct Timings {
    seal: Duration,
    commit: Duration,
}

/// Publishes the same directory again and again to one slot.
struct Publisher<'a> {
    space: &'a Space,
    home: PathBuf,
    source: PathBuf,
    report: PathBuf,
}

impl<'a> Publisher<'a> {
    fn new(space: &'a Space, files: usize) -> Outcome<Self> {
        let source = space.fresh(&format!("directory-source-{files}"))?;
        for number in 0..files {
            write(&source.join(format!("part-{number:05}")), format!("{number}\n").repeat(20))?;
        }
        let home = space.home(&format!("directory-home-{files}"))?;
        let report = space.join(format!("directory-report-{files}.json"));
        Ok(Self { space, home, source, report })
    }

    fn command(&self) -> Command {
        let mut command =
            self.space.refrain(&self.home, ["run", "bench", "--date", "2025-01-01", "--rerun", "--out", "out/{date}/"]);
        command.arg("--report").arg(&self.report).args(["--", "sh", "-c", TASK]).env("BENCH_SOURCE", &self.source);
        command
    }

    fn publish(&self) -> Outcome<Timings> {
        self.space.settle()?;
        self.space.time(self.command())?;
        timings(&self.report)
    }
}

/// Reads the times of the steps from a machine report.
fn timings(report: &Path) -> Outcome<Timings> {
    let text = std::fs::read_to_string(report).map_err(|error| format!("cannot read {}: {error}", report.display()))?;
    Ok(Timings { seal: step(&text, "seal")?, commit: step(&text, "commit")? })
}

/// The time of one step in the text of a machine report.
pub(super) fn step(report: &str, name: &str) -> Outcome<Duration> {
    let report: serde_json::Value =
        serde_json::from_str(report).map_err(|error| format!("the report is no JSON: {error}"))?;
    let time = report["timings_us"][name].as_u64();
    time.map(Duration::from_micros).ok_or_else(|| format!("the report has no number `timings_us.{name}`: {report}"))
}

/// A fresh copy of `source`, and the time of syncing each of its files by itself.
fn sync_each(space: &Space, source: &Path) -> Outcome<Duration> {
    let copy = space.join("directory-copy");
    remove(&copy)?;
    space.settle()?;
    make(&copy)?;
    let mut command = program("cp", &copy, ["-r"]);
    command.arg(source.join(".")).arg(&copy);
    space.time(command)?;
    let mut command = space.floor(["sync-each"]);
    command.arg(&copy);
    let printed = crate::command::capture(command)?;
    let printed = String::from_utf8_lossy(&printed);
    let time = printed.trim().parse().map_err(|_| format!("the floor printed no number: {printed}"))?;
    Ok(Duration::from_micros(time))
}

#[cfg(test)]
mod tests {
    use super::step;
    use std::time::Duration;

    #[test]
    fn a_step_without_a_time_is_an_error() {
        let report = r#"{"schema":1,"timings_us":{"seal":1500}}"#;
        assert_eq!(step(report, "seal"), Ok(Duration::from_micros(1500)));
        assert!(step(report, "commit").unwrap_err().contains("timings_us.commit"));
        assert!(step("", "seal").is_err());
    }
}
