//! OBJ-07, LEASE-02: what is taken over from an earlier attempt is one attempt's, and is taken from nobody who came later.

use crate::call::{finish, names};
use crate::scene::{SIGKILL, Scene, Shape};
use refrain_testkit::freeze::{kill, stop, wait_for, wake};
use refrain_testkit::object::{Fault, HttpProxy, Kind, When};
use refrain_testkit::program::Running;

const DATE: &str = "2013-01-01";

fn scene(shape: Shape) -> (Scene, HttpProxy) {
    let scene = Scene::new(Kind::MiniStack, shape);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    scene.run(&["--date", "2014-01-01"]).published();
    (scene, proxy)
}

#[test]
fn lease_02_a_call_that_slept_past_its_lease_takes_nothing_over_from_its_successor() {
    let (scene, proxy) = scene(Shape::Prefix);
    let dying = scene.refrain().env("REFRAIN_CRASH_AT", "before-commit=kill");
    dying.run(["run", "flights", "--date", DATE]).expect_signal(SIGKILL);
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
