//! OBJ-10: files that are too large for one request, whose uploads lose answers or are left by the dead.

use crate::scene::{SIGKILL, Scene, Shape, date};
use refrain_testkit::freeze::{kill, wait_for};
use refrain_testkit::object::{Fault, HttpProxy, Kind, When};

const DATE: &str = "2013-01-01";

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
fn obj_05_an_object_in_parts_is_not_taken_for_changed() {
    let scene = large(Kind::MiniStack);
    scene.run(&["--date", DATE]).published();
    let key = is_whole(&scene, DATE, "in parts");
    let tag = scene.bucket.header(&key, "etag").expect("a tag");
    assert!(tag.contains('-'), "{tag} is no tag of parts");
    scene.run(&["--date", DATE]).already_published().never_says("changed");
    scene.has_no_leftover(&scene.tell(&["gc"]));
}

#[test]
fn obj_10_uploads_that_a_dead_attempt_began_are_aborted_and_those_of_others_are_not() {
    // Killed before the manifest names the upload, and in the middle of its parts.
    for (method, what) in [("PUT", "/manifest/"), ("PUT", "large.csv")] {
        let scene = large(Kind::MiniStack);
        let foreign = scene.bucket.begin_upload("_refrain/data/delays/of-somebody-else.csv");
        let proxy = HttpProxy::start(scene.bucket.server().port());
        proxy.on(When::method(method).path(what), Fault::HoldBefore);
        let running = scene.through(&proxy).spawn(["run", "flights", "--date", DATE]);
        wait_for(what, || proxy.held() == 1);
        kill(running.pid());
        running.wait().expect_signal(SIGKILL);
        assert_eq!(scene.bucket.uploads().len(), 2, "{what}");
        // From other things, so that nothing is taken over.
        scene.declare("param.x = \"1\"");
        scene.run(&["--date", DATE]).published();
        is_whole(&scene, DATE, what);
        scene.tell(&["gc"]);
        let left: Vec<_> = scene.bucket.uploads().into_iter().map(|(_, id)| id).collect();
        assert_eq!(left, [foreign], "{what}");
    }
}

#[test]
fn obj_10_an_upload_that_the_bucket_ended_by_itself_is_made_again() {
    let scene = large(Kind::MiniStack);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    proxy.on(When::method("PUT").path("large.csv"), Fault::HoldBefore);
    let running = scene.through(&proxy).spawn(["run", "flights", "--date", DATE]);
    wait_for("a part is held", || proxy.held() == 1);
    kill(running.pid());
    running.wait().expect_signal(SIGKILL);
    let uploads = scene.bucket.uploads();
    let [(key, id)] = &uploads[..] else { panic!("{uploads:?}") };
    scene.bucket.end_upload(key, id);
    let executions = scene.executions();
    scene.run(&["--date", DATE]).published();
    assert_eq!(scene.executions(), executions + 1);
    is_whole(&scene, DATE, "ended by the bucket");
    scene.has_no_leftover(&scene.tell(&["gc"]));
}
