//! A thousand files go up, beside the copying programs with their defaults.

use super::{Publisher, bucket, files};
use crate::bench::large::peak_memory;
use crate::bench::rounds::{Contender, medians};
use crate::bench::space::{Space, program};
use crate::bench::table::{Row, Target};
use crate::command::Outcome;
use crate::python::with_package;
use refrain_testkit::object::{Bucket, Kind};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROUNDS: u32 = 3;
const FILES: usize = 1000;
const BYTES: usize = 1024 * 1024;
const AWS: &str = "awscli==1.45.11";

pub(crate) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let source = space.fresh("objects-thousand")?;
    files(&source, FILES, BYTES)?;
    let aws = with_package("awscli", AWS)?;
    let publisher = Publisher::new(space, bucket(Kind::SeaweedFs), source.clone())?;
    let (by_aws, by_rclone) = (bucket(Kind::SeaweedFs), bucket(Kind::SeaweedFs));
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|_| {
            let timings = publisher.publish()?;
            publisher.forget_versions()?;
            Ok(timings.seal + timings.commit)
        }),
        Box::new(|round| {
            space.settle()?;
            space.time(aws_copy(&aws, &source, &by_aws, round))
        }),
        Box::new(|round| {
            space.settle()?;
            space.time(rclone_copy(&source, &by_rclone, round))
        }),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let peak = peak_memory(space, &publisher.command())?;
    let title = "1,000 files of 1 MiB from staging to published (times as fast)";
    Ok(vec![
        Row::speed(title, times[0], ("`aws s3 cp --recursive`", times[1]), Target::AtLeast(0.9)),
        Row::speed(title, times[0], ("`rclone copy`", times[2]), Target::AtLeast(0.9)),
        Row::number("peak memory, 1,000 files of 1 MiB", peak, "MiB", Target::AtMost(128.0)),
    ])
}

fn aws_copy(python: &Path, source: &Path, bucket: &Bucket, round: u32) -> Command {
    let aws: PathBuf = python.with_file_name("aws");
    let mut command = program(python, source, [aws.as_os_str()]);
    command.args(["s3", "cp", "--recursive", "--quiet", "."]).arg(bucket.url(&format!("copy-{round}/")));
    command.envs(bucket.environment());
    command
}

fn rclone_copy(source: &Path, bucket: &Bucket, round: u32) -> Command {
    let target = format!("bench:{}/copy-{round}/", bucket.name());
    let mut command = program("rclone", source, ["copy", "--s3-no-check-bucket", "."]);
    // rclone ends at a bundle that another program was told of; the server here has no certificate.
    command.arg(target).args(["--config", "/dev/null"]).env_remove("AWS_CA_BUNDLE");
    let settings = [("TYPE", "s3"), ("PROVIDER", "Other"), ("ENV_AUTH", "true"), ("FORCE_PATH_STYLE", "true")];
    command.envs(settings.map(|(name, value)| (format!("RCLONE_CONFIG_BENCH_{name}"), value.to_owned())));
    for (name, value) in bucket.environment() {
        if name == "AWS_ENDPOINT_URL" {
            command.env("RCLONE_CONFIG_BENCH_ENDPOINT", &value);
        }
        command.env(name, value);
    }
    command
}
