//! The real home, its state and its outputs are as they were, however a check ends.

use crate::scene::{DAY, Scene, digest, owned};
use refrain_testkit::program::Running;
use std::fs;
use std::process::Command;

/// A task that writes wherever it can reach: beside its outputs, over its inputs, over what is published.
fn reckless(scene: &Scene, pause: &str) -> String {
    let home = scene.home.path().display();
    format!(
        r#"
[task.reckless]
partition = "daily"
command = '''
echo x >> {home}/out/$REFRAIN_DATE.txt
echo x >> {home}/data.txt
rm -f {home}/notes.txt
mkdir -p {home}/more && echo x > {home}/more/file
chmod 600 {home}/refrain.toml
sleep {pause}
cat "$REFRAIN_IN_DATA" > "$REFRAIN_OUT"
'''
in.data = "data.txt"
out.report = "out/{{date}}.txt"
"#
    )
}

fn published(pause: &str) -> Scene {
    let scene = Scene::with("");
    scene.home.write("data.txt", "1\n");
    scene.home.write("notes.txt", "mine\n");
    scene.home.config("[task.reckless]\npartition = \"daily\"\ncommand = 'cat data.txt > \"$REFRAIN_OUT\"'\nout.report = \"out/{date}.txt\"\n");
    scene.home.run(["run", "reckless", "--date", DAY]).success();
    scene.home.config(&reckless(&scene, pause));
    scene
}

/// Waits until the check says so.
fn await_step(running: &mut Running, step: &str) {
    while !running.stderr_so_far().contains(step) {
        assert!(!running.has_ended(), "it ended before `{step}`: {}", running.stderr_so_far());
        std::thread::yield_now();
    }
}

fn start(scene: &Scene) -> Running {
    scene.refrain().spawn(Scene::arguments("reckless", &["--twice"]))
}

#[test]
fn a_reckless_task_reaches_nothing_real() {
    let scene = published("0");
    let checked = scene.check("reckless", &["--twice", "--race"]);
    let told = checked.verdict["findings"].to_string();
    for (file, how) in
        [("data.txt", "changed"), ("notes.txt", "removed"), ("more/file", "created"), ("refrain.toml", "changed")]
    {
        let place = scene.home.join(file).display().to_string();
        assert!(told.contains(&format!(r#""path":"{place}","how":"{how}""#)), "{how} {file}\n{told}");
    }
    assert!(checked.kinds().contains(&"writes_live_output"), "{told}");
    assert!(checked.shielded(), "{}", checked.output);
}

#[test]
fn kills_of_the_task_reach_nothing_real() {
    let scene = published("0");
    scene.check("reckless", &["--kill", "--moments", "2"]);
}

#[test]
fn a_check_that_is_interrupted_takes_its_scratch_copy_away() {
    let scene = published("60");
    let before = digest(scene.home.path());
    let mut running = start(&scene);
    await_step(&mut running, "the first run");
    let pid = running.pid().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = running.wait().expect_code(130);
    assert_eq!(output.stderr.lines().last(), Some("Nothing was published."), "{output}");
    assert_eq!(digest(scene.home.path()), before, "{output}");
    let left: Vec<_> = fs::read_dir(scene.scratch.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}\n{output}");
}

#[test]
fn a_check_that_is_killed_leaves_the_real_files_alone() {
    let scene = published("1");
    let before = digest(scene.home.path());
    let mut running = start(&scene);
    await_step(&mut running, "the second run");
    let output = running.kill().expect_signal(9);
    assert_eq!(digest(scene.home.path()), before, "{output}");
}

#[test]
fn an_ordinary_user_has_a_shield_too() {
    let scene = published("0");
    owned(scene.home.path(), 65534, 65534, "700");
    let checked = scene.check_as(65534, &[65534], "reckless", &["--twice"]).ends(1, "not_repeatable");
    assert!(checked.shielded(), "{}", checked.output);
}

#[test]
fn a_kept_scratch_copy_stays() {
    let scene = Scene::of("clean");
    let output = scene.refrain().run(Scene::arguments("gzip", &["--twice", "--keep-scratch"])).success();
    let line = output.stderr.lines().find_map(|line| line.strip_prefix("scratch: ")).expect("its place");
    assert!(std::path::Path::new(line).join("homes/first/refrain.toml").is_file(), "{output}");
}
