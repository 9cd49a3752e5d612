//! Every command of the contract exists and does what it says; those that only look are in `looks`.

use crate::call::{home, names, run};
use refrain_testkit::program::Home;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A home with a daily task of one day's input each.
pub(crate) fn daily() -> Home {
    let home = home();
    home.config(
        "[task.daily]\npartition = \"daily\"\ncommand = \"echo x >> runs.log; cat $REFRAIN_IN_SRC > $REFRAIN_OUT\"\n\
         in.src = \"in/{date}.csv\"\nout.report = \"reports/{date}.csv\"\n",
    );
    for day in 24..=27 {
        home.write(format!("in/2025-03-{day}.csv"), format!("day {day}\n"));
    }
    home
}

#[test]
fn init_makes_a_private_home_and_repeating_it_changes_nothing() {
    let directory = tempfile_directory();
    let home = Home::at(env!("CARGO_BIN_EXE_refrain"), directory.path());
    let mode = fs::metadata(home.join(".refrain")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let template = home.read("refrain.toml");
    assert!(template.contains("# [task."), "{template}");
    let settings = template.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    assert_eq!(settings.count(), 0, "every line of it is a comment");
    run(&home, &["job", "--out", "out.csv"], "echo data > $REFRAIN_OUT").published();
    home.config("# mine\n");
    let state = home.run(["log", "--json"]).stdout;
    home.run(["init"]).success().says("nothing changed");
    assert_eq!(home.read("refrain.toml"), "# mine\n");
    assert_eq!(home.run(["log", "--json"]).stdout, state);
}

fn tempfile_directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn init_makes_the_home_that_the_flag_names() {
    let home = home();
    let place = home.join("other").display().to_string();
    home.run(["--home", &place, "init"]).success();
    assert!(home.exists("other/refrain.toml") && home.exists("other/.refrain"));
}

#[test]
fn backfill_runs_every_date_and_both_ends_are_included() {
    let home = daily();
    let output = home.run(["backfill", "daily", "--from", "2025-03-24", "--to", "2025-03-26", "--jobs", "2"]).success();
    assert!(output.stderr.contains("3 published, 0 already published, 0 failed"), "{output}");
    assert_eq!(names(&home.join("reports")), ["2025-03-24.csv", "2025-03-25.csv", "2025-03-26.csv"]);
    let output = home.run(["backfill", "daily", "--from", "2025-03-25", "--to", "2025-03-27"]).success();
    assert!(output.stderr.contains("1 published, 2 already published, 0 failed"), "{output}");
    assert_eq!(home.read("runs.log").lines().count(), 4);
}

#[test]
fn backfill_dry_run_only_says_what_a_run_would_do() {
    let home = daily();
    home.run(["run", "daily", "--date", "2025-03-24"]).success();
    let output = home.run(["backfill", "daily", "--from", "2025-03-24", "--to", "2025-03-25", "--dry-run"]).success();
    let lines: Vec<_> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{output}");
    assert!(lines[0].starts_with("2025-03-24\tnothing\t") && lines[1].starts_with("2025-03-25\trun\t"), "{output}");
    assert!(!home.exists("reports/2025-03-25.csv"));
}

#[test]
fn backfill_dry_run_says_what_a_date_is_refused_for() {
    let home = home();
    home.config("[task.t]\npartition = \"daily\"\ncommand = \"true\"\nin.i = \"in\"\nout.o = \"o/{date}\"\n");
    home.write("in", "");
    home.write("o/2025-03-24", "by hand");
    let output = home.run(["backfill", "t", "--from", "2025-03-24", "--to", "2025-03-24", "--dry-run"]).success();
    assert!(output.stdout.starts_with("2025-03-24\trefuse\tmissing: "), "{output}");
    assert!(output.stdout.contains("o/2025-03-24 exists and was not published by refrain"), "{output}");
}

#[test]
fn backfill_goes_on_after_a_failed_date_and_says_how_to_go_on() {
    let home = daily();
    fs::remove_file(home.join("in/2025-03-25.csv")).unwrap();
    let range = ["backfill", "daily", "--from", "2025-03-24", "--to", "2025-03-26"];
    let output = home.run(range).expect_code(125);
    assert!(output.stderr.contains("2 published, 0 already published, 1 failed"), "{output}");
    assert!(
        output.stderr.contains("failed: 2025-03-25") && output.stderr.contains("refrain backfill daily"),
        "{output}"
    );
    home.write("in/2025-03-25.csv", "late\n");
    home.run(range).success();
    assert_eq!(home.read("reports/2025-03-25.csv"), "late\n");
}

#[test]
fn backfill_passes_its_flags_on_and_repeats_them() {
    let home = home();
    home.config(
        "[task.t]\npartition = \"daily\"\ncommand = \"test \\\"$REFRAIN_PARAM_K\\\" != 'so slow' || sleep 60; echo $REFRAIN_PARAM_K > $REFRAIN_OUT\"\n\
         out.o = \"o/{date}\"\n",
    );
    let (place, range) = (home.path().display().to_string(), ["--from", "2025-03-24", "--to", "2025-03-25"]);
    let backfill = |flags: &[&str]| home.run([&["--home", &place, "backfill", "t"], &range[..], flags].concat());
    home.write("o/2025-03-24", "by hand");
    backfill(&["--param", "k=a b"]).expect_code(125);
    assert_eq!(home.read("o/2025-03-25"), "a b\n");
    backfill(&["--param", "k=a b", "--adopt", "--timeout", "1m"]).success();
    assert_eq!(home.read("o/2025-03-24"), "a b\n");
    let output = backfill(&["--param", "k=so slow", "--rerun", "--jobs", "2", "--timeout", "0s"]);
    let line = format!(
        "to go on: refrain --home {place} backfill t --from 2025-03-24 --to 2025-03-25 --jobs 2 \
         --param 'k=so slow' --timeout 0s --rerun"
    );
    assert_eq!(output.stderr.lines().last(), Some(line.as_str()), "{output}");
    crate::call::assert_fails(&backfill(&["--param", "k=1", "--param", "k=2"]), &["`--param k=1`", "`--param k=2`"]);
}

#[test]
fn backfill_that_is_interrupted_says_how_to_go_on() {
    let home = home();
    home.config(
        "[task.t]\npartition = \"daily\"\nout.o = \"o/{date}\"\n\
         command = \"touch started; while [ ! -e go ]; do sleep 0.01; done; echo x > $REFRAIN_OUT\"\n",
    );
    let running = home.spawn(["-q", "backfill", "t", "--from", "2025-03-24", "--to", "2025-03-26"]);
    refrain_testkit::freeze::wait_for_path(&home.join("started"));
    refrain_testkit::freeze::send(running.pid(), rustix::process::Signal::INT);
    let output = running.wait().expect_code(130).says("0 published, 0 already published, 1 failed, 2 not begun");
    let line = "to go on: refrain backfill t --from 2025-03-24 --to 2025-03-26";
    assert_eq!(output.stderr.lines().last(), Some(line), "{output}");
}

#[test]
fn backfill_dry_run_says_what_its_flags_would_do() {
    let home = daily();
    for day in ["2025-03-24", "2025-03-25"] {
        home.run(["run", "daily", "--date", day]).success();
    }
    home.write("in/2025-03-25.csv", "later\n");
    let words = |flag: &[&str]| {
        let range = ["backfill", "daily", "--from", "2025-03-24", "--to", "2025-03-25", "--dry-run"];
        let output = home.run([&range[..], flag].concat()).success();
        output.stdout.lines().map(|line| line.split('\t').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(words(&[]), ["nothing", "nothing"]);
    assert_eq!(words(&["--if-changed"]), ["nothing", "run"]);
    assert_eq!(words(&["--rerun"]), ["run", "run"]);
}

#[test]
fn backfill_refuses_a_range_that_is_none() {
    let home = daily();
    for (from, to) in [("2025-03-26", "2025-03-24"), ("nonsense", "2025-03-24"), ("2025-03-24", "2025-02-30")] {
        let output = home.run(["backfill", "daily", "--from", from, "--to", to]);
        crate::call::assert_fails(&output, &["error: "]);
    }
    assert!(!home.exists("reports"));
}

#[test]
fn recover_settles_what_a_killed_attempt_left() {
    let home = home();
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-intent");
    kill.run(["run", "job", "--out", "out.csv", "--", "sh", "-c", "echo data > $REFRAIN_OUT"]).expect_signal(9);
    let output = home.run(["recover"]).success();
    assert!(output.stderr.contains("job: published"), "{output}");
    assert_eq!(home.read("out.csv"), "data\n");
    let output = home.run(["recover", "job"]).success();
    assert!(output.stderr.contains("nothing to recover"), "{output}");
}

#[test]
fn recover_says_when_nothing_was_published() {
    let home = home();
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "before-commit");
    kill.run(["run", "job", "--out", "out.csv", "--", "sh", "-c", "echo data > $REFRAIN_OUT"]).expect_signal(9);
    home.run(["recover", "job"]).success().says("nothing of the attempts was published");
    assert!(!home.exists("out.csv"));
    run(&home, &["job", "--out", "out.csv"], "echo data > $REFRAIN_OUT").published();
}

#[test]
fn gc_removes_what_nobody_needs_and_dry_run_only_says_so() {
    let home = home();
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "before-commit");
    kill.run(["run", "job", "--out", "out.csv", "--", "sh", "-c", "echo dead > $REFRAIN_OUT"]).expect_signal(9);
    run(&home, &["job", "--out", "out.csv"], "echo data > $REFRAIN_OUT").published();
    let would = home.run(["gc", "--dry-run"]).success();
    assert!(would.stdout.starts_with("would remove "), "{would}");
    let done = home.run(["gc"]).success();
    assert_eq!(done.stdout, would.stdout.replace("would remove", "removed"));
    let done = home.run(["gc"]).success();
    assert_eq!(done.stdout, "", "a second time there is nothing to remove");
    run(&home, &["job", "--out", "out.csv"], "exit 9").already_published();
}

#[test]
fn gc_leaves_the_staging_of_a_running_attempt_alone() {
    let home = home();
    let script = "echo data > $REFRAIN_OUT; touch started; while [ ! -e go ]; do sleep 0.01; done";
    let running = crate::call::start(&home, &["job", "--out", "out.csv"], script);
    refrain_testkit::freeze::wait_for_path(&home.join("started"));
    let done = home.run(["gc"]).success();
    assert_eq!(done.stdout, "", "{done}");
    home.write("go", "");
    crate::call::finish(running).published();
    assert_eq!(home.read("out.csv"), "data\n");
}

#[test]
fn completions_are_scripts_that_their_shells_accept() {
    let home = home();
    for shell in ["bash", "zsh", "fish"] {
        let output = home.run(["completions", shell]).success();
        for word in ["backfill", "rollback", "--if-changed"] {
            assert!(output.stdout.contains(word.trim_start_matches('-')), "{shell} does not know {word}");
        }
        home.write(format!("completions.{shell}"), &output.stdout);
    }
    let status = Command::new("bash").arg("-n").arg(home.join("completions.bash")).status().unwrap();
    assert!(status.success());
}

#[test]
fn man_pages_are_made_for_every_command() {
    let home = home();
    home.run(["docs", "man", "man"]).success();
    let pages = names(&home.join("man"));
    for command in [
        "refrain",
        "refrain-init",
        "refrain-run",
        "refrain-backfill",
        "refrain-status",
        "refrain-log",
        "refrain-show",
        "refrain-why",
        "refrain-path",
        "refrain-rollback",
        "refrain-recover",
        "refrain-gc",
        "refrain-sinks",
        "refrain-stores",
        "refrain-config-show",
        "refrain-completions",
        "refrain-store-init",
        "refrain-store-restored",
    ] {
        assert!(pages.contains(&format!("{command}.1")), "no page for {command}: {pages:?}");
    }
    assert!(home.read("man/refrain-run.1").contains("118"), "the exit codes are in the page of run");
}

#[test]
fn a_broken_pipe_is_no_error() {
    let home = home();
    let program = env!("CARGO_BIN_EXE_refrain");
    let report = "-q run job --out out.csv --report - -- sh -c 'sleep 0.2; echo x > $REFRAIN_OUT'";
    for call in ["completions bash", report] {
        let line = format!("{program} {call} | true; echo ${{PIPESTATUS[0]}}");
        let output = Command::new("bash").arg("-c").arg(line).current_dir(home.path()).output().unwrap();
        let text = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((text.0.as_ref(), text.1.as_ref()), ("0\n", ""), "{call}");
    }
}
