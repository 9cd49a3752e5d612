//! Tasks that write to the bucket themselves, as Spark and DuckDB do, and tasks that have nothing to say.

use crate::scene::{Scene, Shape};
use refrain_testkit::freeze::{send, wait_for};
use refrain_testkit::object::{Kind, python};
use rustix::process::Signal;

const DATE: &str = "2013-01-01";

/// Writes an object as a program would that knows nothing of refrain.
const PUT: &str = r#"
import os, sys, urllib.parse, urllib.request
place = urllib.parse.quote(sys.argv[1].removeprefix("s3://"))
request = urllib.request.Request(os.environ["AWS_ENDPOINT_URL"] + "/" + place, sys.argv[2].encode(), method="PUT")
urllib.request.urlopen(request).close()
"#;

/// Writes the three parts below the attempt's own URL.
const PARTS: &str = r#"
echo "$REFRAIN_ATTEMPT" >> runs.log
echo "$REFRAIN_OUT_PARTS_URL" >> urls.log
put() { "$PYTHON" put.py "$REFRAIN_OUT_PARTS_URL$1" "$REFRAIN_DATE $2 $REFRAIN_ATTEMPT" || exit 3; }
put part-0.csv 0
put part-1.csv 1
. ./hook.sh
put part-2.csv 2
"#;

/// A prefix whose task writes to the bucket itself; `hook` is what it does before its last part.
fn scene(hook: &str) -> Scene {
    let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
    scene.home.write("put.py", PUT);
    scene.home.write("make.sh", format!("PYTHON='{}'\n{PARTS}", python().display()));
    scene.home.write("hook.sh", hook);
    scene
}

/// The prefixes that the attempts wrote below, oldest first, as keys.
fn prefixes(scene: &Scene) -> Vec<String> {
    let length = scene.bucket.url("").len();
    scene.home.read("urls.log").lines().map(|url| url[length..].to_owned()).collect()
}

#[test]
fn spk_02_and_obj_07_what_a_failed_task_wrote_is_never_seen() {
    let scene = scene("exit 1");
    scene.run(&["--date", DATE]).nothing(1, "task_failed");
    assert_eq!(scene.shown(DATE, "failed"), None);
    assert_eq!(scene.bucket.keys("delays/"), Vec::<String>::new());
    // One that dies half way and says that all is well is refused by a guard.
    scene.home.write("hook.sh", "exit 0");
    scene.home.config(
        &scene
            .home
            .read("refrain.toml")
            .replace("out.parts = \"", "out.parts = { path = \"")
            .replace("/\"\n", "/\", min_files = 3 }\n"),
    );
    scene.run(&["--date", DATE]).nothing(123, "refused").says("2 files, at least 3");
    assert_eq!(scene.shown(DATE, "half"), None);
    scene.home.write("hook.sh", "");
    let call = scene.run(&["--date", DATE]).published();
    assert_eq!(scene.shown(DATE, "whole").as_deref(), Some(call.text("attempt")));
    scene.ends(&[(DATE.to_owned(), "the third attempt".to_owned())]);
}

#[test]
fn spk_01_a_worker_that_is_late_adds_nothing_to_what_was_published() {
    let scene = scene("");
    let call = scene.run(&["--date", DATE]).published();
    let before = scene.tell(&["path", "flights", "--date", DATE]).stdout;
    let own = prefixes(&scene).remove(0);
    scene.bucket.put(&format!("{own}part-2-again.csv"), b"late");
    assert_eq!(scene.tell(&["path", "flights", "--date", DATE]).stdout, before);
    assert_eq!(scene.shown(DATE, "late").as_deref(), Some(call.text("attempt")));
    // It is none of the version, and a new publication has nothing of it.
    scene.run(&["--date", DATE]).already_published();
    scene.run(&["--date", DATE, "--rerun"]).published();
    scene.run(&["--date", DATE]).already_published().never_says("part-2-again.csv");
}

#[test]
fn spk_07_what_a_job_goes_on_writing_after_its_client_was_ended_is_never_seen() {
    let scene = scene("[ -e goes-on ] || { touch waiting; while :; do sleep 1; done; }");
    let running = scene.refrain().spawn(["run", "flights", "--date", DATE, "--grace", "1s"]);
    wait_for("the task waits", || scene.home.exists("waiting"));
    send(running.pid(), Signal::TERM);
    running.wait().expect_code(143);
    scene.home.write("goes-on", "");
    let call = scene.run(&["--date", DATE]).published();
    // The job in the cluster has not heard of it.
    let zombie = prefixes(&scene).remove(0);
    scene.bucket.put(&format!("{zombie}part-2.csv"), b"zombie");
    assert_eq!(scene.shown(DATE, "a zombie writes").as_deref(), Some(call.text("attempt")));
    scene.run(&["--date", DATE]).already_published().never_says("changed");
    // Nobody accounts for it: it is named, and left alone.
    let gc = scene.tell(&["gc"]);
    assert!(format!("{gc}").contains(&zombie), "{gc}");
    assert!(scene.bucket.get(&format!("{zombie}part-2.csv")).is_some());
}

