//! Versions that come back as files, and what is told of a URL.

use super::{DATE, Scene, fails};
use refrain_testkit::object::{Fault, HttpProxy, Kind, Server, When};
use std::fs;

fn both(scene: &Scene) {
    scene.home.config(&format!(
        "[task.job]\npartition = \"daily\"\nparam.text = \"one\"\n\
         command = 'mkdir -p $REFRAIN_OUT_TREE/d && echo $REFRAIN_PARAM_TEXT > $REFRAIN_OUT_TREE/d/x && echo $REFRAIN_PARAM_TEXT > $REFRAIN_OUT_FILE && \
         mkdir -p $REFRAIN_OUT_DIR/d && echo $REFRAIN_PARAM_TEXT > $REFRAIN_OUT_DIR/d/y && echo $REFRAIN_PARAM_TEXT > $REFRAIN_OUT_LOCAL'\n\
         out.tree = {}\nout.file = {}\nout.dir = \"out/{{date}}/\"\nout.local = \"out/{{date}}.txt\"\n",
        scene.url("lake/dt={date}/"),
        scene.url("reports/{date}.csv")
    ));
}

fn again(scene: &Scene) {
    let text = fs::read_to_string(scene.home.join("refrain.toml")).unwrap();
    scene.home.config(&text.replace("\"one\"", "\"two\""));
    scene.job(&["--if-changed"]).success();
}

#[test]
fn a_version_of_each_kind_comes_back_as_it_was_published() {
    let scene = Scene::new(Kind::MiniStack);
    both(&scene);
    scene.job(&[]).success();
    again(&scene);
    for (output, file) in [("tree", "/d/x"), ("file", ""), ("dir", "/d/y"), ("local", "")] {
        for (flags, text) in [(&[][..], "two\n"), (&["--version", "1"][..], "one\n")] {
            let into = format!("copy-{output}-{}", flags.len());
            scene.refrain_for("fetch", "job", &[&[output, &into][..], flags].concat()).success().says("is copied to");
            assert_eq!(scene.home.read(format!("{into}{file}")), text);
        }
    }
    let names = fs::read_dir(scene.home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().contains(".refrain-")), "nothing is left beside");
}

#[test]
fn nothing_is_overwritten_and_what_is_meant_must_be_said() {
    let scene = Scene::new(Kind::MiniStack);
    both(&scene);
    fails(&scene.refrain_for("fetch", "job", &["tree", "new"]), &["is not published", "refrain run job"]);
    scene.job(&[]).success();
    scene.home.write("there", "mine");
    fails(&scene.refrain_for("fetch", "job", &["tree", "there"]), &["exists, and nothing is overwritten"]);
    assert_eq!(scene.home.read("there"), "mine");
    fails(&scene.refrain_for("fetch", "job", &["new"]), &["several outputs", "tree, file, dir, local"]);
    fails(&scene.refrain_for("fetch", "job", &["none", "new"]), &["no output `none`"]);
    fails(
        &scene.refrain_for("fetch", "job", &["tree", "new", "--version", "9"]),
        &["version 9", "that can be read: 1"],
    );
    fails(&scene.refrain_for("fetch", "job", &["tree", "no/new"]), &["there is no directory"]);
    assert!(!scene.home.exists("new"));
}

#[test]
fn a_copy_that_is_not_what_was_published_gets_no_name() {
    let scene = Scene::new(Kind::MiniStack);
    both(&scene);
    scene.job(&[]).success();
    let key = scene.bucket.keys("_refrain/data/lake/").into_iter().find(|key| key.ends_with("/d/x")).unwrap();
    scene.bucket.put(&key, b"bad\n");
    fails(&scene.refrain_for("fetch", "job", &["tree", "new"]), &["is not what was published"]);
    assert!(!scene.home.exists("new"));
}

#[test]
fn a_fetch_that_is_killed_leaves_no_half_copy_under_the_name() {
    let scene = Scene::new(Kind::MiniStack);
    both(&scene);
    scene.job(&[]).success();
    let proxy = HttpProxy::start(Server::shared(Kind::MiniStack).port());
    let scene = scene.through(proxy.port());
    proxy.on(When::method("GET").path("/d/x"), Fault::HoldBefore);
    let running = scene.refrain().spawn(["fetch", "job", "tree", "new", "--date", DATE]);
    while proxy.held() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.kill();
    proxy.forget_rules();
    proxy.release();
    assert!(!scene.home.exists("new"));
    scene.refrain_for("fetch", "job", &["tree", "new"]).success();
    assert_eq!(scene.home.read("new/d/x"), "one\n");
}

#[test]
fn a_url_is_shown_like_a_path() {
    let scene = Scene::new(Kind::MiniStack);
    both(&scene);
    scene.job(&[]).success();
    again(&scene);
    for url in ["lake/dt=2013-01-01/", "lake/dt=2013-01-01", "reports/2013-01-01.csv"] {
        let shown = scene.refrain().run(["show", &scene.bucket.url(url)]).success().stdout;
        for text in ["published by refrain", "job 2013-01-01", "version      2", "what was published", "kept"] {
            assert!(shown.contains(text), "`{text}` is missing in:\n{shown}");
        }
    }
    let json = scene.refrain().run(["show", &scene.bucket.url("lake/dt=2013-01-01/"), "--json"]).success().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["task"], "job");
    fails(&scene.refrain().run(["show", &scene.bucket.url("lake/none/")]), &["nothing is published at"]);
    let paths = |flags: &[&str]| scene.refrain_for("path", "job", &[&["tree"], flags].concat()).success().stdout;
    let read =
        |url: &str| scene.bucket.get(url.trim().split_once("://").unwrap().1.split_once('/').unwrap().1).unwrap();
    assert_eq!(read(&paths(&[])), b"two\n");
    assert_eq!(read(&paths(&["--version", "1"])), b"one\n");
}
