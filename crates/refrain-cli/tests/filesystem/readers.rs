//! Readers that look while publications come and go.

use crate::scene::{BIN, Case, DIRECTORY_REPLACED, check_ends, end_all, names};
use crate::{rerun, run};
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;
use refrain_testkit::reader::{Observation, Reader, observe};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const PUBLICATIONS: usize = 300;
const KILLED_EVERY: usize = 20;

#[test]
fn dir_02_three_hundred_publications_show_two_readers_no_gap_and_no_mix() {
    let memory = Mount::tmpfs(64);
    let home = Home::at(BIN, memory.path().join("home"));
    let case = Case::new(&home, DIRECTORY_REPLACED, "t");
    let readers = [case.watch(), case.watch()];
    for number in 1..PUBLICATIONS {
        if number % KILLED_EVERY == 0 {
            // In the middle of the switch; the next publication recovers first.
            case.crashing("after-rename=kill").run(case.publishing()).expect_signal(9);
        } else {
            home.run(case.publishing()).success();
        }
    }
    for watch in readers.into_iter().flatten() {
        watch.end("hundreds of publications");
    }
    home.run(case.plain()).success();
    let records = case.records();
    let generation = records.state("t").1;
    assert_eq!(records.published("t", generation), [case.shown().unwrap()]);
}

/// The parts as a reader finds them who opened the directory before everything else.
fn read_slowly(directory: &Path, mut between: impl FnMut(usize)) -> Vec<String> {
    let listed = names(directory);
    let mut contents = vec![];
    for (number, name) in listed.iter().enumerate() {
        contents.push(fs::read_to_string(directory.join(name)).unwrap_or_else(|error| format!("{name}: {error}")));
        between(number);
    }
    contents
}

const PARTS: &str = "for n in 0 1 2 3 4; do echo $REFRAIN_ATTEMPT > $REFRAIN_OUT/part-$n; done";

fn slow_reader(home: &Home, directory: &Path) {
    let contents = read_slowly(directory, |number| {
        if number < 2 {
            home.run(rerun("t", "out/", PARTS)).success();
            home.run(["gc"]).success();
        }
    });
    assert_eq!(contents.len(), 5);
    assert!(contents.iter().all(|content| *content == contents[0]), "one whole version: {contents:?}");
}

#[test]
fn dir_05_a_reader_that_opened_the_directory_once_sees_one_version_while_gc_runs() {
    let home = Home::temp(BIN);
    run(&home, "t", "out/", PARTS).success();
    let open = File::open(home.join("out")).unwrap();
    slow_reader(&home, &PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())));
}

#[test]
fn dir_05_a_reader_that_resolved_the_link_once_sees_one_version_while_gc_runs() {
    let below = Mount::ext4(64);
    let poor = Mount::bindfs(&below.path());
    let home = Home::at(BIN, poor.path().join("home"));
    run(&home, "t", "out/", PARTS).success();
    slow_reader(&home, &home.join("out").canonicalize().unwrap());
}

#[test]
fn dir_05_gc_keeps_what_stands_and_what_is_in_its_grace_and_removes_the_rest() {
    let home = Home::temp(BIN);
    let config = |grace: &str| {
        home.config(&format!(
            "[task.t]\ncommand = '{PARTS}'\nout.out = \"out/\"\nkeep = {{ versions = 1, grace = \"{grace}\" }}\n"
        ));
    };
    let kept = || -> usize {
        let versions = home.join(".refrain/versions");
        let directories =
            |slot: String| fs::read_dir(versions.join(slot)).unwrap().flatten().filter(|it| it.path().is_dir());
        names(&versions).into_iter().flat_map(directories).count()
    };
    config("1h");
    home.run(["run", "t"]).success();
    for _ in 0..3 {
        home.run(["run", "t", "--rerun"]).success();
    }
    let standing = observe(&home.join("out"));
    home.run(["gc"]).success();
    assert_eq!(kept(), 3, "all are younger than the grace");
    config("0s");
    home.run(["gc"]).success();
    assert_eq!(kept(), 1, "the newest replaced one is kept by number");
    assert_eq!(observe(&home.join("out")), standing);
    let reader = Reader::start(home.join("out"));
    home.run(["gc"]).success();
    home.run(["rollback", "t"]).success();
    let seen = reader.stop();
    assert!(!seen.distinct.contains(&Observation::Missing));
}

#[test]
fn dir_01_on_xfs_a_directory_is_replaced_where_a_plain_rename_says_eexist() {
    let disk = Mount::xfs(320);
    let home = Home::at(BIN, disk.path().join("home"));
    let probe = |name: &str| fs::create_dir_all(home.join(name).join("full")).map(|()| home.join(name)).unwrap();
    let refused = fs::rename(probe("one"), probe("other")).unwrap_err();
    assert!(matches!(refused.raw_os_error(), Some(17 | 39)), "EEXIST or ENOTEMPTY, not {refused}");
    let case = Case::new(&home, DIRECTORY_REPLACED, "t");
    let watch = case.watch();
    home.run(case.publishing()).success();
    end_all(watch, "xfs");
    check_ends(&home, &[(&case, "xfs".to_owned())]);
}
