//! SIGKILL before every system call by which a publication changes the filesystem.

use crate::scene::{
    BIN, BOTH_REPLACED, Case, DIRECTORY_NEW, DIRECTORY_REPLACED, FILE_NEW, FILE_REPLACED, Shape, check_ends, end_all,
    with_input,
};
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;
use refrain_testkit::strace::{inject, inject_everywhere, trace};
use std::collections::BTreeMap;

const SIGKILL: i32 = 9;
/// Calls that change names or make something durable: each is a kill point.
const NAMES: &str = "fsync,fdatasync,syncfs,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,mkdir,mkdirat,\
                     symlink,symlinkat,ftruncate,setxattr,fsetxattr,lsetxattr";
/// Calls that change content: every third is a kill point.
const CONTENT: &str = "write,pwrite64,copy_file_range";
const SYNCS: &str = "fsync,fdatasync,syncfs";

/// One kill: the expression for strace, and whether it counts in all threads.
type Point = (String, bool);

/// The kill points of one publication, counted in one that is not killed. strace counts each call by itself.
fn points(home: &Home, shape: Shape) -> Vec<Point> {
    // The first publication of a home makes directories, which no later one does.
    home.run(Case::new(home, shape, "first").publishing()).success();
    let case = Case::new(home, shape, "counted");
    let calls: Vec<&str> = NAMES.split(',').chain(CONTENT.split(',')).collect();
    let trace = trace(&home.refrain().command(case.publishing()), &calls);
    trace.output.clone().success();
    let mut counts: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    for call in trace.of_first() {
        *counts.entry((&call.name, call.thread)).or_default() += 1;
    }
    let mut points = vec![];
    for ((name, thread), count) in counts {
        let step = if CONTENT.split(',').any(|one| one == name) { 3 } else { 1 };
        let main = thread == trace.first;
        // A directory is made durable by a thread of its own.
        if main || SYNCS.split(',').any(|one| one == name) {
            points.extend((1..=count).step_by(step).map(|n| (format!("{name}:signal=SIGKILL:when={n}"), !main)));
        }
    }
    points
}

fn kill_before_every_call(shape: Shape) {
    let memory = Mount::tmpfs(64);
    let home = with_input(Home::at(BIN, memory.path().join("home")));
    let points = points(&home, shape);
    assert!(points.len() >= 30, "PROC-04 asks for 30 points, here are {}", points.len());
    for call in ["renameat2", "fsync", "fdatasync", "mkdir", "pwrite64"] {
        assert!(points.iter().any(|(point, _)| point.starts_with(&format!("{call}:"))), "no {call} in {points:?}");
    }
    let cases: Vec<_> = (0..points.len()).map(|index| Case::new(&home, shape, format!("t{index}"))).collect();
    let mut survived = vec![];
    for (case, (point, everywhere)) in cases.iter().zip(&points) {
        let watch = case.watch();
        let command = home.refrain().command(case.publishing());
        let output = if *everywhere { inject_everywhere(&command, point) } else { inject(&command, point) };
        // How often the store writes differs a little.
        if output.code.is_some() {
            survived.push(point);
            output.success();
        } else {
            output.expect_signal(SIGKILL);
        }
        end_all(watch, point);
        case.repeat(point);
    }
    assert!(survived.len() * 10 < points.len(), "not killed at {survived:?} of {} points", points.len());
    let [first, counted] = ["first", "counted"].map(|task| Case::standing(&home, shape, task));
    let mut all: Vec<_> = cases.iter().zip(points.iter().map(|(point, _)| point.clone())).collect();
    all.extend([&first, &counted].map(|case| (case, "not killed".to_owned())));
    check_ends(&home, &all);
}

#[test]
fn a_gc_killed_before_any_removal_leaves_the_rest_to_the_next_one() {
    const REMOVALS: [&str; 3] = ["unlink", "unlinkat", "rmdir"];
    let memory = Mount::tmpfs(64);
    let home = with_input(Home::at(BIN, memory.path().join("home")));
    let dead = |task: String| {
        let case = Case::new(&home, BOTH_REPLACED, task);
        case.crashing("before-commit=kill").run(case.publishing()).expect_signal(SIGKILL);
        // The next attempt fences the dead one, whose staging is of no use from now on.
        case.repeat("a dead attempt");
        case
    };
    let counted = dead("counted".to_owned());
    let trace = trace(&home.refrain().command(["gc"]), &REMOVALS);
    trace.output.clone().success();
    let points: Vec<_> = trace
        .count(&REMOVALS)
        .into_iter()
        .flat_map(|(call, count)| (1..=count).map(move |n| (call.clone(), n)))
        .collect();
    assert!(points.len() >= 4, "gc removes two stagings: {points:?}");
    let mut cases = vec![(counted, "not killed".to_owned())];
    for (call, n) in points {
        let case = dead(format!("{call}{n}"));
        let watch = case.watch();
        let context = format!("{call}:signal=SIGKILL:when={n}");
        inject(&home.refrain().command(["gc"]), &context).expect_signal(SIGKILL);
        end_all(watch, &context);
        cases.push((case, context));
        let all: Vec<_> = cases.iter().map(|(case, context)| (case, context.clone())).collect();
        check_ends(&home, &all);
    }
}

#[test]
fn proc_04_a_new_file_survives_a_kill_before_every_call() {
    kill_before_every_call(FILE_NEW);
}

#[test]
fn proc_04_a_replaced_file_survives_a_kill_before_every_call() {
    kill_before_every_call(FILE_REPLACED);
}

#[test]
fn proc_04_a_new_directory_survives_a_kill_before_every_call() {
    kill_before_every_call(DIRECTORY_NEW);
}

#[test]
fn dir_01_a_replaced_directory_survives_a_kill_before_every_call() {
    kill_before_every_call(DIRECTORY_REPLACED);
}

#[test]
fn fs_11_two_replaced_outputs_survive_a_kill_before_every_call() {
    kill_before_every_call(BOTH_REPLACED);
}
