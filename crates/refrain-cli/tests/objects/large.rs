//! Single objects that are too large for one request: they go in parts, and the request that makes an object of those
//! decides.

use crate::call::finish;
use crate::scene::{PADDING, SIGKILL, Scene, Shape, date};
use refrain_testkit::freeze::{state, wait_for, wake};
use refrain_testkit::object::{Fault, HttpProxy, Kind, When};
use refrain_testkit::program::Running;
use std::fs;

const DATE: &str = "2013-01-01";

/// The key of the object of [`DATE`].
const KEY: &str = "reports/2013-01-01.csv";

fn scene(kind: Kind) -> (Scene, HttpProxy) {
    let scene = Scene::new(kind, Shape::Large);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    (scene, proxy)
}

/// Starts a call that stops at a point, and waits until it stands still there.
fn stop_at(scene: &Scene, point: &str, flags: &[&str]) -> (Running, String) {
    let report = scene.home.join("stopped.json").display().to_string();
    let stopping = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop"));
    let running = stopping.spawn([&["run", "flights", "--date", DATE, "--report", &report], flags].concat());
    wait_for(point, || state(running.pid()) == Some('T'));
    (running, report)
}

/// Publishes, reads by every command, publishes again, and rolls back.
fn story(kind: Kind) {
    let (scene, _) = scene(kind);
    let first = scene.run(&["--date", DATE]).published();
    assert_eq!(scene.bucket.metadata(KEY, "refrainattempt").as_deref(), Some(first.text("attempt")));
    assert_eq!(scene.bucket.metadata(KEY, "refrainversion").as_deref(), Some("1"));
    scene.run(&["--date", DATE]).already_published().never_says("changed");
    let second = scene.run(&["--date", DATE, "--rerun"]).published();
    assert_eq!(scene.shown(DATE, "replaced").as_deref(), Some(second.text("attempt")));
    let shown = scene.tell(&["show", &scene.bucket.url(KEY)]);
    assert!(shown.stdout.contains(second.text("attempt")), "{shown}");
    let (current, former) = (scene.home.join("current.csv"), scene.home.join("former.csv"));
    scene.tell(&["fetch", "flights", "--date", DATE, current.to_str().unwrap()]);
    assert_eq!(fs::read(&current).ok(), scene.bucket.get(KEY));
    scene.tell(&["fetch", "flights", "--date", DATE, "--version", "1", former.to_str().unwrap()]);
    let line = format!("{DATE} 0 {}\n", first.text("attempt"));
    assert_eq!(fs::read(&former).unwrap()[..line.len()], *line.as_bytes());
    scene.tell(&["rollback", "flights", "--date", DATE]);
    assert_eq!(scene.shown(DATE, "rolled back").as_deref(), Some(first.text("attempt")));
    let gc = scene.tell(&["gc"]);
    scene.has_no_leftover(&gc);
}

#[test]
fn obj_10_a_large_object_is_published_read_and_rolled_back() {
    story(Kind::MiniStack);
    story(Kind::SeaweedFs);
}

/// Does faults to each request that a large object has more than a small one.
fn fault_at(kind: Kind, faults: &[Fault]) {
    let (scene, proxy) = scene(kind);
    scene.run(&["--date", "2014-01-01"]).published();
    let object = scene.at("reports/");
    let requests = [
        ("the upload is begun", When::method("POST").path(&object).query("uploads")),
        ("the record names the upload", When::method("PUT").path("/slot/").nth(3)),
        ("a part is sent", When::method("PUT").path(&object).query("partNumber=2")),
        ("the upload is completed", When::method("POST").path(&object).query("uploadId=")),
        ("an upload is ended", When::method("DELETE").path(&object)),
        ("the record tells it", When::method("PUT").path("/slot/").nth(4)),
    ];
    let (mut cases, mut untold) = (vec![], 0);
    for (what, when) in requests {
        for fault in faults {
            let (date, context) = (date(cases.len()), format!("{fault:?} when {what} at {kind}"));
            let (executions, before) = (scene.executions(), proxy.faults());
            proxy.on(when.clone(), *fault);
            let call = scene.run_by(&scene.through(&proxy), &["--date", &date]);
            assert_eq!(proxy.faults(), before + 1, "{context}");
            assert_eq!(call.output.code, Some(0), "{context}\n{}", call.output);
            assert_eq!(scene.executions(), executions + 1, "{context}");
            assert_eq!(scene.shown(&date, &context).as_deref(), Some(call.published().text("attempt")), "{context}");
            // An upload whose id no answer told has no bytes, and is left to the bucket's own rule.
            let left = scene.bucket.uploads();
            let told = !what.ends_with("begun") || *fault == Fault::CutBefore;
            assert_eq!(left.len(), usize::from(!told), "{context}: {left:?}");
            untold += left.len();
            for (key, id) in left {
                scene.bucket.end_upload(&key, &id);
            }
            cases.push((date, context));
        }
    }
    assert!(untold > 0);
    scene.repeat_all(&cases);
    scene.ends(&cases);
}

