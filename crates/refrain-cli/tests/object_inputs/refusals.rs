//! What cannot be read, and what is told of it.

use super::{DATE, Scene, fails};
use refrain_testkit::object::Kind;

#[test]
fn a_missing_object_is_named_with_the_nearest_before_and_the_next_command() {
    let scene = Scene::new(Kind::MiniStack);
    scene.declare(&scene.url("raw/{date}.csv"), "");
    scene.bucket.put("raw/2012-12-30.csv", b"1\n");
    let url = scene.bucket.url(&format!("raw/{DATE}.csv"));
    fails(
        &scene.job(&[]),
        &[
            &url,
            "does not exist",
            "`in.in = ",
            "the newest that is there before is of 2012-12-30",
            "refrain run job --date 2013-01-01",
        ],
    );
    scene.declare(&scene.url("raw/dt={date}/"), "");
    fails(&scene.job(&[]), &["does not exist: there is no object below it"]);
    let why = scene.refrain_for("why", "job", &[]).success().stdout;
    assert!(why.contains("does not exist"), "{why}");
}

#[test]
fn ways_of_pinning_that_are_for_files_and_patterns_are_refused() {
    let scene = Scene::new(Kind::MiniStack);
    for mode in ["reflink", "link"] {
        scene.declare(&format!("{{ path = {}, pin = \"{mode}\" }}", scene.url("raw/{date}.csv")), "");
        fails(&scene.job(&[]), &[&format!("`pin = \"{mode}\"` is for files"), "pin = \"verify\""]);
    }
    scene.declare(&scene.url("raw/{date}*.csv"), "");
    fails(&scene.job(&[]), &["objects are not read by patterns", "ends with `/`"]);
}

#[test]
fn a_task_reads_neither_what_it_publishes_itself_nor_the_area() {
    let scene = Scene::new(Kind::MiniStack);
    for (input, output) in [
        ("lake/dt={date}/", "lake/dt={date}/"),
        ("lake/", "lake/dt={date}/"),
        ("lake/dt={date}/x.csv", "lake/dt={date}/"),
        ("lake/{date}.csv", "lake/{date}.csv"),
        ("lake/2012-12-31.csv", "lake/{date}.csv"),
    ] {
        scene.home.config(&format!(
            "[task.job]\npartition = \"daily\"\ncommand = \"true\"\nin.in = {}\nout.out = {}\n",
            scene.url(input),
            scene.url(output)
        ));
        fails(&scene.job(&[]), &["reads what the task itself publishes"]);
    }
    for input in ["_refrain/", "_refrain/data/x/", ""] {
        scene.declare(&scene.url(input), "");
        fails(&scene.job(&[]), &["where Refrain keeps heads and versions"]);
    }
}

#[test]
fn a_prefix_that_another_task_publishes_is_read_as_its_publication() {
    let scene = Scene::new(Kind::MiniStack);
    let (made, read) = (scene.url("lake/dt={date}/"), scene.url("lake/dt={date}/"));
    scene.home.config(&format!(
        "[task.made]\npartition = \"daily\"\ncommand = \"echo 1 > $REFRAIN_OUT/x\"\nout.made = {made}\n\
         [task.job]\npartition = \"daily\"\ncommand = \"cp $REFRAIN_IN_IN/x $REFRAIN_OUT\"\nin.in = {read}\n\
         out.out = \"out/{{date}}.txt\"\n"
    ));
    scene.refrain_for("run", "made", &[]).success();
    fails(&scene.job(&[]), &["task `made` publishes to it", "in.in = { task = \"made\" }"]);
}

#[test]
fn a_name_that_is_an_object_and_a_directory_cannot_be_copied() {
    let scene = Scene::new(Kind::MiniStack);
    scene.bucket.put("raw/a", b"1");
    scene.bucket.put("raw/a/b", b"2");
    scene.declare(&scene.url("raw/"), "");
    fails(&scene.job(&[]), &["`a` is an object and there are others below it", "pin = \"verify\""]);
}