#[test]
fn spk_04_data_01_and_data_02_an_empty_output_is_published_only_when_it_is_allowed() {
    let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
    let full = scene.run(&["--date", DATE]).published();
    // SPK-08: a task without rows writes no file at all.
    scene.home.write("make.sh", "true");
    scene.run(&["--date", DATE, "--rerun"]).nothing(123, "refused").says("wrote nothing").says("--allow-empty");
    assert_eq!(scene.shown(DATE, "refused").as_deref(), Some(full.text("attempt")));
    let empty = scene.run(&["--date", DATE, "--rerun", "--allow-empty"]).published();
    assert_eq!(empty.report["outputs"][0]["files"], 0, "{}", empty.report);
    assert_eq!(scene.tell(&["path", "flights", "--date", DATE]).stdout, "");
    scene.run(&["--date", DATE]).already_published();
    let outcomes: Vec<_> = scene.log().iter().take(2).map(|entry| entry["ending"]["outcome"].clone()).collect();
    assert_eq!(outcomes, ["published", "refused"]);
    scene.has_no_leftover(&scene.tell(&["gc"]));
}

#[test]
fn spk_08_data_01_and_data_02_an_empty_object_is_published_only_when_it_is_allowed() {
    let scene = Scene::new(Kind::MiniStack, Shape::Object);
    let key = format!("reports/{DATE}.csv");
    scene.run(&["--date", DATE]).published();
    let before = scene.bucket.get(&key);
    scene.home.write("make.sh", ": > \"$REFRAIN_OUT\"");
    scene.run(&["--date", DATE, "--rerun"]).nothing(123, "refused").says("is empty").says("--allow-empty");
    assert_eq!(scene.bucket.get(&key), before);
    scene.run(&["--date", DATE, "--rerun", "--allow-empty"]).published();
    assert_eq!(scene.bucket.get(&key).as_deref(), Some(&b""[..]));
    scene.run(&["--date", DATE]).already_published().never_says("changed");
    scene.has_no_leftover(&scene.tell(&["gc"]));
}

#[test]
fn spk_05_a_publication_of_one_day_leaves_the_others_alone() {
    let scene = Scene::new(Kind::MiniStack, Shape::Both);
    let days = ["2013-01-01", "2013-01-02", "2013-01-03"];
    let attempts: Vec<_> =
        days.iter().map(|day| scene.run(&["--date", day]).published().text("attempt").to_owned()).collect();
    let again = scene.run(&["--date", days[1], "--rerun"]).published();
    assert_eq!(scene.shown(days[0], "the day before"), Some(attempts[0].clone()));
    assert_eq!(scene.shown(days[1], "the day"), Some(again.text("attempt").to_owned()));
    assert_eq!(scene.shown(days[2], "the day after"), Some(attempts[2].clone()));
    // A scope that all days share is refused before anything runs.
    let executions = scene.executions();
    scene.home.config(&scene.home.read("refrain.toml").replace("delays/dt={date}/", "delays/"));
    let refused = scene.run(&["--date", "2013-01-04"]);
    assert_eq!(refused.output.code, Some(125), "{}", refused.output);
    refused.says("{date}");
    assert_eq!(scene.executions(), executions);
}

#[test]
fn obj_08_two_calls_at_once_and_a_flag_file_never_mix() {
    let scene = Scene::new(Kind::MiniStack, Shape::Prefix);
    scene.home.write(
        "make.sh",
        "echo x >> runs.log\nfor part in 0 1 2; do echo \"$REFRAIN_DATE $part $REFRAIN_ATTEMPT\" > \
         \"$REFRAIN_OUT/part-$part.csv\"; done\necho \"$REFRAIN_DATE flag $REFRAIN_ATTEMPT\" > \"$REFRAIN_OUT/_SUCCESS\"\n",
    );
    let calls = [(); 2].map(|()| scene.refrain().spawn(["run", "flights", "--date", DATE, "--wait"]));
    for call in calls {
        call.wait().success();
    }
    assert_eq!(scene.executions(), 1);
    let flags = |places: &str| places.lines().filter(|place| place.ends_with("/_SUCCESS")).count();
    let whole = |context: &str| {
        let places = scene.tell(&["path", "flights", "--date", DATE]).stdout;
        let mut attempts: Vec<_> =
            places.lines().map(|place| scene.read(place).unwrap().split(' ').nth(2).unwrap().to_owned()).collect();
        attempts.dedup();
        assert_eq!((places.lines().count(), flags(&places), attempts.len()), (4, 1, 1), "{context}: {places}");
        attempts.remove(0)
    };
    let first = whole("two at once");
    // Killed when a part of the objects is there: the flag that readers see is of the version before, which is whole.
    let crashing = scene.refrain().env("REFRAIN_CRASH_AT", "after-manifest=kill");
    crashing.run(["run", "flights", "--date", DATE, "--rerun"]).expect_signal(crate::scene::SIGKILL);
    assert_eq!(whole("killed"), first);
    assert_eq!(scene.bucket.keys("delays/"), Vec::<String>::new());
    scene.run(&["--date", DATE, "--rerun"]).published();
    assert_ne!(whole("published again"), first);
    scene.has_no_leftover(&scene.tell(&["gc"]));
}
