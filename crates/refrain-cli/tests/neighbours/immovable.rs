//! What cannot be moved is told before anything is decided, and never leaves two outputs on different attempts.

use crate::call::{home, run};
use crate::{crashing, killed_at};
use refrain_testkit::freeze::{state, wait_for, wake};
use refrain_testkit::program::{Home, Output};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

const TWO: [&str; 5] = ["job", "--out", "a=a.txt", "--out", "d=d/"];
const SCRIPT: &str = "echo $REFRAIN_ATTEMPT > $REFRAIN_OUT_A; echo $REFRAIN_ATTEMPT > $REFRAIN_OUT_D/id";

fn agree(home: &Home) -> bool {
    home.read("a.txt") == home.read("d/id")
}

fn attribute(flag: &str, path: &Path) {
    let status = Command::new("chattr").arg(flag).arg(path).status().unwrap();
    assert!(status.success(), "chattr {flag} {}", path.display());
}

#[test]
fn an_immutable_target_is_refused_before_the_command_runs() {
    let home = home();
    run(&home, &TWO, SCRIPT).published();
    attribute("+i", &home.join("d"));
    let rerun = [&TWO[..], &["--rerun"]].concat();
    let refused = run(&home, &rerun, "touch started; exit 9");
    attribute("-i", &home.join("d"));
    refused.nothing(125, "error").says("immutable").says("chattr");
    assert!(!home.exists("started") && agree(&home));
    run(&home, &rerun, SCRIPT).published();
    assert!(agree(&home));
}

#[test]
fn a_staged_output_made_immutable_fails_the_guard_and_the_anchor_stays_as_it_was() {
    let home = home();
    run(&home, &TWO, SCRIPT).published();
    let before = home.read("a.txt");
    let script = format!("{SCRIPT}; chattr +i $REFRAIN_OUT_D");
    let refused = run(&home, &[&TWO[..], &["--rerun"]].concat(), &script);
    // Whatever name the staging has by now: gc can remove it only without the attribute.
    for entry in fs::read_dir(home.join(".refrain/slots")).unwrap() {
        let staged = entry.unwrap().path().join("d");
        if staged.exists() {
            attribute("-i", &staged);
        }
    }
    refused.nothing(123, "refused").says("immutable");
    home.run(["gc"]).success();
    assert_eq!(home.read("a.txt"), before);
    assert!(agree(&home));
}

#[test]
fn directories_without_write_permission_are_published_and_replaced_by_an_ordinary_user() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = directory.path().join("home");
    fs::create_dir(&place).unwrap();
    chown(&place, Some(65534), Some(65534)).unwrap();
    let refrain = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_refrain")]);
        Output::of(command.args(arguments).current_dir(&place), b"")
    };
    refrain(&["init"]).success();
    let script = format!("{SCRIPT}; chmod 555 $REFRAIN_OUT_D");
    let first = [&["run"], &TWO[..], &["--", "sh", "-c", &script]].concat();
    refrain(&first).success();
    let mode = || fs::metadata(place.join("d")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o555);
    let again = [&["run"], &TWO[..], &["--rerun", "--", "sh", "-c", &script]].concat();
    refrain(&again).success();
    assert_eq!(mode(), 0o555);
    let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
    assert_eq!(read("a.txt"), read("d/id"));
    assert_eq!(refrain(&["path", "job", "d", "--version", "1"]).success().stdout.lines().count(), 1);
}

#[test]
fn a_parent_that_became_a_link_is_a_conflict_and_the_stranger_keeps_his_data() {
    let home = home();
    let flags = ["job", "--out", "out/d/"];
    run(&home, &flags, "echo 1 > $REFRAIN_OUT/id").published();
    home.write("stranger/d/keep", "precious");
    let arguments = [&["run"], &flags[..], &["--rerun", "--", "sh", "-c", "echo 2 > $REFRAIN_OUT/id"]].concat();
    let running = crashing(&home, "before-commit=stop").spawn(arguments);
    wait_for("it stands before its commit", || state(running.pid()) == Some('T'));
    fs::rename(home.join("out"), home.join("out.real")).unwrap();
    symlink("stranger", home.join("out")).unwrap();
    wake(running.pid());
    running.wait().expect_code(121).says("became a link").says("Nothing was published.");
    assert_eq!(home.read("stranger/d/keep"), "precious");
    fs::remove_file(home.join("out")).unwrap();
    fs::rename(home.join("out.real"), home.join("out")).unwrap();
    run(&home, &[&flags[..], &["--rerun"]].concat(), "echo 3 > $REFRAIN_OUT/id").published();
    assert_eq!(home.read("out/d/id"), "3\n");
}

#[test]
fn a_lock_that_is_removed_under_a_stopped_holder_costs_it_its_commit() {
    let home = home();
    let write = |text: &str| format!("echo {text} > $REFRAIN_OUT");
    let flags = ["job", "--out", "out.txt", "--rerun", "--ttl", "1s"];
    run(&home, &flags[..3], &write("one")).published();
    let zombie = write("zombie");
    let arguments = [&["run"], &flags[..], &["--", "sh", "-c", &zombie]].concat();
    let running = crashing(&home, "before-intent=stop").spawn(arguments);
    wait_for("it holds the lock", || state(running.pid()) == Some('T'));
    for entry in fs::read_dir(home.join(".refrain/slots")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "lock") {
            fs::remove_file(path).unwrap();
        }
    }
    run(&home, &[&flags[..], &["--wait"]].concat(), &write("two")).published();
    wake(running.pid());
    let ended = running.wait();
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(home.read("out.txt"), "two\n");
    run(&home, &flags[..3], &write("three")).already_published();
}

#[test]
fn gc_names_what_keeps_it_from_removing_a_staging() {
    let home = home();
    let flags = ["job", "--out", "out"];
    killed_at(&home, "before-commit", &flags, "echo dead > $REFRAIN_OUT");
    run(&home, &flags, "echo data > $REFRAIN_OUT").published();
    let find = || {
        let entries = fs::read_dir(home.join(".refrain/slots")).unwrap();
        entries.map(|entry| entry.unwrap().path().join("out")).find(|path| path.exists())
    };
    attribute("+i", &find().unwrap());
    let gc = home.run(["gc"]).success();
    let left = find().unwrap();
    attribute("-i", &left);
    gc.says("Operation not permitted").says(&format!("`{}` has the immutable", left.display())).says("chattr -i -a");
    home.run(["gc"]).success();
    assert_eq!(find(), None);
}
