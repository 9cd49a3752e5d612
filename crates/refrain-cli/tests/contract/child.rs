//! What the command finds: its environment, its streams, its directory, its staging place.

use crate::call::{home, run, run_as};
use refrain_testkit::program::Home;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The variables that a command finds and that are not the caller's.
fn environment(home: &Home, flags: &[&str], caller: &[(&str, &str)]) -> (BTreeMap<String, String>, Value) {
    let script = "env -0 > env; for p in REFRAIN_OUT REFRAIN_OUT_A REFRAIN_OUT_B; do eval \"f=\\$$p\"; test -z \"$f\" || echo data > $f; done";
    let mut refrain = home.refrain().env("TZ", "Asia/Tokyo").env("LC_ALL", "C").env("PYTHONHASHSEED", "7");
    for (name, value) in caller {
        refrain = refrain.env(name, value);
    }
    let call = run_as(home, &refrain, flags, script).published();
    let text = fs::read(home.join("env")).unwrap();
    let text = String::from_utf8(text).unwrap();
    let all = text.split_terminator('\0').filter_map(|line| line.split_once('='));
    let ours = |name: &str| {
        name.starts_with("REFRAIN_") || ["TZ", "LC_ALL", "PYTHONHASHSEED", "SOURCE_DATE_EPOCH"].contains(&name)
    };
    (all.filter(|(name, _)| ours(name)).map(|(name, value)| (name.into(), value.into())).collect(), call.report)
}

fn keys(environment: &BTreeMap<String, String>) -> Vec<&str> {
    environment.keys().map(String::as_str).collect()
}

#[test]
fn the_command_finds_exactly_the_documented_variables() {
    let home = home();
    home.write("in.csv", "1\n");
    let flags = ["job", "--date", "2025-03-24", "--in", "src-1=in.csv", "--out", "o/{date}.csv", "--param", "k=v w"];
    let (found, report) = environment(&home, &flags, &[]);
    let expected = [
        "LC_ALL",
        "PYTHONHASHSEED",
        "REFRAIN_ATTEMPT",
        "REFRAIN_DATE",
        "REFRAIN_DATE_END",
        "REFRAIN_DATE_START",
        "REFRAIN_IDEMPOTENCY_KEY",
        "REFRAIN_IN_SRC_1",
        "REFRAIN_OUT",
        "REFRAIN_OUT_OUT",
        "REFRAIN_PARAM_K",
        "REFRAIN_PARTITION",
        "REFRAIN_RUN",
        "REFRAIN_SEED",
        "REFRAIN_TASK",
        "REFRAIN_TOKEN",
        "SOURCE_DATE_EPOCH",
        "TZ",
    ];
    assert_eq!(keys(&found), expected);
    let is = |name: &str, value: &str| assert_eq!(found[name], value, "{name}");
    is("REFRAIN_TASK", "job");
    is("REFRAIN_PARTITION", "2025-03-24");
    is("REFRAIN_DATE", "2025-03-24");
    is("REFRAIN_DATE_START", "2025-03-24T00:00:00Z");
    is("REFRAIN_DATE_END", "2025-03-25T00:00:00Z");
    is("SOURCE_DATE_EPOCH", "1742774400");
    is("REFRAIN_PARAM_K", "v w");
    is("TZ", "UTC");
    is("LC_ALL", "C.UTF-8");
    is("PYTHONHASHSEED", "0");
    is("REFRAIN_RUN", report["run"].as_str().unwrap());
    is("REFRAIN_ATTEMPT", report["attempt"].as_str().unwrap());
    is("REFRAIN_TOKEN", &report["token"].to_string());
    is("REFRAIN_OUT_OUT", &found["REFRAIN_OUT"]);
    assert!(found["REFRAIN_SEED"].parse::<u32>().is_ok());
}

#[test]
fn with_two_outputs_there_is_no_plain_out_and_without_a_date_no_date() {
    let home = home();
    let caller = [("REFRAIN_OUT", "a place of the caller's")];
    let (found, _) = environment(&home, &["job", "--out", "a=a.csv", "--out", "b=b.csv"], &caller);
    assert!(found.contains_key("REFRAIN_OUT_A") && found.contains_key("REFRAIN_OUT_B"));
    for name in ["REFRAIN_OUT", "REFRAIN_DATE", "REFRAIN_DATE_START", "REFRAIN_DATE_END", "SOURCE_DATE_EPOCH"] {
        assert!(!found.contains_key(name), "{name} is set: {found:?}");
    }
    assert_eq!(found["REFRAIN_PARTITION"], "");
}

