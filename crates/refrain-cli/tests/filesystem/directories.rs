//! What a directory holds after it was replaced, and what lies beside it.

use crate::scene::{BIN, names};
use crate::{FAILED, GUARD, rerun, run};
use refrain_testkit::program::Home;
use refrain_testkit::reader::{Observation, observe};

const DAILY: &str = r#"
[task.sales]
partition = "daily"
command = "echo $REFRAIN_DATE > $REFRAIN_OUT/part-0; echo more > $REFRAIN_OUT/part-1"
out.sales = "warehouse/dt={date}/"

[task.stray]
partition = "daily"
command = "echo 1 > $REFRAIN_OUT/part; mkdir -p $REFRAIN_OUT/../dt=2025-01-01; echo stray > $REFRAIN_OUT/../dt=2025-01-01/part"
out.stray = "stray/dt={date}/"
"#;

fn day(date: &str) -> Observation {
    Observation::directory([("part-0", format!("{date}\n")), ("part-1", "more\n".to_owned())])
}

#[test]
fn dir_10_nothing_of_an_earlier_larger_publication_stays() {
    let home = Home::temp(BIN);
    let large =
        "cd $REFRAIN_OUT; for n in 0 1 2 3; do echo old > data_$n; done; mkdir -p p=1/q=2; echo old > p=1/q=2/data_0";
    run(&home, "t", "out/", large).success();
    home.run(rerun("t", "out/", "echo new > $REFRAIN_OUT/data_0")).success();
    assert_eq!(observe(&home.join("out")), Observation::directory([("data_0", "new\n")]));
    assert_eq!(names(&home.join("out")), ["data_0"], "not even an empty directory stays");
}

#[test]
fn dir_11_a_partition_leaves_its_siblings_alone_in_any_order_and_at_once() {
    for dates in [["2018-01-01", "2019-01-01"], ["2019-01-01", "2018-01-01"]] {
        let home = Home::temp(BIN);
        home.config(DAILY);
        for date in dates {
            home.run(["run", "sales", "--date", date]).success();
        }
        home.run(["run", "sales", "--date", dates[0], "--rerun"]).success();
        assert_eq!(names(&home.join("warehouse")), ["dt=2018-01-01", "dt=2019-01-01"]);
        for date in dates {
            assert_eq!(observe(&home.join(format!("warehouse/dt={date}"))), day(date));
        }
    }
    let home = Home::temp(BIN);
    home.config(DAILY);
    let dates: Vec<_> = (1..=8).map(|day| format!("2025-03-0{day}")).collect();
    let all: Vec<_> = dates.iter().map(|date| home.spawn(["run", "sales", "--date", date])).collect();
    for running in all {
        running.wait().success();
    }
    for date in &dates {
        assert_eq!(observe(&home.join(format!("warehouse/dt={date}"))), day(date));
    }
}

#[test]
fn dir_11_files_outside_the_own_partition_are_refused() {
    let home = Home::temp(BIN);
    home.config(DAILY);
    let refused = home.run(["run", "stray", "--date", "2025-03-24"]).expect_code(GUARD);
    refused.says("outside the declared output").says("Nothing was published.");
    assert!(!home.exists("stray"), "neither the partition nor the stray one");
}

#[test]
fn spk_02_what_a_failed_job_left_is_not_part_of_the_retry() {
    let home = Home::temp(BIN);
    let parts = "for n in 0 1 2 3 4 5 6 7; do echo $REFRAIN_ATTEMPT > $REFRAIN_OUT/part-$n-$REFRAIN_ATTEMPT; done";
    run(&home, "t", "out/", &format!("{parts}; exit 1")).expect_code(1).says("Nothing was published.");
    assert!(!home.exists("out"), "no part of the failed job is visible");
    run(&home, "t", "out/", &format!("{parts}; for n in 8 9; do echo > $REFRAIN_OUT/part-$n; done")).success();
    assert_eq!(names(&home.join("out")).len(), 10, "exactly one set: {:?}", names(&home.join("out")));
}

#[test]
fn spk_04_a_corrected_run_without_rows_empties_the_partition_when_that_is_allowed() {
    let home = Home::temp(BIN);
    run(&home, "t", "out/", "echo rows > $REFRAIN_OUT/part-0").success();
    home.run(rerun("t", "out/", "true")).expect_code(GUARD).says("--allow-empty");
    assert_eq!(observe(&home.join("out")), Observation::directory([("part-0", "rows\n")]));
    let mut empty = rerun("t", "out/", "true");
    empty.insert(2, "--allow-empty");
    home.run(empty).success();
    assert_eq!(observe(&home.join("out")), Observation::directory::<&str, &str>([]));
}

#[test]
fn fs_11_one_of_two_outputs_deleted_by_hand_is_noticed_and_a_rerun_publishes_both() {
    let home = Home::temp(BIN);
    let script = "echo $REFRAIN_ATTEMPT > $REFRAIN_OUT_A; echo $REFRAIN_ATTEMPT > $REFRAIN_OUT_B";
    let args = |flags: &[&'static str]| {
        let mut args = vec!["run", "t"];
        args.extend(flags);
        args.extend(["--out", "a=a.txt", "--out", "b=b.txt", "--", "sh", "-c", script]);
        args
    };
    home.run(args(&[])).success();
    for deleted in ["a.txt", "b.txt"] {
        std::fs::remove_file(home.join(deleted)).unwrap();
        home.run(args(&[])).expect_code(FAILED).says("is gone: ").says("--rerun");
        home.run(args(&["--rerun"])).success();
        assert_eq!(home.read("a.txt"), home.read("b.txt"), "both are of one attempt");
    }
}
