//! Objects in a bucket: a local store, so that what is measured is the programs and not a network.

pub(super) mod commit;
pub(super) mod publish;

use super::directory::step;
use super::space::{Space, write};
use crate::command::Outcome;
use refrain_testkit::object::{Bucket, Kind, Server};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Publishes the same directory again and again to one prefix.
struct Publisher<'a> {
    space: &'a Space,
    bucket: Bucket,
    home: PathBuf,
    source: PathBuf,
    report: PathBuf,
}

/// The times of the steps, from the machine report.
struct Timings {
    seal: Duration,
    commit: Duration,
}

impl<'a> Publisher<'a> {
    fn new(space: &'a Space, bucket: Bucket, source: PathBuf) -> Outcome<Self> {
        let home = space.home(&format!("objects-home-{}", bucket.name()))?;
        let report = space.join(format!("objects-report-{}.json", bucket.name()));
        Ok(Self { space, bucket, home, source, report })
    }

    fn command(&self) -> Command {
        let url = self.bucket.url("out/{date}/");
        let mut command = self.space.refrain(&self.home, ["run", "bench", "--date", "2025-01-01", "--rerun", "--out"]);
        command.arg(url).arg("--report").arg(&self.report);
        command
            .args(["--", "sh", "-c", "cp -r \"$BENCH_SOURCE/.\" \"$REFRAIN_OUT/\""])
            .env("BENCH_SOURCE", &self.source);
        command.envs(self.bucket.environment());
        command
    }

    fn publish(&self) -> Outcome<Timings> {
        self.space.settle()?;
        self.space.time(self.command())?;
        let text = fs::read_to_string(&self.report);
        let text = text.map_err(|error| format!("cannot read {}: {error}", self.report.display()))?;
        Ok(Timings { seal: step(&text, "seal")?, commit: step(&text, "commit")? })
    }

    /// What the versions before the last take; their room is the disk's.
    fn forget_versions(&self) -> Outcome {
        let mut command = self.space.refrain(&self.home, ["gc"]);
        command.envs(self.bucket.environment());
        self.space.time(command).map(drop)
    }
}

/// A bucket of a server that all measures share.
fn bucket(kind: Kind) -> Bucket {
    Server::shared(kind).bucket()
}

/// So many files of so many bytes, each of its own content.
fn files(directory: &Path, count: usize, bytes: usize) -> Outcome {
    for number in 0..count {
        let mut content = format!("{number}\n").into_bytes();
        let mut state = number as u64 + 1;
        while content.len() < bytes {
            // Not compressible, and the same in every run.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            content.extend(state.to_le_bytes());
        }
        content.truncate(bytes);
        write(&directory.join(format!("part-{number:05}")), content)?;
    }
    Ok(())
}