#[test]
fn obj_01_a_large_object_is_published_once_whatever_is_done_to_a_request() {
    fault_at(
        Kind::MiniStack,
        &[Fault::CutBefore, Fault::CutAfter, Fault::AnswerAfter(412), Fault::AnswerAfter(503), Fault::TwiceSecond],
    );
}

#[test]
fn obj_01_a_large_object_is_published_once_at_another_store() {
    fault_at(Kind::SeaweedFs, &[Fault::CutBefore, Fault::CutAfter]);
}

#[test]
fn tbl_01_a_completion_that_lands_after_a_successor_changes_nothing() {
    for kind in [Kind::MiniStack, Kind::SeaweedFs] {
        let (scene, proxy) = scene(kind);
        scene.run(&["--date", DATE]).published();
        proxy.on(When::method("POST").path(&scene.at("reports/")).query("uploadId="), Fault::Later);
        scene.run_by(&scene.through(&proxy), &["--date", DATE, "--rerun"]).published();
        assert_eq!(proxy.late(), 1);
        let successor = scene.run(&["--date", DATE, "--rerun"]).published();
        let status = proxy.deliver();
        let context = format!("a late completion at {kind} was answered by {status:?}");
        assert_eq!(scene.shown(DATE, &context).as_deref(), Some(successor.text("attempt")), "{context}");
        scene.ends(&[(DATE.to_owned(), context)]);
    }
}

#[test]
fn obj_02_of_racers_with_a_large_object_one_publishes() {
    let (scene, _) = scene(Kind::MiniStack);
    for round in 0..2 {
        let date = date(round);
        let (executions, racers) = (scene.executions(), if round == 0 { 2 } else { 4 });
        if round == 1 {
            // They find what a dead call left, and all carry it out.
            let killed = scene.refrain().env("REFRAIN_CRASH_AT", "before-completion=kill");
            killed.run(["run", "flights", "--date", &date]).expect_signal(SIGKILL);
        }
        let calls: Vec<_> = (0..racers).map(|_| scene.refrain().spawn(["run", "flights", "--date", &date])).collect();
        for end in calls.into_iter().map(Running::wait) {
            assert!(matches!(end.code, Some(0 | 120)), "{end}");
        }
        assert_eq!(scene.executions(), executions + 1);
        scene.run(&["--date", &date]).already_published();
        scene.ends(&[(date, format!("round {round}"))]);
    }
}

#[test]
fn obj_02_calls_that_carry_one_intent_out_at_once_agree() {
    for kind in [Kind::MiniStack, Kind::SeaweedFs] {
        let (scene, _) = scene(kind);
        scene.run(&["--date", DATE]).published();
        let (stopped, report) = stop_at(&scene, "before-completion", &["--rerun"]);
        assert_eq!(scene.bucket.uploads().len(), 1);
        let other = scene.refrain().env("REFRAIN_CRASH_AT", "before-completion=stop");
        let other = other.spawn(["path", "flights", "--date", DATE]);
        wait_for("two have all parts", || state(other.pid()) == Some('T'));
        assert_eq!(scene.bucket.uploads().len(), 2);
        // The later one is first, and ends the upload of the other.
        wake(other.pid());
        other.wait().success();
        assert_eq!(scene.bucket.uploads().len(), 0);
        wake(stopped.pid());
        let woken = finish((stopped, report)).published();
        assert_eq!(scene.shown(DATE, "woken").as_deref(), Some(woken.text("attempt")), "{kind}");
        scene.ends(&[(DATE.to_owned(), format!("two at {kind}"))]);
    }
}

