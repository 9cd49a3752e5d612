//! A gc among damaged things, a gc that is killed, and directories that others publish into.

use crate::call::{assert_fails, home, names, run};
use crate::killed_at;
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;
use refrain_testkit::strace::{inject, inject_on_path, trace};
use std::fs;
use std::os::unix::fs::symlink;

/// The place of the only head that names a task's output.
fn head_of(home: &Home, output: &str) -> std::path::PathBuf {
    let slots = home.join(".refrain/slots");
    let files = names(&slots).into_iter().map(|name| slots.join(name));
    let heads = files.filter(|file| file.extension().is_some_and(|ending| ending == "head"));
    let mut named = heads.filter(|head| fs::read_to_string(head).is_ok_and(|text| text.contains(output)));
    let found = named.next().unwrap_or_else(|| panic!("no head names {output}"));
    assert_eq!(named.next(), None, "one head names {output}");
    found
}

/// The name of the home's only slot.
fn slot_of(home: &Home) -> String {
    head_of(home, "out").file_stem().unwrap().to_str().unwrap().to_owned()
}

/// A whole line with a wrong checksum: damage that no crash leaves.
fn damage(head: &std::path::Path) {
    let text = fs::read_to_string(head).unwrap();
    fs::write(head, format!("{}{text}", "0000000000000000 {\"format\":1}\n".repeat(2))).unwrap();
}

/// A dead attempt of `task`, fenced by a publication: its staging is for the gc.
fn dead_staging(home: &Home, task: &str) {
    let output = format!("{task}.csv");
    let flags = [task, "--out", &output];
    killed_at(home, "before-commit", &flags, "echo dead > $REFRAIN_OUT");
    run(home, &flags, "echo data > $REFRAIN_OUT").published();
}

fn stagings(home: &Home) -> Vec<String> {
    names(&home.join(".refrain/slots")).into_iter().filter(|name| name.ends_with(".0")).collect()
}

#[test]
fn with_one_damaged_head_gc_removes_the_rest_and_names_what_it_kept() {
    let home = home();
    for task in ["alpha", "beta", "gamma"] {
        dead_staging(&home, task);
    }
    for content in ["two", "three"] {
        let script = format!("echo {content} > $REFRAIN_OUT");
        run(&home, &["beta", "--out", "beta.csv", "--rerun"], &script).published();
    }
    assert_eq!(stagings(&home).len(), 3);
    damage(&head_of(&home, "beta.csv"));
    let gc = home.run(["gc"]).success();
    assert_eq!(stagings(&home).len(), 1, "two of three are gone\n{gc}");
    let kept: Vec<_> = gc.stderr.lines().filter(|line| line.starts_with("kept ")).collect();
    assert!(kept.iter().any(|line| line.contains(&stagings(&home)[0])), "{gc}");
    assert!(kept.iter().any(|line| line.contains("beta.csv")), "its versions are told, too\n{gc}");
    assert!(!kept.iter().any(|line| line.contains("alpha") || line.contains("gamma")), "{gc}");
}

#[test]
fn with_one_unreadable_owner_gc_removes_the_rest_and_names_it() {
    let home = home();
    for task in ["alpha", "beta"] {
        dead_staging(&home, task);
    }
    let owner = stagings(&home)[0].clone() + ".owner";
    let owner = home.join(".refrain/slots").join(owner);
    fs::remove_file(&owner).unwrap();
    symlink("no JSON", &owner).unwrap();
    let gc = home.run(["gc"]).success().says("bears no readable name");
    assert_eq!(stagings(&home).len(), 1, "{gc}");
    assert!(gc.stderr.contains(&stagings(&home)[0]), "{gc}");
}

