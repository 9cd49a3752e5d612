//! OBJ-11: rights that are missing are found before the task starts; and work that was sealed is not lost when its commit
//! is denied, or when its upload dies.

use crate::call::{Call, names};
use crate::scene::{SIGKILL, Scene, Shape, text};
use refrain_testkit::freeze::{kill, wait_for};
use refrain_testkit::object::{Fault, HttpProxy, Kind, When};

const DATE: &str = "2013-01-01";

/// The first write of a record that commits: the ones before claim each slot.
pub(crate) fn commit(shape: Shape) -> When {
    When::method("PUT").path("/slot/").nth(if shape == Shape::Both { 3 } else { 2 })
}

pub(crate) fn scene(shape: Shape) -> (Scene, HttpProxy) {
    let scene = Scene::new(Kind::MiniStack, shape);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    scene.run(&["--date", "2014-01-01"]).published();
    (scene, proxy)
}

/// Denies the commit of the day.
pub(crate) fn deny(scene: &Scene, proxy: &HttpProxy) -> Call {
    proxy.on(commit(scene.shape), Fault::AnswerBefore(403));
    let denied = scene.run_by(&scene.through(proxy), &["--date", DATE]).nothing(125, "error");
    let denied = denied.says("denies access").says("docs/OBJECTS.md");
    assert_eq!(scene.shown(DATE, "denied"), None);
    denied
}

#[test]
fn obj_11_what_was_sealed_is_published_later_when_the_commit_is_denied() {
    for shape in [Shape::Prefix, Shape::Object, Shape::Both] {
        let (scene, proxy) = scene(shape);
        deny(&scene, &proxy);
        // Denied again: it is handed on once more.
        deny(&scene, &proxy);
        scene.tell(&["gc"]);
        let executions = scene.executions();
        proxy.take_requests();
        let later = scene.run_by(&scene.through(&proxy), &["--date", DATE]).published();
        later.says("the command is not run");
        assert_eq!(scene.executions(), executions, "{shape:?}");
        let uploads = proxy
            .take_requests()
            .into_iter()
            .filter(|request| request.method == "PUT" && request.path.contains("/data/"));
        assert_eq!(uploads.count(), 0, "{shape:?}");
        scene.ends(&[(DATE.to_owned(), format!("{shape:?} denied"))]);
    }
}

#[test]
fn obj_11_what_was_made_from_something_else_is_made_again() {
    for change in ["code = [\"make.sh\"]", "param.size = \"2\"", "allow_empty = true"] {
        let (scene, proxy) = scene(Shape::Prefix);
        deny(&scene, &proxy);
        let executions = scene.executions();
        if change.starts_with("allow_empty") {
            // Another command.
            scene.home.config(&scene.home.read("refrain.toml").replace("sh make.sh", "sh ./make.sh"));
        } else {
            scene.declare(change);
        }
        scene.run(&["--date", DATE]).published().never_says("the command is not run");
        assert_eq!(scene.executions(), executions + 1, "{change}");
        scene.ends(&[(DATE.to_owned(), change.to_owned())]);
    }
}

#[test]
fn obj_11_a_later_write_of_the_manifest_does_not_undo_what_a_successor_made_of_it() {
    let (scene, proxy) = scene(Shape::Prefix);
    proxy.on(When::method("PUT").path("/manifest/"), Fault::Later);
    deny(&scene, &proxy);
    scene.run(&["--date", DATE]).published().says("the command is not run");
    assert_eq!(proxy.late(), 1);
    let status = proxy.deliver();
    assert!(scene.shown(DATE, &format!("{status:?}")).is_some());
    scene.ends(&[(DATE.to_owned(), "a manifest that came late".to_owned())]);
}

#[test]
fn obj_11_after_a_kill_in_the_middle_of_the_upload_only_the_rest_is_uploaded() {
    let (scene, proxy) = scene(Shape::Prefix);
    let by_proxy = scene.through(&proxy);
    // All but one object goes up; the next call, which takes that over, dies at the same place.
    for round in 1..=2 {
        proxy.on(When::method("PUT").path("part-1.csv"), Fault::HoldBefore);
        let running = by_proxy.spawn(["run", "flights", "--date", DATE]);
        wait_for("one object is held and the others are there", || {
            proxy.held() == round && scene.bucket.keys("_refrain/data/delays/dt=2013-01-01/").len() == 2
        });
        kill(running.pid());
        running.wait().expect_signal(SIGKILL);
        assert_eq!(scene.executions(), 2, "round {round}");
    }
    proxy.take_requests();
    scene.run_by(&by_proxy, &["--date", DATE]).published().says("the command is not run");
    let uploads: Vec<_> = proxy
        .take_requests()
        .into_iter()
        .filter(|request| request.method == "PUT" && request.path.contains("/data/"))
        .map(|request| request.path)
        .collect();
    assert!(uploads.len() == 1 && uploads[0].ends_with("part-1.csv"), "{uploads:?}");
    // The uploads of the dead calls, which come late, are of the same content.
    proxy.release();
    wait_for("nothing is held", || proxy.held() == 0);
    scene.ends(&[(DATE.to_owned(), "killed in mid-upload".to_owned())]);
}

