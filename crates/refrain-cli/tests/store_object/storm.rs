//! Many dates at once.

use crate::scene::Shared;
use refrain_testkit::program::Running;
use std::collections::BTreeSet;

#[test]
fn date_10_500_dates_from_four_processes_run_once_each() {
    let shared = Shared::new();
    let homes = [(), (), (), ()].map(|()| shared.home(""));
    let range = ["backfill", "day", "--from", "2023-08-20", "--to", "2024-12-31", "--jobs", "2", "--wait"];
    let fills = homes.each_ref().map(|home| shared.spawn(home, &range));
    for end in fills.map(Running::wait) {
        end.success();
    }
    let executions = shared.executions();
    let dates: BTreeSet<_> = executions.iter().collect();
    assert_eq!((executions.len(), dates.len()), (500, 500), "each date runs once");
    assert_eq!(std::fs::read_dir(shared.path("out")).unwrap().count(), 500);
    shared.has_no_leftover();
}