#[test]
fn the_seed_and_the_idempotency_key_are_those_of_the_key_and_the_run() {
    let home = home();
    let flags = ["job", "--date", "2025-03-24", "--out", "a=o/{date}.csv"];
    let script = "env | grep -E '^REFRAIN_(SEED|IDEMPOTENCY|RUN|ATTEMPT)' | sort > env; ";
    let look = |flags: &[&str], more: &str, code: i32| {
        let call = run(&home, flags, &format!("{script}{more}"));
        assert_eq!(call.output.code, Some(code), "{}", call.output);
        // Without the first, the attempt: an idempotency key, a run, a seed.
        home.read("env").lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let failed = look(&flags, "exit 3", 3);
    let retried = look(&flags, "echo data > $REFRAIN_OUT", 0);
    assert_eq!(failed, retried, "a retry is another attempt of the same run");
    let mut again = flags.to_vec();
    again.push("--rerun");
    let rerun = look(&again, "echo data > $REFRAIN_OUT", 0);
    assert_ne!(rerun[0], retried[0], "the next run has another idempotency key");
    assert_eq!(rerun[2], retried[2], "and the same seed");
}

#[test]
fn inherit_locale_keeps_the_callers() {
    let home = home();
    let flags = ["job", "--date", "2025-03-24", "--inherit-locale", "--out", "o/{date}.csv"];
    let (found, _) = environment(&home, &flags, &[("SOURCE_DATE_EPOCH", "5")]);
    let kept = [("TZ", "Asia/Tokyo"), ("LC_ALL", "C"), ("PYTHONHASHSEED", "7"), ("SOURCE_DATE_EPOCH", "5")];
    for (name, value) in kept {
        assert_eq!(found[name], value, "{name}");
    }
}

#[test]
fn a_command_inside_a_command_does_not_see_the_outer_attempt_as_its_own() {
    // The hook of the tests and the outer attempt's variables must not leak into what an inner refrain starts.
    let home = home();
    let inner = format!(
        "{} --home {} run inner --out inner.csv -- sh -c 'env | grep ^REFRAIN_ATTEMPT= > $REFRAIN_OUT' && \
         env | grep ^REFRAIN_ATTEMPT= > $REFRAIN_OUT",
        env!("CARGO_BIN_EXE_refrain"),
        home.path().display()
    );
    run(&home, &["outer", "--out", "outer.csv"], &inner).published();
    assert_ne!(home.read("inner.csv"), home.read("outer.csv"));
}

#[test]
fn a_command_inside_a_command_finds_nothing_of_the_outer_task() {
    let home = home();
    home.write("in.csv", "1\n");
    let look = "env > \"$REFRAIN_OUT_A\"; env > \"$REFRAIN_OUT_B\"";
    home.config(&format!(
        "[task.inner]\ncommand = '{look}'\nout.a = {{ path = \"a.env\", check = 'env > check.env' }}\nout.b = \"b.env\"\n"
    ));
    let flags = ["outer", "--date", "2025-03-24", "--in", "src=in.csv", "--param", "k=v", "--out", "o={date}.csv"];
    let inner = |more: &str| {
        let refrain = env!("CARGO_BIN_EXE_refrain");
        let script = format!("REFRAIN_CHECK=outer {refrain} run inner --rerun {more} && echo data > \"$REFRAIN_OUT\"");
        let caller = home.refrain().env("REFRAIN_LOG", "info").env("REFRAIN_OF_MINE", "kept");
        let mut flags = flags.to_vec();
        flags.push("--rerun");
        run_as(&home, &caller, &flags, &script).published();
    };
    let found = |name: &str| {
        let lines = home.read(name);
        let names = lines.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned());
        let mut names: Vec<_> =
            names.filter(|name| name.starts_with("REFRAIN_") || name == "SOURCE_DATE_EPOCH").collect();
        names.sort_unstable();
        names
    };
    inner("");
    let own = [
        "REFRAIN_ATTEMPT",
        "REFRAIN_IDEMPOTENCY_KEY",
        "REFRAIN_LOG",
        "REFRAIN_OF_MINE",
        "REFRAIN_OUT_A",
        "REFRAIN_OUT_B",
        "REFRAIN_PARTITION",
        "REFRAIN_RUN",
        "REFRAIN_SEED",
        "REFRAIN_TASK",
        "REFRAIN_TOKEN",
    ];
    assert_eq!(found("a.env"), own);
    let in_the_check = [&own[..1], &["REFRAIN_CHECK"], &own[1..]].concat();
    assert_eq!(found("check.env"), in_the_check);
    inner("--inherit-locale");
    assert_eq!(
        found("a.env"),
        [&own[..], &["SOURCE_DATE_EPOCH"]].concat(),
        "asked for with the time zone and the locale"
    );
}

#[test]
fn the_staged_file_bears_the_targets_own_name_outside_the_targets_tree() {
    let home = home();
    let script = "echo $REFRAIN_OUT > place; echo data > $REFRAIN_OUT";
    run(&home, &["job", "--date", "2025-03-24", "--out", "deep/tree/{date}.csv.gz"], script).published();
    let place = home.read("place").trim_end().to_owned();
    let place = Path::new(&place);
    assert_eq!(place.file_name().unwrap(), "2025-03-24.csv.gz");
    assert!(place.starts_with(home.join(".refrain")), "{}", place.display());
    assert_eq!(crate::call::names(&home.join("deep/tree")), ["2025-03-24.csv.gz"]);
}