#[test]
fn with_a_staging_volume_that_is_not_mounted_gc_goes_on_with_the_others_and_tells() {
    let home = home();
    let mount = Mount::tmpfs(8);
    let point = mount.path();
    home.config(&format!("staging = [{:?}]\n", point.join("refrain")));
    let there = point.join("there.csv").display().to_string();
    for content in ["one", "two"] {
        let script = format!("echo {content} > $REFRAIN_OUT");
        run(&home, &["there", "--out", &there, "--rerun"], &script).published();
    }
    dead_staging(&home, "here");
    drop(mount);
    fs::create_dir_all(&point).unwrap();
    let gc = home.run(["gc"]).success();
    assert_eq!(stagings(&home), Vec::<String>::new(), "{gc}");
    let kept: Vec<_> = gc.stderr.lines().filter(|line| line.starts_with("kept ")).collect();
    assert!(kept.iter().any(|line| line.contains(&point.join("refrain").display().to_string())), "{gc}");
    assert!(!point.join("refrain").exists(), "nothing is made below a mount point");
    fs::remove_dir_all(point.parent().unwrap()).unwrap();
}

/// Three versions, of which the first is beyond the policy.
fn versions(output: &str, write: impl Fn(&str) -> String) -> Home {
    let home = home();
    home.config(&format!(
        "[task.job]\ncommand = \"true\"\nout.out = {output:?}\nkeep = {{ versions = 5, grace = \"0s\" }}\n"
    ));
    for content in ["one", "two", "three"] {
        run(&home, &["job", "--rerun"], &write(content)).published();
    }
    home.config(&home.read("refrain.toml").replace("versions = 5", "versions = 1"));
    home
}

const REMOVALS: [&str; 5] = ["rename", "renameat2", "unlink", "unlinkat", "rmdir"];

/// Kills a gc before each step of a removal; whatever is there then is whole or is not offered.
fn killed_gc(output: &str, write: impl Fn(&str) -> String, assert_first: impl Fn(&Home, &str)) {
    let counted = versions(output, &write);
    let trace = trace(&counted.refrain().command(["gc"]), &REMOVALS);
    trace.output.clone().success();
    let counts = trace.count(&REMOVALS);
    let points: Vec<_> =
        counts.into_iter().flat_map(|(call, count)| (1..=count).map(move |n| (call.clone(), n))).collect();
    assert!(points.len() >= 3, "a removal takes several steps: {points:?}");
    let (mut whole, mut absent) = (0, 0);
    for (call, n) in points {
        let context = format!("{call}:signal=SIGKILL:when={n}");
        let home = versions(output, &write);
        inject(&home.refrain().command(["gc"]), &context).expect_signal(9);
        let rollback = home.run(["rollback", "job", "--to", "1"]);
        if rollback.code == Some(0) {
            whole += 1;
            assert_first(&home, &context);
        } else {
            absent += 1;
            assert_fails(&rollback, &["version 1", "is not kept"]);
            assert_fails(&home.run(["path", "job", "--version", "1"]), &["version 1"]);
        }
        home.run(["gc"]).success();
        let slot = home.join(".refrain/versions");
        let left = names(&slot).into_iter().flat_map(|one| names(&slot.join(one)));
        let dropped: Vec<_> = left.filter(|name| name.starts_with("dropped-")).collect();
        assert_eq!(dropped, Vec::<String>::new(), "{context}: the next gc removes the rest");
    }
    assert!(whole > 0 && absent > 0, "killed before and after the version left the list: {whole}, {absent}");
}

#[test]
fn a_gc_killed_while_it_removes_a_directory_leaves_a_whole_version_or_none() {
    let write = |content: &str| {
        format!("for part in 1 2 3 4; do mkdir $REFRAIN_OUT/$part; echo {content} > $REFRAIN_OUT/$part/data; done")
    };
    killed_gc("tree/", write, |home, context| {
        for part in 1..=4 {
            assert_eq!(home.read(format!("tree/{part}/data")), "one\n", "{context}");
        }
    });
}

#[test]
fn a_gc_killed_while_it_removes_a_file_leaves_a_whole_version_or_none() {
    let write = |content: &str| format!("echo {content} > $REFRAIN_OUT");
    killed_gc("out.csv", write, |home, context| assert_eq!(home.read("out.csv"), "one\n", "{context}"));
}

