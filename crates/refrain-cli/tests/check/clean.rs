//! What is repeatable passes, however odd it looks.

use crate::scene::Scene;

#[track_caller]
fn passes(task: &str) {
    Scene::of("clean").check(task, &["--twice"]).repeatable();
}

macro_rules! pass {
    ($($name:ident: $task:literal,)*) => {
        $(#[test]
        fn $name() {
            passes($task);
        })*
    };
}

pass! {
    a_sorted_sum_of_awk_passes: "awk",
    a_sorted_listing_passes: "sorted",
    det_01_an_archive_without_a_time_passes: "gzip",
    a_database_passes: "sqlite",
    det_01_an_archive_with_a_fixed_time_passes: "tar",
    a_directory_of_files_passes: "directory",
    two_outputs_pass: "two_outputs",
    standard_output_passes: "standard_output",
    a_pipe_whose_reader_has_enough_passes: "enough",
    temporary_files_pass: "temporary_files",
    det_08_numbers_from_the_seed_pass: "seeded",
    a_task_without_dates_passes: "whole",
}

#[test]
fn without_flags_it_is_run_twice_and_raced() {
    let scene = Scene::of("clean");
    let checked = scene.check("two_outputs", &[]).repeatable();
    let trials: Vec<_> = checked.verdict["trials"].as_array().unwrap().iter().map(|trial| &trial["name"]).collect();
    assert_eq!(trials, ["twice", "race"], "{}", checked.output);
    let output = scene.refrain().run(Scene::arguments("two_outputs", &[])).success();
    let end = "two_outputs 2013-01-01: repeatable: twice (2 runs), race (8 at once)\n";
    assert!(output.stderr.ends_with(end), "{output}");
}

#[test]
fn a_listing_read_in_all_trials_passes() {
    Scene::of("clean").check("sorted", &["--twice", "--race"]).repeatable();
}

#[test]
fn an_input_that_another_task_publishes_is_read() {
    let scene = Scene::with(
        r#"
[task.first]
partition = "daily"
command = 'echo "$REFRAIN_DATE,1" > "$REFRAIN_OUT"'
out.rows = "out/first/{date}.csv"
[task.second]
partition = "daily"
command = 'sed s/1/2/ "$REFRAIN_IN_ROWS" > "$REFRAIN_OUT"'
in.rows = { task = "first" }
out.rows = "out/second/{date}.csv"
"#,
    );
    scene.home.run(["run", "first", "--date", "2013-01-01"]).success();
    scene.check("second", &["--twice"]).repeatable();
}

#[test]
fn a_parameter_reaches_the_command() {
    let scene = Scene::of("clean");
    scene.check("sorted", &["--twice", "--param", "most=5"]).repeatable();
    let checked = scene.check("sorted", &["--twice", "--param", "most=none"]).ends(1, "could_not_be_checked");
    assert!(checked.verdict["failure"]["stderr"].as_str().unwrap().contains("none"), "{}", checked.output);
}
