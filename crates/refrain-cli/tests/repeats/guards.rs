//! DATA and the guards of the seal: 123, and the old publication untouched.

use crate::call::{Call, home, names, run};
use refrain_testkit::program::Home;
use refrain_testkit::reader::Reader;
use std::os::unix::fs::MetadataExt;

const FILE: [&str; 3] = ["job", "--out", "out.csv"];
const DIRECTORY: [&str; 3] = ["job", "--out", "tree/"];

/// A home where `job` has published an old version.
fn published(flags: &[&str]) -> Home {
    let home = home();
    let script = "if [ -d $REFRAIN_OUT ]; then echo old > $REFRAIN_OUT/old; else echo old > $REFRAIN_OUT; fi";
    run(&home, flags, script).published();
    home
}

/// A rerun whose output is refused while a reader looks on; the old publication must be what the reader saw all along.
#[track_caller]
fn refused(home: &Home, flags: &[&str], script: &str) -> Call {
    let target = home.join(if flags.contains(&"tree/") { "tree" } else { "out.csv" });
    let identity = |path| std::fs::metadata(path).map(|found| (found.ino(), found.mtime_nsec())).unwrap();
    let before = identity(&target);
    let reader = Reader::start(&target);
    let call = run(home, &[flags, &["--rerun"]].concat(), script).nothing(123, "refused");
    let seen = reader.stop();
    assert_eq!(seen.distinct.len(), 1, "a reader saw more than the old publication: {seen:?}");
    assert_eq!(identity(&target), before, "the old publication is the same file");
    assert_eq!(call.report["error"]["kind"], "guard");
    let left = names(&home.join(".refrain/slots")).into_iter().filter(|name| name.ends_with(".0"));
    assert_eq!(left.count(), 0, "the refused staging is gone");
    call
}

#[test]
fn a_missing_output_is_refused_with_where_it_belongs() {
    refused(&published(&FILE), &FILE, "true").says("no output").says("REFRAIN_OUT");
    refused(&published(&DIRECTORY), &DIRECTORY, "rmdir $REFRAIN_OUT").says("no output");
}

#[test]
fn data_01_an_empty_result_does_not_wipe_good_data() {
    refused(&published(&FILE), &FILE, ": > $REFRAIN_OUT").says("is empty").says("--allow-empty");
    refused(&published(&DIRECTORY), &DIRECTORY, "true").says("is empty").says("--allow-empty");
}

#[test]
fn data_01_a_directory_of_empty_directories_is_empty() {
    refused(&published(&DIRECTORY), &DIRECTORY, "mkdir -p $REFRAIN_OUT/a/b").says("is empty");
}

#[test]
fn data_01_the_decision_is_in_the_record() {
    let home = published(&FILE);
    refused(&home, &FILE, ": > $REFRAIN_OUT");
    let log = home.run(["log", "job"]).success().stdout;
    assert!(log.contains("refused") && log.contains("is empty"), "{log}");
}

#[test]
fn data_02_an_allowed_empty_result_is_published_as_a_new_version() {
    let home = published(&FILE);
    let call = run(&home, &[&FILE[..], &["--rerun", "--allow-empty"]].concat(), ": > $REFRAIN_OUT").published();
    assert_eq!((home.read("out.csv"), call.number("generation")), (String::new(), 2));
    assert_eq!(call.report["outputs"][0]["bytes"], 0);

    let home = published(&DIRECTORY);
    let call = run(&home, &[&DIRECTORY[..], &["--rerun", "--allow-empty"]].concat(), "true").published();
    assert_eq!((names(&home.join("tree")), call.number("generation")), (Vec::new(), 2));
    run(&home, &DIRECTORY, "true").already_published();
}

#[test]
fn data_02_the_file_can_allow_it_for_one_output() {
    let home = home();
    home.config("[task.job]\ncommand = \"touch $REFRAIN_OUT_A $REFRAIN_OUT_B\"\nout.a = { path = \"a.csv\", allow_empty = true }\nout.b = \"b.csv\"\n");
    run(&home, &["job"], "").nothing(123, "refused").says("output `b`");
    run(&home, &["job"], "touch $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B").published();
    assert_eq!(home.read("a.csv"), "");
}

