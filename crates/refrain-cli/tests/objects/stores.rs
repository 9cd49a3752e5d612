//! Whole stories at each kind of store, and what a lost answer means there.

use crate::scene::{Scene, Shape, date};
use refrain_testkit::object::{Fault, HttpProxy, Kind, Tags, When};

const DATE: &str = "2013-01-01";

/// Publishes, publishes again, rolls back and cleans up.
fn story(kind: Kind) {
    for shape in [Shape::Prefix, Shape::Object, Shape::Both] {
        let scene = Scene::new(kind, shape);
        let context = format!("{shape:?} at {kind}");
        let first = scene.run(&["--date", DATE]).published();
        scene.run(&["--date", DATE]).already_published();
        let second = scene.run(&["--date", DATE, "--rerun"]).published();
        assert_eq!(scene.shown(DATE, &context).as_deref(), Some(second.text("attempt")));
        scene.tell(&["rollback", "flights", "--date", DATE]);
        // What is published again is the content of the first attempt.
        assert_eq!(scene.shown(DATE, &context).as_deref(), Some(first.text("attempt")), "{context}");
        let gc = scene.tell(&["gc"]);
        scene.has_no_leftover(&gc);
        let third = scene.run(&["--date", DATE, "--rerun"]).published();
        assert_eq!(scene.shown(DATE, &context).as_deref(), Some(third.text("attempt")));
        scene.ends(&[(DATE.to_owned(), context)]);
    }
}

#[test]
fn a_story_at_ministack() {
    story(Kind::MiniStack);
}

#[test]
fn a_story_at_seaweedfs() {
    story(Kind::SeaweedFs);
}

#[test]
fn a_story_at_azurite() {
    story(Kind::Azurite);
}

#[test]
fn a_story_at_google_cloud_storage() {
    story(Kind::Gcs);
}

/// Loses the answers of the writes that decide.
fn lose_answers(kind: Kind) {
    let faults = [
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::AnswerAfter(409),
        Fault::AnswerAfter(412),
        Fault::AnswerAfter(503),
        Fault::TwiceSecond,
    ];
    for shape in [Shape::Prefix, Shape::Object] {
        let scene = Scene::new(kind, shape);
        let proxy = HttpProxy::start(scene.bucket.server().port());
        scene.run(&["--date", "2014-01-01"]).published();
        let writes = match shape {
            Shape::Prefix => vec![("/slot/", 1), ("/manifest/", 1), ("/slot/", 2)],
            _ => vec![("/slot/", 2), ("reports/", 1), ("/slot/", 3)],
        };
        let mut cases = vec![];
        for (path, number) in writes {
            for fault in faults {
                let (date, context) = (date(cases.len()), format!("{fault:?} of write {number} to {path} at {kind}"));
                let path = if path == "reports/" { scene.at(path) } else { path.to_owned() };
                let before = proxy.faults();
                proxy.on(When::method("PUT").path(&path).nth(number), fault);
                let call = scene.run_by(&scene.through(&proxy), &["--date", &date]).published();
                assert_eq!(proxy.faults(), before + 1, "{context}");
                assert_eq!(scene.shown(&date, &context).as_deref(), Some(call.text("attempt")), "{context}");
                cases.push((date, context));
            }
        }
        assert_eq!(scene.executions(), cases.len() + 1);
        scene.ends(&cases);
    }
}

#[test]
fn obj_01_a_lost_answer_of_azurite_is_neither_a_loss_nor_a_second_publication() {
    lose_answers(Kind::Azurite);
}

#[test]
fn obj_01_a_lost_answer_of_google_cloud_storage_is_neither_a_loss_nor_a_second_publication() {
    lose_answers(Kind::Gcs);
}

#[test]
fn obj_01_a_lost_answer_of_seaweedfs_is_neither_a_loss_nor_a_second_publication() {
    lose_answers(Kind::SeaweedFs);
}

#[test]
fn obj_05_a_tag_is_no_digest_and_may_be_quoted_or_not() {
    for tags in [Tags::Bare, Tags::OfParts, Tags::Weak] {
        for shape in [Shape::Prefix, Shape::Object] {
            let scene = Scene::new(Kind::MiniStack, shape);
            let proxy = HttpProxy::start(scene.bucket.server().port());
            proxy.change_tags(tags);
            let by_proxy = scene.through(&proxy);
            let context = format!("{tags:?} {shape:?}");
            scene.run_by(&by_proxy, &["--date", DATE]).published();
            scene.run_by(&by_proxy, &["--date", DATE, "--rerun"]).published();
            scene.run_by(&by_proxy, &["--date", DATE]).already_published().never_says("changed");
            let status = by_proxy.run(["status", "flights", "--from", DATE, "--to", DATE]).success();
            assert!(!status.stdout.contains("changed"), "{context}\n{status}");
            proxy.on(When::method("PUT").path("/slot/").nth(2), Fault::AnswerAfter(412));
            scene.run_by(&by_proxy, &["--date", DATE, "--rerun"]).published();
            by_proxy.run(["gc"]).success();
            assert!(scene.shown(DATE, &context).is_some());
        }
    }
}
