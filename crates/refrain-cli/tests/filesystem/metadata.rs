//! Modes, owners, long names, hard links.

use crate::scene::{BIN, names};
use crate::{FAILED, args, rerun, run};
use refrain_testkit::program::{Home, Output};
use refrain_testkit::strace::trace;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const OWNER: u32 = 1234;
const GROUP: u32 = 4321;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Mode bits, owner and group.
fn standing(path: &Path) -> (u32, u32, u32) {
    let stat = fs::metadata(path).unwrap();
    (stat.mode() & 0o7777, stat.uid(), stat.gid())
}

fn with_umask(home: &Home, umask: &str, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "umask $0; exec \"$@\"", umask, BIN]).args(args).current_dir(home.path());
    Output::of(&mut command, b"")
}

#[test]
fn fs_04_a_replaced_file_keeps_mode_owner_and_group() {
    let home = Home::temp(BIN);
    let directory = home.join("shared");
    fs::create_dir(&directory).unwrap();
    chown(&directory, None, Some(GROUP)).unwrap();
    set_mode(&directory, 0o2775);
    let target = home.write("shared/out.csv", "by hand\n");
    chown(&target, Some(OWNER), Some(GROUP)).unwrap();
    set_mode(&target, 0o664);

    let mut adopting = args("t", "shared/out.csv", "echo 1 > $REFRAIN_OUT");
    adopting.insert(2, "--adopt");
    with_umask(&home, "002", &adopting).success();
    assert_eq!(home.read("shared/out.csv"), "1\n");
    assert_eq!(standing(&target), (0o664, OWNER, GROUP));

    with_umask(&home, "077", &rerun("t", "shared/out.csv", "echo 2 > $REFRAIN_OUT")).success();
    assert_eq!(home.read("shared/out.csv"), "2\n");
    assert_eq!(standing(&target), (0o664, OWNER, GROUP));
}

#[test]
fn fs_04_a_replaced_directory_keeps_mode_owner_and_group() {
    let home = Home::temp(BIN);
    run(&home, "t", "out/", "echo 1 > $REFRAIN_OUT/a").success();
    let target = home.join("out");
    chown(&target, Some(OWNER), Some(GROUP)).unwrap();
    set_mode(&target, 0o2770);
    home.run(rerun("t", "out/", "echo 2 > $REFRAIN_OUT/a")).success();
    assert_eq!(home.read("out/a"), "2\n");
    assert_eq!(standing(&target), (0o2770, OWNER, GROUP));
    assert_eq!(fs::metadata(target.join("a")).unwrap().gid(), GROUP, "files inherit the group of a setgid directory");
}

#[test]
fn fs_04_a_new_output_has_what_the_umask_leaves_and_the_group_of_a_setgid_directory() {
    let home = Home::temp(BIN);
    for (umask, file, directory) in [("002", 0o664, 0o775), ("022", 0o644, 0o755), ("027", 0o640, 0o750)] {
        let own = fs::metadata(home.path()).unwrap().gid();
        let [a, b] = ["csv", "d/"].map(|end| format!("u{umask}.{end}"));
        with_umask(&home, umask, &args(&format!("f{umask}"), &a, "echo 1 > $REFRAIN_OUT")).success();
        with_umask(&home, umask, &args(&format!("d{umask}"), &b, "echo 1 > $REFRAIN_OUT/a")).success();
        let stat = |path: &Path| fs::metadata(path).map(|it| (it.mode() & 0o7777, it.gid())).unwrap();
        assert_eq!(stat(&home.join(&a)), (file, own), "a file under umask {umask}");
        assert_eq!(stat(&home.join(b.trim_end_matches('/'))), (directory, own), "a directory under umask {umask}");
    }
    let shared = home.join("shared");
    fs::create_dir(&shared).unwrap();
    chown(&shared, None, Some(GROUP)).unwrap();
    set_mode(&shared, 0o2775);
    run(&home, "g", "shared/new.csv", "echo 1 > $REFRAIN_OUT").success();
    run(&home, "h", "shared/new/", "echo 1 > $REFRAIN_OUT/a").success();
    for made in ["new.csv", "new", "new/a"] {
        assert_eq!(fs::metadata(shared.join(made)).unwrap().gid(), GROUP, "{made} inherits the group");
    }
}

