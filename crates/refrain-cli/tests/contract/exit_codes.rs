//! Every exit code, with what the report and the closing sentence say of it (PROC-10).

use crate::call::{PUBLISHED, UNKNOWN, assert_closes, assert_fails, finish, home, run, run_as, start};
use refrain_testkit::freeze::{stop_tree, wait_for, wait_for_path, wake_all};
use refrain_testkit::program::Home;
use refrain_testkit::strace::{inject, inject_on_path};
use serde_json::{Value, json};
use std::fs;

const WRITE: &str = "echo data > $REFRAIN_OUT";

#[test]
fn proc_10_zero_is_published_and_already_published_and_the_line_says_which() {
    let home = home();
    let first = run(&home, &["job", "--out", "out.csv"], WRITE).published();
    assert_eq!(first.report["task_exit"], json!({ "code": 0 }));
    let again = run(&home, &["job", "--out", "out.csv"], WRITE).already_published();
    assert_eq!(again.report["task_exit"], Value::Null, "the command was not started");
    assert_eq!(again.text("attempt"), first.text("attempt"), "it names the attempt that published");
}

#[test]
fn proc_10_the_tasks_own_code_passes_through() {
    let home = home();
    for code in [1, 2, 42, 117] {
        let script = format!("{WRITE}; exit {code}");
        let call = run(&home, &["job", "--out", "out.csv"], &script).nothing(code, "task_failed");
        assert_eq!(call.report["task_exit"], json!({ "code": code }));
        assert_eq!(call.report["error"]["kind"], "task_failed");
    }
    assert!(!home.exists("out.csv"));
}

#[test]
fn proc_10_the_report_says_whose_code_it_was() {
    // The task takes numbers that are refrain's own, too.
    let home = home();
    for code in [120, 121, 122, 123, 124, 125] {
        let call = run(&home, &["job", "--out", "out.csv"], &format!("exit {code}")).nothing(code, "task_failed");
        assert_eq!(call.report["task_exit"], json!({ "code": code }));
    }
}

#[test]
fn proc_10_an_end_by_signal_n_is_128_plus_n() {
    let home = home();
    for signal in [9, 11, 15] {
        let call = run(&home, &["job", "--out", "out.csv"], &format!("{WRITE}; kill -{signal} $$"));
        let call = call.nothing(128 + signal, "task_failed");
        assert_eq!(call.report["task_exit"], json!({ "signal": signal }));
    }
    assert!(!home.exists("out.csv"));
}

#[test]
fn proc_10_a_command_that_is_missing_is_127_and_one_that_cannot_be_executed_126() {
    let home = home();
    home.write("no-program", "data");
    for (program, code, says) in [("./absent", 127, "was not found"), ("./no-program", 126, "cannot be executed")] {
        let place = home.join("report.json").display().to_string();
        let output = home.run(["run", "job", "--out", "out.csv", "--report", &place, "--", program]);
        let report: Value = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
        let output = output.expect_code(code).says(says);
        assert_closes(&output, crate::call::NOTHING);
        assert_eq!(report["exit_code"], code);
        assert_eq!((&report["outcome"], &report["task_exit"]), (&json!("error"), &Value::Null), "{report}");
    }
}

#[test]
fn proc_10_a_passed_time_limit_is_124() {
    let home = home();
    let flags = ["job", "--out", "out.csv", "--timeout", "200ms", "--grace", "10s"];
    let call =
        run(&home, &flags, &format!("{WRITE}; exec sleep 1000")).nothing(124, "timed_out").says("time limit of 200ms");
    assert_eq!(call.report["task_exit"], json!({ "signal": 15 }));
    assert_eq!(call.report["error"]["kind"], "timed_out");
    assert!(!home.exists("out.csv"));
}

#[test]
fn proc_10_a_refused_output_is_123() {
    let home = home();
    let call = run(&home, &["job", "--out", "out.csv"], "true").nothing(123, "refused");
    assert_eq!(call.report["task_exit"], json!({ "code": 0 }), "the task itself was content");
    assert_eq!(call.report["error"]["kind"], "guard");
}

#[test]
fn proc_10_held_is_120_and_names_attempt_process_host_and_time() {
    let home = home();
    let flags = ["job", "--out", "out.csv"];
    let holder =
        start(&home, &flags, "touch started; while [ ! -e go ]; do sleep 0.01; done; echo data > $REFRAIN_OUT");
    wait_for_path(&home.join("started"));
    let pid = format!("pid {} on ", holder.0.pid());
    let call = run(&home, &flags, WRITE).nothing(120, "held").says("is being run by attempt ").says(&pid);
    let call = call.says(", since 20").says("--wait");
    assert_eq!(call.report["error"]["kind"], "held");
    fs::write(home.join("go"), "").unwrap();
    finish(holder).published();
}

