//! `refrain backfill`: which dates, in which order, and how it ends.

use crate::call::{assert_fails, executions, home, names};
use refrain_testkit::freeze::wait_for_some;
use refrain_testkit::program::{Home, Output};
use std::process::{Command, Stdio};

fn daily(command: &str) -> Home {
    let home = home();
    home.config(&format!("[task.t]\npartition = \"daily\"\nout.o = \"o/{{date}}\"\ncommand = {command:?}\n"));
    home
}

const PLAIN: &str = "echo $REFRAIN_DATE >> runs.log; echo x > $REFRAIN_OUT";

fn backfill(home: &Home, from: &str, to: &str, flags: &[&str]) -> Output {
    home.run([&["backfill", "t", "--from", from, "--to", to], flags].concat())
}

#[test]
fn date_08_a_dry_run_lists_exactly_the_dates_and_ends_are_included() {
    let home = daily(PLAIN);
    let keys = |from: &str, to: &str| {
        let output = backfill(&home, from, to, &["--dry-run"]).success();
        output.stdout.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys("2025-03-24", "2025-03-24"), ["2025-03-24"]);
    assert_eq!(keys("2025-02-27", "2025-03-02"), ["2025-02-27", "2025-02-28", "2025-03-01", "2025-03-02"]);
    assert_eq!(keys("2024-02-28", "2024-03-01"), ["2024-02-28", "2024-02-29", "2024-03-01"]);
    assert_fails(&backfill(&home, "2025-03-02", "2025-03-01", &["--dry-run"]), &["reversed"]);
    assert_fails(&backfill(&home, "2025-03-01T05", "2025-03-02", &["--dry-run"]), &["`--from`", "2025-03-01T05"]);
    assert_eq!(executions(&home), 0);
    backfill(&home, "2025-02-27", "2025-03-02", &[]).success();
    assert_eq!(names(&home.join("o")), ["2025-02-27", "2025-02-28", "2025-03-01", "2025-03-02"]);
}

#[test]
fn a_dry_run_says_what_each_date_is() {
    let home = daily(
        "test -e fails-$REFRAIN_DATE && exit 3; touch at-$REFRAIN_DATE; \
                      while [ -e hold ] && [ -e refrain.toml ]; do sleep 0.01; done; cat in-$REFRAIN_DATE > $REFRAIN_OUT",
    );
    let toml = home.read("refrain.toml").replace("out.o", "in.i = \"in-{date}\"\nout.o");
    home.config(&toml);
    for day in 1..=6 {
        home.write(format!("in-2025-03-0{day}"), "first");
    }
    home.write("fails-2025-03-03", "");
    backfill(&home, "2025-03-01", "2025-03-04", &[]).expect_code(3);
    home.write("in-2025-03-02", "second");
    home.write("o/2025-03-04", "by hand");
    home.write("hold", "");
    let held = home.spawn(["run", "t", "--date", "2025-03-05"]);
    refrain_testkit::freeze::wait_for_path(&home.join("at-2025-03-05"));
    let output = backfill(&home, "2025-03-01", "2025-03-06", &["--dry-run"]).success();
    let fields =
        |line: &str| line.split('\t').map(|field| field.split(':').next().unwrap().to_owned()).collect::<Vec<_>>();
    let told: Vec<Vec<String>> = output.stdout.lines().map(fields).collect();
    let expected = [
        ["2025-03-01", "nothing", "published"],
        ["2025-03-02", "nothing", "changed"],
        ["2025-03-03", "run", "failed"],
        ["2025-03-04", "refuse", "changed by hand"],
        ["2025-03-05", "held", "held"],
        ["2025-03-06", "run", "missing"],
    ];
    assert_eq!(told, expected, "{output}");
    std::fs::remove_file(home.join("hold")).unwrap();
    held.wait().success();
}

#[test]
fn date_07_an_open_interval_is_refused_unless_it_is_asked_for() {
    let home = daily(PLAIN);
    let refused = backfill(&home, "-2d", "today", &[]);
    assert_fails(&refused, &["is not over before", "the last closed date is", "--include-open"]);
    assert_eq!(executions(&home), 0);
    // The command of the hint does what is closed.
    let hint = refused.stderr.lines().find_map(|line| line.strip_prefix("hint: `refrain ")).unwrap();
    let line: Vec<_> = hint.split('`').next().unwrap().split(' ').collect();
    home.run(line).success().says("2 published, 0 already published, 0 failed");
    backfill(&home, "-2d", "today", &["--include-open"]).success().says("1 published, 2 already published");
    assert_fails(&backfill(&home, "today", "today", &[]), &["`--include-open` runs it"]);
}

