//! Commands, their homes, stopped processes and polling readers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use refrain_testkit::freeze;
use refrain_testkit::program::{Home, Output, Refrain, Running};
use refrain_testkit::reader::{Observation, Reader, observe};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// A stand-in for the program: reports its arguments and environment, and can do `init`.
fn stand_in(directory: &Path) -> PathBuf {
    let path = directory.join("refrain");
    fs::write(&path, "#!/bin/sh\nif [ \"$1\" = init ]; then mkdir -p .refrain; exit; fi\necho \"$@\"\npwd -P\nenv | grep ^REFRAIN_\ncat\nexit 7\n")
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn an_output_tells_exit_codes_from_signals() {
    let output = Output::of(&mut sh("cat; echo wrong >&2; exit 3"), b"given");
    assert_eq!((output.code, output.signal), (Some(3), None));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("given", "wrong\n"));
    let output = Output::of(&mut sh("kill -TERM $$"), b"");
    assert_eq!((output.code, output.signal), (None, Some(15)));
    assert!(output.to_string().contains("ended by signal 15"));
}

#[test]
fn a_descendant_that_keeps_the_output_open_does_not_hold_the_wait_up() {
    let output = Output::of(&mut sh("sleep 1000 & echo $!"), b"");
    let left: u32 = output.stdout.trim().parse().unwrap();
    assert!(freeze::is_alive(left));
    freeze::kill(left);
}

#[test]
fn a_home_is_made_and_the_program_runs_in_it_with_a_clean_environment() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::temp(stand_in(directory.path()));
    assert!(home.exists(".refrain"));
    home.config("store = \"sqlite\"\n");
    home.write("data/in.csv", "1,2\n");
    assert_eq!(home.read("refrain.toml"), "store = \"sqlite\"\n");
    assert_eq!(home.read("data/in.csv"), "1,2\n");

    let output = home.refrain().env("REFRAIN_HOME", home.path()).stdin("in\n").run(["status", "--json"]);
    let path = home.path().display();
    assert_eq!(output.stdout, format!("status --json\n{path}\nREFRAIN_HOME={path}\nin\n"));
    drop(output.expect_code(7));

    let elsewhere = Refrain::new(directory.path().join("refrain"), home.path()).cwd(directory.path()).run(["x"]);
    let path = directory.path().canonicalize().unwrap();
    assert_eq!(elsewhere.stdout, format!("x\n{}\n", path.display()));
}

#[test]
fn a_stopped_process_does_nothing_until_it_is_woken() {
    let directory = tempfile::tempdir().unwrap();
    let [mark, go] = ["mark", "go"].map(|name| directory.path().join(name));
    let script = format!("until test -e {}; do sleep 0.01; done; echo > {}", go.display(), mark.display());
    let running = Running::start(&mut sh(&script), b"");
    let stopped = freeze::stop_tree(running.pid());
    assert_eq!(freeze::state(running.pid()), Some('T'));
    fs::write(&go, "").unwrap();
    assert!(!mark.exists());
    freeze::wake_all(&stopped);
    freeze::wait_for_path(&mark);
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn descendants_are_found_and_a_group_can_be_killed() {
    let running = Running::start(&mut sh("setsid sh -c 'sleep 1000 & echo started; wait' & wait"), b"");
    freeze::wait_for("the session has started", || running.stdout_so_far().contains("started"));
    freeze::wait_for("the tree is complete", || freeze::descendants(running.pid()).len() == 2);
    let leader = freeze::descendants(running.pid())[0];
    freeze::send_group(leader, Signal::KILL);
    assert_eq!(running.wait().code, Some(0));
    assert!(!freeze::is_alive(leader));
}

#[test]
fn a_dropped_process_is_dead() {
    let running = Running::start(&mut sh("exec sleep 1000"), b"");
    let pid = running.pid();
    drop(running);
    assert_eq!(freeze::state(pid), None);
}

#[test]
fn a_reader_sees_every_version_whole_when_it_is_exchanged() {
    let at = tempfile::tempdir().unwrap();
    let [current, next] = ["current", "next"].map(|name| at.path().join(name));
    for (directory, content) in [(&current, "old"), (&next, "new")] {
        fs::create_dir_all(directory.join("deep")).unwrap();
        fs::write(directory.join("one"), content).unwrap();
        fs::write(directory.join("deep/two"), content).unwrap();
    }
    let reader = Reader::start(&current);
    for _ in 0..200 {
        renameat_with(CWD, &current, CWD, &next, RenameFlags::EXCHANGE).unwrap();
    }
    renameat_with(CWD, &current, CWD, &next, RenameFlags::EXCHANGE).unwrap();
    let whole = |content| Observation::directory([("one", content), ("deep/two", content)]);
    let seen = reader.stop();
    seen.assert_only(&[whole("old"), whole("new")]);
    assert_eq!(seen.distinct.first(), Some(&whole("old")));
    assert!(seen.distinct.contains(&whole("new")), "the last look sees what stands at the end");
}

#[test]
fn a_reader_notices_a_missing_and_a_partial_file() {
    let at = tempfile::tempdir().unwrap();
    let path = at.path().join("file");
    let reader = Reader::start(&path);
    for content in ["par", "partial"] {
        fs::write(&path, content).unwrap();
        freeze::wait_for("the reader saw it", || reader.so_far().distinct.contains(&Observation::file(content)));
    }
    let seen = reader.stop();
    assert_eq!(seen.distinct.first(), Some(&Observation::Missing));
    assert!(std::panic::catch_unwind(|| seen.assert_only(&[Observation::file("partial")])).is_err());
}

#[test]
fn a_dangling_link_in_a_directory_is_a_torn_observation() {
    let at = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("absent", at.path().join("link")).unwrap();
    assert!(matches!(observe(at.path()), Observation::Torn(_)));
}
