//! Many dates at once.

use crate::scene::Shared;
use std::collections::BTreeSet;
use std::thread;

#[test]
fn date_10_500_dates_from_four_processes_run_once_each() {
    let shared = Shared::new();
    let homes = [(), (), (), ()].map(|()| shared.home(""));
    // Whoever finds a date held goes on with the next, so that the four spread over the range.
    let range = ["backfill", "day", "--from", "2023-08-20", "--to", "2024-12-31", "--jobs", "2"];
    thread::scope(|scope| {
        for home in &homes {
            scope.spawn(|| while shared.run(home, &range).code != Some(0) {});
        }
    });
    let executions = shared.executions();
    let dates: BTreeSet<_> = executions.iter().collect();
    assert_eq!((executions.len(), dates.len()), (500, 500), "each date runs once");
    assert_eq!(std::fs::read_dir(shared.path("out")).unwrap().count(), 500);
    shared.has_no_leftover();
}