#[test]
fn the_order_is_that_of_the_flag() {
    let home = daily(PLAIN);
    backfill(&home, "2025-03-01", "2025-03-03", &["--order", "desc"]).success();
    assert_eq!(home.read("runs.log"), "2025-03-03\n2025-03-02\n2025-03-01\n");
}

#[test]
fn after_enough_failures_no_date_is_begun_and_the_last_line_goes_on() {
    let home = daily("echo $REFRAIN_DATE >> runs.log; test -e mended && echo x > $REFRAIN_OUT || exit 7");
    let output = backfill(&home, "2025-03-01", "2025-03-09", &["--max-failures", "2"]).expect_code(7);
    assert!(output.stderr.contains("0 published, 0 already published, 2 failed, 7 not begun"), "{output}");
    assert!(output.stderr.contains("failed: 2025-03-01, 2025-03-02. Nothing was published."), "{output}");
    let go_on = output.stderr.lines().last().and_then(|line| line.strip_prefix("to go on: refrain ")).unwrap();
    assert_eq!(go_on, "backfill t --from 2025-03-01 --to 2025-03-09 --max-failures 2");
    home.write("mended", "");
    home.run(go_on.split(' ')).success().says("9 published");
    assert_eq!(executions(&home), 11);
}

#[test]
fn a_task_that_reads_its_own_date_before_is_run_in_order_and_not_past_a_gap() {
    let home = home();
    home.config(
        "[task.t]\npartition = \"daily\"\nout.o = \"o/{date}\"\n\
         in.before = { task = \"self\", partition = \"previous\", start = \"2025-03-01\" }\n\
         command = \"echo $REFRAIN_DATE >> runs.log; case $REFRAIN_DATE in *-03) test -e mended || exit 1;; esac; \
         { [ -z \\\"$REFRAIN_IN_BEFORE\\\" ] || cat $REFRAIN_IN_BEFORE; echo $REFRAIN_DATE; } > $REFRAIN_OUT\"\n",
    );
    let output = backfill(&home, "2025-03-01", "2025-03-05", &["--jobs", "4"]).expect_code(1);
    assert!(output.stderr.contains("2 published, 0 already published, 1 failed, 2 not begun"), "{output}");
    assert!(output.stderr.contains("each date needs the one before it"), "{output}");
    assert_eq!(home.read("runs.log"), "2025-03-01\n2025-03-02\n2025-03-03\n");
    home.write("mended", "");
    backfill(&home, "2025-03-03", "2025-03-05", &["--jobs", "4"]).success();
    assert_eq!(home.read("o/2025-03-05").lines().count(), 5);
    assert_fails(&backfill(&home, "2025-03-01", "2025-03-05", &["--order", "desc"]), &["the date before"]);
}

#[test]
fn in_a_log_every_date_is_one_line_without_control_characters() {
    let home = daily(
        "printf '\\033[31mred\\033[0m\\rline\\n'; test $REFRAIN_DATE != 2025-03-02 || exit 1; echo x > $REFRAIN_OUT",
    );
    let output = backfill(&home, "2025-03-01", "2025-03-03", &[]).expect_code(1);
    assert_eq!(output.stdout, "");
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!output.stderr.contains(control), "{:?}", output.stderr);
    for (day, word) in [(1, "published"), (2, "failed"), (3, "published")] {
        let start = format!("{word}: t 2025-03-0{day}: ");
        assert_eq!(output.stderr.lines().filter(|line| line.starts_with(&start)).count(), 1, "{start}: {output}");
    }
    let quiet = home.run(["-q", "backfill", "t", "--from", "2025-03-01", "--to", "2025-03-01"]).success();
    assert_eq!(quiet.stderr, "");
}

