//! What makes two runs differ is found by experiment.

use crate::scene::{Checked, Scene};

fn check(command: &str, out: &str, flags: &[&str]) -> Checked {
    let toml = format!("[task.made]\npartition = \"daily\"\ncommand = '''\n{command}\n'''\nout.report = \"{out}\"\n");
    Scene::with(&toml).check("made", flags)
}

#[track_caller]
fn is_clock(command: &str) {
    let checked = check(command, "out/{date}.txt", &["--twice"]).finds(&["wall_clock"], &["REFRAIN_DATE"]);
    let finding = &checked.findings()[0];
    assert!(finding["cause"].as_str().unwrap().contains("wall clock"), "{finding}");
}

#[test]
fn date_01_every_spelling_of_the_clock_is_the_clock() {
    for format in ["", "+%H:%M", "+%Y", "+%a", "-R", "+%s.%N"] {
        is_clock(&format!("date {format} > \"$REFRAIN_OUT\""));
    }
}

#[test]
fn date_01_a_date_in_a_file_name_is_the_clock() {
    let command = "echo x > \"$REFRAIN_OUT/$(date +%s)\"";
    let checked = check(command, "out/{date}/", &["--twice"]).ends(1, "not_repeatable");
    assert!(checked.kinds().iter().all(|kind| *kind == "wall_clock"), "{}", checked.output);
}

#[test]
fn what_is_computed_from_the_last_publication_reads_it() {
    let command = "n=$(cat \"out/$REFRAIN_DATE.txt\" 2>/dev/null || echo 0); echo $((n * 2 + 7)) > \"$REFRAIN_OUT\"";
    check(command, "out/{date}.txt", &["--twice"]).finds(&["reads_own_output"], &["its own former output"]);
}

#[test]
fn many_files_that_differ_are_few_findings() {
    let command = "for i in $(seq 300); do cat /proc/sys/kernel/random/uuid > \"$REFRAIN_OUT/$i\"; done";
    let checked = check(command, "out/{date}/", &["--twice"]).ends(1, "not_repeatable");
    assert!(checked.findings().len() <= 11, "{}", checked.output);
    assert!(checked.verdict["findings"].to_string().contains("more files differ"), "{}", checked.output);
}

#[test]
fn a_command_that_only_writes_the_live_place_is_told_so() {
    let command = "mkdir -p out; echo x > \"out/$REFRAIN_DATE.txt\"";
    let checked = check(command, "out/{date}.txt", &["--twice"]).ends(1, "could_not_be_checked");
    assert_eq!(checked.kinds(), ["writes_live_output"], "{}", checked.output);
}

#[test]
fn a_time_is_not_taken_for_a_fault_of_the_kills() {
    let checked = check("date +%s%N > \"$REFRAIN_OUT\"", "out/{date}.txt", &["--kill", "--moments", "1"]);
    assert!(!checked.kinds().contains(&"kill_differs"), "{}", checked.output);
    assert!(checked.verdict["notes"].to_string().contains("two undisturbed runs do"), "{}", checked.output);
}

#[test]
fn a_cache_of_the_project_that_grows_is_told() {
    let command = "mkdir -p .cache; echo 1 >> .cache/results; echo x > \"$REFRAIN_OUT\"";
    let checked = check(command, "out/{date}.txt", &["--twice"]).finds(&["undeclared_write"], &[".cache/results"]);
    drop(checked);
}

#[test]
fn a_cache_that_may_decide_is_named() {
    let command =
        "mkdir -p .cache; id=$(cat /proc/sys/kernel/random/uuid); echo $id > .cache/$id; echo $id > \"$REFRAIN_OUT\"";
    let checked = check(command, "out/{date}.txt", &["--twice"]).finds(&["content_differs"], &[]);
    assert!(checked.verdict["notes"].to_string().contains(".cache/"), "{}", checked.output);
}
