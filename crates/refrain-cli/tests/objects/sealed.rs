//! OBJ-11, OBJ-07: what an attempt sealed and could not publish is published by `refrain recover` or the next run, without the
//! command, and stays there until then.

use crate::call::{assert_closes, finish, names, run_as};
use crate::denied::{commit, deny, scene};
use crate::scene::{SIGKILL, Scene, Shape, date, text};
use refrain_testkit::freeze::{kill, stop, wait_for, wake};
use refrain_testkit::object::{Fault, HttpProxy, Kind, When};
use refrain_testkit::program::{Output, Refrain, Running};
use serde_json::Value;

const DATE: &str = "2013-01-01";

/// What `why` says of a date.
fn why(scene: &Scene, date: &str) -> Value {
    let told = scene.tell(&["why", "flights", "--date", date, "--json"]);
    serde_json::from_str(&told.stdout).unwrap()
}

/// Everything in the area but the records.
fn kept(scene: &Scene) -> Vec<String> {
    ["_refrain/data/", "_refrain/manifest/"].iter().flat_map(|area| scene.bucket.keys(area)).collect()
}

fn recover(refrain: &Refrain) -> Output {
    refrain.run(["recover", "flights"])
}

/// The line that tells whose work was published.
fn told(maker: &str) -> String {
    format!("flights {DATE}: published what attempt {maker} had sealed; the command was not run")
}

/// Writes to a path of the bucket.
fn uploads(proxy: &HttpProxy) -> usize {
    let requests = proxy.take_requests().into_iter();
    requests.filter(|request| request.method == "PUT" && request.path.contains("/data/")).count()
}

#[test]
fn obj_11_recover_publishes_what_was_sealed_as_soon_as_it_may() {
    for shape in [Shape::Prefix, Shape::Object, Shape::Both] {
        let (scene, proxy) = scene(shape);
        let maker = deny(&scene, &proxy).text("attempt").to_owned();
        let executions = scene.executions();
        let sealed = kept(&scene);
        let foreseen = why(&scene, DATE);
        assert_eq!((text(&foreseen["would"]), text(&foreseen["sealed_by"])), ("recover".to_owned(), maker.clone()));
        // Denied again, and again.
        for _ in 0..2 {
            proxy.on(commit(shape), Fault::AnswerBefore(403));
            let denied = recover(&scene.through(&proxy)).expect_code(125);
            let denied = denied.says(&format!("what attempt {maker} sealed is kept")).says("denies access");
            assert_closes(&denied, "Nothing was published.");
            assert_eq!(scene.shown(DATE, "denied"), None);
            scene.tell(&["gc"]);
            assert_eq!(kept(&scene), sealed, "{shape:?}");
        }
        proxy.take_requests();
        recover(&scene.through(&proxy)).success().says(&told(&maker));
        assert_eq!((scene.executions(), uploads(&proxy)), (executions, 0), "{shape:?}");
        assert_eq!(scene.shown(DATE, "recovered").as_deref(), Some(&*maker), "{shape:?}");
        let newest = scene.log().remove(0);
        assert_eq!(newest["ending"]["outcome"], "published");
        let message = text(&newest["ending"]["message"]);
        assert_eq!(message, format!("sealed by attempt {maker}; the command was not run"));
        scene.run(&["--date", DATE]).already_published();
        recover(&scene.refrain()).success().says("nothing to recover");
        assert_eq!(text(&why(&scene, DATE)["would"]), "nothing");
        scene.ends(&[(DATE.to_owned(), format!("{shape:?} recovered"))]);
    }
}

#[test]
fn obj_11_the_report_of_a_run_tells_who_sealed_what_it_published() {
    let (scene, proxy) = scene(Shape::Prefix);
    let maker = deny(&scene, &proxy).text("attempt").to_owned();
    let line = scene.tell(&["backfill", "flights", "--from", DATE, "--to", DATE, "--dry-run"]);
    assert!(line.stdout.contains("\trecover\t") && line.stdout.contains("what an earlier attempt sealed"), "{line}");
    let rerun = scene.tell(&["backfill", "flights", "--from", DATE, "--to", DATE, "--dry-run", "--rerun"]);
    assert!(rerun.stdout.contains("\trun\t"), "{rerun}");
    assert!(deny(&scene, &proxy).report.get("sealed_by").is_none());
    let later = scene.run(&["--date", DATE]).published().says(&format!("publishing what attempt {maker} sealed"));
    assert_eq!(later.text("sealed_by"), maker);
    assert!(scene.run(&["--date", DATE, "--rerun"]).published().report.get("sealed_by").is_none());
}

