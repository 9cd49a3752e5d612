//! Several outputs, outputs that change, and what is one slot.

use crate::call::{assert_fails, executions, home, names, run, run_as};
use std::fs;
use std::os::unix::fs::symlink;

const SCRIPT: &str = "echo x >> runs.log; echo data > $REFRAIN_OUT";

#[test]
fn two_partitions_of_a_declared_task_to_one_slot_are_refused_when_the_file_is_read() {
    let home = home();
    home.config("[task.job]\npartition = \"daily\"\ncommand = \"true\"\nout.out = \"same.csv\"\n");
    assert_fails(&home.run(["run", "job", "--date", "2025-03-24"]), &["`{date}`", "same place", "`task.job.out.out`"]);
    home.config("[task.job]\npartition = { values = [\"a\", \"b\"] }\ncommand = \"true\"\nout.out = \"same.csv\"\n");
    assert_fails(&home.run(["run", "job", "--partition", "a"]), &["{partition}", "same place"]);
    home.config("[task.job]\npartition = \"daily\"\ncommand = \"true\"\nout.out = \"{date:%Y-%m}.csv\"\n");
    assert_fails(&home.run(["run", "job", "--date", "2025-03-24"]), &["same place"]);
}

#[test]
fn two_partitions_of_an_ad_hoc_task_to_one_slot_are_refused_with_the_missing_placeholder() {
    let home = home();
    run(&home, &["job", "--date", "2025-03-24", "--out", "same.csv"], SCRIPT).published();
    let call = run(&home, &["job", "--date", "2025-03-25", "--out", "same.csv"], SCRIPT).nothing(125, "refused");
    call.says("belongs to `job 2025-03-24`").says("{date}");
    run(&home, &["kind", "--partition", "a", "--out", "kind.csv"], SCRIPT).published();
    run(&home, &["kind", "--partition", "b", "--out", "kind.csv"], SCRIPT).nothing(125, "refused").says("{partition}");
    assert_eq!(executions(&home), 2);
}

#[test]
fn one_slot_by_every_spelling() {
    let home = home();
    fs::create_dir_all(home.join("real/sub")).unwrap();
    symlink("real", home.join("link")).unwrap();
    run(&home, &["job", "--out", "real/sub/out.csv"], SCRIPT).published();
    let absolute = home.join("real/sub/out.csv").display().to_string();
    for spelling in ["./real/sub/out.csv", "real/../real//sub/out.csv", "link/sub/out.csv", absolute.as_str()] {
        let call = run(&home, &["job", "--out", spelling], SCRIPT).already_published();
        call.never_says("changed since");
        run(&home, &["other", "--out", spelling], SCRIPT).nothing(125, "refused").says("belongs to `job`");
    }
    let sub = home.refrain().cwd(home.join("real/sub"));
    run_as(&home, &sub, &["job", "--out", "out.csv"], SCRIPT).already_published().never_says("changed since");
    let through = home.refrain().cwd(home.join("link/sub")).env("PWD", home.join("link/sub"));
    run_as(&home, &through, &["job", "--out", "out.csv"], SCRIPT).already_published();
    assert_eq!(executions(&home), 1);
}

#[test]
fn one_slot_from_another_directory_with_the_home_named() {
    let home = home();
    let elsewhere = tempfile::tempdir().unwrap();
    let flag = home.path().display().to_string();
    run(&home, &["job", "--out", "out.csv"], SCRIPT).published();
    let refrain = home.refrain().cwd(elsewhere.path()).env("REFRAIN_HOME", &flag);
    let absolute = home.join("out.csv").display().to_string();
    run_as(&home, &refrain, &["job", "--out", &absolute], SCRIPT).already_published();
    assert_eq!(executions(&home), 1);
}

#[test]
fn several_outputs_are_published_together_or_not_at_all() {
    let home = home();
    let flags = ["job", "--out", "a=a.csv", "--out", "b=tree/", "--out", "c=deep/down/c.csv"];
    let all = "echo a > $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B/b; echo c > $REFRAIN_OUT_C";
    run(&home, &flags, "echo a > $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B/b").nothing(123, "refused").says("output `c`");
    assert!(!home.exists("a.csv") && !home.exists("tree") && !home.exists("deep/down/c.csv"));
    run(&home, &flags, all).published();
    let rerun = [&flags[..], &["--rerun"]].concat();
    let call = run(&home, &rerun, "echo a2 > $REFRAIN_OUT_A; echo b2 > $REFRAIN_OUT_B/b; touch $REFRAIN_OUT_C");
    call.nothing(123, "refused");
    let now = (home.read("a.csv"), home.read("tree/b"), home.read("deep/down/c.csv"));
    assert_eq!(now, ("a\n".into(), "b\n".into(), "c\n".into()), "never a mix of two attempts");
}

