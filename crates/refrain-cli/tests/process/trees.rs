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
fn proc_11_a_child_that_still_writes_may_come_to_its_end_before_the_seal() {
    let home = Home::temp(BIN);
    let appends = script(
        &home,
        "(for i in 1 2 3 4 5; do echo $i; while [ ! -e @HOME@/ended ]; do sleep 0.01; done; sleep 0.02; done) > $REFRAIN_OUT & \
         while [ ! -s $REFRAIN_OUT ]; do sleep 0.01; done; (sleep 0.1; touch @HOME@/ended) &",
    );
    home.run(args("t", "out.csv", &appends)).success();
    assert_eq!(home.read("out.csv"), "1\n2\n3\n4\n5\n");
    home.run(args("t", "out.csv", "false")).success().says("already published");
}

#[test]
fn proc_11_what_a_process_of_somebody_else_still_writes_to_is_not_published() {
    for (output, file) in [("out.csv", ""), ("out/", "/part")] {
        let home = Home::temp(BIN);
        let asks = script(
            &home,
            &format!(
                "echo line > $REFRAIN_OUT{file}; echo $REFRAIN_OUT{file} > @HOME@/asked; mv @HOME@/asked @HOME@/staged; \
                      while [ ! -e @HOME@/go ]; do sleep 0.01; done"
            ),
        );
        let running = home.spawn(args("t", output, &asks));
        freeze::wait_for_path(&home.join("staged"));
        // A service that writes for the command: none of its processes.
        let writer = fs::OpenOptions::new().append(true).open(home.read("staged").trim_end()).unwrap();
        home.write("go", "");
        let refused = running.wait().expect_code(123).says("is still open for writing").says("fuser -v");
        assert!(refused.stderr.ends_with("Nothing was published.\n"), "{refused}");
        drop(writer);
        home.run(args("t", output, &asks)).success();
        assert_eq!(home.read(format!("{}{file}", output.trim_end_matches('/'))), "line\n");
    }
}

#[test]
fn proc_11_a_child_that_does_not_stop_writing_is_ended_and_its_half_output_is_not_published() {
    let home = Home::temp(BIN);
    let config = |rest: &str| {
        let writer = "sh -c 'echo $$ > writer; while :; do echo line; done' >> $REFRAIN_OUT & \
            while [ ! -s writer ] || [ ! -s $REFRAIN_OUT ]; do sleep 0.01; done";
        format!("[task.t]\ngrace = '10ms'\nout.o = 'out.csv'\ncommand = \"\"\"{writer}; {rest}\"\"\"\n")
    };
    home.write("refrain.toml", config("true"));
    let output = home.run(["run", "t"]).expect_code(123).says("Nothing was published.");
    output.says("was still writing to its output 10ms later: sh -c").says("let the command wait for it");
    gone("the writer", pid_in(&home, "writer"));
    assert!(!home.exists("out.csv"));
    // The command's own failure comes first.
    fs::remove_file(home.join("writer")).unwrap();
    home.write("refrain.toml", config("exit 7"));
    home.run(["run", "t"]).expect_code(7);
    // One that does not write to the output is no reason to refuse it; what is published is what was hashed.
    let waiter = script(&home, "echo line > $REFRAIN_OUT; sleep 1000 & echo $! > @HOME@/waiter");
    home.write("refrain.toml", "");
    home.run(args("t", "out.csv", &waiter)).success().says("ended a process that the command left behind");
    gone("the waiter", pid_in(&home, "waiter"));
    let show = home.run(["show", "out.csv"]).success();
    assert!(show.stdout.contains("what was published"), "{show}");
    home.run(args("t", "out.csv", "false")).success().says("already published");
    assert_eq!(home.read("out.csv"), "line\n");
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