#[test]
fn obj_11_a_new_version_that_was_sealed_is_recovered_beside_the_one_that_stands() {
    let (scene, proxy) = scene(Shape::Prefix);
    let first = scene.run(&["--date", DATE]).published().text("attempt").to_owned();
    proxy.on(commit(scene.shape), Fault::AnswerBefore(403));
    let denied = scene.run_by(&scene.through(&proxy), &["--date", DATE, "--rerun"]).nothing(125, "error");
    let maker = denied.text("attempt").to_owned();
    // A call that died since, which recovery settles before it publishes.
    let dying = scene.refrain().env("REFRAIN_CRASH_AT", "after-claim=kill");
    dying.run(["run", "flights", "--date", DATE]).expect_signal(SIGKILL);
    let executions = scene.executions();
    proxy.on(When::method("PUT").path("/slot/").nth(3), Fault::AnswerBefore(403));
    recover(&scene.through(&proxy)).expect_code(125).says("denies access");
    scene.tell(&["gc"]);
    assert_eq!(scene.shown(DATE, "denied").as_deref(), Some(&*first));
    // What ended last says that version 1 stands.
    proxy.on(When::method("PUT").path("/slot/").nth(2), Fault::HoldBefore);
    let dying = scene.through(&proxy).spawn(["recover"]);
    wait_for("the commit is held", || proxy.held() == 1);
    kill(dying.pid());
    dying.wait().expect_signal(SIGKILL);
    proxy.forget_rules();
    recover(&scene.refrain()).success().says(&told(&maker));
    proxy.release();
    wait_for("nothing is held", || proxy.held() == 0);
    assert_eq!((scene.shown(DATE, "recovered"), scene.executions()), (Some(maker), executions));
    scene.ends(&[(DATE.to_owned(), "a second version".to_owned())]);
}

#[test]
fn obj_11_gc_leaves_the_files_of_an_upload_that_died_until_it_is_recovered() {
    let (scene, proxy) = scene(Shape::Prefix);
    let by_proxy = scene.through(&proxy);
    proxy.on(When::method("PUT").path("part-1.csv"), Fault::HoldBefore);
    let running = by_proxy.spawn(["run", "flights", "--date", DATE]);
    wait_for("one object is held and the others are there", || {
        proxy.held() == 1 && scene.bucket.keys("_refrain/data/delays/dt=2013-01-01/").len() == 2
    });
    kill(running.pid());
    running.wait().expect_signal(SIGKILL);
    let maker = text(&scene.log()[0]["attempt"]);
    assert_eq!(text(&why(&scene, DATE)["sealed_by"]), maker);
    // Settled, fenced, and then denied.
    proxy.on(When::method("PUT").path("part-1.csv"), Fault::AnswerBefore(403));
    recover(&by_proxy).expect_code(125).says("denies access").says("is kept");
    scene.tell(&["gc"]);
    recover(&by_proxy).success().says(&told(&maker));
    assert_eq!(scene.executions(), 2);
    proxy.release();
    wait_for("nothing is held", || proxy.held() == 0);
    scene.ends(&[(DATE.to_owned(), "killed in mid-upload".to_owned())]);
}

#[test]
fn obj_11_of_what_was_sealed_gc_keeps_the_newest() {
    let (scene, proxy) = scene(Shape::Prefix);
    deny(&scene, &proxy);
    let one = kept(&scene).len();
    scene.declare("code = [\"make.sh\"]");
    let newest = deny(&scene, &proxy).text("attempt").to_owned();
    assert!(kept(&scene).len() > one);
    scene.tell(&["gc"]);
    assert_eq!(kept(&scene).len(), one);
    recover(&scene.refrain()).success().says(&told(&newest));
    scene.ends(&[(DATE.to_owned(), "sealed twice".to_owned())]);
}

