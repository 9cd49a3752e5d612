//! SIGKILL before every system call by which a publication changes the filesystem.

use crate::scene::{
    BIN, BOTH_REPLACED, Case, DIRECTORY_NEW, DIRECTORY_REPLACED, FILE_NEW, FILE_REPLACED, Shape, check_ends, with_input,
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

/// How many calls of a list the main thread makes, and how many syncs any other thread makes.
fn counts(home: &Home, shape: Shape) -> (usize, usize, usize) {
    let case = Case::new(home, shape, "counted");
    let calls: Vec<&str> = NAMES.split(',').chain(CONTENT.split(',')).collect();
    let trace = trace(&home.refrain().command(case.publishing()), &calls);
    trace.output.clone().success();
    let of_main = |list: &str| {
        let listed = |name: &str| list.split(',').any(|one| one == name);
        trace.of_first().filter(|call| call.thread == call.pid && listed(&call.name)).count()
    };
    let mut others: BTreeMap<u32, usize> = BTreeMap::new();
    for call in trace.of_first().filter(|call| call.thread != call.pid && SYNCS.contains(&call.name)) {
        *others.entry(call.thread).or_default() += 1;
    }
    (of_main(NAMES), of_main(CONTENT), others.values().copied().max().unwrap_or_default())
}

fn kill_before_every_call(shape: Shape) {
    let memory = Mount::tmpfs(64);
    let home = with_input(Home::at(BIN, memory.path().join("home")));
    let (names, content, others) = counts(&home, shape);
    assert!(names >= 10, "only {names} calls change names: the trace is not of a publication");
    let mut points: Vec<(String, bool)> = vec![];
    points.extend((1..=names).map(|n| (format!("{NAMES}:signal=SIGKILL:when={n}"), false)));
    points.extend((1..=content).step_by(3).map(|n| (format!("{CONTENT}:signal=SIGKILL:when={n}"), false)));
    // A directory is made durable by a thread of its own.
    points.extend((1..=others).map(|n| (format!("{SYNCS}:signal=SIGKILL:when={n}"), true)));
    assert!(points.len() >= 30, "PROC-04 asks for 30 points, here are {}", points.len());
    let cases: Vec<_> = (0..points.len()).map(|index| Case::new(&home, shape, format!("t{index}"))).collect();
    for (case, (point, everywhere)) in cases.iter().zip(&points) {
        let watch = case.watch();
        let command = home.refrain().command(case.publishing());
        let output = if *everywhere { inject_everywhere(&command, point) } else { inject(&command, point) };
        // A first publication makes fewer calls than the counted one where directories exist already.
        if output.code.is_some() {
            output.success();
        } else {
            output.expect_signal(SIGKILL);
        }
        watch.into_iter().for_each(|watch| watch.end(point));
        case.repeat(point);
    }
    let counted = Case::standing(&home, shape, "counted");
    let mut all: Vec<_> = cases.iter().zip(points.iter().map(|(point, _)| point.clone())).collect();
    all.push((&counted, "not killed".to_owned()));
    check_ends(&home, &all);
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
