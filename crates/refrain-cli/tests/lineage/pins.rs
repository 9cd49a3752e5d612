//! What a run has pinned, while the task that published it goes on.

use crate::call::{finish, names, run, start};
use crate::{backfill, in_state, publish_raw, two};
use refrain_testkit::freeze::wait_for;
use refrain_testkit::program::Home;
use std::fs;
use std::path::PathBuf;

const DAY: [&str; 3] = ["sum", "--date", "2013-01-01"];
/// Waits for `go`, at most as long as there is a home, and then reads.
const SLOW: &str = "touch started; while [ ! -e go ] && [ -e refrain.toml ]; do sleep 0.01; done; \
                    cat \"$REFRAIN_IN_RAW\" > \"$REFRAIN_OUT\"";

fn copies(home: &Home) -> Vec<PathBuf> {
    let pins = home.join(".refrain/pins");
    names(&pins).into_iter().map(|owner| pins.join(owner).join("raw/2013-01-01.txt")).collect()
}

/// A run whose first attempt failed, after it had pinned version 1.
fn failed_once() -> Home {
    let home = two();
    backfill(&home, "raw", 1, &[]).success();
    run(&home, &DAY, "exit 3").nothing(3, "task_failed");
    home
}

#[test]
fn ledg_10_a_retry_reads_the_pinned_publication_though_it_was_replaced_and_trimmed() {
    let home = failed_once();
    publish_raw(&home, "2013-01-01", "two\n");
    home.run(["gc"]).success().says("reads it and is not published yet");
    let raw = home.run(["show", "raw/2013-01-01.txt"]).success().stdout;
    assert!(!raw.contains("kept"), "version 1 is trimmed: {raw}");
    let why = home.run(["why", "sum", "--date", "2013-01-01"]).success().stdout;
    assert!(why.contains("input `raw` is pinned: raw 2013-01-01 raw version 1"), "{why}");
    let call = run(&home, &DAY, "").published();
    assert!(call.report["inputs"][0]["version"].as_str().unwrap().contains("version 1"), "{}", call.report);
    call.says("input `raw` is pinned to version 1 of `raw 2013-01-01`; version 2 stands now");
    assert_eq!(home.read("sum/2013-01-01.txt"), "one\n");
    assert_eq!(in_state(&home, "sum", "stale"), ["2013-01-01"]);
    run(&home, &[&DAY[..], &["--if-changed"]].concat(), "").published();
    assert_eq!(home.read("sum/2013-01-01.txt"), "two\n");
    assert_eq!(copies(&home), Vec::<PathBuf>::new());
}

#[test]
fn a_rollback_of_the_producer_does_not_reach_a_retry() {
    let home = two();
    home.config(&crate::TWO.replace("versions = 0", "versions = 3"));
    backfill(&home, "raw", 1, &[]).success();
    publish_raw(&home, "2013-01-01", "two\n");
    run(&home, &DAY, "exit 3").nothing(3, "task_failed");
    home.run(["rollback", "raw", "--date", "2013-01-01"]).success();
    assert_eq!(home.read("raw/2013-01-01.txt"), "one\n");
    run(&home, &DAY, "").published().says("pinned to version 2 of `raw 2013-01-01`; version 3 stands now");
    assert_eq!(home.read("sum/2013-01-01.txt"), "two\n");
}

#[test]
fn dir_05_a_gc_and_a_publication_do_not_reach_the_version_that_an_attempt_is_reading() {
    let home = two();
    let tree = crate::TWO
        .replace("cat source > \"$REFRAIN_OUT\"", "for n in 1 2 3; do cp source \"$REFRAIN_OUT/$n\"; done")
        .replace("raw/{date}.txt", "raw/{date}/")
        .replace("\"$REFRAIN_IN_RAW\" >", "\"$REFRAIN_IN_RAW\"/* >");
    home.config(&tree);
    backfill(&home, "raw", 1, &[]).success();
    let reading = start(&home, &DAY, &SLOW.replace("\"$REFRAIN_IN_RAW\"", "\"$REFRAIN_IN_RAW\"/*"));
    wait_for("the command reads", || home.exists("started"));
    publish_raw(&home, "2013-01-01", "two\n");
    home.run(["gc"]).success().says("may still need it");
    assert_eq!(home.read("raw/2013-01-01/1"), "two\n");
    home.write("go", "");
    finish(reading).published();
    assert_eq!(home.read("sum/2013-01-01.txt"), "one\n".repeat(3), "all of version 1");
    assert_eq!(in_state(&home, "sum", "stale"), ["2013-01-01"]);
}

