//! Kept versions, rollback, adoption.

use crate::call::{assert_fails, home, run};
use refrain_testkit::program::Home;
use std::fs;

fn three_versions(flags: &[&str], write: impl Fn(&str) -> String) -> Home {
    let home = home();
    for content in ["one", "two", "three"] {
        run(&home, &[flags, &["--rerun"]].concat(), &write(content)).published();
    }
    home
}

fn version(home: &Home, number: &str) -> String {
    let place = home.run(["path", "job", "--version", number]).success().stdout;
    fs::read_to_string(place.trim_end()).unwrap()
}

#[test]
fn every_kept_version_can_be_read() {
    let home = three_versions(&["job", "--out", "out.csv"], |content| format!("echo {content} > $REFRAIN_OUT"));
    for (number, content) in [("1", "one\n"), ("2", "two\n"), ("3", "three\n")] {
        assert_eq!(version(&home, number), content);
    }
    assert_eq!(home.run(["path", "job"]).stdout.trim_end(), home.join("out.csv").display().to_string());
}

#[test]
fn rollback_publishes_the_version_before_as_a_new_one() {
    let home = three_versions(&["job", "--out", "out.csv"], |content| format!("echo {content} > $REFRAIN_OUT"));
    home.run(["rollback", "job"]).success().says("published: job: version 4");
    assert_eq!(home.read("out.csv"), "two\n");
    assert_eq!(version(&home, "3"), "three\n", "what was replaced is kept");
    run(&home, &["job", "--out", "out.csv"], "exit 9").already_published();
}

#[test]
fn rollback_to_a_version_publishes_that_one_and_refuses_what_is_not_kept() {
    let home = three_versions(&["job", "--out", "out.csv"], |content| format!("echo {content} > $REFRAIN_OUT"));
    home.run(["rollback", "job", "--to", "1"]).success();
    assert_eq!(home.read("out.csv"), "one\n");
    assert_fails(&home.run(["rollback", "job", "--to", "4"]), &["is the one that is published"]);
    assert_fails(&home.run(["rollback", "job", "--to", "9"]), &["version 9", "is not kept", "1, 2, 3"]);
    assert_fails(&home.run(["rollback", "absent"]), &["no task `absent`"]);
    assert_eq!(home.read("out.csv"), "one\n");
}

#[test]
fn rollback_of_two_outputs_brings_both_back_together() {
    let flags = ["job", "--out", "a=a.csv", "--out", "b=tree/"];
    let home = three_versions(&flags, |content| {
        format!("echo {content} > $REFRAIN_OUT_A; echo {content} > $REFRAIN_OUT_B/{content}")
    });
    home.run(["rollback", "job", "--to", "1"]).success();
    assert_eq!(home.read("a.csv"), "one\n");
    assert_eq!(crate::call::names(&home.join("tree")), ["one"]);
}

#[test]
fn rollback_of_a_declared_partition_takes_its_date() {
    let home = home();
    home.config("[task.job]\npartition = \"daily\"\ncommand = \"date +%N > $REFRAIN_OUT\"\nout.out = \"{date}.csv\"\n");
    run(&home, &["job", "--date", "2025-03-24"], "").published();
    let first = home.read("2025-03-24.csv");
    run(&home, &["job", "--date", "2025-03-24", "--rerun"], "").published();
    home.run(["rollback", "job", "--date", "2025-03-24T00:00:00Z"]).success();
    assert_eq!(home.read("2025-03-24.csv"), first);
}

#[test]
fn versions_are_kept_by_count_and_never_the_current_one_goes() {
    let home = home();
    home.config("[task.job]\ncommand = \"true\"\nout.out = \"out.csv\"\nkeep = { versions = 1, grace = \"0s\" }\n");
    for content in ["one", "two", "three"] {
        run(&home, &["job", "--rerun"], &format!("echo {content} > $REFRAIN_OUT")).published();
    }
    home.run(["gc"]).success();
    assert_eq!(version(&home, "2"), "two\n");
    assert_fails(&home.run(["path", "job", "--version", "1"]), &["version 1", "versions that can be read"]);
    assert_eq!(home.read("out.csv"), "three\n");
}