#[test]
fn fs_04_there_is_no_moment_with_the_wrong_mode() {
    let home = Home::temp(BIN);
    run(&home, "t", "out.csv", "echo 1 > $REFRAIN_OUT").success();
    let target = home.join("out.csv");
    chown(&target, Some(OWNER), Some(GROUP)).unwrap();
    set_mode(&target, 0o600);
    let calls = ["chmod", "fchmod", "fchmodat", "chown", "lchown", "fchown", "fchownat", "renameat2"];
    let trace = trace(&home.refrain().command(rerun("t", "out.csv", "echo 2 > $REFRAIN_OUT")), &calls);
    trace.output.clone().success();
    let calls: Vec<_> = trace.of_first().filter(|call| call.args.contains("out.csv")).collect();
    let renamed = calls.iter().position(|call| call.name == "renameat2").expect("the rename to the target");
    let owned = calls.iter().position(|call| call.name.contains("chown")).expect("the change of owner");
    let moded = calls.iter().position(|call| call.name.contains("chmod")).expect("the change of mode");
    assert!(owned < renamed && moded < renamed, "mode and owner are right before the rename: {calls:#?}");
    let later = calls.iter().skip(renamed).any(|call| call.name.contains("chmod") || call.name.contains("chown"));
    assert!(!later, "and are not touched after it: {calls:#?}");
    assert_eq!(standing(&target), (0o600, OWNER, GROUP));
}

#[test]
fn fs_07_names_of_255_bytes_are_published_replaced_and_kept() {
    let home = Home::temp(BIN);
    for (number, name) in ["n".repeat(255), "☃".repeat(85), "é".repeat(127)].iter().enumerate() {
        assert!(name.len() >= 254);
        let task = format!("file{number}");
        run(&home, &task, name, "echo 1 > $REFRAIN_OUT").success();
        home.run(rerun(&task, name, "echo 2 > $REFRAIN_OUT")).success();
        assert_eq!(home.read(name), "2\n");
        let kept = home.run(["path", &task, "--version", "1"]).success();
        assert_eq!(fs::read_to_string(kept.stdout.trim_end()).unwrap(), "1\n");

        let task = format!("directory{number}");
        let inner = format!("sub/{name}/");
        run(&home, &task, &inner, &format!("echo 1 > \"$REFRAIN_OUT/{name}\"")).success();
        home.run(rerun(&task, &inner, &format!("echo 2 > \"$REFRAIN_OUT/{name}\""))).success();
        assert_eq!(home.read(format!("{inner}{name}")), "2\n");
    }
    let longest = names(&home.join(".refrain/slots")).iter().map(String::len).max();
    assert!(longest < Some(100), "the names in the state do not grow with the target's");
}

#[test]
fn fs_08_a_target_with_other_hard_links_is_refused_unless_adopted() {
    let home = Home::temp(BIN);
    run(&home, "t", "out.csv", "echo old > $REFRAIN_OUT").success();
    fs::hard_link(home.join("out.csv"), home.join("mirror.csv")).unwrap();
    let inode = |name: &str| fs::metadata(home.join(name)).unwrap().ino();

    let script = "echo new > $REFRAIN_OUT";
    home.run(rerun("t", "out.csv", script)).expect_code(FAILED).says("2 names (hard links)").says("--adopt");
    assert_eq!((home.read("out.csv").as_str(), home.read("mirror.csv").as_str()), ("old\n", "old\n"));
    assert_eq!(inode("out.csv"), inode("mirror.csv"));

    let mut adopting = rerun("t", "out.csv", script);
    adopting.insert(2, "--adopt");
    home.run(adopting).success();
    assert_eq!(home.read("out.csv"), "new\n");
    assert_eq!(home.read("mirror.csv"), "old\n", "the other name is left as it was, never written in place");
}

#[test]
fn fs_04_an_owner_that_may_not_be_given_is_told() {
    let directory = tempfile::tempdir().unwrap();
    set_mode(directory.path(), 0o777);
    let refrain = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", BIN]);
        Output::of(command.args(arguments).current_dir(directory.path()), b"")
    };
    refrain(&["init"]).success();
    let target = directory.path().join("out.csv");
    fs::write(&target, "by root\n").unwrap();
    chown(&target, Some(OWNER), Some(GROUP)).unwrap();
    let adopt = ["run", "t", "--adopt", "--out", "out.csv", "--", "sh", "-c", "echo 1 > $REFRAIN_OUT"];
    let told = format!("belonged to user {OWNER} and group {GROUP}");
    refrain(&adopt).success().says(&told).says("it belongs to user 65534 and group 65534 from now on");
    let again = refrain(&["run", "t", "--rerun", "--out", "out.csv", "--", "sh", "-c", "echo 2 > $REFRAIN_OUT"]);
    assert_eq!(again.success().stderr.lines().count(), 1);
}
