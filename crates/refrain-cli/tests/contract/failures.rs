//! Bad surroundings: a clear error, code 125, nothing lost.

use crate::call::{assert_fails, home, run};
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::{Home, Output};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const WRITE: &str = "echo x >> runs.log; echo data > $REFRAIN_OUT";

fn published() -> Home {
    let home = home();
    run(&home, &["job", "--out", "out.csv"], WRITE).published();
    home
}

fn sql(home: &Home, statement: &str) {
    let output = Command::new("sqlite3").arg(home.join(".refrain/state.db")).arg(statement).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_read_only_target_is_told_before_the_command_starts() {
    let home = home();
    let mount = Mount::tmpfs(4);
    fs::create_dir_all(mount.path().join("staging")).unwrap();
    home.config(&format!("staging = [{:?}]\n", mount.path().join("staging").display().to_string()));
    let target = mount.path().join("out.csv").display().to_string();
    run(&home, &["job", "--out", &target], WRITE).published();
    mount.set_read_only(true);
    run(&home, &["job", "--out", &target, "--rerun"], "touch started; echo new > $REFRAIN_OUT")
        .nothing(125, "error")
        .says("read-only");
    assert!(!home.exists("started"), "the command was not started");
    mount.set_read_only(false);
    assert_eq!(fs::read_to_string(&target).unwrap(), "data\n");
    run(&home, &["job", "--out", &target], WRITE).already_published();
}

#[test]
fn a_read_only_home_is_told_by_what_cannot_be_written_there() {
    let mount = Mount::tmpfs(4);
    let home = Home::at(env!("CARGO_BIN_EXE_refrain"), mount.path().join("home"));
    run(&home, &["job", "--out", "out.csv"], WRITE).published();
    mount.set_read_only(true);
    for call in [&["status"][..], &["path", "job"], &["log"]] {
        assert_fails(&home.run(call.iter().copied()), &["state.db", "cannot be opened for writing"]);
    }
    let show = home.run(["show", "out.csv"]).success().stdout;
    assert!(show.contains("the path's own record") && !show.contains("is not this one"), "{show}");
    mount.set_read_only(false);
    home.run(["status"]).success();
}

#[test]
fn a_home_that_may_not_be_read_is_told() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = Home::at(env!("CARGO_BIN_EXE_refrain"), directory.path().join("home"));
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_refrain"), "--home"]);
    command.arg(home.path()).arg("status").current_dir("/");
    let output = Output::of(&mut command, b"");
    assert_fails(&output, &[".refrain", "ermission denied"]);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let output = Output::of(&mut command, b"");
    assert_fails(&output, &["ermission denied"]);
}

#[test]
fn a_newer_state_format_is_refused_with_both_numbers() {
    let home = published();
    sql(&home, "UPDATE meta SET format = 9");
    for arguments in [&["status"][..], &["run", "job", "--out", "out.csv", "--", "true"], &["gc"], &["recover"]] {
        assert_fails(&home.run(arguments), &["format 9 is newer", "(2)"]);
    }
    sql(&home, "UPDATE meta SET format = 2");
    run(&home, &["job", "--out", "out.csv"], WRITE).already_published();
    assert_eq!(home.read("out.csv"), "data\n");
}

#[test]
fn a_corrupt_state_is_told_and_the_publication_is_left_alone() {
    let home = published();
    for companion in ["state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(home.join(".refrain").join(companion)));
    }
    home.write(".refrain/state.db", "this is no database, and long enough to be looked at. ".repeat(40));
    for arguments in [&["status"][..], &["run", "job", "--out", "out.csv", "--", "true"], &["log"]] {
        let output = home.run(arguments);
        assert_fails(&output, &["state.db", "hint: "]);
    }
    assert_eq!(home.read("out.csv"), "data\n");
}

#[test]
fn a_missing_state_with_publications_is_refused_and_init_replaces_brings_everything_back() {
    let home = published();
    let status = home.run(["status", "--json"]).success().stdout;
    assert!(status.contains("\"published\""), "{status}");
    let old = home.run(["store", "show"]).success().stdout;
    let old = old.trim_end().strip_prefix("store ").unwrap().to_owned();
    for companion in ["state.db", "state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(home.join(".refrain").join(companion)));
    }
    let replace = format!("refrain store init --replaces {old}");
    for arguments in [&["run", "job", "--out", "out.csv", "--", "true"][..], &["status"], &["init"]] {
        assert_fails(&home.run(arguments), &["is gone", &replace, "refrain store restored"]);
    }
    let made = home.run(["store", "init", "--replaces", &old]).success().stdout;
    assert!(made.contains(&format!("replaces {old}")), "{made}");
    assert_eq!(home.run(["status", "--json"]).success().stdout, status, "the heads know what was published, and when");
    assert_eq!(home.run(["path", "job"]).success().stdout.trim_end(), home.join("out.csv").display().to_string());
    assert!(home.run(["log", "job"]).success().stdout.contains("brought back from the head"));
    assert!(home.run(["why", "job"]).success().stdout.contains("published by attempt"));
    let again = home.run(["store", "init", "--replaces", &old]).success().stdout;
    assert_eq!(again, made, "who died within may repeat it");
    run(&home, &["job", "--out", "out.csv"], WRITE).already_published();
    assert_eq!(home.read("runs.log").lines().count(), 1);
    let call = run(&home, &["job", "--out", "out.csv", "--rerun"], WRITE).published();
    assert_eq!(call.number("generation"), 2, "and the generation goes on from there");
}

