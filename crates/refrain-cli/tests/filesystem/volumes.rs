//! Targets on other filesystems than the home, and on filesystems that can do less.

use crate::scene::{
    BIN, Case, DIRECTORY_REPLACED, FILE_NEW, FILE_REPLACED, Watch, beside_heads, check_ends, end_all, has_ending, names,
};
use crate::{FAILED, GUARD, args, rerun, run};
use refrain_testkit::freeze;
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;
use refrain_testkit::reader::{Observation, Reader};
use refrain_testkit::strace::trace;
use std::fs;

const SIGKILL: i32 = 9;
const POINTS: &[&str] =
    &["after-seal", "before-intent", "after-intent", "after-rename", "before-record", "after-record"];

#[test]
fn fs_05_a_target_on_another_filesystem_is_refused_with_the_line_that_helps() {
    let home = Home::temp(BIN);
    let other = Mount::tmpfs(16);
    let target = other.path().join("out.csv");
    let out = target.display().to_string();
    let refused = run(&home, "t", &out, "echo 1 > $REFRAIN_OUT").expect_code(FAILED);
    let line = format!("staging = [\"{}/.refrain-staging\"]", other.path().display());
    refused.says("no rename goes from one to the other").says(&line).says("Nothing was published.");
    assert_eq!(names(&other.path()), Vec::<String>::new(), "nothing is left there");

    // The line works as it is printed.
    home.config(&line);
    let reader = Reader::start(&target);
    run(&home, "t", &out, "head -c 300000 /dev/zero | tr '\\0' x > $REFRAIN_OUT").success();
    let traced = trace(
        &home.refrain().command(rerun("t", &out, "head -c 300000 /dev/zero | tr '\\0' y > $REFRAIN_OUT")),
        &["openat", "open", "creat"],
    );
    traced.output.clone().success();
    let quoted = format!("\"{out}\"");
    let written = |args: &str| args.contains(&quoted) && (args.contains("O_WRONLY") || args.contains("O_RDWR"));
    assert!(!traced.calls.iter().any(|call| written(&call.args)), "the live name is never opened for writing");
    let [old, new] = ["x", "y"].map(|byte| Observation::file(byte.repeat(300_000)));
    reader.stop().assert_only(&[Observation::Missing, old, new]);
    assert_eq!(names(&other.path()), [".refrain-staging", "out.csv"]);
}

#[test]
fn fs_05_a_filesystem_that_is_not_mounted_is_missed_and_nothing_is_published_below_its_mount_point() {
    let home = Home::temp(BIN);
    let below = home.join("mnt");
    fs::create_dir_all(&below).unwrap();
    home.config("staging = [\"mnt/.refrain-staging\"]");
    let refused = run(&home, "t", "mnt/out.csv", "echo 1 > $REFRAIN_OUT").expect_code(FAILED);
    refused.says("is on the home's own filesystem").says("mount what belongs at").says("Nothing was published.");
    assert_eq!(names(&below), Vec::<String>::new());
    // Targets elsewhere are none of its business.
    run(&home, "u", "out.csv", "echo 1 > $REFRAIN_OUT").success();
}

#[test]
fn fs_05_a_kill_on_another_filesystem_is_recovered_there() {
    let home = Home::temp(BIN);
    let other = Mount::tmpfs(16);
    home.config(&format!("staging = [\"{}/.refrain-staging\"]", other.path().display()));
    // `out/` of the home leads to the other filesystem.
    std::os::unix::fs::symlink(other.path(), home.join("out")).unwrap();
    for shape in [FILE_REPLACED, DIRECTORY_REPLACED] {
        for point in POINTS {
            let case = Case::new(&home, shape, format!("{:?}-{point}", shape.outputs[0]).to_lowercase());
            let watch = case.watch();
            case.crashing(&format!("{point}=kill")).run(case.publishing()).expect_signal(SIGKILL);
            end_all(watch, point);
            case.repeat(point);
            assert_eq!(case.records().published(&case.task, 2).len(), 1, "{point}");
        }
    }
    home.run(["gc"]).success();
    let left = beside_heads(&other.path().join(".refrain-staging/slots"));
    assert!(left.iter().all(|name| has_ending(name, "manifest")), "left over: {left:?}");
}

#[test]
fn dir_08_a_directory_of_an_overlays_lower_layer_is_refused_and_files_are_published() {
    let overlay = Mount::overlay(|lower| {
        fs::create_dir_all(lower.join("home/image")).unwrap();
        fs::write(lower.join("home/image/part"), "of the image").unwrap();
        fs::write(lower.join("home/image.csv"), "of the image").unwrap();
    });
    let home = Home::at(BIN, overlay.path().join("home"));
    let mut adopting = args("d", "image/", "echo 1 > $REFRAIN_OUT/part");
    adopting.insert(2, "--adopt");
    for _ in 0..2 {
        let reader = Reader::start(home.join("image"));
        home.run(&adopting).expect_code(FAILED).says("container's image").says("Nothing was published.");
        reader.stop().assert_only(&[Observation::directory([("part", "of the image")])]);
    }
    let mut adopting = args("f", "image.csv", "echo 1 > $REFRAIN_OUT");
    adopting.insert(2, "--adopt");
    home.run(adopting).success();
    assert_eq!(home.read("image.csv"), "1\n");
    // A directory that is not of the image is no problem, and the refused task is not wedged.
    run(&home, "n", "new/", "echo 1 > $REFRAIN_OUT/part").success();
    home.run(rerun("n", "new/", "echo 2 > $REFRAIN_OUT/part")).success();
    assert_eq!(home.read("new/part"), "2\n");
    home.run(["gc"]).success();
}