#[test]
fn obj_11_what_is_sealed_goes_with_the_version_that_it_was_for() {
    let (scene, proxy) = scene(Shape::Prefix);
    deny(&scene, &proxy);
    let again = scene.run(&["--date", DATE, "--rerun"]).published();
    again.never_says("the command is not run");
    recover(&scene.refrain()).success().says("nothing to recover");
    scene.ends(&[(DATE.to_owned(), "made again on purpose".to_owned())]);
}

#[test]
fn obj_11_recover_publishes_what_a_run_would_and_nothing_else() {
    // Made by another code: a run makes it again.
    let (scene, proxy) = scene(Shape::Prefix);
    let maker = deny(&scene, &proxy).text("attempt").to_owned();
    let executions = scene.executions();
    let attempts = scene.log().len();
    scene.declare("code = [\"make.sh\"]");
    let told = recover(&scene.refrain()).success();
    let told = told.says(&format!("what attempt {maker} sealed is kept: it was made from something else"));
    assert!(told.stderr.contains(&format!("refrain run flights --date {DATE}")), "{told}");
    assert_eq!((scene.shown(DATE, "changed"), scene.log().len()), (None, attempts));
    let foreseen = why(&scene, DATE);
    assert_eq!((text(&foreseen["would"]), &foreseen["sealed_by"]), ("run".to_owned(), &Value::Null));
    // As it was.
    scene.declare("");
    recover(&scene.refrain()).success().says("the command was not run");
    assert_eq!(scene.executions(), executions);
    scene.ends(&[(DATE.to_owned(), "code that was changed".to_owned())]);
}

#[test]
fn obj_11_an_input_that_changed_means_to_recover_what_it_means_to_a_run() {
    for pin in ["copy", "verify"] {
        let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
        let proxy = HttpProxy::start(scene.bucket.server().port());
        scene.home.write("raw.csv", "1");
        scene.declare(&format!("in.raw = {{ path = \"raw.csv\", pin = \"{pin}\" }}"));
        scene.run(&["--date", "2014-01-01"]).published();
        deny(&scene, &proxy);
        let executions = scene.executions();
        scene.home.write("raw.csv", "22");
        if pin == "copy" {
            // The run has what it pinned.
            recover(&scene.refrain()).success().says("the command was not run");
            assert!(scene.shown(DATE, pin).is_some());
        } else {
            let refused = recover(&scene.refrain()).says("is kept, and cannot be published now");
            let run = scene.run(&["--date", DATE]);
            assert_eq!((refused.code, scene.shown(DATE, pin)), (run.output.code, None), "{refused}\n{}", run.output);
            let message = text(&run.report["error"]["message"]);
            assert!(refused.stderr.contains(&message), "{refused}\n{}", run.output);
            // With the original it is published.
            scene.home.write("raw.csv", "1");
        }
        recover(&scene.refrain()).success();
        assert_eq!(scene.executions(), executions, "{pin}");
        scene.ends(&[(DATE.to_owned(), pin.to_owned())]);
    }
}

#[test]
fn obj_11_what_a_command_made_that_is_not_declared_waits_for_its_repetition() {
    let (scene, proxy) = scene(Shape::Prefix);
    let out = format!("parts={}", scene.bucket.url("other/dt={date}/"));
    let flags = ["other", "--date", DATE, "--out", &out];
    let run = |refrain: &Refrain| run_as(&scene.home, refrain, &flags, "sh make.sh");
    proxy.on(commit(Shape::Prefix), Fault::AnswerBefore(403));
    let maker = run(&scene.through(&proxy)).nothing(125, "error").text("attempt").to_owned();
    let executions = scene.executions();
    let recovered = scene.tell(&["recover"]);
    let recovered = recovered.says(&format!("other {DATE}: not published; what attempt {maker} sealed is kept"));
    recovered.says("refrain run other … -- COMMAND");
    scene.tell(&["gc"]);
    let foreseen = scene.tell(&["why", "other", "--partition", DATE]);
    assert!(foreseen.stdout.contains(&format!("attempt {maker} sealed what it made")), "{foreseen}");
    run(&scene.refrain()).published().says("the command is not run");
    assert_eq!(scene.executions(), executions);
    let gc = scene.tell(&["gc"]);
    scene.has_no_leftover(&gc);
}