#[test]
fn data_04_staging_of_a_dead_attempt_is_never_used_again() {
    let home = home();
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-seal");
    let old = "echo old columns > $REFRAIN_OUT/part-old";
    kill.run(["run", "job", "--out", "tree/", "--", "sh", "-c", old]).expect_signal(9);
    let new = "test -z \"$(ls -A $REFRAIN_OUT)\" && echo new columns > $REFRAIN_OUT/part-new";
    run(&home, &DIRECTORY, new).published();
    assert_eq!(names(&home.join("tree")), ["part-new"]);
}

fn guarded(guard: &str) -> Home {
    let home = home();
    home.config(&format!("[task.job]\ncommand = \"echo long enough to pass > $REFRAIN_OUT\"\nout.out = {{ path = \"out.csv\", {guard} }}\n"));
    run(&home, &["job"], "").published();
    home
}

#[test]
fn fewer_bytes_than_declared_are_refused_with_both_numbers() {
    let home = guarded("min_bytes = 10");
    let call = run(&home, &["job", "--rerun"], "printf 123456789 > $REFRAIN_OUT").nothing(123, "refused");
    call.says("9").says("10");
    run(&home, &["job", "--rerun"], "printf 1234567890 > $REFRAIN_OUT").published();
}

#[test]
fn fewer_files_than_declared_are_refused_with_both_numbers() {
    let home = home();
    home.config("[task.job]\ncommand = \"true\"\nout.out = { path = \"tree/\", min_files = 2 }\n");
    let call = run(&home, &["job"], "mkdir $REFRAIN_OUT/sub; echo 1 > $REFRAIN_OUT/sub/1").nothing(123, "refused");
    call.says("1").says("2");
    assert!(!home.exists("tree"));
    run(&home, &["job"], "mkdir $REFRAIN_OUT/sub; echo 1 > $REFRAIN_OUT/sub/1; echo 2 > $REFRAIN_OUT/2").published();
}

#[test]
fn a_declared_check_decides_and_sees_the_staged_output() {
    let home = guarded("check = \"test $(wc -l < $REFRAIN_CHECK) -eq 1\"");
    let call = run(&home, &["job", "--rerun"], "printf 'a\\nb\\n' > $REFRAIN_OUT").nothing(123, "refused");
    call.says("its check failed with exit code 1").says("wc -l");
    assert_eq!(home.read("out.csv"), "long enough to pass\n");
}

#[test]
fn a_check_that_hangs_ends_with_the_time_limit() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo data > $REFRAIN_OUT\"\nout.out = { path = \"out.csv\", check = \"exec sleep 1000\" }\n");
    let call = run(&home, &["job", "--timeout", "300ms"], "").nothing(124, "timed_out");
    let call = call.says("the check of the output `out` of `job` ran longer than its time limit of 300ms");
    assert_eq!((&call.report["task_exit"]["code"], &call.report["retry"]), (&0.into(), &"later".into()));
    assert!(!home.exists("out.csv"));
    home.config(&format!("{}retry_on = [75]\n", home.read("refrain.toml")));
    let call = run(&home, &["job", "--timeout", "300ms"], "").nothing(124, "timed_out");
    assert_eq!(call.report["retry"], "never", "`retry_on` lists no \"timeout\"");
}

#[test]
fn what_the_check_prints_goes_to_stderr() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo data > $REFRAIN_OUT\"\nout.out = { path = \"out.csv\", check = \"echo checked\" }\n");
    let call = run(&home, &["job"], "").published();
    assert_eq!(call.output.stdout, "");
    assert!(call.output.stderr.contains("checked\n"), "{}", call.output);
}

#[test]
fn an_output_that_its_check_changes_is_published_as_it_was_changed_or_refused_but_never_torn() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo data > $REFRAIN_OUT\"\nout.out = { path = \"out.csv\", check = \"echo more >> $REFRAIN_CHECK\" }\n");
    let call = run(&home, &["job"], "");
    if call.output.code == Some(0) {
        // The check runs before the seal: what it wrote was digested with the rest.
        call.published();
        assert_eq!(home.read("out.csv"), "data\nmore\n");
        run(&home, &["job"], "").already_published();
    } else {
        call.nothing(123, "refused");
        assert!(!home.exists("out.csv"));
    }
}

