//! How far a task reaches: nothing real outside the home is written either, and mounts are where they are.

use crate::scene::{DAY, Scene, owned};
use refrain_testkit::program::Output;
use std::fs;
use std::path::Path;
use std::process::Command;

fn task(command: &str) -> Scene {
    let scene = Scene::with(&format!(
        "[task.reach]\npartition = \"daily\"\ncommand = '''\n{command}\n'''\nout.report = \"out/{{date}}.txt\"\n"
    ));
    scene.home.write("clean/precious.csv", "1\n");
    scene
}

#[test]
fn a_directory_that_is_removed_and_made_again_has_lost_its_files() {
    let scene = task("rm -rf clean && mkdir clean && echo x > \"$REFRAIN_OUT\"");
    let lost = scene.home.join("clean/precious.csv").display().to_string();
    let checked = scene.check("reach", &["--twice"]).finds(&["undeclared_write"], &[&lost]);
    assert_eq!(checked.findings()[0]["writes"][0]["how"], "removed");
}

#[test]
fn a_publication_that_is_removed_is_missed() {
    let scene = task("rm -rf out && mkdir out && echo x > \"$REFRAIN_OUT\"");
    let checked = scene.check("reach", &["--twice"]).ends(1, "not_repeatable");
    assert!(checked.kinds().contains(&"writes_live_output"), "{}", checked.output);
}

#[test]
fn the_mode_of_a_directory_is_told() {
    let scene = task("chmod 700 clean; echo x > \"$REFRAIN_OUT\"");
    let place = scene.home.join("clean").display().to_string();
    let checked = scene.check("reach", &["--twice"]).finds(&["undeclared_write"], &[&place]);
    assert_eq!(checked.findings()[0]["writes"][0]["how"], "changed");
}

#[test]
fn absolute_paths_anywhere_lead_to_no_real_file() {
    let places: Vec<_> =
        ["/opt", "/etc", "/dev/shm", "/run", "/var"].map(|top| tempfile::tempdir_in(top).expect("root")).into();
    let lines: Vec<_> = places.iter().map(|place| format!("echo x > {}/live", place.path().display())).collect();
    let scene = task(&format!("{}\necho x > \"$REFRAIN_OUT\"", lines.join("\n")));
    let paths: Vec<_> = places.iter().map(|place| place.path().join("live").display().to_string()).collect();
    let words: Vec<_> = paths.iter().map(String::as_str).collect();
    let checked = scene.check("reach", &["--twice"]).finds(&["undeclared_write"], &words);
    assert!(paths.iter().all(|path| !Path::new(path).exists()), "{}", checked.output);
}

#[test]
fn the_root_directory_cannot_be_written() {
    let name = format!("/refrain-{}", std::process::id());
    let scene = task(&format!("echo x > {name}; echo x > \"$REFRAIN_OUT\""));
    scene.check("reach", &["--twice"]).repeatable();
    assert!(!Path::new(&name).exists());
}

#[test]
fn a_check_that_fails_leaves_no_scratch_copy() {
    let scene = Scene::with("[task.reach]\ncommand = 'true'\nin.data = \"missing\"\nout.report = \"out\"\n");
    let output = scene.refrain().run(["check", "reach"]).expect_code(125);
    let left: Vec<_> = fs::read_dir(scene.scratch.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}\n{output}");
}