#[test]
fn dir_04_without_exchange_directories_are_published_by_a_link_and_files_by_a_plain_rename() {
    let below = tempfile();
    let poor = Mount::bindfs(below.path());
    let home = Home::at(BIN, poor.path().join("home"));
    let mut cases = vec![];
    for shape in [FILE_NEW, FILE_REPLACED, DIRECTORY_REPLACED] {
        for point in POINTS {
            let case = Case::new(&home, shape, format!("t{}", cases.len()));
            let target = &case.targets()[0];
            // libfuse itself shows gaps to readers of its mount; below it they see what was really done.
            let real = below.path().join(target.strip_prefix(poor.path()).unwrap());
            let watch = Watch::start(real.clone());
            case.crashing(&format!("{point}=kill")).run(case.publishing()).expect_signal(SIGKILL);
            watch.end(point);
            let watch = Watch::start(real);
            home.run(case.plain()).success();
            watch.end(point);
            let is_link = fs::symlink_metadata(target).unwrap().is_symlink();
            assert_eq!(is_link, shape.outputs == DIRECTORY_REPLACED.outputs, "{}", target.display());
            if is_link {
                let seen = names(target);
                assert_eq!(seen, ["first", "sub", "third"], "no link lands inside the old version");
            }
            cases.push((case, (*point).to_owned()));
        }
    }
    let cases: Vec<_> = cases.iter().map(|(case, point)| (case, format!("{point} without exchange"))).collect();
    check_ends(&home, &cases);
}

#[test]
fn dir_04_a_real_directory_where_a_link_would_go_is_refused_and_left_alone() {
    let below = tempfile();
    let poor = Mount::bindfs(below.path());
    let home = Home::at(BIN, poor.path().join("home"));
    home.write("current/precious", "precious");
    for flag in ["--allow-empty", "--adopt"] {
        let mut args = args("t", "current/", "echo 1 > $REFRAIN_OUT/part");
        args.insert(2, flag);
        home.run(args).expect_code(FAILED).says("Nothing was published.");
        assert_eq!(home.read("current/precious"), "precious");
    }
    // Once it is moved away, the link is made, and made again at each publication.
    fs::rename(home.join("current"), home.join("aside")).unwrap();
    run(&home, "t", "current/", "echo 1 > $REFRAIN_OUT/part").success();
    let watch = Reader::start(below.path().join("home/current"));
    for number in 2..=3 {
        home.run(rerun("t", "current/", &format!("echo {number} > $REFRAIN_OUT/part"))).success();
    }
    let states = [1, 2, 3].map(|number| Observation::directory([("part", format!("{number}\n"))]));
    watch.stop().assert_only(&states);
    assert!(fs::symlink_metadata(home.join("current")).unwrap().is_symlink());
}

#[test]
fn a_read_only_filesystem_is_refused_clearly_and_works_again_when_writable() {
    let home = Home::temp(BIN);
    let other = Mount::ext4(32);
    let staging = format!("staging = [\"{}/.refrain-staging\"]", other.path().display());
    home.config(&staging);
    let out = other.path().join("out.csv").display().to_string();
    run(&home, "t", &out, "echo 1 > $REFRAIN_OUT").success();
    other.set_read_only(true);
    let refused = home.run(rerun("t", &out, "echo 2 > $REFRAIN_OUT")).expect_code(FAILED);
    refused.says("ead-only").says("Nothing was published.");
    assert_eq!(fs::read_to_string(&out).unwrap(), "1\n");
    other.set_read_only(false);
    home.run(rerun("t", &out, "echo 3 > $REFRAIN_OUT")).success();
    assert_eq!(fs::read_to_string(&out).unwrap(), "3\n");
}

#[test]
fn a_read_only_home_is_refused_clearly_and_what_is_published_stays() {
    let disk = Mount::ext4(32);
    let home = Home::at(BIN, disk.path().join("home"));
    run(&home, "t", "out.csv", "echo 1 > $REFRAIN_OUT").success();
    disk.set_read_only(true);
    let refused = home.run(rerun("t", "out.csv", "echo 2 > $REFRAIN_OUT")).expect_code(FAILED);
    refused.says("Nothing was published.");
    assert_eq!(home.read("out.csv"), "1\n");
    disk.set_read_only(false);
    home.run(rerun("t", "out.csv", "echo 2 > $REFRAIN_OUT")).success();
    assert_eq!(home.read("out.csv"), "2\n");
}

