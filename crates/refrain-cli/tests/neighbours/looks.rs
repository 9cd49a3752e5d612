//! Checks, names and places: what is refused before anything is published, and what can be found again.

use crate::call::{executions, home, run};
use crate::{crashing, status};
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
    run(&home, &["job"], "").published().says("version 1 was not published to ").says("new/out.csv");
    assert_eq!((home.read("new/out.csv"), executions(&home)), ("data\n".into(), 2));
    let path = home.run(["path", "job"]).success().stdout;
    assert_eq!(path.trim_end(), home.join("new/out.csv").display().to_string());
    run(&home, &["job"], "").already_published();
    assert_eq!((status(&home, "job").0.as_str(), executions(&home)), ("published", 2));
    // What was published elsewhere was published all the same.
    home.run(["rollback", "job"]).expect_code(125).says("no version of `job` before version 2 is kept");
    home.config(&home.read("refrain.toml").replace("out.out = \"new/", "out.other = \"new/"));
    let why = home.run(["why", "job"]).success().stdout;
    assert!(why.contains("output `out` is declared no more") && !why.contains("is gone"), "{why}");
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

#[test]
fn a_failed_run_with_other_outputs_leaves_what_stands_published_and_found() {
    let home = home();
    let declare = |output: &str, command: &str| {
        home.config(&format!("[task.t]\nout.a = \"{output}\"\ncommand = \"{command}\"\n"));
    };
    let stands = |when: &str| {
        assert_eq!(home.run(["path", "t"]).success().stdout.trim_end(), home.join("o/a").to_str().unwrap(), "{when}");
        let (state, generation, note) = status(&home, "t");
        assert_eq!((state.as_str(), generation), ("failed", Some(2)), "{when}");
        assert!(note.contains("version 2 stands"), "{when}: {note}");
        let why = home.run(["why", "t"]).success().stdout;
        assert!(why.contains("is not published yet; version 2 stands"), "{when}: {why}");
    };
    for content in ["one", "two"] {
        declare("o/a", &format!("echo {content} > $REFRAIN_OUT"));
        home.run(["run", "t", "--rerun"]).success();
    }
    declare("p/a", "exit 3");
    home.run(["run", "t"]).expect_code(3);
    stands("the output moved");
    // A directory now, where a file stands: nothing was published that `--adopt` could take over.
    declare("o/a/", "exit 3");
    home.run(["run", "t"]).expect_code(125).says("it is a file");
    stands("a file's name with a slash");
    let why = home.run(["why", "t"]).success().stdout;
    assert!(why.contains("would refuse") && why.contains("no trailing `/`") && !why.contains("--adopt"), "{why}");
    declare("o/a", "exit 3");
    stands("the declaration is back");
    home.run(["rollback", "t"]).success();
    assert_eq!(home.read("o/a"), "one\n");
}

#[test]
fn a_change_by_hand_is_told_while_a_run_is_pending() {
    let home = home();
    home.config("[task.t]\nout.a = \"a\"\ncommand = \"[ ! -e broken ] && echo ours > $REFRAIN_OUT\"\n");
    home.run(["run", "t"]).success();
    home.write("broken", "");
    home.run(["run", "t", "--rerun"]).expect_code(1);
    home.write("a", "by hand");
    let told = |what: &str| {
        let (_, _, note) = status(&home, "t");
        assert!(note.contains(what) && !note.contains("stands"), "{note}");
        let why = home.run(["why", "t"]).success().stdout;
        assert!(why.contains(what), "{why}");
    };
    told("what `t` published was changed by hand");
    std::fs::remove_file(home.join("a")).unwrap();
    told("what `t` published is gone");
}

#[test]
fn why_does_not_recommend_to_adopt_what_adopt_refuses() {
    let home = home();
    home.config(
        "[task.t]\nout.a = \"o/a\"\ncommand = \"echo ours > $REFRAIN_OUT\"\n\
         [task.c]\nout.a = \"o/\"\ncommand = \"exit 3\"\n",
    );
    home.run(["run", "t"]).success();
    let inside = "is published by `t` and would be lost";
    let why = home.run(["why", "c"]).success().stdout;
    assert!(why.contains("would refuse") && why.contains(inside) && !why.contains("--adopt"), "{why}");
    for flags in [&["run", "c"][..], &["run", "c", "--adopt"]] {
        let refused = home.run(flags.iter().copied()).expect_code(125).says(inside);
        assert!(!refused.stderr.contains("--adopt"), "{refused}");
    }
}

#[test]
fn why_of_an_adoption_that_died_after_its_decision_says_that_it_is_finished() {
    let home = home();
    home.config("[task.t]\nout.a = \"a\"\ncommand = \"echo ours > $REFRAIN_OUT\"\n");
    home.write("a", "theirs");
    crashing(&home, "after-intent").run(["run", "t", "--adopt"]).expect_signal(9);
    let why = home.run(["why", "t"]).success().stdout;
    assert!(why.contains("would finish what an earlier attempt left open") && !why.contains("--adopt"), "{why}");
    home.run(["run", "t"]).success();
    assert_eq!(home.read("a"), "ours\n");
}