#[test]
fn a_state_made_new_must_name_the_lost_one_and_a_foreign_one_is_refused_at_the_sink() {
    let home = published();
    let old = home.run(["store", "show"]).success().stdout.trim_end().strip_prefix("store ").unwrap().to_owned();
    for companion in ["state.db", "state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(home.join(".refrain").join(companion)));
    }
    home.run(["store", "init"]).expect_code(125).says(&old).says("--replaces");
    // The state of another home in its place.
    let other = published();
    for companion in ["state.db", "state.db-wal", "state.db-shm"] {
        let companion = std::path::Path::new(".refrain").join(companion);
        drop(fs::copy(other.join(&companion), home.join(&companion)));
    }
    let call = run(&home, &["job", "--out", "out.csv", "--rerun"], WRITE).nothing(125, "refused");
    let call = call.says(&old).says("--replaces");
    assert_eq!(call.report["error"]["kind"], "refused");
    assert_eq!(home.read("out.csv"), "data\n");
}

#[test]
fn a_restored_state_goes_on_where_the_sink_is() {
    let home = published();
    sql(&home, "PRAGMA wal_checkpoint(TRUNCATE)");
    let backup = fs::read(home.join(".refrain/state.db")).unwrap();
    for content in ["two", "three"] {
        run(&home, &["job", "--out", "out.csv", "--rerun"], &format!("echo {content} > $REFRAIN_OUT")).published();
    }
    for companion in ["state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(home.join(".refrain").join(companion)));
    }
    fs::write(home.join(".refrain/state.db"), backup).unwrap();
    let told = home.run(["store", "restored"]).success().stdout;
    assert!(told.contains("replaces "), "{told}");
    run(&home, &["job", "--out", "out.csv"], WRITE).already_published();
    assert_eq!(home.read("out.csv"), "three\n");
    let call = run(&home, &["job", "--out", "out.csv", "--rerun"], "echo four > $REFRAIN_OUT").published();
    assert_eq!(call.number("generation"), 4);
}

#[test]
fn a_state_lost_after_it_was_restored_is_given_up_with_every_store_it_had() {
    let home = home();
    let publish = |task: &str| run(&home, &[task, "--out", &format!("{task}.csv")], WRITE);
    publish("first").published();
    home.run(["store", "restored"]).success();
    publish("second").published();
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(home.join(".refrain").join(file)));
    }
    let hint = home.run(["run", "first", "--out", "first.csv", "--", "true"]).expect_code(125).stderr;
    let (_, command) = hint.split_once("give it up: refrain ").unwrap();
    let words: Vec<_> = command.lines().next().unwrap().split(' ').collect();
    assert_eq!(words.len(), 6, "both stores are named: {words:?}");
    assert_fails(&home.run(&words[..4]), &["would not replace", words[3], words[5]]);
    home.run(&words).success();
    publish("first").already_published();
    publish("second").already_published();
}

#[test]
fn a_restored_state_that_nobody_announced_raises_its_token_and_goes_on() {
    let home = published();
    sql(&home, "PRAGMA wal_checkpoint(TRUNCATE)");
    let backup = fs::read(home.join(".refrain/state.db")).unwrap();
    for content in ["two", "three"] {
        run(&home, &["job", "--out", "out.csv", "--rerun"], &format!("echo {content} > $REFRAIN_OUT")).published();
    }
    for companion in ["state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(home.join(".refrain").join(companion)));
    }
    fs::write(home.join(".refrain/state.db"), backup).unwrap();
    let call = run(&home, &["job", "--out", "out.csv", "--rerun"], "echo four > $REFRAIN_OUT").published();
    let call = call.says("the state store went backwards");
    assert_eq!((call.number("generation"), call.number("token")), (4, 4));
    assert_eq!(home.read("out.csv"), "four\n");
}

#[test]
fn an_input_or_code_file_that_is_missing_is_named() {
    let home = home();
    run(&home, &["job", "--in", "src=absent.csv", "--out", "out.csv"], WRITE).nothing(125, "error").says("absent.csv");
    home.config("[task.t]\ncommand = \"echo x >> runs.log\"\ncode = [\"absent.py\"]\nout.x = \"x.csv\"\n");
    run(&home, &["t"], "").nothing(125, "error").says("`absent.py`");
    assert!(!home.exists("runs.log"), "told before the work");
}

#[test]
fn something_in_the_way_of_the_state_directory_is_told() {
    let home = home();
    fs::remove_dir_all(home.join(".refrain")).unwrap();
    home.write(".refrain", "a file");
    assert_fails(&home.run(["status"]), &[".refrain"]);
}

#[test]
fn a_target_on_another_filesystem_without_staging_is_refused_with_the_setting() {
    let home = home();
    let mount = Mount::tmpfs(4);
    let target = mount.path().join("out.csv").display().to_string();
    let call = run(&home, &["job", "--out", &target], "touch started; echo data > $REFRAIN_OUT");
    let call = call.nothing(125, "error");
    assert!(call.output.stderr.contains("staging"), "{}", call.output);
    assert!(!home.exists("started"), "told before the work");
}
