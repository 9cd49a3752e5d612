//! A date that is folded between the look at it and its lease.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

use refrain::core::{Calendar, CrashPoint, CrashProbe, Foldable, Grain, Key, PartitionScheme};
use refrain::{Begun, Boundary, ErrorKind, Home, Options, Outside, Repeat, Task};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Folds a date the first time that somebody is about to lease it.
struct FoldBeforeLease {
    home: PathBuf,
    done: AtomicBool,
}

impl CrashProbe for FoldBeforeLease {
    fn reach(&self, point: CrashPoint) {
        if point != CrashPoint::BeforeAcquire || self.done.swap(true, Ordering::Relaxed) {
            return;
        }
        let boundary = Boundary::open(&self.home).unwrap();
        let key = Key { task: "job".parse().unwrap(), partition: "2025-01-01".to_owned() };
        let state = boundary.store().key(&key).unwrap().unwrap();
        let seen = Foldable {
            partition: key.partition,
            ends_at: "2025-01-02T00:00:00Z".parse().unwrap(),
            run: state.run.map(|run| run.run_id),
            last_attempt: state.last_attempt.map(|attempt| attempt.attempt),
        };
        assert!(boundary.store().fold(&key.task, &[seen]).unwrap().is_empty());
    }
}

#[test]
fn ledg_01_a_date_that_is_folded_after_the_look_is_refused_under_the_lease() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    Home::make(home).unwrap();
    let days = PartitionScheme::Dates(Calendar::utc(Grain::Daily));
    let task = Task::new("job", days, home).unwrap().output("row", "rows/{date}.csv").unwrap();
    let day = task.partitions.partition(Some("2025-01-01"), None, None).unwrap();
    let begin = |boundary: &Boundary, repeat: Repeat| {
        match boundary.begin(&task, &day, &Options { repeat, ..Options::default() }).unwrap() {
            Begun::Attempt(attempt) => {
                drop(attempt); // a run is opened, and not published
                Ok(())
            }
            Begun::Ended(conclusion) => Err(conclusion.error.unwrap()),
        }
    };
    begin(&Boundary::open(home).unwrap(), Repeat::Never).unwrap();
    assert_eq!(folding(home).store().attempts(&refrain::core::AttemptFilter::default()).unwrap().len(), 1);
    let error = begin(&folding(home), Repeat::Never).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error:?}");
    assert!(error.message.contains("watermark"), "{error}");
    assert!(!home.join("rows").exists());
    begin(&Boundary::open(home).unwrap(), Repeat::Always).unwrap();
}

fn folding(home: &Path) -> Boundary {
    let probe = Arc::new(FoldBeforeLease { home: home.to_owned(), done: AtomicBool::new(false) });
    Boundary::with(Home::find(Some(home), home).unwrap(), Outside { probe, ..Outside::default() }).unwrap()
}
