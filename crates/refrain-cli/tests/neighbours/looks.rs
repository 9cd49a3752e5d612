//! Checks, names and places: what is refused before anything is published, and what can be found again.

use crate::call::{executions, home, run};
use crate::status;
use refrain_testkit::program::Home;

fn with_check(check: &str, output: &str) -> Home {
    let home = home();
    let write = if output.ends_with('/') { "echo data > $REFRAIN_OUT/part" } else { "echo data > $REFRAIN_OUT" };
    home.config(&format!("[task.job]\ncommand = {write:?}\nout.out = {{ path = {output:?}, check = {check:?} }}\n"));
    home
}

#[test]
fn a_check_that_changes_its_output_is_refused_whatever_it_says() {
    for check in [
        "echo more >> $REFRAIN_OUT",
        "echo DATA > $REFRAIN_OUT",
        "rm $REFRAIN_OUT",
        "echo data > x && mv x $REFRAIN_OUT",
        "touch $REFRAIN_OUT",
        "chmod 600 $REFRAIN_OUT; chmod 644 $REFRAIN_OUT",
    ] {
        let home = with_check(check, "out.csv");
        run(&home, &["job"], "").nothing(123, "refused").says("its check changed it");
        assert!(!home.exists("out.csv"), "{check}");
    }
    for check in ["echo more > $REFRAIN_OUT/more", "echo more >> $REFRAIN_OUT/part", "rm $REFRAIN_OUT/part"] {
        let home = with_check(check, "tree/");
        run(&home, &["job"], "").nothing(123, "refused").says("its check changed it");
        assert!(!home.exists("tree"), "{check}");
    }
}

#[test]
fn a_check_that_only_looks_decides_by_its_exit_code() {
    for output in ["out.csv", "tree/"] {
        let home = with_check("grep -rq data $REFRAIN_OUT", output);
        run(&home, &["job"], "").published();
        let home = with_check("grep -rq absent $REFRAIN_OUT", output);
        run(&home, &["job"], "").nothing(123, "refused").says("failed with exit code 1");
    }
}

#[test]
fn names_that_share_a_variable_are_refused_before_the_work() {
    for flags in [
        &["--out", "a-b=x.csv", "--out", "a_b=y.csv"][..],
        &["--out", "out.csv", "--in", "a-b=in.csv", "--in", "A_b=in.csv"],
        &["--out", "out.csv", "--param", "a-b=1", "--param", "a_b=2"],
    ] {
        let home = home();
        home.write("in.csv", "");
        let output = home.run([&["run", "job"], flags, &["--", "sh", "-c", "touch started"]].concat());
        let output = output.expect_code(125);
        assert!(output.stderr.to_lowercase().contains("a-b`") && output.stderr.contains("`A_B`"), "{output}");
        assert!(!home.exists("started"));
    }
}

#[test]
fn an_output_that_moved_is_published_there_and_found_there() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo x >> runs.log; echo data > $REFRAIN_OUT\"\nout.out = \"old/out.csv\"\n");
    run(&home, &["job"], "").published();
    home.config(&home.read("refrain.toml").replace("old/", "new/"));
    run(&home, &["job"], "").published().says("new/out.csv").says("was not published before");
    assert_eq!((home.read("new/out.csv"), executions(&home)), ("data\n".into(), 2));
    let path = home.run(["path", "job"]).success().stdout;
    assert_eq!(path.trim_end(), home.join("new/out.csv").display().to_string());
    run(&home, &["job"], "").already_published();
    assert_eq!((status(&home, "job").0.as_str(), executions(&home)), ("published", 2));
}

#[test]
fn with_on_change_refuse_an_output_that_moved_is_refused() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo data > $REFRAIN_OUT\"\non_change = \"refuse\"\nout.out = \"old.csv\"\n");
    run(&home, &["job"], "").published();
    home.config(&home.read("refrain.toml").replace("old.csv", "new.csv"));
    let call = run(&home, &["job"], "").says("--rerun");
    assert_eq!(call.output.code, Some(125), "{}", call.output);
    assert!(!home.exists("new.csv"));
}

#[test]
fn a_task_whose_output_needs_a_parameter_can_be_looked_at_without_it() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo data > $REFRAIN_OUT\"\nout.out = \"out-{param.k}.csv\"\n");
    run(&home, &["job", "--param", "k=v"], "").published();
    assert_eq!(status(&home, "job").0, "published");
    home.run(["status"]).success();
    home.run(["status", "job"]).success();
    let path = home.run(["path", "job"]).success().stdout;
    assert_eq!(path.trim_end(), home.join("out-v.csv").display().to_string());
    let why = home.run(["why", "job"]).success();
    assert!(why.stdout.contains("would do nothing"), "{why}");
    run(&home, &["job", "--param", "k=v"], "").already_published();
}