#[test]
fn obj_11_sealed_work_that_cannot_be_made_whole_is_made_again() {
    let (scene, proxy) = scene(Shape::Prefix);
    proxy.on(When::method("PUT").path("part-1.csv"), Fault::HoldBefore);
    let running = scene.through(&proxy).spawn(["run", "flights", "--date", DATE]);
    wait_for("one object is held", || proxy.held() == 1);
    kill(running.pid());
    running.wait().expect_signal(SIGKILL);
    // Something wrote to the file after it was sealed, and did not change its size.
    let staged = names(&scene.home.join(".refrain/objects")).into_iter().find(|name| !name.starts_with("proved-"));
    let file = format!(".refrain/objects/{}/out/dt={DATE}/part-1.csv", staged.expect("a staging directory"));
    let changed = scene.home.read(&file).to_uppercase();
    scene.home.write(&file, changed);
    scene.run(&["--date", DATE]).published().never_says("the command is not run");
    assert_eq!(scene.executions(), 3);
    proxy.forget_rules();
    proxy.cut_all();
    scene.ends(&[(DATE.to_owned(), "a file that was changed".to_owned())]);
}

#[test]
fn obj_11_an_object_that_may_not_be_written_is_open_until_it_may() {
    let (scene, proxy) = scene(Shape::Object);
    let before = scene.executions();
    proxy.on(When::method("PUT").path(&scene.at("reports/")).each(), Fault::AnswerBefore(403));
    let by_proxy = scene.through(&proxy);
    for _ in 0..2 {
        let open = scene.run_by(&by_proxy, &["--date", DATE]);
        // The first decided it; the second could do nothing.
        assert!(matches!(open.output.code, Some(122 | 125)), "{}", open.output);
        open.says("denies access");
        scene.tell(&["gc", "--dry-run"]);
    }
    assert_eq!(scene.executions(), before + 1);
    proxy.forget_rules();
    // Whoever is let in finishes what was decided.
    scene.run_by(&by_proxy, &["--date", DATE]).already_published();
    assert_eq!(scene.executions(), before + 1);
    scene.ends(&[(DATE.to_owned(), "denied at the object".to_owned())]);
}

#[test]
fn tbl_01_while_it_is_unknown_whether_a_commit_landed_nothing_is_deleted() {
    for (fault, lands) in [(Fault::CutAfter, true), (Fault::CutBefore, false)] {
        let (scene, proxy) = scene(Shape::Prefix);
        let by_proxy = scene.through(&proxy);
        scene.run_by(&by_proxy, &["--date", "2014-01-02"]).published();
        let requests = proxy.take_requests();
        let commit = 1 + requests
            .iter()
            .rposition(|request| request.path.contains("/slot/") && request.method == "PUT")
            .unwrap() as u64;
        proxy.on(When::any().nth(commit), fault);
        proxy.on(When::any().nth(commit + 1).each(), Fault::CutBefore);
        let executions = scene.executions();
        let unknown = scene.run_by(&by_proxy, &["--date", DATE]).ends(122, "unknown", "unknown");
        scene.tell(&["gc"]);
        let next = scene.run(&["--date", DATE]);
        if lands {
            assert_eq!(next.already_published().report["outputs"].as_array().map(Vec::len), Some(1));
            assert_eq!(scene.shown(DATE, "landed").as_deref(), Some(unknown.text("attempt")));
        } else {
            next.published().says("the command is not run");
        }
        assert_eq!(scene.executions(), executions + 1, "{fault:?}");
        scene.ends(&[(DATE.to_owned(), format!("{fault:?}"))]);
    }
}

#[test]
fn obj_11_a_missing_right_is_found_before_the_task_starts() {
    let cases = [
        (When::method("PUT").path("/canary/"), "creating an object"),
        (When::method("GET").path("/canary/"), "reading an object"),
        (When::method("GET").query("list-type=2").query("canary"), "listing objects"),
        (When::method("POST").path("/canary/"), "beginning an upload in parts"),
        (When::method("DELETE").query("uploadId"), "aborting an upload in parts"),
        (When::method("POST").query("delete"), "deleting an object"),
    ];
    for (when, what) in cases {
        let scene = Scene::new(Kind::MiniStack, Shape::Both);
        let proxy = HttpProxy::start(scene.bucket.server().port());
        proxy.on(when.each(), Fault::AnswerBefore(403));
        let by_proxy = scene.through(&proxy);
        let refused = scene.run_by(&by_proxy, &["--date", DATE]).nothing(125, "error");
        refused.says(what).says("denies access").says("docs/OBJECTS.md").says(&scene.bucket.url(""));
        assert_eq!(scene.executions(), 0, "{what}");
        let checked = by_proxy.run(["check", "--sink", &scene.bucket.url("")]).expect_code(125);
        assert!(checked.stderr.contains(what), "{checked}");
        // With the right, the same call publishes.
        proxy.forget_rules();
        scene.run_by(&by_proxy, &["--date", DATE]).published();
        by_proxy.run(["check", "--sink", &scene.bucket.url("")]).success();
    }
}