#[test]
fn an_object_that_is_changed_by_hand_while_a_large_one_is_sent_stays() {
    for (kind, replacing) in [(Kind::MiniStack, false), (Kind::MiniStack, true), (Kind::SeaweedFs, true)] {
        let (scene, _) = scene(kind);
        if replacing {
            scene.run(&["--date", DATE]).published();
        }
        let stopped = stop_at(&scene, "before-completion", &["--rerun"]);
        scene.bucket.put(KEY, b"by hand");
        wake(stopped.0.pid());
        finish(stopped).nothing(121, "fenced").says("changed by somebody else");
        assert_eq!(scene.bucket.get(KEY).as_deref(), Some(&b"by hand"[..]), "{kind} {replacing}");
        assert_eq!(scene.bucket.uploads(), vec![], "{kind} {replacing}");
        assert!(scene.records().values().all(|record| record["intent"].is_null()));
    }
}

#[test]
fn obj_07_what_was_sealed_and_changed_since_is_never_shown() {
    let (scene, _) = scene(Kind::MiniStack);
    let stopped = stop_at(&scene, "after-upload-begun", &[]);
    let sealed = scene.bucket.keys("_refrain/data/");
    let [sealed] = &sealed[..] else { panic!("{sealed:?}") };
    let size = scene.bucket.get(sealed).unwrap().len();
    scene.bucket.put(sealed, &vec![b'x'; size]);
    wake(stopped.0.pid());
    let woken = finish(stopped);
    assert_ne!(woken.output.code, Some(0), "{}", woken.output);
    assert_eq!(scene.bucket.get(KEY), None, "{}", woken.output);
    assert_eq!(scene.bucket.uploads(), vec![]);
    let again = scene.run(&["--date", DATE]).published();
    assert_eq!(scene.shown(DATE, "made again").as_deref(), Some(again.text("attempt")));
    scene.ends(&[(DATE.to_owned(), "changed after it was sealed".to_owned())]);
}

#[test]
fn obj_11_a_completion_that_is_denied_leaves_no_parts_and_is_made_later() {
    let (scene, proxy) = scene(Kind::MiniStack);
    scene.run(&["--date", "2014-01-01"]).published();
    let executions = scene.executions();
    proxy.on(When::method("POST").path(&scene.at("reports/")).query("uploadId=").each(), Fault::AnswerBefore(403));
    let by_proxy = scene.through(&proxy);
    for _ in 0..2 {
        let open = scene.run_by(&by_proxy, &["--date", DATE]);
        assert!(matches!(open.output.code, Some(122 | 125)), "{}", open.output);
        open.says("denies access");
        assert_eq!(scene.bucket.uploads(), vec![]);
    }
    proxy.forget_rules();
    scene.run_by(&by_proxy, &["--date", DATE]).already_published();
    assert_eq!(scene.executions(), executions + 1);
    scene.ends(&[(DATE.to_owned(), "denied".to_owned())]);
}

#[test]
fn obj_10_an_upload_that_the_bucket_ended_is_begun_anew() {
    let (scene, _) = scene(Kind::MiniStack);
    let stopped = stop_at(&scene, "before-completion", &[]);
    for (key, id) in scene.bucket.uploads() {
        scene.bucket.end_upload(&key, &id);
    }
    wake(stopped.0.pid());
    let woken = finish(stopped).published();
    assert_eq!(scene.shown(DATE, "begun anew").as_deref(), Some(woken.text("attempt")));
    scene.ends(&[(DATE.to_owned(), "begun anew".to_owned())]);
}

