//! What is written beside a version for programs that know nothing of Refrain.

use super::{Scene, fails};
use refrain_testkit::object::Kind;

fn declare(scene: &Scene, readers: &str) {
    scene.home.config(&format!(
        "[task.job]\npartition = \"daily\"\n\
         command = 'mkdir $REFRAIN_OUT/d; echo 1 > $REFRAIN_OUT/d/x; echo 2 > $REFRAIN_OUT/y; : > $REFRAIN_OUT/_own'\n\
         out.tree = {{ path = {}{readers} }}\n",
        scene.url("lake/dt={date}/")
    ));
}

fn version_of(key: &str) -> String {
    key.split('/').find(|part| part.starts_with('v')).unwrap().to_owned()
}

#[test]
fn obj_08_on_request_a_version_has_a_symlink_manifest_and_a_mark_of_success() {
    let scene = Scene::new(Kind::MiniStack);
    declare(&scene, ", readers = [\"success\", \"symlink\"]");
    scene.job(&[]).success();
    let keys = scene.bucket.keys("_refrain/data/lake/");
    let version = version_of(&keys[0]);
    let prefix = format!("_refrain/data/lake/dt=2013-01-01/{version}/");
    let names: Vec<_> = keys.iter().map(|key| key.strip_prefix(&prefix).unwrap()).collect();
    assert_eq!(names, ["_SUCCESS", "_own", "_symlink_format_manifest/manifest", "d/x", "y"]);
    let manifest = scene.bucket.get(&format!("{prefix}_symlink_format_manifest/manifest")).unwrap();
    let lines = [scene.bucket.url(&format!("{prefix}d/x")), scene.bucket.url(&format!("{prefix}y"))];
    assert_eq!(String::from_utf8(manifest).unwrap(), format!("{}\n{}\n", lines[0], lines[1]));
    // They are no part of what was published.
    let paths = scene.refrain_for("path", "job", &[]).success().stdout;
    assert_eq!(paths.lines().count(), 3, "{paths}");
    scene.refrain_for("fetch", "job", &["new"]).success();
    assert!(scene.home.exists("new/d/x") && !scene.home.exists("new/_SUCCESS"));
    scene.refrain().run(["show", &scene.bucket.url("lake/dt=2013-01-01/")]).success().says("");
    let shown = scene.refrain().run(["show", &scene.bucket.url("lake/dt=2013-01-01/")]).success().stdout;
    assert!(shown.contains("what was published"), "{shown}");
}

#[test]
fn who_asks_for_other_readers_has_it_published_again() {
    let scene = Scene::new(Kind::MiniStack);
    declare(&scene, "");
    scene.job(&[]).success();
    scene.job(&["--if-changed"]).success();
    assert_eq!(scene.bucket.keys("_refrain/data/lake/").len(), 3);
    declare(&scene, ", readers = [\"success\"]");
    scene.job(&["--if-changed"]).success();
    assert_eq!(scene.bucket.keys("_refrain/data/lake/").len(), 3 + 4);
}

#[test]
fn readers_are_for_prefixes_and_have_names() {
    let scene = Scene::new(Kind::MiniStack);
    declare(&scene, ", readers = [\"succes\"]");
    fails(&scene.job(&[]), &["`task.job.out.tree.readers`", "did you mean \"success\"?"]);
    scene.home.config(
        "[task.job]\npartition = \"daily\"\ncommand = \"true\"\nout.x = { path = \"out/{date}/\", readers = [\"success\"] }\n",
    );
    fails(&scene.job(&[]), &["`readers` is for prefixes"]);
}
