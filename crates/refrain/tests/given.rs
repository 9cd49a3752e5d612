//! What an attempt tells is what a command of the same run finds in its environment.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

use refrain::core::{Calendar, Grain, PartitionScheme};
use refrain::process::channel;
use refrain::task::CommandLine;
use refrain::{Begun, Boundary, ErrorKind, Home, Options, Stdout, Task};
use std::collections::BTreeMap;
use std::fs;

#[test]
fn an_attempt_tells_what_its_command_would_find() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    Home::make(home).unwrap();
    let boundary = Boundary::open(home).unwrap();
    let days = PartitionScheme::Dates(Calendar::utc(Grain::Daily));
    let mut task = Task::new("delays", days, home).unwrap().output("report", "{date}.csv").unwrap();
    task.params.insert("carrier".to_owned(), "UA".to_owned());
    let day = task.partitions.partition(Some("2013-01-01"), None, None).unwrap();

    task.command = Some(CommandLine::Shell("env > told; exit 1".to_owned()));
    let failed = boundary.run(&task, &day, &Options::default(), Stdout::Inherit, || Ok(channel())).unwrap();
    assert_eq!(failed.report.exit_code, 1);
    let text = fs::read_to_string(home.join("told")).unwrap();
    let told: BTreeMap<_, _> = text.lines().filter_map(|line| line.split_once('=')).collect();

    let Begun::Attempt(attempt) = boundary.begin(&task, &day, &Options::default()).unwrap() else {
        panic!("nothing is published yet")
    };
    let interval = attempt.interval().unwrap();
    let same = [
        ("REFRAIN_TASK", attempt.task().to_string()),
        ("REFRAIN_PARTITION", attempt.partition().key.clone()),
        ("REFRAIN_DATE", interval.key.clone()),
        ("REFRAIN_DATE_START", interval.start.to_string()),
        ("REFRAIN_DATE_END", interval.end.to_string()),
        ("REFRAIN_RUN", attempt.run().to_string()),
        ("REFRAIN_SEED", attempt.seed().to_string()),
        ("REFRAIN_IDEMPOTENCY_KEY", attempt.idempotency_key().to_owned()),
        ("REFRAIN_PARAM_CARRIER", attempt.param("carrier").unwrap().to_owned()),
    ];
    for (variable, value) in same {
        assert_eq!(told.get(variable), Some(&value.as_str()), "{variable}");
    }
    // Another attempt of the same run.
    assert_ne!(told["REFRAIN_ATTEMPT"], attempt.id().to_string());
    assert!(attempt.token().get() > told["REFRAIN_TOKEN"].parse().unwrap(), "{}", attempt.token());
    assert_eq!(attempt.generation().get(), 1);
    assert_eq!(attempt.param("carier").unwrap_err().kind, ErrorKind::Invalid);

    fs::write(attempt.output("report").unwrap(), "x").unwrap();
    let (id, token) = (attempt.id(), attempt.token());
    let report = attempt.publish().into_result().unwrap();
    assert_eq!((report.attempt, report.token), (Some(id), Some(token)));
}
