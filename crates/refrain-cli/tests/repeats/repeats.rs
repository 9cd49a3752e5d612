//! The same key again: nothing, or the next generation on purpose; and what changed is named.

use crate::call::{assert_fails, executions, finish, home, run, start};
use refrain_testkit::freeze::wait_for_path;
use refrain_testkit::program::Home;
use std::fs;

const CONFIG: &str = "\
[task.job]
partition = \"daily\"
command = \"echo x >> runs.log; sh job.sh\"
code = [\"job.sh\"]
param.k = \"1\"
in.src = \"in.csv\"
out.out = \"out/{date}.csv\"
";
const KEY: [&str; 3] = ["job", "--date", "2025-03-24"];

fn with(flag: &str) -> Vec<&str> {
    KEY.iter().copied().chain([flag]).collect()
}

fn published(config: &str) -> Home {
    let home = home();
    home.config(config);
    home.write("job.sh", "cat $REFRAIN_IN_SRC > $REFRAIN_OUT; echo $REFRAIN_PARAM_K >> $REFRAIN_OUT");
    home.write("in.csv", "v1\n");
    run(&home, &KEY, "").published();
    home
}

#[test]
fn the_same_key_again_is_already_published_with_who_when_and_version() {
    let home = published(CONFIG);
    let first = run(&home, &KEY, "").already_published();
    let day = first.text("started_at")[..10].to_owned();
    let first = first.says("version 1 by attempt ").says(&day);
    for _ in 0..3 {
        let again = run(&home, &KEY, "").already_published();
        assert_eq!(again.text("run"), first.text("run"));
        assert_eq!(again.number("generation"), 1);
    }
    assert_eq!(executions(&home), 1, "the task is not started");
    assert_eq!(home.run(["log", "--json"]).stdout.lines().count(), 1, "and no attempt is made");
}

/// Each kind of change, and how it is named.
fn change(home: &Home, what: &str) -> &'static str {
    match what {
        "command" => {
            home.config(&CONFIG.replace("sh job.sh", "sh  job.sh"));
            "the command changed"
        }
        "code" => {
            home.write("job.sh", "cat $REFRAIN_IN_SRC > $REFRAIN_OUT; echo new code >> $REFRAIN_OUT");
            "code `job.sh` changed"
        }
        "parameter" => {
            home.config(&CONFIG.replace("param.k = \"1\"", "param.k = \"2\""));
            "parameter `k` changed"
        }
        _ => {
            home.write("in.csv", "v2\n");
            "input `src` changed"
        }
    }
}

#[test]
fn by_default_a_change_is_named_with_the_flag_that_would_replace_and_the_publication_kept() {
    for what in ["command", "code", "parameter", "input"] {
        let home = published(CONFIG);
        let named = change(&home, what);
        run(&home, &KEY, "").already_published().says(named).says("--if-changed");
        assert_eq!((executions(&home), home.read("out/2025-03-24.csv")), (1, "v1\n1\n".to_owned()), "{what}");
    }
}

#[test]
fn if_changed_runs_only_then_and_opens_the_next_generation() {
    for what in ["command", "code", "parameter", "input"] {
        let home = published(CONFIG);
        run(&home, &with("--if-changed"), "").already_published();
        assert_eq!(executions(&home), 1);
        let named = change(&home, what);
        let call = run(&home, &with("--if-changed"), "").published().says(named);
        assert_eq!(call.number("generation"), 2);
        run(&home, &with("--if-changed"), "").already_published();
        assert_eq!(executions(&home), 2, "{what}");
    }
}

#[test]
fn rerun_always_runs_and_opens_the_next_generation() {
    let home = published(CONFIG);
    for generation in 2..5 {
        let call = run(&home, &with("--rerun"), "").published();
        assert_eq!(call.number("generation"), generation);
    }
    assert_eq!(executions(&home), 4);
    assert_eq!(run(&home, &KEY, "").already_published().number("generation"), 4);
}

#[test]
fn on_change_replace_runs_when_something_changed_and_only_then() {
    let home = published(&format!("{CONFIG}on_change = \"replace\"\n"));
    run(&home, &KEY, "").already_published();
    change(&home, "input");
    let call = run(&home, &KEY, "").published().says("input `src` changed");
    assert_eq!(call.number("generation"), 2);
    run(&home, &KEY, "").already_published();
    assert_eq!(executions(&home), 2);
}

#[test]
fn on_change_refuse_fails_when_something_changed_and_names_it() {
    let home = published(&format!("{CONFIG}on_change = \"refuse\"\n"));
    run(&home, &KEY, "").already_published();
    change(&home, "input");
    run(&home, &KEY, "").nothing(125, "refused").says("input `src` changed").says("--rerun");
    assert_eq!(executions(&home), 1);
    run(&home, &with("--rerun"), "").published();
}

#[test]
fn a_failed_rerun_leaves_the_old_publication_and_the_next_plain_run_makes_it_good() {
    let home = published(CONFIG);
    run(&home, &with("--rerun"), "exit 3").nothing(3, "task_failed");
    assert_eq!(home.read("out/2025-03-24.csv"), "v1\n1\n");
    let call = run(&home, &KEY, "").published();
    assert_eq!(call.number("generation"), 2, "the wish for a second generation stands until it is met");
}