#[test]
fn an_output_that_is_changed_after_the_seal_is_refused() {
    let home = published(&FILE);
    let place = home.join("report.json").display().to_string();
    let script = "echo $REFRAIN_OUT > place; echo sealed > $REFRAIN_OUT";
    let arguments = ["run", "job", "--out", "out.csv", "--rerun", "--report", place.as_str(), "--", "sh", "-c", script];
    let running = home.refrain().env("REFRAIN_CRASH_AT", "before-commit=stop").spawn(arguments);
    refrain_testkit::freeze::wait_for("refrain stops", || refrain_testkit::freeze::state(running.pid()) == Some('T'));
    home.write(home.read("place").trim_end(), "changed behind its back");
    refrain_testkit::freeze::wake(running.pid());
    crate::call::finish((running, place)).nothing(123, "refused").says("was changed or removed before its commit");
    assert_eq!(home.read("out.csv"), "old\n");
}

#[test]
fn a_file_beside_the_declared_output_is_refused_and_named() {
    let stray = "echo a > $REFRAIN_OUT; echo b > $(dirname $REFRAIN_OUT)/stray";
    refused(&published(&FILE), &FILE, stray).says("outside the declared output").says("`stray`");
    let stray = "echo a > $REFRAIN_OUT/a; mkdir $(dirname $REFRAIN_OUT)/stray";
    refused(&published(&DIRECTORY), &DIRECTORY, stray).says("outside the declared output").says("`stray`");
}

#[test]
fn a_symbolic_link_that_leaves_the_output_is_refused() {
    for link in ["/etc/passwd", "../../outside", "sub/../../outside"] {
        let script = format!("mkdir $REFRAIN_OUT/sub; echo a > $REFRAIN_OUT/a; ln -s {link} $REFRAIN_OUT/link");
        refused(&published(&DIRECTORY), &DIRECTORY, &script).says("`link`").says("symbolic link");
    }
    let home = published(&DIRECTORY);
    let script = "mkdir $REFRAIN_OUT/sub; echo a > $REFRAIN_OUT/a; ln -s ../a $REFRAIN_OUT/sub/link";
    run(&home, &[&DIRECTORY[..], &["--rerun"]].concat(), script).published();
    assert_eq!(home.read("tree/sub/link"), "a\n", "one that stays inside is published");
}

#[test]
fn an_output_of_the_wrong_kind_is_refused() {
    refused(&published(&FILE), &FILE, "mkdir $REFRAIN_OUT").says("declared as a file");
    refused(&published(&FILE), &FILE, "ln -s /etc/passwd $REFRAIN_OUT").says("symbolic link");
    refused(&published(&FILE), &FILE, "mkfifo $REFRAIN_OUT").says("declared as a file");
    let script = "rmdir $REFRAIN_OUT; echo a > $REFRAIN_OUT";
    refused(&published(&DIRECTORY), &DIRECTORY, script).says("declared as a directory");
    let script = "echo a > $REFRAIN_OUT/a; mkfifo $REFRAIN_OUT/pipe";
    refused(&published(&DIRECTORY), &DIRECTORY, script).says("`pipe`");
}

#[test]
fn one_refused_output_of_two_leaves_both_old_ones() {
    let home = home();
    let flags = ["job", "--out", "a=a.csv", "--out", "b=b.csv"];
    run(&home, &flags, "echo old > $REFRAIN_OUT_A; echo old > $REFRAIN_OUT_B").published();
    let rerun = [&flags[..], &["--rerun"]].concat();
    run(&home, &rerun, "echo new > $REFRAIN_OUT_A; : > $REFRAIN_OUT_B").nothing(123, "refused").says("output `b`");
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("old\n".into(), "old\n".into()));
    let left =
        names(&home.join(".refrain/slots")).into_iter().filter(|name| name.contains('.') && !name.contains("json"));
    assert_eq!(left.filter(|name| name.ends_with(".0") || name.ends_with(".1")).count(), 0);
}
