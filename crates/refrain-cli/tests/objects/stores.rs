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
            _ => vec![("/slot/", 2), ("/reports/2013", 1), ("/slot/", 3)],
        };
        let mut cases = vec![];
        for (path, number) in writes {
            for fault in faults {
                let (date, context) = (date(cases.len()), format!("{fault:?} of write {number} to {path} at {kind}"));
                let path = if path.starts_with("/reports") { format!("/reports/{date}") } else { path.to_owned() };
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

/// More than goes up in one request.
const LARGE: usize = 17 * 1024 * 1024;

fn large(kind: Kind) -> Scene {
    let scene = Scene::new(kind, Shape::Prefix);
    scene.run(&["--date", "2014-01-01"]).published();
    scene.home.write(
        "make.sh",
        format!("echo x >> runs.log; yes \"$REFRAIN_ATTEMPT\" | head -c {LARGE} > \"$REFRAIN_OUT/large.csv\"\n"),
    );
    scene
}

/// The one object of a day, by its key; fails the test unless it is what was staged.
#[track_caller]
fn is_whole(scene: &Scene, date: &str, context: &str) -> String {
    let place = scene.tell(&["path", "flights", "--date", date]).stdout.trim_end().to_owned();
    let text = scene.read(&place).unwrap_or_else(|| panic!("{context}: {place} is not there"));
    let attempt = text.lines().next().expect("a line");
    assert_eq!(text.len(), LARGE, "{context}");
    assert!(text.lines().all(|line| line == attempt || attempt.starts_with(line)), "{context}");
    place[scene.bucket.url("").len()..].to_owned()
}

/// Faults at each request of an upload in parts.
fn fault_uploads(kind: Kind, requests: &[(&str, &str)]) {
    let scene = large(kind);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    let mut number = 0;
    for (method, query) in requests {
        for fault in [Fault::CutBefore, Fault::CutAfter, Fault::CutUpload, Fault::AnswerAfter(503), Fault::TwiceSecond]
        {
            // Ids that were told to nobody are left to the bucket's own rule.
            if query.starts_with("uploads") && fault != Fault::CutBefore {
                continue;
            }
            let (date, context) = (date(number), format!("{fault:?} of {method} {query} at {kind}"));
            let before = proxy.faults();
            proxy.on(When::method(method).path("/data/").query(query), fault);
            scene.run_by(&scene.through(&proxy), &["--date", &date]).published();
            assert_eq!(proxy.faults(), before + 1, "{context}");
            is_whole(&scene, &date, &context);
            number += 1;
        }
    }
    assert_eq!(scene.executions(), number + 1);
    scene.has_no_leftover(&scene.tell(&["gc"]));
}

#[test]
fn obj_10_the_last_request_of_an_upload_in_parts_may_lose_its_answer() {
    fault_uploads(Kind::Gcs, &[("POST", "uploads"), ("PUT", "partNumber=3"), ("POST", "uploadId=")]);
    fault_uploads(Kind::MiniStack, &[("POST", "uploads"), ("PUT", "partNumber=2"), ("POST", "uploadId=")]);
    fault_uploads(Kind::Azurite, &[("PUT", "comp=block&"), ("PUT", "comp=blocklist")]);
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

#[test]
fn obj_05_an_object_in_parts_is_not_taken_for_changed() {
    let scene = large(Kind::MiniStack);
    scene.run(&["--date", DATE]).published();
    let key = is_whole(&scene, DATE, "in parts");
    let tag = scene.bucket.header(&key, "etag").expect("a tag");
    assert!(tag.contains('-'), "{tag} is no tag of parts");
    scene.run(&["--date", DATE]).already_published().never_says("changed");
    scene.has_no_leftover(&scene.tell(&["gc"]));
}