/// Runs a check in a mount namespace with a mount below the home, and one that holds the scratch directory.
fn among_mounts(user: bool) {
    let scene = task("cat mounted/file > \"$REFRAIN_OUT\"; echo x > mounted/other; cat notes.txt >> \"$REFRAIN_OUT\"");
    scene.home.write("notes.txt", "mine\n");
    fs::create_dir(scene.home.join("mounted")).unwrap();
    let program = scene.scratch.path().join("refrain");
    fs::copy(crate::scene::BIN, &program).unwrap();
    let as_user = if user { "setpriv --reuid=65534 --regid=65534 --clear-groups" } else { "" };
    let script = format!(
        "set -e; cd {home}; chmod 755 {scratch}
        mount -t tmpfs none mounted; echo data > mounted/file; chmod 777 mounted
        mkdir {scratch}/disk; mount -t tmpfs none {scratch}/disk; chmod 777 {scratch}/disk
        [ -z '{as_user}' ] || chown -R 65534 {home}
        rc=0; {as_user} {scratch}/refrain check reach --date {DAY} --twice --json --isolation shield --scratch {scratch}/disk || rc=$?
        test ! -e mounted/other; test -z \"$(ls {scratch}/disk)\"; exit $rc",
        home = scene.home.path().display(),
        scratch = scene.scratch.path().display(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", &script]).env("HOME", scene.home.path());
    let output = Output::of(&mut command, b"").expect_code(1);
    let verdict: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(verdict["watched"]["shielded"], true, "{output}");
    let writes = verdict["findings"][0]["writes"].to_string();
    assert!(writes.contains("mounted/other") && verdict["findings"].as_array().unwrap().len() == 1, "{output}");
}

#[test]
fn mounts_below_the_home_and_around_the_scratch_copy_are_behind_the_shield() {
    among_mounts(false);
}

#[test]
fn an_ordinary_user_has_a_shield_around_mounts() {
    among_mounts(true);
}

#[test]
fn what_a_user_takes_back_from_a_directory_of_the_systems_is_no_write() {
    // So does libfaketime, in /dev/shm.
    let scene = task("for top in /dev/shm /tmp; do : > $top/mine.$$; rm $top/mine.$$; done; echo x > \"$REFRAIN_OUT\"");
    owned(scene.home.path(), 1234, 1234, "755");
    scene.check_as(1234, &[1234], "reach", &["--twice"]).repeatable();
}

const IN_PLACE: &str = "what the first run published in its place";

#[test]
fn a_user_of_a_shared_home_meets_what_was_published_and_writes_there() {
    let scene = task("echo x > \"$REFRAIN_OUT\"; echo x >> notes.txt; echo x > clean/new; rm -f clean/precious.csv");
    scene.home.write("notes.txt", "ours\n");
    scene.home.write(format!("out/{DAY}.txt"), "before\n");
    // The user and his groups, whose the home is, and the mode of its directories.
    let shared = [
        (1234, &[1234, 50][..], (1234, 50), "2775"),
        (1234, &[1234, 50], (0, 50), "2775"),
        (1234, &[1234], (65534, 0), "777"),
        (65534, &[65534], (65534, 0), "755"),
    ];
    for (user, groups, (owner, group), mode) in shared {
        owned(scene.home.path(), owner, group, mode);
        let opened = Command::new("chmod").arg("666").arg(scene.home.join("notes.txt")).status().unwrap();
        assert!(opened.success());
        let checked = scene.check_as(user, groups, "reach", &["--twice"]);
        let checked = checked.finds(&["undeclared_write"], &[]);
        let trial = &checked.verdict["trials"][0];
        assert!(trial["varied"].to_string().contains(IN_PLACE), "{}", checked.output);
        for (file, how) in [("notes.txt", "changed"), ("clean/new", "created"), ("clean/precious.csv", "removed")] {
            let told = format!(r#""path":"{}","how":"{how}""#, scene.home.join(file).display());
            assert!(checked.verdict["findings"].to_string().contains(&told), "{file}\n{}", checked.output);
        }
    }
}

#[test]
fn a_home_below_a_directory_of_the_systems_is_its_users() {
    let around = tempfile::tempdir_in("/opt").expect("root");
    owned(around.path(), 0, 0, "755");
    let home = refrain_testkit::program::Home::at(crate::scene::BIN, around.path().join("inner/home"));
    let scene = Scene { home, scratch: tempfile::tempdir().expect("a directory") };
    scene.home.config(
        "[task.reach]\npartition = \"daily\"\ncommand = 'echo x >> notes.txt; echo x > $REFRAIN_OUT'\nout.report = \"out/{date}.txt\"\n",
    );
    owned(scene.home.path(), 1234, 1234, "755");
    let notes = scene.home.join("notes.txt").display().to_string();
    scene.check_as(1234, &[1234], "reach", &["--twice"]).finds(&["undeclared_write"], &[&notes]);
}

#[test]
fn a_large_file_beside_a_mount_is_hidden_from_a_user_and_costs_no_shield() {
    let around = tempfile::tempdir_in("/opt").expect("root");
    let home = refrain_testkit::program::Home::at(crate::scene::BIN, around.path().join("home"));
    let scene = Scene { home, scratch: tempfile::tempdir().expect("a directory") };
    scene.home.config(
        "[task.reach]\npartition = \"daily\"\ncommand = 'ls .. > $REFRAIN_OUT'\nout.report = \"out/{date}.txt\"\n",
    );
    owned(around.path(), 1234, 1234, "755");
    owned(scene.scratch.path(), 1234, 1234, "755");
    let big = fs::File::create(around.path().join("big")).unwrap();
    big.set_len(300 << 20).unwrap();
    let program = scene.scratch.path().join("refrain");
    fs::copy(crate::scene::BIN, &program).unwrap();
    let script = format!(
        "set -e; mkdir ../mounted; mount -t tmpfs none ../mounted
        exec setpriv --reuid=1234 --regid=1234 --clear-groups {} check reach --date {DAY} --twice --json --isolation shield",
        program.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(scene.home.path());
    let output =
        Output::of(command.env("TMPDIR", scene.scratch.path()).env("HOME", "/nonexistent"), b"").expect_code(0);
    let verdict: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let told = format!("`{}/big` is hidden", around.path().display());
    assert!(verdict["watched"]["limits"].to_string().contains(&told), "{output}");
}

#[test]
fn a_publication_that_cannot_be_put_in_its_place_was_not_tried() {
    let scene = task("rm -rf out; : > out; echo x > \"$REFRAIN_OUT\"");
    let checked = scene.check("reach", &["--twice"]).ends(1, "not_repeatable");
    let trial = &checked.verdict["trials"][0];
    let told = |list: &str| trial[list].to_string().contains(IN_PLACE);
    assert!(told("not_varied") && !told("varied"), "{}", checked.output);
    assert!(trial["not_varied"].to_string().contains("`report`: "), "{}", checked.output);
}

#[test]
fn a_copy_is_announced_before_the_first_run() {
    let scene = task("echo x > \"$REFRAIN_OUT\"");
    let output = scene.refrain().run(Scene::arguments("reach", &["--twice", "--isolation", "copy"])).success();
    let first = output.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("warning: the command runs in a copy of the home"), "{output}");
}