#[test]
fn outputs_that_overlap_are_refused() {
    let home = home();
    fs::create_dir(home.join("real")).unwrap();
    symlink("real", home.join("link")).unwrap();
    for (one, other) in [
        ("a=tree/", "b=tree/b.csv"),
        ("a=tree/b.csv", "b=tree/"),
        ("a=x.csv", "b=./x.csv"),
        ("a=real/x.csv", "b=link/x.csv"),
        ("a=tree/", "b=tree/sub/deep/"),
    ] {
        run(&home, &["job", "--out", one, "--out", other], "true").nothing(125, "error").says("overlap");
    }
    let beside = ["job", "--out", "a=tree/", "--out", "b=tree.csv"];
    run(&home, &beside, "echo a > $REFRAIN_OUT_A/a; echo b > $REFRAIN_OUT_B").published();
}

#[test]
fn an_output_that_moved_is_published_there_by_the_next_generation() {
    let home = home();
    run(&home, &["job", "--out", "old.csv"], SCRIPT).published();
    let moved = ["job", "--out", "new.csv"];
    run(&home, &moved, SCRIPT).published().says("version 1 was not published to ").says("new.csv");
    assert_eq!((home.read("new.csv"), executions(&home)), ("data\n".to_owned(), 2));
    let path = home.run(["path", "job"]).success().stdout;
    assert_eq!(path.trim_end(), home.join("new.csv").display().to_string());
    run(&home, &moved, SCRIPT).already_published();
    assert_eq!(executions(&home), 2);
}

#[test]
fn an_output_more_and_an_output_less_are_runs_of_their_own() {
    let home = home();
    let script = "echo a > $REFRAIN_OUT_A; test -z \"$REFRAIN_OUT_B\" || echo b > $REFRAIN_OUT_B";
    run(&home, &["job", "--out", "a=a.csv"], script).published();
    let two = ["job", "--out", "a=a.csv", "--out", "b=b.csv", "--if-changed"];
    let call = run(&home, &two, script).published().says("b.csv: opening the next one");
    assert_eq!(call.number("generation"), 2);
    assert_eq!(home.read("b.csv"), "b\n");
    let call = run(&home, &["job", "--out", "a=a.csv", "--if-changed"], script).published();
    assert_eq!((call.number("generation"), call.report["outputs"].as_array().unwrap().len()), (3, 1));
}

#[test]
fn a_retry_whose_outputs_changed_is_the_next_run() {
    // The slot list is pinned to its run: the failed one had others.
    let home = home();
    run(&home, &["job", "--out", "old.csv"], "exit 3").nothing(3, "task_failed");
    let call = run(&home, &["job", "--out", "new.csv"], SCRIPT).published().says("the outputs changed");
    assert_eq!(call.number("generation"), 2);
    assert!(home.exists("new.csv") && !home.exists("old.csv"));
}

#[test]
fn a_directory_replaces_the_whole_old_one_and_leaves_its_siblings() {
    let home = home();
    let flags = |day: &'static str| ["job", "--date", day, "--out", "lake/dt={date}/", "--rerun"];
    run(
        &home,
        &flags("2025-03-24"),
        "touch $REFRAIN_OUT/.keep; echo 1 > $REFRAIN_OUT/part-0; echo 2 > $REFRAIN_OUT/part-1",
    )
    .published();
    run(&home, &flags("2025-03-25"), "echo 3 > $REFRAIN_OUT/part-0").published();
    run(&home, &flags("2025-03-24"), "echo 4 > $REFRAIN_OUT/part-0").published();
    assert_eq!(names(&home.join("lake/dt=2025-03-24")), ["part-0"]);
    assert_eq!(names(&home.join("lake")), ["dt=2025-03-24", "dt=2025-03-25"]);
}
