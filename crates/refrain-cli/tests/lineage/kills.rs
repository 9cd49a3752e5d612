//! The reader dies at every step, and the task that it reads publishes anew before it is repeated.

use crate::call::{names, run};
use crate::{backfill, in_state, publish_raw, two};
use refrain::core::CrashPoint;

const DAY: [&str; 3] = ["sum", "--date", "2013-01-01"];

#[test]
fn ledg_10_whatever_step_kills_the_reader_its_run_reads_one_version() {
    for point in CrashPoint::ALL {
        let home = two();
        backfill(&home, "raw", 1, &[]).success();
        let killed = home.refrain().env("REFRAIN_CRASH_AT", point.name()).run([&["run"], &DAY[..]].concat());
        assert_eq!(killed.signal, Some(9), "{point}: {killed}");
        publish_raw(&home, "2013-01-01", "two\n");
        home.run(["gc"]).success();
        run(&home, &DAY, "").ends_well(*point);
        // Only a run that was recorded has pins.
        let expected = if *point < CrashPoint::AfterOpenRun { "two\n" } else { "one\n" };
        assert_eq!(home.read("sum/2013-01-01.txt"), expected, "{point}");
        let stale = in_state(&home, "sum", "stale");
        assert_eq!(stale.is_empty(), expected == "two\n", "{point}: {stale:?}");
        home.run(["gc"]).success();
        assert_eq!(names(&home.join(".refrain/pins")), Vec::<String>::new(), "{point}");
    }
}

trait EndsWell {
    fn ends_well(self, point: CrashPoint);
}

impl EndsWell for crate::call::Call {
    fn ends_well(self, point: CrashPoint) {
        assert_eq!(self.output.code, Some(0), "{point}: {}", self.output);
    }
}

#[test]
fn date_11_a_chain_that_dies_at_any_step_goes_on_to_the_same_end() {
    for point in CrashPoint::ALL {
        let home = two();
        backfill(&home, "raw", 3, &[]).success();
        backfill(&home, "sum", 1, &[]).success();
        let day = ["run", "sum", "--date", "2013-01-02"];
        home.refrain().env("REFRAIN_CRASH_AT", point.name()).run(day).expect_signal(9);
        backfill(&home, "sum", 3, &[]).success();
        assert_eq!(home.read("sum/2013-01-03.txt"), "one\n".repeat(3), "{point}");
        assert_eq!(in_state(&home, "sum", "published").len(), 3, "{point}");
    }
}