#[test]
fn obj_11_with_a_file_beside_it_the_command_makes_all_again_and_is_said_to() {
    let (scene, proxy) = scene(Shape::PrefixAndFile);
    deny(&scene, &proxy);
    let foreseen = why(&scene, DATE);
    assert_eq!((text(&foreseen["would"]), &foreseen["sealed_by"]), ("run".to_owned(), &Value::Null), "{foreseen}");
    recover(&scene.refrain()).success().says("nothing to recover");
    let executions = scene.executions();
    scene.run(&["--date", DATE]).published().never_says("the command is not run");
    assert_eq!(scene.executions(), executions + 1);
    scene.ends(&[(DATE.to_owned(), "a file beside it".to_owned())]);
}

#[test]
fn obj_11_recoveries_and_runs_at_once_publish_once() {
    for shape in [Shape::Prefix, Shape::Both] {
        let (scene, proxy) = scene(shape);
        deny(&scene, &proxy);
        let executions = scene.executions();
        let recoveries: Vec<_> = (0..3).map(|_| scene.refrain().spawn(["recover"])).collect();
        let runs: Vec<_> =
            (0..3).map(|_| scene.refrain().spawn(["run", "flights", "--date", DATE, "--wait"])).collect();
        let recoveries: Vec<_> = recoveries.into_iter().map(|call| call.wait().success()).collect();
        let runs: Vec<_> = runs.into_iter().map(|call| call.wait().success()).collect();
        let recovered = recoveries.iter().filter(|call| call.stderr.contains("published what attempt")).count();
        let published = runs.iter().filter(|call| call.stderr.contains("\npublished: ")).count();
        assert_eq!(recovered + published, 1, "{recoveries:?}\n{runs:?}");
        assert_eq!(scene.executions(), executions);
        scene.ends(&[(DATE.to_owned(), format!("{shape:?} raced"))]);
    }
}

#[test]
fn obj_07_recover_survives_a_kill_at_every_point() {
    for shape in [Shape::Both, Shape::Prefix] {
        let (scene, proxy) = scene(shape);
        deny(&scene, &proxy);
        let told = scene.refrain().env("REFRAIN_CRASH_AT", "?").run(["recover"]).success();
        let names: Vec<_> = told.stderr.lines().filter_map(|line| line.strip_prefix("reached ")).collect();
        assert!(names.contains(&"before-commit") && names.contains(&"after-finish"), "{told}");
        let mut cases = vec![(DATE.to_owned(), "not killed".to_owned())];
        for (index, name) in names.iter().enumerate() {
            let times = names[..=index].iter().filter(|other| *other == name).count();
            let (date, context) = (date(index + 1), format!("{shape:?}: recover is killed at {name}#{times}"));
            proxy.on(commit(shape), Fault::AnswerBefore(403));
            scene.run_by(&scene.through(&proxy), &["--date", &date]).nothing(125, "error");
            let executions = scene.executions();
            let dying = scene.refrain().env("REFRAIN_CRASH_AT", format!("{name}#{times}=kill"));
            dying.run(["recover"]).expect_signal(SIGKILL);
            scene.tell(&["gc"]);
            scene.tell(&["recover"]);
            assert_eq!(scene.executions(), executions, "{context}");
            assert!(scene.shown(&date, &context).is_some(), "{context}");
            cases.push((date, context));
        }
        scene.ends(&cases);
    }
}

#[test]
fn obj_07_at_the_other_stores_recover_publishes_what_a_killed_call_sealed() {
    for kind in [Kind::SeaweedFs, Kind::Azurite, Kind::Gcs] {
        let scene = Scene::new(kind, Shape::Both);
        let dying = scene.refrain().env("REFRAIN_CRASH_AT", "before-commit=kill");
        dying.run(["run", "flights", "--date", DATE]).expect_signal(SIGKILL);
        let maker = text(&scene.log()[0]["attempt"]);
        recover(&scene.refrain()).success().says(&told(&maker));
        assert_eq!((scene.shown(DATE, "recovered"), scene.executions()), (Some(maker), 1), "{kind:?}");
        scene.ends(&[(DATE.to_owned(), format!("{kind:?}"))]);
    }
}

