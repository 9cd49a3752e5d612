//! Killed everywhere, and started many times at once.

use crate::scene::Scene;
use refrain::core::CrashPoint;

#[test]
fn a_clean_task_survives_kills_at_every_step_and_moment() {
    let scene = Scene::of("clean");
    let checked = scene.check("awk", &["--kill", "--moments", "3", "--seed", "7"]).repeatable();
    let trial = &checked.verdict["trials"][0];
    let count = trial["count"].as_u64().unwrap();
    // A publication of files has no transaction of a database and no manifest in a bucket.
    let of_others = [
        CrashPoint::BeforeDatabaseCommit,
        CrashPoint::AfterDatabaseCommit,
        CrashPoint::AfterManifest,
        CrashPoint::AfterUploadBegun,
        CrashPoint::BeforeCompletion,
    ];
    let points: Vec<_> = CrashPoint::ALL.iter().filter(|point| !of_others.contains(point)).collect();
    assert!(count >= points.len() as u64 + 3, "{count} kills\n{}", checked.output);
    assert_eq!(checked.verdict["seed"], 7);
    for point in points {
        assert!(checked.output.stderr.contains(&format!("kill: at {point}#")), "{point}\n{}", checked.output);
    }
}

#[test]
fn a_task_that_cannot_begin_again_is_not_repaired_by_a_repetition() {
    let checked = Scene::of("faulty").check("fails_again", &["--kill", "--moments", "0"]);
    let checked = checked.finds(&["kill_not_repaired", "undeclared_write"], &["mkdir"]);
    // Before the command began, a kill left nothing of it.
    assert!(checked.verdict["findings"].to_string().contains("killed at after-task#1"), "{}", checked.output);
}

#[test]
fn a_race_has_one_winner() {
    let scene = Scene::with(
        r#"
[task.counted]
partition = "daily"
command = 'sleep 0.2; echo "$REFRAIN_DATE" > "$REFRAIN_OUT"'
out.report = "out/{date}.txt"
"#,
    );
    let checked = scene.check("counted", &["--race"]).repeatable();
    let told = checked.verdict["trials"][0]["varied"][0].as_str().unwrap().to_owned();
    assert!(told.starts_with("1 executed and published, "), "{told}");
}