#[test]
fn obj_04_and_tbl_05_a_store_that_ignores_conditions_is_refused() {
    for condition in ["if-none-match", "if-match"] {
        let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
        let proxy = HttpProxy::start(scene.bucket.server().port());
        proxy.on(When::method("PUT").header(condition, "").each(), Fault::StripConditions);
        let by_proxy = scene.through(&proxy);
        let refused = scene.run_by(&by_proxy, &["--date", DATE]).nothing(125, "error");
        refused.says("is ignored").says("docs/OBJECTS.md");
        assert_eq!(scene.executions(), 0);
        assert!(scene.records().values().all(|record| record["head"]["publication"].is_null()));
        by_proxy.run(["check", "--sink", &scene.bucket.url("")]).expect_code(125).says("is ignored");
        // It is not taken for proved.
        scene.run_by(&by_proxy, &["--date", DATE]).nothing(125, "error").says("is ignored");
    }
}

#[test]
fn obj_01_a_bucket_is_tried_out_whatever_is_done_to_a_request() {
    let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    let check = || scene.through(&proxy).run(["check", "--sink", &scene.bucket.url("")]);
    check().success();
    let requests = proxy.take_requests().len() as u64;
    for fault in [Fault::CutBefore, Fault::CutAfter, Fault::AnswerAfter(412), Fault::AnswerAfter(503)] {
        for number in 1..=requests {
            proxy.on(When::any().nth(number), fault);
            let checked = check();
            assert_eq!(checked.code, Some(0), "{fault:?} of request {number}\n{checked}");
        }
    }
    assert_eq!(proxy.faults(), 4 * requests);
    assert_eq!(scene.bucket.keys(""), Vec::<String>::new());
}

#[test]
fn obj_11_a_right_that_is_missing_where_the_object_lies_is_found_before_the_task_starts() {
    let scene = Scene::new(Kind::MiniStack, Shape::Object);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    let by_proxy = scene.through(&proxy);
    // Rights are given for the area alone.
    for method in ["PUT", "POST"] {
        proxy.on(When::method(method).path(&scene.at("reports/")).each(), Fault::AnswerBefore(403));
    }
    let refused = scene.run_by(&by_proxy, &["--date", DATE]).nothing(125, "error");
    refused
        .says("trying whether the output may be written")
        .says("denies access")
        .says(&scene.bucket.url("reports/2013-01-01.csv"));
    assert_eq!(scene.executions(), 0);
    proxy.forget_rules();
    proxy.take_requests();
    for date in [DATE, "2013-01-02"] {
        scene.run_by(&by_proxy, &["--date", date]).published();
    }
    let tried = proxy.take_requests().into_iter().filter(|request| request.method == "POST").count();
    assert_eq!((tried, scene.bucket.uploads().len()), (1, 0), "once for all dates, and nothing is left");
}

#[test]
fn what_becomes_of_a_version_that_was_changed_by_hand_is_told_as_it_is() {
    let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
    scene.run(&["--date", DATE]).published();
    let key = scene.bucket.keys("_refrain/data/").into_iter().find(|key| key.ends_with("part-0.csv")).unwrap();
    scene.bucket.put(&key, b"by hand");
    let told = scene.run(&["--date", DATE]).nothing(125, "refused").says("was changed by hand");
    told.never_says("is kept as a version").says("--rerun").says("it is not what was published");
    scene.run(&["--date", DATE, "--rerun"]).published();
    let back = scene.refrain().run(["rollback", "flights", "--date", DATE, "--to", "1"]).expect_code(125);
    back.says("is gone or was changed");
    // What was written over a single object is copied aside.
    let scene = Scene::new(Kind::MiniStack, Shape::Object);
    scene.run(&["--date", DATE]).published();
    scene.bucket.put("reports/2013-01-01.csv", b"by hand");
    scene.run(&["--date", DATE]).nothing(125, "refused").says("what stands there now is kept as a version");
    scene.run(&["--date", DATE, "--rerun"]).published();
    let shown = scene.tell(&["show", &scene.bucket.url("reports/2013-01-01.csv"), "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let kept = shown["versions"].as_array().unwrap().iter().filter(|version| version["edited"] == true);
    let place = kept.map(|version| text(&version["locations"][0])).next().expect("the one that was changed");
    assert_eq!(scene.read(&place).as_deref(), Some("by hand"));
}