#[test]
fn obj_07_whoever_dies_again_and_again_leaves_few_uploads_and_gc_none() {
    let (scene, _) = scene(Kind::MiniStack);
    let killed = scene.refrain().env("REFRAIN_CRASH_AT", "after-upload-begun=kill");
    for _ in 0..11 {
        killed.run(["run", "flights", "--date", DATE]).expect_signal(SIGKILL);
    }
    assert_eq!(scene.bucket.uploads().len(), 8);
    scene.tell(&["recover"]);
    assert_eq!(scene.bucket.uploads(), vec![]);
    scene.run(&["--date", DATE]).already_published();
    assert_eq!(scene.executions(), 1);
    scene.ends(&[(DATE.to_owned(), "killed again and again".to_owned())]);
}

#[test]
fn obj_04_a_store_that_completes_whatever_the_condition_takes_no_large_object() {
    for condition in ["if-none-match", "if-match"] {
        let (scene, proxy) = scene(Kind::MiniStack);
        proxy.on(When::method("POST").header(condition, "").each(), Fault::StripConditions);
        let by_proxy = scene.through(&proxy);
        for _ in 0..2 {
            // It is not taken for proved.
            let refused = scene.run_by(&by_proxy, &["--date", DATE]).nothing(125, "error");
            refused.says("is ignored").says("docs/OBJECTS.md");
        }
        assert_eq!(scene.bucket.keys("reports/"), Vec::<String>::new());
        assert_eq!(scene.bucket.keys("_refrain/data/"), Vec::<String>::new());
        assert_eq!(scene.bucket.keys("_refrain/canary/"), Vec::<String>::new());
        assert_eq!(scene.bucket.uploads(), vec![]);
        // What needs no parts is published.
        scene.home.write("make.sh", "echo small > $REFRAIN_OUT\n");
        scene.run_by(&by_proxy, &["--date", DATE]).published();
    }
}

#[test]
fn obj_01_completions_are_tried_out_whatever_is_done_to_a_request() {
    let requests = [
        When::method("PUT").path("/canary/").query("partNumber"),
        When::method("POST").path("/canary/").query("uploadId=").nth(1),
        When::method("POST").path("/canary/").query("uploadId=").nth(3),
    ];
    for when in requests {
        for fault in [Fault::CutAfter, Fault::AnswerAfter(412), Fault::TwiceSecond] {
            let context = format!("{fault:?} of {when:?}");
            let (scene, proxy) = scene(Kind::MiniStack);
            // A small object tries out the rest.
            let make = scene.home.read("make.sh");
            scene.home.write("make.sh", "echo small > $REFRAIN_OUT\n");
            scene.run(&["--date", "2014-01-01"]).published();
            scene.home.write("make.sh", make);
            proxy.on(when.clone(), fault);
            let call = scene.run_by(&scene.through(&proxy), &["--date", DATE]);
            assert_eq!((call.output.code, proxy.faults()), (Some(0), 1), "{context}\n{}", call.output);
            assert_eq!(scene.bucket.keys("_refrain/canary/"), Vec::<String>::new(), "{context}");
            assert_eq!(scene.bucket.uploads(), vec![], "{context}");
        }
    }
}

#[test]
fn obj_10_stores_without_conditional_completions_refuse_a_large_object_before_it_is_uploaded() {
    for kind in [Kind::Azurite, Kind::Gcs] {
        let (scene, _) = scene(kind);
        let refused = scene.run(&["--date", DATE]).nothing(123, "refused");
        refused.says("at most 67108864 (64 MiB)").says("end the URL with `/`");
        assert_eq!(scene.bucket.keys("_refrain/data/"), Vec::<String>::new(), "{kind}");
        assert_eq!(scene.bucket.uploads(), vec![], "{kind}");
    }
}

#[test]
fn obj_10_a_large_object_takes_little_memory() {
    let (scene, _) = scene(Kind::MiniStack);
    let more = PADDING + (100 << 20);
    let make = scene.home.read("make.sh").replace(&PADDING.to_string(), &more.to_string());
    scene.home.write("make.sh", make);
    let stopped = stop_at(&scene, "after-record", &[]);
    let status = fs::read_to_string(format!("/proc/{}/status", stopped.0.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
    let kib: u64 = peak.trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 128 * 1024, "{peak}");
    wake(stopped.0.pid());
    finish(stopped).published();
}
