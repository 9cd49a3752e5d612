//! A hint names something that can be done, and that helps.

use crate::call::{assert_fails, home, run};
use crate::commands::daily;
use refrain_testkit::program::{Home, Output};
use std::fs;

/// What the hint of a failed call says.
fn hint(output: &Output) -> &str {
    output.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_else(|| panic!("no hint\n{output}"))
}

fn chain() -> Home {
    let home = home();
    home.config(
        "[task.counts]\npartition = \"daily\"\ncommand = \"echo 1 > $REFRAIN_OUT\"\nout.o = \"counts/{date}\"\n\
         [task.running]\npartition = \"daily\"\ncommand = \"cat $REFRAIN_IN_COUNTS > $REFRAIN_OUT\"\n\
         in.counts = { task = \"counts\" }\nout.o = \"running/{date}\"\n\
         in.prior = { task = \"self\", partition = \"previous\", start = \"2013-01-01\" }\n",
    );
    home
}

#[test]
fn a_parameter_that_a_declared_task_has_not_is_refused_with_the_nearest() {
    let home = home();
    home.config(
        "[task.t]\npartition = \"daily\"\ncommand = \"echo $REFRAIN_PARAM_LATE_AFTER $REFRAIN_PARAM_BY_NAME > $REFRAIN_OUT\"\n\
         param.late_after = 15\nout.o = \"o/{date}-{param.region}\"\n",
    );
    let (day, region) = (["--date", "2013-01-20"], ["--param", "region=eu"]);
    let wrong = ["--param", "late_afer=30"];
    let says = ["`t` has no parameter `late_afer`", "did you mean `--param late_after=…`?"];
    let range = ["--from", "2013-01-20", "--to", "2013-01-21"];
    assert_fails(&home.run([&["run", "t"][..], &day, &region, &wrong].concat()), &says);
    assert_fails(&home.run([&["backfill", "t"][..], &range, &wrong].concat()), &says);
    assert_fails(&home.run([&["backfill", "t", "--dry-run"][..], &range, &wrong].concat()), &says);
    assert_fails(&home.run([&["check", "t"][..], &day, &wrong].concat()), &says);
    let far = home.run([&["run", "t"][..], &day, &["--param", "zzzzzzzzz=1"]].concat());
    assert_fails(&far, &["it has `late_after`, `region`", "write `param.zzzzzzzzz = …` below [task.t]"]);
    assert!(!home.exists("o"));
    // A location or the command may name it, and a call of its own may have any.
    run(&home, &[&["t"][..], &day, &region, &["--param", "by_name=x"]].concat(), "").published();
    assert_eq!(home.read("o/2013-01-20-eu"), "15 x\n");
    run(&home, &["own", "--out", "own", "--param", "late_afer=30"], "echo $REFRAIN_PARAM_LATE_AFER > $REFRAIN_OUT")
        .published();
    assert_eq!(home.read("own"), "30\n");
}

#[test]
fn before_the_start_of_a_chain_nothing_is_to_be_published_first() {
    let home = chain();
    let output = home.run(["run", "running", "--date", "2012-12-31"]);
    assert_fails(&output, &["2012-12-31 lies before the start of the chain, 2013-01-01", "choose a later date"]);
    assert!(!output.stderr.contains("publish first"), "{output}");
    let why = home.run(["why", "running", "--date", "2012-12-31"]).success();
    assert!(
        why.stdout.contains("before the start of the chain") && !why.stdout.contains("refrain run counts"),
        "{why}"
    );
}

#[test]
fn a_date_that_is_none_is_told_without_the_flag_of_another_command() {
    let home = daily();
    let words = "`, or `today`, `yesterday`, or so many days back, as `-2d`";
    for (call, flag) in [
        (&["backfill", "daily", "--from", "2013-13-09", "--to", "2025-03-24"][..], "--from"),
        (&["backfill", "daily", "--from", "2025-03-24", "--to", "tomorrow"], "--to"),
        (&["run", "daily", "--date", "2013-13-09"], "--date"),
    ] {
        assert_fails(&home.run(call), &[&format!("give it as `{flag} 2025-03-24{words}")]);
    }
    let grain = home.run(["compact", "--before", "2013-01"]);
    assert_fails(&grain, &["give it as `--before 2013-01-01`"]);
    assert!(!grain.stderr.contains("--date"), "{grain}");
}