#[test]
fn proc_10_fenced_is_121() {
    let home = home();
    let flags = ["job", "--out", "out.csv", "--ttl", "1s"];
    let paused =
        start(&home, &flags, "touch started; while [ ! -e go ]; do sleep 0.01; done; echo paused > $REFRAIN_OUT");
    wait_for_path(&home.join("started"));
    let stopped = stop_tree(paused.0.pid());
    run(&home, &["job", "--out", "out.csv", "--wait"], "echo second > $REFRAIN_OUT").published();
    fs::write(home.join("go"), "").unwrap();
    wake_all(&stopped);
    let call = finish(paused).nothing(121, "fenced").says("was fenced");
    assert_eq!(call.report["error"]["kind"], "fenced");
    assert_eq!(home.read("out.csv"), "second\n");
}

/// Stops the program at a crash point and returns once it stands still there.
fn stopped_at(home: &Home, point: &str, flags: &[&str], script: &str) -> (refrain_testkit::program::Running, String) {
    let place = home.join("stopped.json").display().to_string();
    let mut arguments = vec!["run"];
    arguments.extend(flags);
    arguments.extend(["--report", &place, "--", "sh", "-c", script]);
    let running = home.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop")).spawn(arguments);
    wait_for(&format!("refrain stops at {point}"), || refrain_testkit::freeze::state(running.pid()) == Some('T'));
    (running, place)
}

#[test]
fn proc_10_decided_is_118_and_a_repeated_call_finishes_it() {
    let home = home();
    let flags = ["job", "--out", "a=one/a.csv", "--out", "b=two/b.csv"];
    let script = "echo a > $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B; echo x >> runs.log";
    fs::create_dir(home.join("two")).unwrap();
    let stopped = stopped_at(&home, "after-commit", &flags, script);
    // The first output is published; the second has nowhere to go any more.
    fs::rename(home.join("two"), home.join("two-away")).unwrap();
    fs::write(home.join("two"), "").unwrap();
    refrain_testkit::freeze::wake(stopped.0.pid());
    let call = finish(stopped).ends(118, "decided", "published");
    assert!(call.output.stderr.contains("refrain run job"), "the command that finishes it\n{}", call.output);
    assert_eq!(home.read("one/a.csv"), "a\n");
    fs::remove_file(home.join("two")).unwrap();
    fs::rename(home.join("two-away"), home.join("two")).unwrap();
    run(&home, &flags, script).already_published();
    assert_eq!(home.read("two/b.csv"), "b\n");
    assert_eq!(home.read("runs.log"), "x\n", "rolled forward, not executed again");
}

#[test]
fn proc_10_a_lost_answer_is_122_and_recover_decides() {
    let home = home();
    let script = "echo b > $REFRAIN_OUT; echo x >> runs.log";
    fs::create_dir(home.join("two")).unwrap();
    let place = home.join("report.json").display().to_string();
    let arguments = ["run", "job", "--out", "two/b.csv", "--report", &place, "--", "sh", "-c", script];
    // The rename is made, and whether it would survive a power cut cannot be told.
    let output = inject_on_path(&home.refrain().command(arguments), "fsync,fdatasync:error=EIO", &home.join("two"));
    let report: Value = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    let output = output.expect_code(122).says("refrain recover");
    assert_closes(&output, UNKNOWN);
    assert_eq!((&report["outcome"], &report["window"]), (&json!("unknown"), &json!("unknown")));
    home.run(["recover", "job"]).success().says("published");
    assert_eq!(home.read("two/b.csv"), "b\n");
    run(&home, &["job", "--out", "two/b.csv"], script).already_published();
    assert_eq!(home.read("runs.log"), "x\n");
}

#[test]
fn a_target_that_cannot_be_reached_at_the_commit_is_125_and_stays_unpublished() {
    let home = home();
    let flags = ["job", "--out", "two/b.csv"];
    let script = "echo x >> runs.log; echo b > $REFRAIN_OUT";
    fs::create_dir(home.join("two")).unwrap();
    let stopped = stopped_at(&home, "after-intent", &flags, script);
    fs::rename(home.join("two"), home.join("two-away")).unwrap();
    fs::write(home.join("two"), "").unwrap();
    refrain_testkit::freeze::wake(stopped.0.pid());
    finish(stopped).nothing(125, "error").says("cannot publish");
    fs::remove_file(home.join("two")).unwrap();
    fs::rename(home.join("two-away"), home.join("two")).unwrap();
    home.run(["recover"]).success();
    assert!(!home.exists("two/b.csv"), "what was denied never comes");
    run(&home, &flags, script).published();
    assert_eq!(home.read("runs.log"), "x\nx\n");
}

