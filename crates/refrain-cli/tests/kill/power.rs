//! Power cuts on real filesystems, at every point of a publication: what was told survives, and nothing is torn.

use crate::points::points;
use crate::scene::{
    BIN, BOTH_NEW, BOTH_REPLACED, Case, DIRECTORY_NEW, DIRECTORY_REPLACED, FILE_NEW, FILE_REPLACED, Records, Shape,
    attempt_at, check_ends, text, with_input,
};
use refrain_testkit::freeze;
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;
use serde_json::Value;
use std::fs::File;

/// Freezes a publication at each of its points, cuts the power, and looks.
fn cut_at_every_point(mut mount: Mount, shapes: &[Shape], wanted: impl Fn(&str) -> bool) {
    let home = with_input(Home::at(BIN, mount.path().join("home")));
    // The cut is to hit what Refrain writes, not what the test wrote.
    rustix::fs::syncfs(File::open(home.path()).unwrap()).unwrap();
    let mut done = vec![];
    for (number, shape) in shapes.iter().enumerate() {
        let points: Vec<_> = points(&home, *shape, &format!("points{number}"));
        for point in points.iter().filter(|point| wanted(point)) {
            let case = Case::new(&home, *shape, format!("s{number}-{}", done.len()));
            let running = case.crashing(&format!("{point}=stop")).spawn(case.publishing());
            freeze::wait_for(&format!("the program stands at {point}"), || freeze::state(running.pid()) == Some('T'));
            cut(&mut mount, || drop(running.kill()));
            check_survivors(&case, point);
            case.repeat(point);
            done.push((case, point.clone()));
        }
        let case = Case::new(&home, *shape, format!("s{number}-whole"));
        home.run(case.publishing()).success();
        let told = case.shown();
        cut(&mut mount, || {});
        assert_eq!(case.shown(), told, "{shape:?}: what was told is gone after a power cut");
        check_survivors(&case, "the end");
        case.repeat("the end");
        done.push((case, "the end".to_owned()));
        let traced = Case::standing(&home, *shape, format!("points{number}"));
        done.push((traced, "not cut".to_owned()));
    }
    // The ends of attempts are recorded, not yet durably: that is bookkeeping, and a later cut may undo it.
    home.run(["recover"]).success();
    let cases: Vec<_> = done.iter().map(|(case, point)| (case, format!("power cut at {point}"))).collect();
    check_ends(&home, &cases);
}

fn cut(mount: &mut Mount, kill: impl FnOnce()) {
    mount.cut();
    kill();
    mount.restore();
}

/// Right after the power is back: each target is whole, old or new, and no record says more than is there.
fn check_survivors(case: &Case<'_>, point: &str) {
    let context = format!("{}: power cut at {point}", case.task);
    let shown: Vec<_> = case.targets().iter().map(|target| attempt_at(target)).collect();
    let records = Records::of(case.home);
    let newest = records.published(&case.task, 2).pop().or_else(|| records.published(&case.task, 1).pop());
    if let Some(newest) = &newest {
        let anchor = shown[0].as_ref();
        // A generation that is there though the log does not say so yet is no lie.
        let ahead = anchor.is_some() && anchor != case.first.as_ref() && Some(newest) == case.first.as_ref();
        assert!(ahead || anchor == Some(newest), "{context}: the log says {newest} is published, there is {shown:?}");
    }
    if let Some(first) = &case.first {
        assert!(shown.iter().all(Option::is_some), "{context}: the former publication {first} is gone: {shown:?}");
    }
    for (target, shown) in case.targets().iter().zip(&shown) {
        let show = case.home.run(["show", &target.display().to_string(), "--json"]);
        if show.code != Some(0) {
            assert!(case.first.is_none(), "{context}: {show}");
            continue;
        }
        let told: Value = serde_json::from_str(&show.stdout).expect("what `show` says");
        let publication =
            if told["publication"].is_object() { &told["publication"]["attempt"] } else { &told["attempt"] };
        assert_eq!(shown.as_deref(), Some(text(publication).as_str()), "{context}: `show` says {show}");
    }
}

#[test]
fn ledg_10_a_pin_that_a_power_cut_tore_is_never_read() {
    const REFUSED: i32 = 125;
    let mut mount = Mount::ext4(64);
    let home = with_input(Home::at(BIN, mount.path().join("home")));
    for path in [home.join("source.txt"), home.path().to_owned()] {
        File::open(path).and_then(|it| it.sync_all()).unwrap();
    }
    let case = Case::new(&home, FILE_NEW, "t");
    let running = case.crashing("after-open-run=stop").spawn(case.publishing());
    freeze::wait_for("the run is recorded", || freeze::state(running.pid()) == Some('T'));
    cut(&mut mount, || drop(running.kill()));
    // The task itself checks what it reads: a torn copy would give the task's own code.
    let output = home.run(case.plain());
    if output.code != Some(0) {
        output.expect_code(REFUSED).says("--rerun").says("Nothing was published.");
        let mut rerun = case.plain();
        rerun.insert(2, "--rerun".to_owned());
        home.run(rerun).success();
    }
    let shown = case.shown();
    let (state, generation) = case.records().state("t");
    assert_eq!(state, "published");
    assert_eq!(case.records().published("t", generation), [shown.unwrap()]);
}

/// The points at which something else is on the disk than at the point before.
fn changes(point: &str) -> bool {
    let name = point.split('#').next().unwrap_or_default();
    ["after-claim", "after-open-run", "after-task", "before-commit", "after-intent", "after-rename", "after-record"]
        .contains(&name)
        || name == "after-finish"
}

#[test]
fn fs_01_fs_02_a_file_on_ext4_survives_power_cuts() {
    cut_at_every_point(Mount::ext4(64), &[FILE_NEW, FILE_REPLACED], |_| true);
}

#[test]
fn fs_01_fs_02_a_directory_on_ext4_survives_power_cuts() {
    cut_at_every_point(Mount::ext4(64), &[DIRECTORY_NEW, DIRECTORY_REPLACED], |_| true);
}

#[test]
fn fs_11_two_outputs_on_ext4_survive_power_cuts() {
    cut_at_every_point(Mount::ext4(64), &[BOTH_NEW, BOTH_REPLACED], |_| true);
}

#[test]
fn fs_01_fs_02_a_file_on_xfs_survives_power_cuts() {
    cut_at_every_point(Mount::xfs(320), &[FILE_NEW, FILE_REPLACED], changes);
}

#[test]
fn dir_01_a_directory_on_xfs_survives_power_cuts() {
    cut_at_every_point(Mount::xfs(320), &[DIRECTORY_NEW, DIRECTORY_REPLACED], changes);
}

#[test]
fn fs_11_two_outputs_on_xfs_survive_power_cuts() {
    cut_at_every_point(Mount::xfs(320), &[BOTH_REPLACED], changes);
}