#[test]
fn a_command_without_an_output_is_told_to_name_one() {
    let home = daily();
    let output = home.run(["run", "noout", "--", "echo", "a b"]);
    assert_fails(
        &output,
        &[
            "there is no task `noout` in refrain.toml, and the call names no output",
            "refrain run noout --out FILE -- echo 'a b'",
        ],
    );
    assert!(hint(&output).starts_with("name an output: ") && hint(&output).ends_with("known tasks: daily"), "{output}");
    let near = home.run(["run", "dayly", "--", "true"]);
    assert_fails(&near, &["did you mean `daily`?", "refrain run dayly --out FILE -- true"]);
    assert_fails(&home.run(["run", "noout"]), &["known tasks: daily"]);
}

#[test]
fn a_task_that_nobody_knows_is_not_to_be_run() {
    let home = daily();
    for call in [&["path", "nope"][..], &["rollback", "nope"], &["why", "nope"]] {
        let output = home.run(call);
        assert_fails(&output, &["there is no task `nope`", "daily"]);
        assert!(!output.stderr.contains("refrain run nope"), "{output}");
    }
    let fix = home.run(["path", "daily", "--date", "2025-03-24"]);
    assert_fails(&fix, &["to publish it: refrain run daily --date 2025-03-24"]);
}

#[test]
fn an_empty_output_is_allowed_where_every_command_reads_it() {
    let home = home();
    home.config("[task.t]\ncommand = \"true > $REFRAIN_OUT\"\nout.o = \"o.txt\"\n");
    run(&home, &["t"], "").nothing(123, "refused").says("`allow_empty = true`");
    let check = home.run(["check", "t", "--twice"]);
    assert!(check.stderr.contains("hint: ") && check.stderr.contains("`allow_empty = true`"), "{check}");
    assert_eq!(check.stderr.matches("is empty").count(), 1, "told once\n{check}");
}

#[test]
fn a_state_that_is_there_is_not_to_be_replaced() {
    let home = daily();
    home.run(["run", "daily", "--date", "2025-03-24"]).success();
    let output = home.run(["store", "init"]);
    assert_fails(&output, &["there is a state at", "already"]);
    assert!(!output.stderr.contains("--replaces"), "{output}");
}

#[test]
fn of_an_output_that_is_gone_nothing_is_kept() {
    let home = daily();
    let call = ["run", "daily", "--date", "2025-03-24"];
    home.run(call).success();
    home.write("reports/2025-03-24.csv", "by hand");
    assert_fails(&home.run(call), &["--rerun; what stands there now is kept as a version"]);
    fs::remove_file(home.join("reports/2025-03-24.csv")).unwrap();
    let gone = home.run(call);
    assert_fails(&gone, &["is gone: ", "--rerun"]);
    assert!(!gone.stderr.contains("is kept"), "{gone}");
}

#[test]
fn an_input_that_has_not_arrived_is_told_with_its_key_and_what_to_do_then() {
    let home = daily();
    let call = ["run", "daily", "--date", "2025-03-29"];
    let output = home.run(call);
    assert_fails(&output, &["input `src` of `daily 2025-03-29`", "in/2025-03-29.csv` does not exist"]);
    assert_eq!(
        hint(&output),
        "`in.src = \"in/{date}.csv\"` of [task.daily] in refrain.toml names it; the newest that is there before \
         is of 2025-03-27; when it has arrived: refrain run daily --date 2025-03-29"
    );
    let why = home.run(["why", "daily", "--date", "2025-03-29"]).success().stdout;
    assert_eq!(why.matches("does not exist").count(), 1, "{why}");
    assert!(why.contains("next: ") && why.contains("refrain run daily --date 2025-03-29"), "{why}");
    let backfill = home.run(["backfill", "daily", "--from", "2025-03-29", "--to", "2025-03-29"]).expect_code(125);
    let line = backfill.stderr.lines().next().unwrap();
    assert!(line.starts_with("failed: daily 2025-03-29: input `src`: ") && line.contains("hint: "), "{line}");
    assert_eq!(line.matches("daily 2025-03-29").count(), 1, "{line}");
    let call = home.run(["run", "own", "--in", "src=gone.csv", "--out", "o", "--", "true"]);
    assert!(hint(&call).starts_with("`--in src=gone.csv` names it"), "{call}");
}

