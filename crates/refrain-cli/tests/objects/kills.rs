//! SIGKILL of the program at every step of a publication to a bucket.

use crate::scene::{SIGKILL, Scene, Shape, date};
use refrain_testkit::object::Kind;

/// The points as `REFRAIN_CRASH_AT` takes them, in the order in which this call reaches them.
fn points(scene: &Scene, flags: &[&str]) -> Vec<String> {
    let told = scene.refrain().env("REFRAIN_CRASH_AT", "?").run([&["run", "flights"], flags].concat()).success();
    let mut points: Vec<String> = vec![];
    for name in told.stderr.lines().filter_map(|line| line.strip_prefix("reached ")) {
        let times = 1 + points.iter().filter(|point| point.split('#').next() == Some(name)).count();
        points.push(format!("{name}#{times}"));
    }
    let mut needed = vec!["before-task#1", "after-manifest#1", "after-seal#1", "before-commit#1", "after-commit#1"];
    if matches!(scene.shape, Shape::Object | Shape::Large | Shape::Both) {
        needed.extend(["after-intent#1", "before-record#1", "after-record#1"]);
    }
    if scene.shape == Shape::Large {
        needed.extend(["after-upload-begun#1", "before-completion#1"]);
    }
    for name in needed {
        assert!(points.iter().any(|point| point == name), "{name} is reached\n{told}");
    }
    points
}

/// Publishes a day for each point, kills the program there, and repeats the call once.
fn kill_everywhere(kind: Kind, shape: Shape, replacing: bool) {
    let scene = Scene::new(kind, shape);
    let points = points(&scene, &["--date", "2014-01-01"]);
    kill_at(&scene, &points.iter().map(String::as_str).collect::<Vec<_>>(), replacing);
}

fn kill_at(scene: &Scene, points: &[&str], replacing: bool) {
    let mut cases = vec![];
    for (index, point) in points.iter().enumerate() {
        let (date, context) = (date(index), format!("killed at {point}"));
        let mut flags = vec!["run", "flights", "--date", &date];
        if replacing {
            scene.run(&["--date", &date]).published();
            flags.push("--rerun");
        }
        let executions = scene.executions();
        scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill")).run(flags).expect_signal(SIGKILL);
        // Whoever only looks calls nothing a change by hand.
        let status = scene.tell(&["status", "flights", "--from", &date, "--to", &date]);
        assert!(!status.stdout.contains("changed"), "{context}\n{status}");
        let repeated = scene.run(&["--date", &date]);
        assert_eq!(repeated.output.code, Some(0), "{context}: the repeated call failed\n{}", repeated.output);
        assert!(scene.executions() <= executions + 2, "{context}");
        cases.push((date, context));
    }
    scene.ends(&cases);
}

#[test]
fn obj_07_a_new_prefix_survives_a_kill_at_every_point() {
    kill_everywhere(Kind::MiniStack, Shape::Prefix, false);
}

#[test]
fn obj_07_a_replaced_prefix_survives_a_kill_at_every_point() {
    kill_everywhere(Kind::MiniStack, Shape::Prefix, true);
}

#[test]
fn obj_07_a_new_object_survives_a_kill_at_every_point() {
    kill_everywhere(Kind::MiniStack, Shape::Object, false);
}

#[test]
fn obj_07_a_replaced_object_survives_a_kill_at_every_point() {
    kill_everywhere(Kind::MiniStack, Shape::Object, true);
}

#[test]
fn obj_07_a_large_object_survives_a_kill_at_every_point() {
    let scene = Scene::new(Kind::MiniStack, Shape::Large);
    let points = points(&scene, &["--date", "2014-01-01"]);
    // Those before the seal are the same for every size.
    let from = points.iter().position(|point| point == "after-manifest#1").unwrap();
    let points: Vec<_> = points[from..].iter().map(String::as_str).collect();
    kill_at(&scene, &points, true);
}

#[test]
fn obj_07_a_large_object_survives_kills_at_another_store() {
    let scene = Scene::new(Kind::SeaweedFs, Shape::Large);
    kill_at(&scene, &["after-upload-begun", "before-completion", "before-record"], false);
}

#[test]
fn obj_07_a_prefix_and_an_object_are_never_mixed_by_a_kill() {
    kill_everywhere(Kind::MiniStack, Shape::Both, false);
    kill_everywhere(Kind::MiniStack, Shape::Both, true);
}

#[test]
fn obj_07_a_prefix_and_a_file_are_never_mixed_by_a_kill() {
    kill_everywhere(Kind::MiniStack, Shape::PrefixAndFile, true);
}
