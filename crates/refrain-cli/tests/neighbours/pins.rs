//! Copies of inputs: what a gc may not take, and what becomes of a torn one.

use crate::call::{Call, names, run};
use crate::{call, killed_at};
use refrain_testkit::freeze::{descendants, wait_for, wait_for_some, wake};
use refrain_testkit::program::{Home, Running};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A home with two input directories.
fn with_inputs() -> Home {
    let home = call::home();
    for input in ["a", "b"] {
        for part in 0..3 {
            home.write(format!("in/{input}/part-{part}"), format!("{input}{part}\n"));
        }
    }
    home
}

const FLAGS: [&str; 7] = ["job", "--in", "a=in/a", "--in", "b=in/b", "--out", "out.csv"];
const CONCATENATE: &str = "cat $REFRAIN_IN_A/* $REFRAIN_IN_B/* > $REFRAIN_OUT";
const WHOLE: &str = "a0\na1\na2\nb0\nb1\nb2\n";

/// What attempts keep: `pins/<attempt>/<input>`, each with a link `view` to what is read.
fn pins(home: &Home) -> Vec<PathBuf> {
    let pins = home.join(".refrain/pins");
    let owners = names(&pins).into_iter().map(|owner| pins.join(owner));
    owners.flat_map(|owner| names(&owner).into_iter().map(move |input| owner.join(input))).collect()
}

/// A call that freezes when it first opens `path`, and its process.
fn frozen_before_opening(home: &Home, path: &str, flags: &[&str], script: &str) -> (Running, u32) {
    let traced = home.refrain().command([&["run"], flags, &["--", "sh", "-c", script]].concat());
    let record = home.join("trace");
    let mut strace = Command::new("strace");
    strace.current_dir(home.path()).arg("-o").arg(&record).arg("-P").arg(home.join(path));
    strace.args(["-etrace=openat", "-einject=openat:signal=SIGSTOP:when=1", "--"]);
    strace.arg(traced.get_program()).args(traced.get_args());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REFRAIN_")) {
        strace.env_remove(name);
    }
    let running = Running::start(&mut strace, b"");
    wait_for("the call stands still", || {
        fs::read_to_string(&record).is_ok_and(|text| text.contains("stopped by SIGSTOP"))
    });
    let pid = wait_for_some("its process", || descendants(running.pid()).first().copied());
    (running, pid)
}

#[test]
fn a_gc_between_two_pinned_directories_keeps_the_first_and_the_run_publishes_the_complete_input() {
    let home = with_inputs();
    let (running, pid) = frozen_before_opening(&home, "in/b", &FLAGS, CONCATENATE);
    let kept: Vec<_> = pins(&home).into_iter().filter(|input| input.join("view").exists()).collect();
    assert!(kept.len() == 1 && kept[0].ends_with("a"), "one directory is copied, the other is not: {kept:?}");
    for dry in [&["gc", "--dry-run"][..], &["gc"]] {
        let gc = home.run(dry).success();
        assert!(!gc.stdout.contains("/pins/") && !gc.stdout.contains("/views/"), "{gc}");
        assert!(gc.stderr.contains("/pins/") && gc.stderr.contains("may still need it"), "{gc}");
    }
    wake(pid);
    running.wait().success();
    assert_eq!(home.read("out.csv"), WHOLE);
    assert_eq!(pins(&home), Vec::<PathBuf>::new(), "released by the run that is published");
}

#[test]
fn a_gc_after_a_failed_attempt_keeps_the_pins_for_the_next_one_which_reads_them() {
    let home = with_inputs();
    run(&home, &FLAGS, "exit 3").nothing(3, "task_failed");
    home.write("in/a/part-0", "changed\n");
    let gc = home.run(["gc"]).success();
    assert!(gc.stderr.contains("reads it and is not published yet"), "{gc}");
    run(&home, &FLAGS, CONCATENATE).published();
    assert_eq!(home.read("out.csv"), WHOLE, "the pinned version, not what the original became");
}

#[test]
fn pins_of_an_attempt_that_died_before_it_opened_its_run_are_kept_until_it_is_settled_and_go_then() {
    let home = with_inputs();
    // Killed when the run is in the store: the copies are its. Killed before: they are nobody's, once it is settled.
    let (running, pid) = frozen_before_opening(&home, "in/b", &FLAGS, CONCATENATE);
    refrain_testkit::freeze::kill(pid);
    drop(running);
    let orphan = pins(&home);
    assert!(!orphan.is_empty());
    home.run(["gc"]).success().says("may still need it");
    run(&home, &FLAGS, CONCATENATE).published();
    assert_eq!(home.read("out.csv"), WHOLE);
    home.run(["gc"]).success();
    assert_eq!(pins(&home), Vec::<PathBuf>::new());
}

/// A run whose first attempt failed after it had pinned its inputs.
fn pinned() -> Home {
    let home = with_inputs();
    killed_at(&home, "before-task", &FLAGS, CONCATENATE);
    home
}

/// Tears every copy of `a`, as a power cut or a hand does.
fn tear(home: &Home) {
    for copy in pins(home).iter().filter(|copy| copy.ends_with("a")) {
        fs::remove_file(copy.join("view/part-1")).unwrap();
        fs::write(copy.join("view/part-2"), "").unwrap();
    }
}

#[test]
fn a_copy_torn_by_hand_is_made_again_from_an_unchanged_original_and_the_run_publishes() {
    let home = pinned();
    tear(&home);
    run(&home, &FLAGS, CONCATENATE).published();
    assert_eq!(home.read("out.csv"), WHOLE);
}

#[test]
fn a_copy_that_is_gone_is_made_again_from_an_unchanged_original() {
    let home = pinned();
    fs::remove_dir_all(home.join(".refrain/pins")).unwrap();
    fs::remove_dir_all(home.join(".refrain/views")).unwrap();
    run(&home, &FLAGS, CONCATENATE).published();
    assert_eq!(home.read("out.csv"), WHOLE);
}

#[test]
fn a_torn_copy_of_a_changed_original_is_refused_and_rerun_reads_what_is_there_now() {
    let home = pinned();
    tear(&home);
    home.write("in/a/part-0", "new\n");
    for _ in 0..2 {
        let call: Call = run(&home, &FLAGS, CONCATENATE).nothing(125, "refused");
        call.says("input `a`").says("--rerun");
        assert!(!home.exists("out.csv"));
    }
    run(&home, &[&FLAGS[..], &["--rerun"]].concat(), CONCATENATE).published();
    assert_eq!(home.read("out.csv"), WHOLE.replace("a0", "new"));
}