#[test]
fn ledg_10_a_retry_reads_the_pins_of_the_first_attempt() {
    let home = home();
    home.config(CONFIG);
    home.write("job.sh", "cat $REFRAIN_IN_SRC > $REFRAIN_OUT");
    home.write("in.csv", "v1\n");
    run(&home, &KEY, "cat $REFRAIN_IN_SRC; exit 3").nothing(3, "task_failed");
    home.write("in.csv", "v2\n");
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-task");
    kill.run(["run", "job", "--date", "2025-03-24"]).expect_signal(9);
    let call = run(&home, &KEY, "").published();
    assert_eq!(home.read("out/2025-03-24.csv"), "v1\n", "the third attempt still reads what the first one did");
    let version = call.report["inputs"][0]["version"].as_str().unwrap().to_owned();
    let shown = home.run(["show", "out/2025-03-24.csv"]).success().stdout;
    assert!(shown.contains(&version), "the record shows which: {version}\n{shown}");
    run(&home, &KEY, "").already_published().says("input `src` changed");
    run(&home, &with("--if-changed"), "").published();
    assert_eq!(home.read("out/2025-03-24.csv"), "v2\n", "the next generation reads the newer input");
}

#[test]
fn ledg_10_a_directory_as_input_is_pinned_whole() {
    let home = home();
    home.write("in/a", "a1\n");
    home.write("in/sub/b", "b1\n");
    let flags = ["job", "--in", "src=in", "--out", "out.csv"];
    run(&home, &flags, "exit 3").nothing(3, "task_failed");
    home.write("in/a", "a2\n");
    home.write("in/c", "new\n");
    fs::remove_file(home.join("in/sub/b")).unwrap();
    run(
        &home,
        &flags,
        "cat $REFRAIN_IN_SRC/a $REFRAIN_IN_SRC/sub/b > $REFRAIN_OUT; ls $REFRAIN_IN_SRC >> $REFRAIN_OUT",
    )
    .published();
    assert_eq!(home.read("out.csv"), "a1\nb1\na\nsub\n");
}

#[test]
fn ledg_10_an_input_that_is_only_verified_refuses_a_change_instead_of_reading_it() {
    let home = home();
    home.config("[task.job]\ncommand = \"cat $REFRAIN_IN_SRC > $REFRAIN_OUT\"\nin.src = { path = \"in.csv\", pin = \"verify\" }\nout.out = \"out.csv\"\n");
    home.write("in.csv", "v1\n");
    run(&home, &["job"], "exit 3").nothing(3, "task_failed");
    home.write("in.csv", "v2, and longer\n");
    let output = home.run(["run", "job"]);
    assert_fails(&output, &["in.csv"]);
    assert!(!home.exists("out.csv"));
}

#[test]
fn code_that_is_edited_while_it_runs_is_a_change() {
    let home = home();
    home.config(CONFIG);
    home.write("job.sh", "cat $REFRAIN_IN_SRC > $REFRAIN_OUT; echo '# edited' >> job.sh");
    home.write("in.csv", "v1\n");
    run(&home, &KEY, "").published();
    run(&home, &KEY, "").already_published().says("code `job.sh` changed");
}

#[test]
fn a_rerun_of_what_never_was_published_pins_afresh() {
    let home = home();
    home.config(CONFIG);
    home.write("job.sh", "cat $REFRAIN_IN_SRC > $REFRAIN_OUT");
    home.write("in.csv", "v1\n");
    run(&home, &KEY, "exit 3").nothing(3, "task_failed");
    home.write("in.csv", "v2\n");
    let call = run(&home, &with("--rerun"), "").published();
    assert_eq!((call.number("generation"), home.read("out/2025-03-24.csv")), (2, "v2\n".to_owned()));
}

#[test]
fn two_reruns_at_once_publish_one_generation() {
    let home = published(CONFIG);
    let slow = "echo x >> runs.log; touch started; while [ ! -e go ]; do sleep 0.01; done; echo slow > $REFRAIN_OUT";
    let first = start(&home, &with("--rerun"), slow);
    wait_for_path(&home.join("started"));
    let second =
        start(&home, &[&KEY[..], &["--rerun", "--wait"]].concat(), "echo x >> runs.log; echo second > $REFRAIN_OUT");
    home.write("go", "");
    assert_eq!(finish(first).published().number("generation"), 2);
    let call = finish(second);
    assert_eq!(call.output.code, Some(0), "{}", call.output);
    // It began while generation 1 stood, or after generation 2 did: never a third one by the same wish.
    let generation = call.number("generation");
    assert!(generation == 2 || generation == 3, "{}", call.report);
    assert_eq!(executions(&home), usize::try_from(generation).unwrap());
}

#[test]
fn a_change_is_seen_also_after_a_call_that_died_is_settled() {
    let home = published(CONFIG);
    let again = |n: &str| [&with("--if-changed")[..], &["--param", n]].concat().join(" ");
    home.refrain().env("REFRAIN_CRASH_AT", "after-intent").run(["run"].into_iter().chain(again("k=2").split(' ')));
    assert_eq!(home.read("out/2025-03-24.csv"), "v1\n1\n");
    let arguments = again("k=3");
    run(&home, &arguments.split(' ').collect::<Vec<_>>(), "").published();
    assert_eq!(home.read("out/2025-03-24.csv"), "v1\n3\n");
    assert_eq!(executions(&home), 3);
    // And what has not changed is not made again.
    home.refrain().env("REFRAIN_CRASH_AT", "after-intent").run(["run"].into_iter().chain(again("k=4").split(' ')));
    let arguments = again("k=4");
    run(&home, &arguments.split(' ').collect::<Vec<_>>(), "").already_published();
    assert_eq!((home.read("out/2025-03-24.csv"), executions(&home)), ("v1\n4\n".to_owned(), 4));
}
