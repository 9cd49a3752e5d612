//! Processes that outlive what started them.

use crate::scene::{BIN, beside_heads, names};
use crate::{args, pid_in, read};
use refrain_testkit::freeze;
use refrain_testkit::program::{Home, Output};
use rustix::process::Signal;
use std::fs;

/// `$HOME_DIRECTORY` and the like are not cleared for a task, so scripts find the home by this.
fn script(home: &Home, text: &str) -> String {
    text.replace("@HOME@", &home.path().display().to_string())
}

fn gone(what: &str, pid: u32) {
    freeze::wait_for(&format!("{what} is gone"), || !freeze::is_alive(pid));
}

#[test]
fn proc_01_kill_of_refrain_kills_the_whole_tree_and_late_bytes_reach_nothing() {
    let home = Home::temp(BIN);
    let first = script(
        &home,
        "echo $$ > @HOME@/shell; echo early > $REFRAIN_OUT; \
         sh -c 'echo $$ > @HOME@/inner; while [ ! -e @HOME@/go ]; do sleep 0.02; done; echo late >> $REFRAIN_OUT; echo late >> @HOME@/out.csv' & \
         setsid sh -c 'echo $$ > @HOME@/session; sleep 1000' & wait",
    );
    let running = home.spawn(args("t", "out.csv", &first));
    let tree = ["shell", "inner", "session"].map(|file| pid_in(&home, file));
    running.kill().expect_signal(9);
    for (what, pid) in ["the shell", "its child", "the process in a session of its own"].iter().zip(tree) {
        gone(what, pid);
    }
    home.write("go", "");
    home.run(args("t", "out.csv", "echo whole > $REFRAIN_OUT")).success();
    assert_eq!(home.read("out.csv"), "whole\n");
    home.run(["gc"]).success();
    assert_eq!(beside_heads(&home.join(".refrain/slots")), Vec::<String>::new(), "left over");
}

#[test]
fn spk_07_a_detached_worker_that_survives_term_writes_only_into_its_own_staging() {
    let home = Home::temp(BIN);
    // Without the environment nothing tells whose it is: the worst case.
    let first = script(
        &home,
        "stage=$REFRAIN_OUT; \
         setsid env -i PATH=\"$PATH\" sh -c \"echo \\$\\$ > @HOME@/worker; while [ ! -e @HOME@/go ]; do sleep 0.02; done; \
           mkdir -p $stage 2>/dev/null; echo zombie > $stage/zombie; echo done > @HOME@/done\" & \
         echo first > $stage/part; echo $$ > @HOME@/shell; sleep 1000",
    );
    let running = home.spawn(args("t", "out/", &first));
    let worker = pid_in(&home, "worker");
    let shell = pid_in(&home, "shell");
    freeze::send(running.pid(), Signal::TERM);
    running.wait().expect_code(143).says("Nothing was published.");
    gone("the shell", shell);

    home.run(args("t", "out/", "echo second > $REFRAIN_OUT/part")).success();
    home.write("go", "");
    if freeze::is_alive(worker) {
        freeze::wait_for("the worker ends", || home.exists("done") || !freeze::is_alive(worker));
        gone("the worker", worker);
    }
    assert_eq!(names(&home.join("out")), ["part"], "only the second attempt's files are visible");
    assert_eq!(home.read("out/part"), "second\n");
    home.run(args("t", "out/", "false")).success().says("already published");
}

#[test]
fn proc_11_a_child_that_still_writes_is_ended_before_the_seal() {
    let home = Home::temp(BIN);
    let writer = script(
        &home,
        "(echo $$ > /dev/null; sh -c 'echo $$ > @HOME@/writer; while :; do echo line >> $REFRAIN_OUT/log; done') & \
         while [ ! -s @HOME@/writer ] || [ ! -s $REFRAIN_OUT/log ]; do sleep 0.01; done",
    );
    let output = home.run(args("t", "out/", &writer)).success();
    output.says("ended a process that the command left behind");
    gone("the writer", pid_in(&home, "writer"));
    let content = home.read("out/log");
    assert!(content.starts_with("line\n"));
    // What is published is what was hashed.
    let show = home.run(["show", "out"]).success();
    assert!(show.stdout.contains("what was published"), "{show}");
    home.run(args("t", "out/", "false")).success().says("already published");
    assert_eq!(home.read("out/log"), content);
}

#[test]
fn spk_01_a_second_worker_that_comes_late_adds_nothing_to_what_is_published() {
    let home = Home::temp(BIN);
    let farm = script(
        &home,
        "stage=$REFRAIN_OUT; echo 3 > $stage/part-3-of-worker-1; \
         setsid env -i PATH=\"$PATH\" sh -c \"echo \\$\\$ > @HOME@/late; while [ ! -e @HOME@/go ]; do sleep 0.02; done; \
           echo 3 > $stage/part-3-of-worker-2; echo done > @HOME@/done\" & \
         while [ ! -s @HOME@/late ]; do sleep 0.01; done",
    );
    let running = home.run(args("t", "out/", &farm));
    let late = pid_in(&home, "late");
    home.write("go", "");
    gone("the second worker", late);
    // Either it was ended before the seal, or its place is not what readers see.
    running.success();
    assert_eq!(names(&home.join("out")), ["part-3-of-worker-1"]);
    assert_eq!(fs::read_to_string(home.join("out/part-3-of-worker-1")).unwrap(), "3\n");
    assert_eq!(read(&home.join("out/part-3-of-worker-2")), "");
}

#[test]
fn where_proc_shows_another_pid_namespace_strangers_are_neither_named_nor_touched() {
    let home = Home::temp(BIN);
    let stranger = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let call = home.refrain().command(args("t", "out.csv", "sleep 1000 & echo whole > $REFRAIN_OUT"));
    let mut inside = std::process::Command::new("unshare");
    inside.args(["--pid", "--fork", "--kill-child"]).arg(call.get_program()).args(call.get_args());
    inside.current_dir(home.path());
    let end = Output::of(&mut inside, b"").success().says("published: ").says("another pid namespace");
    assert_eq!(end.stderr.lines().count(), 2, "no process is named\n{end}");
    assert_eq!(home.read("out.csv"), "whole\n");
    assert!(freeze::is_alive(stranger.id()));
    let mut stranger = stranger;
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