/// Runs a backfill whose stderr is a terminal, which `script` (util-linux) makes; returns what the terminal was sent.
fn on_a_terminal(home: &Home, colour: Option<&str>) -> String {
    let line = format!("{} backfill t --from 2025-03-01 --to 2025-03-06", env!("CARGO_BIN_EXE_refrain"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(home.path());
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("REFRAIN_HOME").env_remove("NO_COLOR");
    script.envs(colour.map(|value| ("NO_COLOR", value)));
    let output = script.stdin(Stdio::null()).output().expect("`script` of util-linux is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn on_a_terminal_a_bar_counts_and_only_what_goes_wrong_is_a_line() {
    let home = daily("test $REFRAIN_DATE != 2025-03-02 || exit 1; sleep 0.2; echo x > $REFRAIN_OUT");
    let seen = on_a_terminal(&home, None);
    assert!(seen.contains("1 done, 0 failed, 0 held ["), "{seen:?}");
    assert!(seen.contains("5 done, 1 failed, 0 held [") || seen.contains("4 done, 1 failed, 0 held ["), "{seen:?}");
    assert!(seen.contains("/6, ") && seen.contains("/s, ") && seen.contains(" left"), "{seen:?}");
    assert!(seen.contains("failed: t 2025-03-02: "), "{seen:?}");
    assert!(!seen.contains("published: t 2025-03-01"), "{seen:?}");
    assert!(seen.contains("backfill: t: 5 published, 0 already published, 1 failed"), "{seen:?}");
    // Colour is set by a sequence that ends with `m`; the bar only moves the cursor and erases.
    let sets_colour = |part: &str| part.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).starts_with('m');
    let colours = |text: &str| text.split("\x1b[").skip(1).filter(|part| sets_colour(part)).count();
    assert_eq!(colours(&seen), 0, "{seen:?}");
    assert_eq!(colours(&on_a_terminal(&home, Some("1"))), 0);
}

#[test]
fn what_the_commands_print_is_kept_and_the_end_of_a_failed_one_is_shown() {
    let home = daily(
        "echo SECRET_$REFRAIN_DATE; for n in 1 2 3 4 5 6 7; do echo line $n; done >&2; \
         test $REFRAIN_DATE != 2025-03-02 || exit 9; echo x > $REFRAIN_OUT",
    );
    let output = backfill(&home, "2025-03-01", "2025-03-02", &[]).expect_code(9);
    assert!(!output.stderr.contains("SECRET_2025-03-01"), "a published date's output is not shown: {output}");
    assert!(output.stderr.contains("  | line 3\n  | line 4\n") && output.stderr.contains("  | line 7\n"), "{output}");
    assert!(!output.stderr.contains("  | line 2\n"), "{output}");
    let show = output.stderr.lines().find_map(|line| Some(line.split_once("all of it: refrain ")?.1)).unwrap();
    let all = home.run(show.split(' ')).success();
    assert!(all.stdout.starts_with("SECRET_2025-03-02\nline 1\n") && all.stdout.ends_with("line 7\n"), "{all}");
    let id = show.split(' ').next_back().unwrap();
    // By the run, and by a beginning that is long enough.
    let text = home.run(["log", "--json", "-n", "1"]).success().stdout;
    let newest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(home.run(["log", "--output", newest["run"].as_str().unwrap()]).success().stdout, all.stdout);
    assert_eq!(home.run(["log", "--output", &id[..35]]).success().stdout, all.stdout);
    assert_fails(&home.run(["log", "--output", &id[..6]]), &["several ids"]);
    assert_fails(&home.run(["log", "--output", "ffffffff"]), &["no run or attempt"]);
    // Nobody else may read it.
    let kept = home.join(format!(".refrain/output/t/{id}.log"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(kept).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_command_that_prints_without_end_is_kept_in_bounds_and_never_waits_for_a_reader() {
    let home = daily("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 4");
    backfill(&home, "2025-03-01", "2025-03-01", &[]).expect_code(4).says("  | the end");
    let files = names(&home.join(".refrain/output/t"));
    assert_eq!(files.len(), 1);
    let kept = home.read(format!(".refrain/output/t/{}", files[0]));
    assert!(kept.len() < 1_100_000 && kept.contains("bytes are left out here]") && kept.ends_with("the end\n"));
}

#[test]
fn a_backfill_whose_commands_ask_for_input_finds_it_empty() {
    let home = daily("cat > $REFRAIN_OUT; echo done >> $REFRAIN_OUT");
    let output = home.refrain().stdin("typed\n").run(["backfill", "t", "--from", "2025-03-01", "--to", "2025-03-02"]);
    output.success();
    assert_eq!((home.read("o/2025-03-01"), home.read("o/2025-03-02")), ("done\n".to_owned(), "done\n".to_owned()));
}

#[test]
fn outputs_beyond_the_newest_thousand_of_a_task_are_collected() {
    let home = daily("echo printed; echo x > $REFRAIN_OUT");
    for number in 0..1005 {
        home.write(format!(".refrain/output/t/0193b3a0-0000-7000-8000-{number:012}.log"), "old\n");
    }
    home.run(["gc", "--dry-run"]).success().says("5 outputs of commands");
    backfill(&home, "2025-03-01", "2025-03-02", &[]).success();
    let left = wait_for_some("the outputs", || Some(names(&home.join(".refrain/output/t"))));
    assert_eq!(left.len(), 1000);
    assert_eq!(left[0], "0193b3a0-0000-7000-8000-000000000007.log", "the oldest went");
    home.run(["gc"]).success().says("0 outputs of commands");
}
