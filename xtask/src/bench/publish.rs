//! A whole run that publishes one file of 4 KiB, beside the least that can be done and beside what people use today.

use super::luigi::Luigi;
use super::rounds::{Contender, date, medians};
use super::space::{Space, make, program, write};
use super::table::{Row, Target};
use crate::command::Outcome;
use refrain_testkit::strace;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROUNDS: u32 = 41;
const SYNCS: &[&str] = &["fsync", "fdatasync", "sync_file_range", "syncfs", "msync", "sync"];

/// The task: copies 4 KiB to where it is told to.
const TASK: &str = r#"cp "$BENCH_SOURCE" "$REFRAIN_OUT""#;

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let setting = Setting::new(space)?;
    let luigi = Luigi::install(space)?;
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|round| space.time(setting.refrain(&date(round)))),
        Box::new(|round| space.time(setting.floor(&date(round), "keep-wal"))),
        Box::new(|round| space.time(setting.floor(&date(round), "checkpoint"))),
        Box::new(|round| space.time(setting.flock(&date(round)))),
        Box::new(|round| space.time(luigi.command(&date(round), &setting.source))),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let calls = |command: &Command| {
        // A count does not suffer from the tracing; the times were taken without it.
        let counts = strace::count_syscalls(command, SYNCS);
        counts.values().sum::<u64>()
    };
    let own = calls(&setting.refrain(&date(ROUNDS + 1)));
    let least = calls(&setting.floor(&date(ROUNDS + 1), "keep-wal"));
    let what = "`refrain run` that publishes 4 KiB";
    #[allow(clippy::cast_precision_loss, reason = "a handful of calls")]
    let counted = Row::number("its calls of fsync, fdatasync and their like", own as f64, "", Target::AtMost(6.0))
        .beside("floor", least as f64);
    Ok(vec![
        Row::ratio(what, times[0], ("floor", times[1]), Target::AtMost(2.0)),
        counted,
        Row::ratio(what, times[0], ("floor that checkpoints as it closes", times[2]), Target::None),
        Row::ratio(what, times[0], ("`flock -n`, write, `mv` (syncs nothing)", times[3]), Target::None),
        Row::ratio(what, times[0], ("Luigi, LocalTarget (syncs nothing)", times[4]), Target::None),
    ])
}

/// The directories and files that all contenders work with.
struct Setting<'a> {
    space: &'a Space,
    home: PathBuf,
    plain: PathBuf,
    source: PathBuf,
}

impl<'a> Setting<'a> {
    fn new(space: &'a Space) -> Outcome<Self> {
        let home = space.home("publish-home")?;
        let plain = space.fresh("publish-plain")?;
        for directory in ["floor-keep-wal", "floor-checkpoint", "flock"] {
            make(&plain.join(directory))?;
        }
        let source = space.join("publish-source");
        write(&source, [b'x'; 4096])?;
        Ok(Self { space, home, plain, source })
    }

    fn refrain(&self, date: &str) -> Command {
        let args = ["run", "bench", "--date", date, "--out", "out/{date}.bin", "--", "sh", "-c", TASK];
        self.with_source(self.space.refrain(&self.home, args))
    }

    fn floor(&self, date: &str, close: &str) -> Command {
        let directory = self.plain.join(format!("floor-{close}"));
        let [state, target] = [directory.join("state.db"), directory.join(date)];
        let mut command = self.space.floor(["publish", close]);
        command.arg(state).arg(target).args(["sh", "-c", TASK]);
        self.with_source(command)
    }

    fn flock(&self, date: &str) -> Command {
        let directory = self.plain.join("flock");
        let script = format!(r#"{TASK} && mv "$REFRAIN_OUT" {date}"#);
        let mut command = program("flock", &directory, ["-n", "lock", "sh", "-c", &script]);
        command.env("REFRAIN_OUT", "temporary");
        self.with_source(command)
    }

    fn with_source(&self, command: Command) -> Command {
        with_source(command, &self.source)
    }
}

/// Tells the task what to copy.
fn with_source(mut command: Command, source: &Path) -> Command {
    command.env("BENCH_SOURCE", source);
    command
}