#[test]
fn a_directory_output_is_there_empty_and_bears_the_targets_name() {
    let home = home();
    let script =
        "test -d $REFRAIN_OUT && test -z \"$(ls -A $REFRAIN_OUT)\" && basename $REFRAIN_OUT > $REFRAIN_OUT/name";
    run(&home, &["job", "--date", "2025-03-24", "--out", "lake/dt={date}/"], script).published();
    assert_eq!(home.read("lake/dt=2025-03-24/name"), "dt=2025-03-24\n");
}

#[test]
fn standard_input_passes_through() {
    let home = home();
    let refrain = home.refrain().stdin("line 1\nline 2\n");
    run_as(&home, &refrain, &["job", "--out", "out.csv"], "cat > $REFRAIN_OUT").published();
    assert_eq!(home.read("out.csv"), "line 1\nline 2\n");
}

#[test]
fn the_commands_streams_are_its_own() {
    let home = home();
    let call = run(&home, &["job", "--out", "out.csv"], "echo to stdout; echo to stderr >&2; echo data > $REFRAIN_OUT");
    let output = call.published().output;
    assert_eq!(output.stdout, "to stdout\n");
    assert_eq!(output.stderr.lines().count(), 2, "one line of its own and one of ours\n{output}");
}

#[test]
fn stdout_is_published_only_when_the_command_succeeds() {
    let home = home();
    run(&home, &["job", "--stdout", "out.csv"], "echo half; exit 3").nothing(3, "task_failed");
    assert!(!home.exists("out.csv"));
    let call = run(&home, &["job", "--stdout", "out.csv"], "echo whole").published();
    assert_eq!(call.output.stdout, "", "what is captured is not printed, too");
    assert_eq!(home.read("out.csv"), "whole\n");
    run(&home, &["job2", "--stdout", "dir/"], "echo whole").nothing(125, "error").says("names a directory");
}

#[test]
fn stdout_and_other_outputs_are_one_publication() {
    let home = home();
    let flags = ["job", "--out", "data=data.csv", "--stdout", "log=log.txt"];
    let call = run(&home, &flags, "echo said; echo data > $REFRAIN_OUT_DATA").published();
    assert_eq!(call.report["outputs"].as_array().unwrap().len(), 2);
    assert_eq!((home.read("log.txt"), home.read("data.csv")), ("said\n".into(), "data\n".into()));
}

#[test]
fn a_declared_task_runs_in_the_home_and_its_paths_are_the_homes() {
    let home = home();
    home.config(
        "[task.job]\ncommand = \"pwd > $REFRAIN_OUT\"\nout.here = \"out.txt\"\n\
         [task.elsewhere]\ncommand = [\"sh\", \"-c\", \"pwd > $REFRAIN_OUT\"]\ncwd = \"work\"\nout.here = \"out2.txt\"\n",
    );
    fs::create_dir_all(home.join("work/deep")).unwrap();
    let below = home.refrain().cwd(home.join("work/deep"));
    run_as(&home, &below, &["job"], "").published();
    assert_eq!(home.read("out.txt").trim_end(), home.path().display().to_string());
    run_as(&home, &below, &["elsewhere"], "").published();
    assert_eq!(home.read("out2.txt").trim_end(), home.join("work").display().to_string());
}

#[test]
fn an_ad_hoc_command_runs_where_it_was_called() {
    let home = home();
    fs::create_dir_all(home.join("there")).unwrap();
    let there = home.refrain().cwd(home.join("there"));
    run_as(&home, &there, &["job", "--out", "out.txt"], "pwd > $REFRAIN_OUT").published();
    assert_eq!(home.read("there/out.txt").trim_end(), home.join("there").display().to_string());
}

#[test]
fn a_flag_wins_over_the_file() {
    let home = home();
    home.config(
        "[task.job]\ncommand = \"echo file > $REFRAIN_OUT\"\nparam.k = \"file\"\nparam.n = 7\nout.out = \"out.txt\"\n",
    );
    run(&home, &["job", "--param", "k=flag"], "echo $REFRAIN_PARAM_K $REFRAIN_PARAM_N > $REFRAIN_OUT").published();
    assert_eq!(home.read("out.txt"), "flag 7\n");
}

#[test]
fn a_shell_line_fails_when_any_part_of_its_pipe_does() {
    let home = home();
    home.config(
        "[task.job]\ncommand = \"false | cat > $REFRAIN_OUT\"\nout.out = { path = \"out.txt\", allow_empty = true }\n",
    );
    run(&home, &["job"], "").nothing(1, "task_failed");
}

#[test]
fn an_input_is_a_pinned_copy() {
    let home = home();
    home.write("in.csv", "v1\n");
    let script = "echo changed > in.csv; cat $REFRAIN_IN_SRC > $REFRAIN_OUT";
    let call = run(&home, &["job", "--in", "src=in.csv", "--out", "out.csv"], script).published();
    assert_eq!(home.read("out.csv"), "v1\n");
    let input = &call.report["inputs"][0];
    assert_eq!(input["name"], "src");
    assert_eq!(input["location"], home.join("in.csv").display().to_string());
    assert!(input["version"].as_str().unwrap().starts_with("blake3:"));
}
