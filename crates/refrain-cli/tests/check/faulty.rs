//! Each fault of `corpus/faulty` is found and called by its name.

use crate::scene::Scene;

#[track_caller]
fn finds(task: &str, kinds: &[&str], words: &[&str]) {
    Scene::of("faulty").check(task, &["--twice"]).finds(kinds, words);
}

#[test]
fn det_08_a_time_in_a_column_is_the_wall_clock() {
    finds("wall_clock", &["wall_clock"], &["made_at", "5 of 5 rows", "wall clock"]);
}

#[test]
fn date_01_the_date_of_the_run_is_told_from_the_date_it_is_for() {
    finds("date_of_today", &["wall_clock"], &["column `day`", "$REFRAIN_DATE"]);
}

#[test]
fn det_08_random_ids_are_named_with_their_column() {
    finds("random_ids", &["content_differs"], &["column `id`", "random UUID", "REFRAIN_SEED"]);
}

#[test]
fn rows_in_any_order_are_the_same_rows() {
    finds("any_order", &["bytes_differ"], &["same rows in another order", "Sort"]);
}

#[test]
fn det_07_the_order_of_a_listing_is_turned_round() {
    let checked = Scene::of("faulty").check("listing_order", &["--twice"]);
    assert!(checked.shielded(), "{}", checked.output);
    checked.finds(&["content_differs"], &["same lines in another order"]);
}

#[test]
fn det_04_sums_in_another_order_are_numeric_noise() {
    finds("float_sum", &["content_differs"], &["column `total`", "numeric noise", "largest relative difference"]);
}

#[test]
fn adding_to_the_published_place_is_found() {
    finds("self_append", &["reads_own_output", "writes_live_output"], &["self_append.txt", "$REFRAIN_OUT"]);
}

#[test]
fn an_output_that_begins_with_the_last_one_reads_it() {
    finds("reads_own", &["reads_own_output"], &["reads its own output"]);
}

#[test]
fn an_undeclared_write_is_named_by_its_path() {
    let scene = Scene::of("faulty");
    let place = scene.home.join("progress.log").display().to_string();
    let checked = scene.check("undeclared_write", &["--twice"]).finds(&["undeclared_write"], &[&place]);
    assert_eq!(checked.findings()[0]["writes"][0]["how"], "created");
}

#[test]
fn a_failure_that_a_pipe_hides_is_told_with_what_it_said() {
    finds("hidden_pipe", &["hidden_failure"], &["`sh -c`", "exit code 1", "missing.csv"]);
}

#[test]
fn a_failure_that_a_pipe_of_a_script_hides_is_told_with_the_script() {
    finds("hidden_pipe_in_a_script", &["hidden_failure"], &["`hidden_pipe.sh`", "missing.csv"]);
}

#[test]
fn a_process_left_behind_is_named() {
    finds("daemon", &["left_process"], &["sleep 600"]);
}

#[test]
fn det_05_an_inherited_locale_is_varied() {
    finds("locale", &["content_differs"], &["1 of 1 lines"]);
}

#[test]
fn det_01_the_time_in_an_archive_is_no_content() {
    finds("gzip_time", &["bytes_differ"], &["the content is equal", "time in the gzip header", "gzip -n"]);
}

#[test]
fn det_02_the_name_in_an_archive_is_no_content() {
    finds("gzip_name", &["bytes_differ"], &["the content is equal", "name in the gzip header"]);
}

#[test]
fn a_temporary_path_in_the_output_is_told() {
    finds("temporary_path", &["content_differs"], &["temporary directory"]);
}

#[test]
fn a_task_that_cannot_be_repeated_is_told_with_its_own_words() {
    finds("fails_again", &["fails_when_repeated", "undeclared_write"], &["mkdir", "work-2013-01-01"]);
}

#[test]
fn a_task_that_fails_could_not_be_checked() {
    let checked = Scene::of("faulty").check("fails", &["--twice", "--kill", "--race"]).ends(1, "could_not_be_checked");
    let failure = &checked.verdict["failure"];
    assert_eq!(failure["task_exit"]["code"], 7, "{failure}");
    assert!(failure["stdout"].as_str().unwrap().contains("working"), "{failure}");
    assert!(failure["stderr"].as_str().unwrap().contains("no such table"), "{failure}");
}

#[test]
fn what_two_runs_differ_in_is_told_once() {
    let scene = Scene::of("faulty");
    let flags = ["--twice", "--kill", "--moments", "1", "--race"];
    let checked = scene.check("random_ids", &flags).finds(&["content_differs"], &[]);
    let notes = checked.verdict["notes"].to_string();
    assert!(notes.contains("as those of two undisturbed runs do"), "{notes}");
}

#[test]
fn without_a_shield_faults_are_found_in_a_copy() {
    let scene = Scene::of("faulty");
    for (task, kinds) in [
        ("undeclared_write", &["undeclared_write"][..]),
        ("hidden_pipe", &["hidden_failure"]),
        ("self_append", &["reads_own_output", "writes_live_output"]),
    ] {
        let checked = scene.check(task, &["--twice", "--isolation", "copy"]).finds(kinds, &[]);
        assert!(!checked.shielded(), "{}", checked.output);
    }
}