#[test]
fn proc_10_refrains_own_failure_is_125() {
    let home = home();
    let call = run(&home, &["job", "--out", "out-{date}.csv"], WRITE).nothing(125, "error");
    assert_eq!(call.report["error"]["kind"], "invalid");
    assert_eq!(call.report["task_exit"], Value::Null);
}

#[test]
fn a_failed_write_of_the_database_is_125_and_nothing_is_lost() {
    let home = home();
    run(&home, &["job", "--out", "out.csv"], WRITE).published();
    let command = home.refrain().command([
        "run",
        "job",
        "--out",
        "out.csv",
        "--rerun",
        "--",
        "sh",
        "-c",
        "echo new > $REFRAIN_OUT",
    ]);
    let output = inject(&command, "pwrite64:error=EIO");
    assert_fails(&output, &["error: "]);
    assert_eq!(home.read("out.csv"), "data\n");
    run(&home, &["job", "--out", "out.csv"], WRITE).already_published();
}

#[test]
fn wrong_usage_is_125_and_not_2() {
    let home = home();
    let wrong: [&[&str]; 8] = [
        &["nonsense"],
        &["run"],
        &["run", "job", "--bogus"],
        &["run", "job", "--date", "2025-03-24", "--partition", "x"],
        &["run", "job", "--if-changed", "--rerun"],
        &["backfill", "job", "--from", "2025-03-24"],
        &["backfill", "job", "--from", "2025-03-24", "--to", "2025-03-25", "--jobs", "0"],
        &["completions", "tcsh"],
    ];
    for arguments in wrong {
        let output = home.run(arguments).expect_code(125);
        assert_closes(&output, crate::call::NOTHING);
        assert_eq!(output.stdout, "", "{output}");
    }
}

#[test]
fn a_call_that_only_asks_for_help_is_shown_it() {
    let home = home();
    for arguments in [&[][..], &["config"], &["store"]] {
        let output = home.run(arguments).expect_code(125);
        assert!(output.stderr.contains("Usage: ") && !output.stderr.contains("published."), "{output}");
        assert_eq!(output.stdout, "", "{output}");
    }
}

#[test]
fn wrong_usage_shows_what_was_meant() {
    let home = home();
    let meant: [(&[&str], &str); 4] = [
        (
            &["run", "sh", "--out", "o", "sh", "-c", "true it"],
            "put '--' before the command: refrain run sh --out o -- sh -c 'true it'",
        ),
        (&["run", "job", "--wait", "5s"], "write '--wait=5s'"),
        (&["status", "--jso"], "'--json'"),
        (&["completions", "tcsh"], "zsh"),
    ];
    for (arguments, tip) in meant {
        assert_fails(&home.run(arguments), &[tip]);
    }
}

#[test]
fn data_that_cannot_be_written_is_125() {
    let home = home();
    run(&home, &["job", "--out", "out.csv"], WRITE).published();
    for arguments in [&["status"][..], &["log", "--json"], &["config", "show"], &["--help"], &["completions", "bash"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = home.refrain().command(arguments);
        let output =
            command.stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {text}");
        assert!(text.contains("cannot write to standard output") && text.contains("No space left"), "{text}");
        assert_eq!(text.lines().last(), Some(crate::call::NOTHING));
    }
}

#[test]
fn a_report_that_cannot_be_written_does_not_make_a_publication_a_failure() {
    let home = home();
    let output = home.run(["run", "job", "--out", "out.csv", "--report", "absent/r.json", "--", "sh", "-c", WRITE]);
    let output = output.success().says("cannot write the report");
    assert_closes(&output, PUBLISHED);
    assert_eq!(home.read("out.csv"), "data\n");
}

#[test]
fn help_and_version_are_data() {
    let home = home();
    for arguments in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "why"]] {
        let output = run_help(&home, arguments);
        assert_eq!(output.stderr, "", "{output}");
        assert!(output.stdout.contains("efrain"), "{output}");
    }
    let help = run_help(&home, &["run", "--help"]).stdout;
    for code in ["0 ", "1-117", "118", "120", "121", "122", "123", "124", "125", "126/127", "128+n"] {
        assert!(help.contains(&format!("  {code}")), "`{code}` is not in the help");
    }
}

fn run_help(home: &Home, arguments: &[&str]) -> refrain_testkit::program::Output {
    home.run(arguments).success()
}

#[test]
fn a_call_from_below_the_home_finds_it() {
    let home = home();
    fs::create_dir_all(home.join("deep/down")).unwrap();
    let below = home.refrain().cwd(home.join("deep/down"));
    run_as(&home, &below, &["job", "--out", "out.csv"], WRITE).published();
    assert_eq!(home.read("deep/down/out.csv"), "data\n", "an ad hoc path is relative to the caller");
}