#[test]
fn lease_02_a_call_that_slept_past_its_lease_takes_nothing_over_from_its_successor() {
    let (scene, proxy) = scene(Shape::Prefix);
    deny(&scene, &proxy);
    let executions = scene.executions();
    // It has looked which work there is, and is about to read whose it is.
    proxy.on(When::method("GET").path("/manifest/").nth(2), Fault::HoldBefore);
    let report = scene.home.join("slept.json").display().to_string();
    let call = ["run", "flights", "--date", DATE, "--ttl", "1s", "--report", &report];
    let running: Running = scene.through(&proxy).spawn(call);
    wait_for("the manifest is asked for", || proxy.held() == 1);
    stop(running.pid());
    scene.run(&["--date", DATE, "--wait"]).published().says("the command is not run");
    let shown = scene.shown(DATE, "overtaken");
    assert!(shown.is_some());
    proxy.release();
    wait_for("nothing is held", || proxy.held() == 0);
    wake(running.pid());
    let woken = finish((running, report));
    assert_eq!((woken.output.code, woken.text("outcome")), (Some(121), "fenced"), "{}", woken.output);
    assert_eq!((scene.shown(DATE, "woken"), scene.executions()), (shown, executions));
    let status = scene.tell(&["status", "flights"]);
    assert!(!status.stdout.contains("drifted"), "{status}");
    scene.ends(&[(DATE.to_owned(), "slept".to_owned())]);
}

#[test]
fn obj_07_outputs_that_two_attempts_sealed_are_never_published_together() {
    let (scene, proxy) = scene(Shape::Both);
    let place = scene.bucket.url("reports/");
    // One output of the first call is sealed; the other is on its way.
    let report = When::method("PUT").path("/data/reports/");
    proxy.on(report, Fault::HoldBefore);
    let running = scene.through(&proxy).spawn(["run", "flights", "--date", DATE]);
    wait_for("the other output is held", || proxy.held() == 1);
    kill(running.pid());
    running.wait().expect_signal(SIGKILL);
    // The second one does not find the file, as it would not on another host, and dies with one output sealed.
    let objects = scene.home.join(".refrain/objects");
    let hidden = names(&objects).into_iter().find(|name| !name.starts_with("proved-")).expect("a staging directory");
    std::fs::rename(objects.join(&hidden), scene.home.join("hidden")).unwrap();
    scene
        .refrain()
        .env("REFRAIN_CRASH_AT", "after-seal=kill")
        .run(["run", "flights", "--date", DATE])
        .expect_signal(SIGKILL);
    std::fs::rename(scene.home.join("hidden"), objects.join(&hidden)).unwrap();
    scene.run(&["--date", DATE]).published();
    // Not mixed.
    assert!(scene.shown(DATE, &place).is_some());
    proxy.forget_rules();
    proxy.cut_all();
    scene.ends(&[(DATE.to_owned(), "one output each".to_owned())]);
}

#[test]
fn obj_11_why_foresees_what_stands_in_the_way_of_a_run() {
    let mut scene = Scene::new(Kind::MiniStack, Shape::Prefix);
    let published = scene.run(&["--date", DATE]).published().text("attempt").to_owned();
    let refused = |scene: &Scene, what: &str| {
        let foreseen = why(scene, DATE);
        assert_eq!(text(&foreseen["would"]), "refuse", "{foreseen:#}");
        let run = scene.run(&["--date", DATE]).nothing(125, "refused").says(what);
        let message = text(&run.report["error"]["message"]);
        let because: Vec<String> = foreseen["because"].as_array().unwrap().iter().map(text).collect();
        assert!(because.iter().any(|line| message.contains(line.as_str())), "{because:#?}\n{message}");
    };
    // Another home, which shares the bucket and not the store.
    let second = Scene::of(scene.bucket.clone(), Shape::Prefix);
    refused(&second, "this home's store does not replace");
    let line = second.tell(&["backfill", "flights", "--from", DATE, "--to", DATE, "--dry-run"]);
    assert!(line.stdout.contains("\trefuse\t"), "{line}");
    // A further output, at whose place something stands.
    scene.bucket.put(&format!("reports/{DATE}.csv"), b"theirs");
    scene.shape = Shape::Both;
    scene.declare("");
    refused(&scene, "exists and was not published by refrain");
    assert_eq!(text(&why(&scene, DATE)["next"]), format!("refrain run flights --date {DATE} --adopt"));
    scene.run(&["--date", DATE, "--adopt"]).published();
    assert_ne!(scene.shown(DATE, "adopted"), Some(published));
    assert_eq!(text(&why(&scene, DATE)["would"]), "nothing");
}