#[test]
fn within_the_grace_more_versions_are_kept_than_the_count() {
    let home = home();
    home.config("[task.job]\ncommand = \"true\"\nout.out = \"out.csv\"\nkeep = { versions = 0, grace = \"1h\" }\n");
    for content in ["one", "two", "three"] {
        run(&home, &["job", "--rerun"], &format!("echo {content} > $REFRAIN_OUT")).published();
    }
    home.run(["gc"]).success();
    assert_eq!((version(&home, "1"), version(&home, "2")), ("one\n".to_owned(), "two\n".to_owned()));
}

#[test]
fn a_foreign_file_is_refused_and_with_adopt_kept_as_version_0() {
    let home = home();
    home.write("out.csv", "theirs\n");
    let flags = ["job", "--out", "out.csv"];
    let call = run(&home, &flags, "touch started; echo ours > $REFRAIN_OUT").nothing(125, "refused");
    let call = call.says("was not published by").says("--adopt");
    assert!(!home.exists("started"), "refused before the work");
    assert_eq!((home.read("out.csv"), &call.report["error"]["kind"]), ("theirs\n".into(), &"refused".into()));
    run(&home, &[&flags[..], &["--adopt"]].concat(), "echo ours > $REFRAIN_OUT").published();
    assert_eq!((home.read("out.csv"), version(&home, "0")), ("ours\n".into(), "theirs\n".into()));
    home.run(["rollback", "job", "--to", "0"]).success();
    assert_eq!(home.read("out.csv"), "theirs\n");
}

#[test]
fn a_foreign_directory_is_refused_and_with_adopt_kept_as_version_0() {
    let home = home();
    home.write("tree/theirs", "theirs\n");
    let flags = ["job", "--out", "tree/"];
    run(&home, &flags, "echo ours > $REFRAIN_OUT/ours").nothing(125, "refused").says("--adopt");
    run(&home, &[&flags[..], &["--adopt"]].concat(), "echo ours > $REFRAIN_OUT/ours").published();
    assert_eq!(crate::call::names(&home.join("tree")), ["ours"]);
    home.run(["rollback", "job", "--to", "0"]).success();
    assert_eq!(crate::call::names(&home.join("tree")), ["theirs"]);
}

#[test]
fn another_tasks_output_is_refused_and_its_owner_is_named() {
    let home = home();
    run(&home, &["owner", "--out", "out.csv"], "echo theirs > $REFRAIN_OUT").published();
    let call = run(&home, &["other", "--out", "out.csv"], "echo ours > $REFRAIN_OUT").nothing(125, "refused");
    call.says("belongs to `owner`");
    assert_eq!(home.read("out.csv"), "theirs\n");
    let call = run(&home, &["other", "--out", "out.csv", "--adopt"], "echo ours > $REFRAIN_OUT").published();
    call.says("over from `owner`").never_says("went backwards");
    assert_eq!(home.read("out.csv"), "ours\n", "taken over on purpose");
    run(&home, &["owner", "--out", "out.csv"], "echo theirs > $REFRAIN_OUT").nothing(125, "refused").says("`other`");
}

#[test]
fn a_directory_put_where_a_file_was_published_is_kept_and_no_rollback_to_it_is_begun() {
    let flags = ["job", "--out", "out.csv"];
    let home = home();
    run(&home, &flags, "echo one > $REFRAIN_OUT").published();
    fs::remove_file(home.join("out.csv")).unwrap();
    home.write("out.csv/by-hand", "theirs\n");
    run(&home, &["job", "--out", "out.csv", "--rerun"], "echo two > $REFRAIN_OUT").published();
    let refused = home.run(["rollback", "job", "--to", "1"]);
    assert_fails(&refused, &["is a directory, put there by hand, and the output is a file", "look at"]);
    run(&home, &flags, "exit 9").already_published();
    assert_eq!(home.read("out.csv"), "two\n");
}