#[test]
fn two_readers_at_once_each_have_their_own_version() {
    let home = two();
    home.config(&format!("{}\n{}", crate::TWO, "[task.other]\npartition = \"daily\"\ncommand = 'cat \"$REFRAIN_IN_RAW\" > \"$REFRAIN_OUT\"'\nin.raw = { task = \"raw\" }\nout.o = \"other/{date}\"\n"));
    backfill(&home, "raw", 1, &[]).success();
    let first = start(&home, &DAY, SLOW);
    wait_for("the first reads", || home.exists("started"));
    publish_raw(&home, "2013-01-01", "two\n");
    fs::remove_file(home.join("started")).unwrap();
    let second = start(&home, &["other", "--date", "2013-01-01"], SLOW);
    wait_for("the second reads", || home.exists("started"));
    publish_raw(&home, "2013-01-01", "three\n");
    home.write("go", "");
    finish(first).published();
    finish(second).published();
    assert_eq!(home.read("sum/2013-01-01.txt"), "one\n");
    assert_eq!(home.read("other/2013-01-01"), "two\n");
    assert_eq!(copies(&home), Vec::<PathBuf>::new());
}

#[test]
fn a_torn_copy_is_made_again_from_the_version_that_stands_or_is_kept() {
    for keep in ["versions = 3", "versions = 0"] {
        let home = failed_once();
        home.config(&crate::TWO.replace("versions = 0", keep));
        if keep == "versions = 3" {
            publish_raw(&home, "2013-01-01", "two\n");
        }
        let [copy] = copies(&home).try_into().unwrap();
        fs::remove_file(&copy).unwrap();
        fs::write(&copy, "torn").unwrap();
        run(&home, &DAY, "").published();
        assert_eq!(home.read("sum/2013-01-01.txt"), "one\n");
    }
}

#[test]
fn a_torn_copy_of_a_version_that_is_kept_no_more_is_refused_and_a_rerun_offered() {
    let home = failed_once();
    publish_raw(&home, "2013-01-01", "two\n");
    fs::remove_file(&copies(&home)[0]).unwrap();
    run(&home, &DAY, "")
        .nothing(125, "refused")
        .says("the pinned version of the input `raw` is gone: raw 2013-01-01 raw version 1")
        .says("--rerun");
    run(&home, &[&DAY[..], &["--rerun"]].concat(), "").published();
    assert_eq!(home.read("sum/2013-01-01.txt"), "two\n");
    home.run(["gc"]).success();
    assert_eq!(names(&home.join(".refrain/pins")), Vec::<String>::new());
}

#[test]
fn what_is_published_at_its_first_output_only_is_not_read() {
    let home = two();
    home.config(
        "[task.pair]\ncommand = 'echo a > \"$REFRAIN_OUT_A\"; echo b > \"$REFRAIN_OUT_B\"'\nout.a = \"a\"\nout.b = \"b\"\n\
         [task.reader]\ncommand = 'cat \"$REFRAIN_IN_A\" > \"$REFRAIN_OUT\"'\nin.a = { task = \"pair\", output = \"a\" }\nout.o = \"o\"\n",
    );
    home.refrain().env("REFRAIN_CRASH_AT", "after-commit").run(["run", "pair"]).expect_signal(9);
    assert!(home.exists("a") && !home.exists("b"));
    run(&home, &["reader"], "")
        .nothing(125, "refused")
        .says("`pair`, which is published at the first output only")
        .says("to finish it: refrain run pair");
    home.run(["run", "pair"]).success();
    run(&home, &["reader"], "").published();
}