#[test]
fn proc_08_a_truncated_output_on_a_full_disk_is_refused_though_the_task_says_all_is_well() {
    let home = Home::temp(BIN);
    let small = Mount::tmpfs(1);
    home.config(&format!("staging = [\"{}/.refrain-staging\"]", small.path().display()));
    let target = small.path().join("out.csv");
    let out = target.display().to_string();
    run(&home, "t", &out, "echo old > $REFRAIN_OUT").success();
    let watch = Reader::start(&target);
    let careless = "head -c 4000000 /dev/zero > $REFRAIN_OUT; exit 0";
    let refused = home.run(rerun("t", &out, careless)).expect_code(GUARD);
    refused.says("Nothing was published.");
    watch.stop().assert_only(&[Observation::file("old\n")]);
    // The truncated staging is gone, so that there is room again.
    home.run(rerun("t", &out, "echo new > $REFRAIN_OUT")).success();
    assert_eq!(fs::read_to_string(&target).unwrap(), "new\n");
}

#[test]
fn proc_08_a_home_on_a_full_disk_publishes_nothing_and_recovers_when_there_is_room() {
    let disk = Mount::tmpfs(4);
    let home = Home::at(BIN, disk.path().join("home"));
    let case = Case::new(&home, FILE_REPLACED, "t");
    let filler = disk.fill();
    let watch = Watch::start(case.targets().remove(0));
    home.run(case.publishing()).expect_code(FAILED).says("Nothing was published.");
    watch.end("a full disk");
    assert_eq!(case.shown(), case.first);
    fs::remove_file(filler).unwrap();
    home.run(case.publishing()).success();
    assert_ne!(case.shown(), case.first);
    case.recovers("a full disk");
}

#[test]
fn proc_08_the_first_claim_of_any_number_of_outputs_takes_the_room_of_the_intent() {
    for outputs in [1, 2, 8, 12, 30] {
        let named = |number: usize| format!("o{number}=out/a-name-of-a-common-length-{number:03}.csv");
        let outs: Vec<_> = (0..outputs).map(named).collect();
        let script = "for place in $(env | sed -n 's/^REFRAIN_OUT_O[0-9]*=//p'); do echo x > $place; done; \
                      [ -z \"$REFRAIN_OUT\" ] || echo x > $REFRAIN_OUT";
        let declared = outs.iter().flat_map(|out| ["--out", out]);
        let call: Vec<_> = ["run", "t"].into_iter().chain(declared).chain(["--", "sh", "-c", script]).collect();
        let taken_at = |point: &str| {
            let home = Home::temp(BIN);
            home.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill")).run(&call).expect_signal(SIGKILL);
            let slots = home.join(".refrain/slots");
            let heads = names(&slots).into_iter().map(|name| slots.join(name));
            let heads = heads.filter(|path| path.extension() == Some("head".as_ref()));
            heads.map(|path| (path.metadata().unwrap().len(), path.file_name().unwrap().to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(taken_at("after-intent"), taken_at("before-intent"), "{outputs} outputs");
    }
}

#[test]
fn proc_08_a_home_on_a_full_disk_of_small_blocks_is_told_and_kills_nobody() {
    // Small images have blocks of 1 KiB.
    let disk = Mount::ext4(16);
    let home = Home::at(BIN, disk.path().join("home"));
    run(&home, "t", "out.csv", "echo old > $REFRAIN_OUT").success();
    let filler = disk.fill();
    for call in [&["status"][..], &["path", "t"], &["gc"], &["recover"]] {
        home.run(call.iter().copied()).expect_code(125).says("no space is left for the state").says("free some space");
    }
    run(&home, "t", "out.csv", "false").expect_code(125).says("no space is left").says("Nothing was published.");
    fs::remove_file(filler).unwrap();
    home.run(rerun("t", "out.csv", "echo new > $REFRAIN_OUT")).success();
    assert_eq!(home.read("out.csv"), "new\n");
}

fn tempfile() -> Directory {
    let path =
        std::env::temp_dir().join(format!("refrain-below-{}-{:?}", std::process::id(), std::thread::current().id()));
    fs::create_dir(&path).unwrap();
    Directory(path)
}

/// What a bindfs shows; removed at the end.
struct Directory(std::path::PathBuf);

impl Directory {
    fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        freeze::wait_for("the directory below the mount is gone", || {
            fs::remove_dir_all(&self.0).is_ok() || !self.0.exists()
        });
    }
}

#[test]
fn a_file_is_published_again_at_once_where_the_filesystem_remembers_its_second_name() {
    let below = tempfile();
    let poor = Mount::bindfs(below.path());
    let home = Home::at(BIN, poor.path().join("home"));
    run(&home, "t", "out.csv", "echo 1 > $REFRAIN_OUT").success();
    home.run(rerun("t", "out.csv", "echo 2 > $REFRAIN_OUT")).success();
}
