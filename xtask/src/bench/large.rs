//! A file of 2 GiB: the memory that it takes, and the seal beside a plain digest and fsync.

use super::directory::step;
use super::rounds::{Contender, medians};
use super::space::{Space, program, remove};
use super::table::{Row, Target};
use crate::command::{Outcome, text};
use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ROUNDS: u32 = 3;
const BYTES: u64 = 2 << 30;

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let peaks = RefCell::new(vec![]);
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|_| {
            let (seal, peak) = publish(space)?;
            peaks.borrow_mut().push(peak);
            Ok(seal)
        }),
        Box::new(|_| digest_and_sync(space, "b3sum")),
        Box::new(|_| digest_and_sync(space, "b3sum --num-threads 1")),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let peak = peaks.into_inner().into_iter().fold(0.0, f64::max);
    Ok(vec![
        Row::number("peak memory, file of 2 GiB", peak, "MiB", Target::AtMost(32.0)),
        Row::ratio("seal of a file of 2 GiB", times[0], ("`b3sum` and `sync`", times[1]), Target::AtMost(1.3)),
        Row::ratio("seal of a file of 2 GiB", times[0], ("`b3sum` on one thread and `sync`", times[2]), Target::None),
    ])
}

/// Publishes the file in a home of its own; returns the time of the seal and the peak of the memory.
fn publish(space: &Space) -> Outcome<(Duration, f64)> {
    let home = space.home("large-home")?;
    space.settle()?;
    let script = write_script(r#""$REFRAIN_OUT""#);
    let args = ["run", "bench", "--date", "2025-01-01", "--out", "out/{date}.bin", "--report", "report.json", "--"];
    let mut command = space.refrain(&home, args);
    command.args(["sh", "-c", &script]);
    let peak = peak_memory(space, &command)?;
    let report = std::fs::read_to_string(home.join("report.json"));
    let report = report.map_err(|error| format!("cannot read the report: {error}"))?;
    let seal = step(&report, "seal")?;
    remove(&home)?;
    Ok((seal, peak))
}

/// Writes the same file and times what must at least be done with it.
fn digest_and_sync(space: &Space, digest: &str) -> Outcome<Duration> {
    let directory = space.fresh("large-plain")?;
    space.settle()?;
    space.time(program("sh", &directory, ["-c", &write_script("file")]))?;
    let time = space.time(program("sh", &directory, ["-c", &format!("{digest} file && sync file")]))?;
    remove(&directory)?;
    Ok(time)
}

fn write_script(target: &str) -> String {
    format!("head -c {BYTES} /dev/zero > {target}")
}

/// Runs `command` and returns the peak of its resident memory, and that of its children, in MiB.
pub(super) fn peak_memory(space: &Space, command: &Command) -> Outcome<f64> {
    let file = space.join("peak");
    let directory = command.get_current_dir().unwrap_or(Path::new(".")).to_path_buf();
    let mut timed = program("/usr/bin/time", &directory, ["-f", "%M", "-o"]);
    timed.arg(&file).arg(command.get_program()).args(command.get_args());
    timed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    space.time(timed)?;
    let printed = std::fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let kibibytes: f64 = printed.trim().parse().map_err(|_| format!("`{}` has no peak: {printed}", text(command)))?;
    Ok(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_script_writes_two_gibibytes() {
        assert_eq!(super::write_script("f"), "head -c 2147483648 /dev/zero > f");
    }
}