#[test]
fn a_publication_that_is_replaced_again_and_again_is_read_whole_each_time() {
    let home = two();
    home.config(
        "[task.tree]\ncommand = 'for n in 1 2 3 4 5 6 7 8; do echo $REFRAIN_RUN > \"$REFRAIN_OUT/$n\"; done'\n\
         keep = { versions = 0, grace = \"0s\" }\nout.t = \"tree/\"\n\
         [task.reader]\ncommand = 'cat \"$REFRAIN_IN_T\"/* > \"$REFRAIN_OUT\"'\nin.t = { task = \"tree\" }\nout.o = \"o\"\n",
    );
    home.run(["run", "tree"]).success();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                home.run(["run", "tree", "--rerun"]).success();
            }
        });
        for _ in 0..20 {
            let call = run(&home, &["reader", "--rerun"], "");
            let read = home.read("o");
            let first = read.lines().next().unwrap_or_default();
            let whole = call.output.code == Some(0) && read == format!("{first}\n").repeat(8);
            let pinned = call.report["inputs"][0]["version"].as_str().unwrap_or_default().ends_with(first);
            if !whole || !pinned {
                stop.store(true, std::sync::atomic::Ordering::SeqCst);
            }
            assert!(whole && pinned, "{read}\n{}", call.output);
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}

#[test]
fn what_was_changed_by_hand_is_not_read() {
    let home = two();
    backfill(&home, "raw", 1, &[]).success();
    fs::write(home.join("raw/2013-01-01.txt"), "two\n").unwrap();
    run(&home, &DAY, "")
        .nothing(125, "refused")
        .says("cannot be read as it was published")
        .says("refrain run raw --date 2013-01-01 --rerun");
    fs::remove_file(home.join("raw/2013-01-01.txt")).unwrap();
    run(&home, &DAY, "").nothing(125, "refused").says("cannot be read as it was published");
    assert!(!home.exists("sum/2013-01-01.txt"));
}

#[test]
fn the_copy_is_read_only_and_apart_from_what_is_published() {
    let home = two();
    backfill(&home, "raw", 1, &[]).success();
    let script = "stat -c %a \"$REFRAIN_IN_RAW\" > \"$REFRAIN_OUT\"";
    run(&home, &DAY, script).published();
    assert_eq!(home.read("sum/2013-01-01.txt"), "444\n");
    let script =
        "cat \"$REFRAIN_IN_RAW\" > \"$REFRAIN_OUT\"; chmod u+w \"$REFRAIN_IN_RAW\"; echo x > \"$REFRAIN_IN_RAW\"";
    run(&home, &[&DAY[..], &["--rerun"]].concat(), script).nothing(123, "refused");
    assert_eq!(home.read("raw/2013-01-01.txt"), "one\n");
}

#[test]
fn a_command_that_writes_to_its_copy_of_a_publication_publishes_nothing() {
    let home = two();
    backfill(&home, "raw", 1, &[]).success();
    let meddle = r#"cat "$REFRAIN_IN_RAW" > "$REFRAIN_OUT"; chmod u+w "$REFRAIN_IN_RAW"; echo two > "$REFRAIN_IN_RAW""#;
    let call = run(&home, &DAY, meddle).nothing(123, "refused");
    call.says("the copy that the command read as the input `raw` was changed while it ran").says("`2013-01-01.txt`");
    run(&home, &DAY, "").published();
    assert_eq!(home.read("sum/2013-01-01.txt"), "one\n");
    let look = r#"chmod u+w "$REFRAIN_IN_RAW"; cat "$REFRAIN_IN_RAW" > "$REFRAIN_OUT""#;
    run(&home, &[&DAY[..], &["--rerun"]].concat(), look).published();
}