#[test]
fn a_kept_version_that_lost_a_part_by_hand_is_refused_and_nothing_is_published() {
    let write = |content: &str| format!("echo {content} > $REFRAIN_OUT/a; echo {content} > $REFRAIN_OUT/b");
    let home = versions("tree/", write);
    let place = home.run(["path", "job", "--version", "2"]).success().stdout;
    fs::remove_file(format!("{}/b", place.trim_end())).unwrap();
    let rollback = home.run(["rollback", "job", "--to", "2"]);
    assert_fails(&rollback, &["version 2", "is damaged"]);
    assert_eq!((home.read("tree/a"), home.read("tree/b")), ("three\n".into(), "three\n".into()));
    // The refusal leaves a rollback that cannot be finished behind; the key must not be stuck.
    let call = run(&home, &["job", "--rerun"], &write("four")).published();
    drop(call);
    assert_eq!(home.read("tree/b"), "four\n");
}

#[test]
fn publishing_inside_the_directory_output_of_another_task_is_refused_before_the_work() {
    let home = home();
    run(&home, &["outer", "--out", "tree/"], "echo outer > $REFRAIN_OUT/part").published();
    for inner in ["tree/inner.csv", "tree/deep/inner.csv", "tree/sub/"] {
        let call = run(&home, &["inner", "--out", inner], "touch started").nothing(125, "refused");
        call.says("`outer`");
        assert!(!home.exists("started"), "{inner}");
        assert_eq!(names(&home.join("tree")), ["part"], "{inner}");
    }
}

#[test]
fn a_directory_output_around_the_output_of_another_task_is_refused_and_that_output_stays() {
    let home = home();
    run(&home, &["inner", "--out", "tree/inner.csv"], "echo inner > $REFRAIN_OUT").published();
    for flags in [&["outer", "--out", "tree/"][..], &["outer", "--out", "tree/", "--adopt"]] {
        let call = run(&home, flags, "echo outer > $REFRAIN_OUT/part");
        assert_eq!(call.output.code, Some(125), "{}", call.output);
        assert_eq!(home.read("tree/inner.csv"), "inner\n");
    }
    run(&home, &["inner", "--out", "tree/inner.csv"], "exit 9").already_published();
}

#[test]
fn a_replaced_version_for_which_there_was_no_room_is_told_listed_and_moved_by_the_next_gc() {
    for output in ["out", "out/"] {
        let home = home();
        let (place, file) = if output == "out" { ("$REFRAIN_OUT", "out") } else { ("$REFRAIN_OUT/a", "out/a") };
        let script = |word: &str| format!("echo {word} > {place}");
        run(&home, &["job", "--out", output], &script("one")).published();
        let rerun = ["run", "job", "--out", output, "--rerun", "--", "sh", "-c"];
        let command = home.refrain().command(rerun.into_iter().map(str::to_owned).chain([script("two")]));
        let versions = home.join(".refrain/versions");
        let full = inject_on_path(&command, "mkdir:error=ENOSPC", &versions.join(slot_of(&home))).success();
        let full = full.says("note: cannot keep aside").says("no space is left on").says("`refrain gc`");
        assert_eq!(home.read(file), "two\n");
        let path = home.run(["path", "job", "--version", "1"]).success().stdout;
        assert!(full.stderr.contains(&format!("cannot keep aside `{}`", path.trim())), "{path}\n{full}");
        home.run(["gc"]).success();
        let path = home.run(["path", "job", "--version", "1"]).success().stdout;
        assert!(std::path::Path::new(path.trim()).starts_with(&versions), "{path}");
        assert_eq!(stagings(&home), Vec::<String>::new());
        let back = home.run(["rollback", "job"]).success();
        assert_eq!(home.read(file), "one\n", "{back}");
    }
}

#[test]
fn a_rollback_goes_back_to_a_version_for_which_there_was_no_room() {
    let home = home();
    run(&home, &["job", "--out", "out"], "echo one > $REFRAIN_OUT").published();
    let rerun = ["run", "job", "--out", "out", "--rerun", "--", "sh", "-c", "echo two > $REFRAIN_OUT"];
    let place = home.join(".refrain/versions").join(slot_of(&home));
    inject_on_path(&home.refrain().command(rerun), "mkdir:error=ENOSPC", &place).success();
    home.run(["rollback", "job"]).success();
    assert_eq!(home.read("out"), "one\n");
    home.run(["rollback", "job", "--to", "2"]).success();
    assert_eq!(home.read("out"), "two\n");
}