#[test]
fn proc_a_pipe_that_was_read_in_part_says_why_141() {
    let home = home();
    home.config(
        "[task.t]\npartition = \"daily\"\ncommand = \"yes | head -3 > $REFRAIN_OUT\"\nout.o = \"o/{date}\"\n\
         [task.c]\ncommand = \"echo x > $REFRAIN_OUT\"\nout.o = { path = \"c\", check = \"yes | head -3\" }\n",
    );
    run(&home, &["t", "--date", "2013-01-01"], "").nothing(141, "task_failed").says("SIGPIPE").says("sed -n 1,3p");
    run(&home, &["c"], "").nothing(123, "refused").says("SIGPIPE");
    home.run(["backfill", "t", "--from", "2013-01-01", "--to", "2013-01-01"]).expect_code(141).says("SIGPIPE");
    home.run(["check", "t", "--date", "2013-01-01", "--twice"]).expect_code(1).says("SIGPIPE");
    // What the hint says, does.
    home.config("[task.t]\ncommand = \"{ yes || [ $? = 141 ]; } | head -3 > $REFRAIN_OUT\"\nout.o = \"o.txt\"\n");
    run(&home, &["t"], "").published();
    assert_eq!(home.read("o.txt"), "y\ny\ny\n");
}

#[test]
fn a_command_that_fails_under_the_logical_clock_is_told_its_cure() {
    let home = home();
    home.config("[task.t]\npartition = \"daily\"\nclock = \"logical\"\ncommand = \"exit 7\"\nout.o = \"o/{date}\"\n");
    run(&home, &["t", "--date", "2013-01-01"], "").nothing(7, "task_failed").says("FAKETIME_DONT_FAKE_MONOTONIC=0");
    home.config(&home.read("refrain.toml").replace("clock = \"logical\"\n", ""));
    run(&home, &["t", "--date", "2013-01-02"], "").nothing(7, "task_failed").never_says("FAKETIME");
}

#[test]
fn texts_for_people_say_version() {
    let home = daily();
    home.run(["run", "daily", "--date", "2025-03-24"]).success();
    let why = home.run(["why", "daily", "--date", "2025-03-24"]).success().stdout;
    assert!(why.contains("version 1 was published by") && !why.contains("generation"), "{why}");
}

#[test]
fn a_dry_run_of_a_chain_counts_on_the_dates_before() {
    let home = chain();
    let dry = |flags: &[&str]| {
        let range = ["backfill", "running", "--from", "2013-01-01", "--to", "2013-01-03", "--dry-run"];
        home.run([&range[..], flags].concat()).success().stdout
    };
    home.run(["backfill", "counts", "--from", "2013-01-01", "--to", "2013-01-03"]).success();
    let first = "2013-01-01\trun\tmissing\n2013-01-02\trun\tmissing: after 2013-01-01\n";
    assert_eq!(dry(&[]), format!("{first}2013-01-03\trun\tmissing: after 2013-01-02\n"));
    home.run(["backfill", "running", "--from", "2013-01-01", "--to", "2013-01-03"]).success();
    assert_eq!(dry(&[]).lines().filter(|line| line.contains("\tnothing\tpublished")).count(), 3, "{}", dry(&[]));
    home.run(["run", "counts", "--date", "2013-01-02", "--rerun"]).success();
    let healed: Vec<String> =
        dry(&["--if-changed"]).lines().map(|line| line.split('\t').nth(1).unwrap().to_owned()).collect();
    assert_eq!(healed, ["nothing", "run", "run"]);
    assert!(dry(&["--rerun"]).ends_with(": after 2013-01-02\n"), "{}", dry(&["--rerun"]));
}

#[test]
fn a_dry_run_of_a_chain_with_a_gap_before_it_refuses() {
    let home = chain();
    home.run(["backfill", "counts", "--from", "2013-01-01", "--to", "2013-01-04"]).success();
    let output = home.run(["backfill", "running", "--from", "2013-01-03", "--to", "2013-01-04", "--dry-run"]).success();
    let words: Vec<_> = output.stdout.lines().map(|line| line.split('\t').nth(1).unwrap()).collect();
    assert_eq!(words, ["refuse", "refuse"], "{output}");
}

#[test]
fn a_store_that_is_none_is_refused_with_the_nearest() {
    let home = home();
    for (store, says) in [
        ("sqlit", "did you mean store = \"sqlite\"?"),
        ("postgre://h/db", "did you mean store = \"postgresql://…\"?"),
        ("elsewhere", "`refrain stores` lists the stores"),
    ] {
        home.config(&format!("store = \"{store}\"\n"));
        assert_fails(&home.run(["status"]), &["no state store for", says]);
    }
}
