//! Many dates at once.

use crate::scene::{Shared, sessions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn date_10_700_dates_in_parallel_take_few_connections_and_run_once_each() {
    const JOBS: usize = 4;
    let shared = Shared::new();
    let homes = [(), ()].map(|()| shared.home(&shared.url(), "60s", ""));
    let over = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(shared.sql(&sessions(&shared)).parse().unwrap());
            }
            most
        });
        let jobs = JOBS.to_string();
        let range = ["backfill", "day", "--from", "2023-01-01", "--to", "2024-11-30", "--jobs", &jobs, "--wait"];
        let fills = homes.each_ref().map(|home| home.spawn(range));
        let ends = fills.map(refrain_testkit::program::Running::wait);
        over.store(true, Ordering::Relaxed);
        for end in ends {
            end.success();
        }
        watch.join().unwrap()
    });
    // Two homes, each with its workers and the one that counts; one connection each, and one more while two threads ask.
    assert!(most <= 2 * 2 * (JOBS + 1), "{most} connections at once");
    assert_eq!(shared.executions(), 700);
    let published = "SELECT count(DISTINCT partition), count(*) FROM refrain.attempt WHERE ending LIKE '%\"published\"%' \
                     AND ending NOT LIKE '%already%'";
    assert_eq!(shared.sql(published), "700|700");
    assert_eq!(std::fs::read_dir(shared.path("out")).unwrap().count(), 700);
    shared.has_no_leftover();
}
