//! SIGKILL at every named step of the protocol, for every shape of publication.

use crate::scene::{
    BIN, BOTH_NEW, BOTH_REPLACED, Case, DIRECTORY_NEW, DIRECTORY_REPLACED, FILE_NEW, FILE_REPLACED, Shape, check_ends,
    end_all, with_input,
};
use refrain::core::CrashPoint;
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;

const SIGKILL: i32 = 9;

/// The points as `REFRAIN_CRASH_AT` takes them, in the order in which a publication of the shape reaches them.
pub(crate) fn points(home: &Home, shape: Shape, task: &str) -> Vec<String> {
    let case = Case::new(home, shape, task);
    let told = case.crashing("?").run(case.publishing()).success();
    let reached: Vec<&str> = told.stderr.lines().filter_map(|line| line.strip_prefix("reached ")).collect();
    for point in points_of_files() {
        assert!(reached.contains(&point.name()), "no publication of {shape:?} reaches {point}\n{told}");
    }
    let mut points: Vec<String> = vec![];
    for name in reached {
        let times = 1 + points.iter().filter(|point| point.split('#').next() == Some(name)).count();
        points.push(format!("{name}#{times}"));
    }
    points
}

/// Every point but those of databases and buckets, which the tests of tables and of objects kill at.
fn points_of_files() -> impl Iterator<Item = &'static CrashPoint> {
    let of_others = [
        CrashPoint::BeforeDatabaseCommit,
        CrashPoint::AfterDatabaseCommit,
        CrashPoint::AfterManifest,
        CrashPoint::AfterUploadBegun,
        CrashPoint::BeforeCompletion,
    ];
    CrashPoint::ALL.iter().filter(move |point| !of_others.contains(point))
}

fn kill_at_every_point(shape: Shape) {
    // What a kill leaves does not depend on the disk; in memory there is time for all points.
    let memory = Mount::tmpfs(64);
    let home = with_input(Home::at(BIN, memory.path().join("home")));
    let points = points(&home, shape, "points");
    assert!(points.len() >= points_of_files().count());
    let cases: Vec<_> = (0..points.len()).map(|index| Case::new(&home, shape, format!("t{index}"))).collect();
    for (case, point) in cases.iter().zip(&points) {
        let watch = case.watch();
        case.crashing(&format!("{point}=kill")).run(case.publishing()).expect_signal(SIGKILL);
        end_all(watch, point);
        case.repeat(point);
    }
    check_killed(&home, &cases, &points);
}

fn check_killed(home: &Home, cases: &[Case<'_>], points: &[String]) {
    let mut all: Vec<_> = cases.iter().zip(points.iter().cloned()).collect();
    let counted = Case::standing(home, cases[0].shape, "points");
    all.push((&counted, "not killed".to_owned()));
    check_ends(home, &all);
}

#[test]
fn proc_04_a_new_file_survives_a_kill_at_every_point() {
    kill_at_every_point(FILE_NEW);
}

#[test]
fn proc_04_a_replaced_file_survives_a_kill_at_every_point() {
    kill_at_every_point(FILE_REPLACED);
}

#[test]
fn proc_04_a_new_directory_survives_a_kill_at_every_point() {
    kill_at_every_point(DIRECTORY_NEW);
}

#[test]
fn proc_04_a_replaced_directory_survives_a_kill_at_every_point() {
    kill_at_every_point(DIRECTORY_REPLACED);
}

#[test]
fn fs_11_two_new_outputs_survive_a_kill_at_every_point() {
    kill_at_every_point(BOTH_NEW);
}

#[test]
fn fs_11_two_replaced_outputs_survive_a_kill_at_every_point() {
    kill_at_every_point(BOTH_REPLACED);
}

#[test]
fn fs_11_a_rescuer_killed_on_its_way_is_rescued_too() {
    let home = with_input(Home::temp(BIN));
    // The anchor is committed, the second output is not: the next call rolls forward.
    let half = |task: String| {
        let case = Case::new(&home, BOTH_REPLACED, task);
        case.crashing("after-commit#1=kill").run(case.publishing()).expect_signal(SIGKILL);
        case
    };
    let case = half("points".to_owned());
    let told = case.crashing("?").run(case.plain()).success();
    let reached: Vec<&str> = told.stderr.lines().filter_map(|line| line.strip_prefix("reached ")).collect();
    assert!(reached.contains(&"after-rename"), "the second output is rolled forward\n{told}");
    assert!(!reached.contains(&"before-task"), "the task does not run again\n{told}");
    let times = |index: usize| reached.iter().take(index + 1).filter(|name| **name == reached[index]).count();
    let points: Vec<_> = (0..reached.len()).map(|index| format!("{}#{}", reached[index], times(index))).collect();
    let cases: Vec<_> = (0..points.len()).map(|index| half(format!("t{index}"))).collect();
    for (case, point) in cases.iter().zip(&points) {
        case.crashing(&format!("{point}=kill")).run(case.plain()).expect_signal(SIGKILL);
        case.repeat(&format!("rescuer killed at {point}"));
    }
    let records = case.records();
    for case in &cases {
        assert_eq!(records.state(&case.task).1, 2, "the decided generation stands");
    }
    check_killed(&home, &cases, &points);
}
