//! What is said of a bucket is true, and what somebody wrote by hand costs nothing that was published.

use crate::denied::scene;
use crate::scene::{Scene, Shape, text};
use refrain_testkit::freeze::wait_for;
use refrain_testkit::object::{Fault, Kind, When};

const DATE: &str = "2013-01-01";
const KEY: &str = "reports/2013-01-01.csv";

#[test]
fn ledg_08_what_was_published_is_kept_beside_what_somebody_wrote_over_it() {
    let scene = Scene::new(Kind::MiniStack, Shape::Object);
    scene.run(&["--date", DATE]).published();
    let published = scene.bucket.get(KEY).unwrap();
    scene.bucket.put(KEY, b"by hand");
    scene.run(&["--date", DATE, "--rerun"]).published();
    // One version is kept without grace: what became of it by hand is no further one.
    scene.tell(&["gc"]);
    let copies: Vec<_> = scene.bucket.keys("_refrain/data/").iter().filter_map(|key| scene.bucket.get(key)).collect();
    assert!(copies.contains(&b"by hand".to_vec()) && copies.contains(&published), "{copies:?}");
    let copy = scene.home.join("copy.csv").display().to_string();
    scene.tell(&["fetch", "flights", "report", &copy, "--date", DATE, "--version", "1"]);
    assert_eq!(std::fs::read(&copy).unwrap(), published);
    scene.tell(&["rollback", "flights", "--date", DATE]);
    assert_eq!(scene.bucket.get(KEY).unwrap(), published);
}

#[test]
fn tbl_07_gc_says_nothing_of_a_publication_that_is_underway() {
    let (scene, proxy) = scene(Shape::Prefix);
    proxy.on(When::method("GET").query("_refrain%2Fdata"), Fault::HoldBefore);
    let gc = scene.through(&proxy).spawn(["gc"]);
    wait_for("gc is about to list the objects", || proxy.held() == 1);
    scene.run(&["--date", DATE]).published();
    proxy.release();
    let gc = gc.wait().success();
    assert!(!gc.stderr.contains("by hand"), "{gc}");
}

#[test]
fn obj_11_gc_that_may_not_look_fails() {
    let (scene, proxy) = scene(Shape::Prefix);
    proxy.on(When::method("GET").query("list-type").each(), Fault::AnswerBefore(403));
    scene
        .through(&proxy)
        .run(["gc"])
        .expect_code(125)
        .says("what attempts left in the sink `prefix`")
        .says("denies access");
}

#[test]
fn obj_11_recover_that_may_not_look_does_not_say_that_nothing_was_published() {
    let (scene, proxy) = scene(Shape::Prefix);
    scene.refrain().env("REFRAIN_CRASH_AT", "after-commit").run(["run", "flights", "--date", DATE]);
    proxy.on(When::any().each(), Fault::AnswerBefore(403));
    let denied = scene.through(&proxy).run(["recover"]).expect_code(122).says("cannot be settled");
    denied.says("It is unknown whether the output was published");
    proxy.forget_rules();
    scene.tell(&["recover"]);
    scene.through(&proxy).run(["recover"]).success().says("the end of every attempt is known");
}

#[test]
fn obj_01_a_claim_that_is_open_leaves_no_doubt_about_the_output() {
    let (scene, proxy) = scene(Shape::Prefix);
    proxy.on(When::method("PUT").path("/slot/").each(), Fault::AnswerBefore(501));
    let call = scene.run_by(&scene.through(&proxy), &["--date", DATE]).nothing(125, "error");
    assert_eq!(text(&call.report["window"]), "nothing_published");
}

#[test]
fn an_endpoint_where_nobody_is_is_named_with_the_reason() {
    let (scene, proxy) = scene(Shape::Prefix);
    let port = proxy.port();
    let refrain = scene.through(&proxy);
    drop(proxy);
    let call = scene.run_by(&refrain, &["--date", DATE]).nothing(125, "error");
    call.says(&format!(":{port}: ")).says("refused");
}

#[test]
fn nothing_is_published_where_the_state_store_is() {
    let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
    let bucket = scene.bucket.url("");
    for (store, out) in [
        ("team/state/", "team/state/store.json"),
        ("team/state/", "team/state/key/"),
        ("team/state/", "team/"),
        ("team/state", "team/state/"),
        ("team/state", "team/state/key/"),
    ] {
        let store = format!("store = \"{bucket}{store}\"\n");
        let task = format!("[task.job]\ncommand = \"date > $REFRAIN_OUT\"\nout.out = \"{bucket}{out}\"\n");
        scene.home.config(&format!("{store}{task}"));
        scene.refrain().run(["run", "job", "--adopt"]).expect_code(125).says("meets the state store");
    }
    scene.home.config(&format!("store = \"{bucket}_refrain/data/\"\n"));
    scene.refrain().run(["status"]).expect_code(125).says("where outputs have their own objects").says("hint: ");
}
