//! Rollbacks that are killed, and rollbacks that hold.

use crate::call::{assert_fails, home, run};
use crate::{crashing, killed_at, status};
use refrain_testkit::freeze::{send, state, wait_for, wake};
use refrain_testkit::program::{Home, Output};
use rustix::process::Signal;
use std::fs;
use std::process::Command;

/// The command leaves a mark when it is executed; what it writes is what the code file says.
fn declared(on_change: &str, versions: &[&str]) -> Home {
    let home = home();
    home.config(&format!(
        "[task.job]\ncommand = \"touch executed; sh code.sh > $REFRAIN_OUT\"\ncode = [\"code.sh\"]\n\
         on_change = \"{on_change}\"\nout.out = \"out.csv\"\n"
    ));
    for content in versions {
        code(&home, content);
        run(&home, &["job", "--if-changed"], "").published();
        assert_eq!(home.read("out.csv"), format!("{content}\n"));
    }
    fs::remove_file(home.join("executed")).unwrap();
    home
}

fn code(home: &Home, content: &str) {
    home.write("code.sh", format!("echo {content}\n"));
}

#[track_caller]
fn rolled_back(home: &Home, version: u64, content: &str) -> Output {
    let output = home.run(["rollback", "job"]).success().says(&format!("published: job: version {version}"));
    assert_eq!(home.read("out.csv"), format!("{content}\n"));
    output
}

/// Points before the commit: nothing of the rollback is published when it dies there.
const BEFORE: [&str; 5] = ["after-open-run", "before-task", "after-seal", "before-commit", "before-intent"];
/// From here on it is decided.
const DECIDED: [&str; 6] =
    ["after-intent", "after-rename", "before-record", "after-record", "after-commit", "before-finish"];

#[test]
fn a_rollback_killed_before_its_commit_is_finished_by_the_next_plain_run_which_executes_nothing() {
    for point in BEFORE {
        let home = declared("keep", &["one", "two"]);
        crashing(&home, point).run(["rollback", "job"]).expect_signal(9);
        assert_eq!(home.read("out.csv"), "two\n", "{point}");
        let call = run(&home, &["job"], "").published().says("finishing a rollback to version 1");
        assert_eq!((home.read("out.csv"), call.number("generation")), ("one\n".into(), 3), "{point}");
        assert!(!home.exists("executed"), "{point}");
        run(&home, &["job"], "").already_published();
    }
}

#[test]
fn a_rollback_killed_after_its_decision_is_finished_by_the_next_plain_run_which_executes_nothing() {
    for point in DECIDED {
        let home = declared("keep", &["one", "two"]);
        crashing(&home, point).run(["rollback", "job"]).expect_signal(9);
        run(&home, &["job"], "").already_published();
        assert_eq!(home.read("out.csv"), "one\n", "{point}");
        assert!(!home.exists("executed"), "{point}");
    }
}

#[test]
fn recover_leaves_a_rollback_that_was_not_decided_and_the_next_run_finishes_it() {
    for point in BEFORE {
        let home = declared("keep", &["one", "two"]);
        crashing(&home, point).run(["rollback", "job"]).expect_signal(9);
        home.run(["recover"]).success().says("version 2 stands");
        assert_eq!((home.read("out.csv"), status(&home, "job").1), ("two\n".into(), Some(2)), "{point}");
        run(&home, &["job"], "").published().says("finishing a rollback to version 1");
        assert_eq!(home.read("out.csv"), "one\n", "{point}");
        assert!(!home.exists("executed"), "{point}");
    }
}

#[test]
fn recover_finishes_a_rollback_that_was_decided() {
    for point in DECIDED {
        let home = declared("keep", &["one", "two"]);
        crashing(&home, point).run(["rollback", "job"]).expect_signal(9);
        let recover = home.run(["recover"]).success();
        assert!(recover.stderr.contains("job: published"), "{point}\n{recover}");
        assert_eq!((home.read("out.csv"), status(&home, "job").1), ("one\n".into(), Some(3)), "{point}");
        assert!(!home.exists("executed"), "{point}");
    }
}

#[test]
fn proc_05_a_signal_ends_a_rollback_before_its_commit_and_after_it_lets_it_finish() {
    for point in BEFORE.iter().chain(&DECIDED) {
        let home = declared("keep", &["one", "two"]);
        let rollback = home.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop")).spawn(["rollback", "job"]);
        wait_for("the rollback stands still", || state(rollback.pid()) == Some('T'));
        send(rollback.pid(), Signal::TERM);
        wake(rollback.pid());
        let output = rollback.wait();
        match output.code {
            Some(143) => {
                assert!(BEFORE.contains(point) && output.stderr.contains("refrain got SIGTERM"), "{point}\n{output}");
                assert_eq!(home.read("out.csv"), "two\n", "{point}");
                run(&home, &["job"], "").published().says("finishing a rollback to version 1");
            }
            _ => drop(output.success()),
        }
        assert_eq!(home.read("out.csv"), "one\n", "{point}");
    }
}

#[test]
fn a_killed_rollback_of_two_outputs_brings_both_back() {
    for point in ["before-task", "after-seal", "before-commit", "after-commit"] {
        let home = home();
        let flags = ["job", "--out", "a=a.csv", "--out", "b=tree/"];
        for content in ["one", "two"] {
            let script = format!("echo {content} > $REFRAIN_OUT_A; echo {content} > $REFRAIN_OUT_B/{content}");
            run(&home, &[&flags[..], &["--rerun"]].concat(), &script).published();
        }
        crashing(&home, point).run(["rollback", "job"]).expect_signal(9);
        assert_eq!(run(&home, &flags, "touch executed").output.code, Some(0), "{point}");
        assert_eq!(home.read("a.csv"), "one\n", "{point}");
        assert_eq!(crate::call::names(&home.join("tree")), ["one"], "{point}");
        assert!(!home.exists("executed"), "{point}");
    }
}

#[test]
fn a_killed_rollback_that_is_asked_for_again_is_published_once() {
    let home = declared("keep", &["one", "two"]);
    crashing(&home, "before-commit").run(["rollback", "job"]).expect_signal(9);
    home.run(["rollback", "job"]).success();
    assert_eq!(home.read("out.csv"), "one\n");
    assert!(!home.exists("executed"));
}

#[test]
fn a_rollback_that_is_finished_late_takes_no_account_of_what_changed_since_it_was_asked_for() {
    for point in BEFORE {
        let home = declared("keep", &["one", "two"]);
        crashing(&home, point).run(["rollback", "job"]).expect_signal(9);
        code(&home, "three");
        run(&home, &["job"], "").published().says("finishing a rollback to version 1");
        assert_eq!((home.read("out.csv"), status(&home, "job").0), ("one\n".into(), "stale".into()), "{point}");
        run(&home, &["job", "--if-changed"], "").published();
        assert_eq!(home.read("out.csv"), "three\n", "{point}");
    }
}

#[test]
fn rerun_after_a_killed_rollback_executes_the_command() {
    let home = declared("keep", &["one", "two"]);
    crashing(&home, "before-task").run(["rollback", "job"]).expect_signal(9);
    run(&home, &["job", "--rerun"], "").published().never_says("finishing a rollback");
    assert!(home.exists("executed"), "a person said so");
    assert_eq!(home.read("out.csv"), "two\n");
}

#[test]
fn a_rollback_holds_against_if_changed_until_the_code_really_changes() {
    let home = declared("keep", &["one", "two"]);
    rolled_back(&home, 3, "one");
    run(&home, &["job"], "").already_published().never_says("changed since");
    run(&home, &["job", "--if-changed"], "").already_published();
    assert_eq!((home.read("out.csv"), home.exists("executed")), ("one\n".into(), false));
    assert_eq!(status(&home, "job").0, "published");
    code(&home, "three");
    assert_eq!(status(&home, "job").0, "stale");
    run(&home, &["job", "--if-changed"], "").published();
    assert_eq!(home.read("out.csv"), "three\n");
}

#[test]
fn a_rollback_holds_against_on_change_replace_until_the_code_really_changes() {
    let home = declared("replace", &["one", "two"]);
    rolled_back(&home, 3, "one");
    for _ in 0..2 {
        run(&home, &["job"], "").already_published();
    }
    assert_eq!((home.read("out.csv"), home.exists("executed")), ("one\n".into(), false));
    code(&home, "three");
    run(&home, &["job"], "").published();
    assert_eq!(home.read("out.csv"), "three\n");
}

#[test]
fn a_killed_rollback_that_the_next_run_finishes_holds_as_well() {
    let home = declared("replace", &["one", "two"]);
    crashing(&home, "before-commit").run(["rollback", "job"]).expect_signal(9);
    run(&home, &["job"], "").published().says("finishing a rollback");
    run(&home, &["job"], "").already_published();
    assert_eq!((home.read("out.csv"), home.exists("executed")), ("one\n".into(), false));
}

#[test]
fn repeated_rollbacks_go_further_back_and_end_in_an_error_that_changes_nothing() {
    let home = declared("replace", &["one", "two", "three"]);
    rolled_back(&home, 4, "two");
    rolled_back(&home, 5, "one");
    let refused = ["shows version 1 again", "no version before that is kept", "refrain rollback job --to 4"];
    assert_fails(&home.run(["rollback", "job"]), &refused);
    assert_eq!(home.read("out.csv"), "one\n");
    // By its number every version is still there.
    home.run(["rollback", "job", "--to", "3"]).success();
    assert_eq!(home.read("out.csv"), "three\n");
    rolled_back(&home, 7, "two");
}

#[test]
fn a_rollback_of_a_first_version_is_an_error() {
    let home = declared("keep", &["one"]);
    let failed = home.run(["rollback", "job"]);
    assert_fails(&failed, &["its first publication: there never was an earlier one"]);
    assert!(!failed.stderr.contains("keep"), "{failed}");
    assert_eq!((home.read("out.csv"), home.exists("executed")), ("one\n".into(), false));
}

/// A task whose parameter is part of what it writes.
fn with_parameter() -> Home {
    let home = home();
    home.config(
        "[task.job]\ncommand = \"(cat $REFRAIN_IN_SOURCE; echo $REFRAIN_PARAM_LATE) > $REFRAIN_OUT\"\n\
         in.source = \"source\"\nparam = { late = \"15\" }\nout.out = \"out.csv\"\n",
    );
    home.write("source", "a\n");
    run(&home, &["job"], "").published();
    home.write("source", "b\n");
    run(&home, &["job", "--param", "late=30"], "").already_published();
    run(&home, &["job", "--param", "late=30", "--if-changed"], "").published();
    home
}

#[track_caller]
fn prints(output: &Output, text: &str) {
    assert!(output.stdout.contains(text), "does not print `{text}`\n{output}");
}

fn made_from(home: &Home) -> serde_json::Value {
    let shown = home.run(["show", "out.csv", "--json"]).success().stdout;
    serde_json::from_str::<serde_json::Value>(&shown).unwrap()["publication"]["fingerprint"]["parts"].clone()
}

#[test]
fn a_rollback_is_made_from_what_the_version_that_it_restores_was_made_from() {
    let home = with_parameter();
    let second = made_from(&home);
    assert_eq!(second["param:late"], "\"30\"");
    rolled_back(&home, 3, "a\n15");
    let first = made_from(&home);
    assert_eq!(first["param:late"], "\"15\"");
    assert_ne!(first["input:source"], second["input:source"]);
    home.run(["rollback", "job", "--to", "2"]).success();
    assert_eq!((home.read("out.csv"), made_from(&home)), ("b\n30\n".to_owned(), second));
    prints(&home.run(["show", "out.csv"]).success(), "restores     version 2 (a rollback)");
    home.run(["rollback", "job", "--to", "3"]).success();
    assert_eq!(made_from(&home), first, "a rollback to a rollback");
}

#[test]
fn why_tells_that_a_rollback_is_on_purpose_and_how_it_differs_and_nothing_undoes_it() {
    let home = with_parameter();
    home.run(["rollback", "job"]).success();
    home.run(["rollback", "job", "--to", "2"]).success();
    let why = home.run(["why", "job"]).success();
    prints(&why, "rolled back to version 2 on purpose");
    prints(&why, "parameter `late` changed: \"30\" -> \"15\"");
    assert!(!why.stdout.contains("are what they were"), "{why}");
    for flags in [&["job"][..], &["job", "--if-changed"], &["job", "--if-changed", "--param", "late=30"]] {
        run(&home, flags, "").already_published().never_says("changed since");
    }
    home.write("source", "c\n");
    run(&home, &["job"], "").already_published().says("changed since it was rolled back to version 2: input `source`");
    run(&home, &["job", "--if-changed"], "").published();
    assert_eq!(home.read("out.csv"), "c\n15\n");
}

#[test]
fn a_version_that_was_changed_by_hand_is_published_only_on_purpose_and_is_marked() {
    let home = declared("keep", &["one"]);
    home.write("out.csv", "HAND\n");
    run(&home, &["job", "--rerun"], "").published();
    let refused = [
        "version 1 of `job` was changed by hand",
        "kept: 1 (as it was changed by hand)",
        "refrain rollback job --to 1",
    ];
    assert_fails(&home.run(["rollback", "job"]), &refused);
    assert_eq!(home.read("out.csv"), "one\n");
    home.run(["path", "job", "--version", "1"]).success().says("version 1 was changed by hand");
    prints(&home.run(["show", "out.csv"]).success(), "version 1 (changed by hand after it was published): ");
    home.run(["rollback", "job", "--to", "1"]).success().says("publishing version 1 as it was changed by hand again");
    assert_eq!(home.read("out.csv"), "HAND\n");
    let shown = home.run(["show", "out.csv"]).success();
    prints(&shown, "version 1 as it was changed by hand (a rollback)");
    prints(&shown, "made from    unknown");
    prints(&home.run(["why", "job"]).success(), "rolled back to version 1 as it was changed by hand on purpose");
    prints(&home.run(["log", "job"]).success(), "rolled back to version 1 as it was changed by hand");
}

#[test]
fn what_was_changed_inside_a_directory_is_marked_when_it_is_replaced() {
    let script = "mkdir $REFRAIN_OUT/sub; echo a > $REFRAIN_OUT/top; echo b > $REFRAIN_OUT/sub/low";
    for edited in ["tree/top", "tree/sub/low", "tree/sub/added"] {
        let home = home();
        run(&home, &["job", "--out", "tree/"], script).published();
        home.write(edited, "HAND\n");
        let call = run(&home, &["job", "--out", "tree/", "--rerun"], script).published();
        call.says("version 1 of").says("was changed by hand after it was published; the changed one is kept");
        prints(&home.run(["show", "tree/"]).success(), "version 1 (changed by hand after it was published): ");
        assert_fails(&home.run(["rollback", "job"]), &["version 1 of `job` was changed by hand", "--to 1"]);
        run(&home, &["job", "--out", "tree/"], script).already_published();
    }
}

#[test]
fn a_kept_version_that_is_damaged_is_refused_before_the_rollback_begins() {
    for (output, inside) in [("out.csv", ""), ("tree/", "/part")] {
        let home = home();
        for content in ["one", "two"] {
            let script = format!("echo {content} > $REFRAIN_OUT{inside}");
            run(&home, &["job", "--out", output, "--rerun"], &script).published();
        }
        let kept = home.run(["path", "job", "--version", "1"]).success().stdout.trim_end().to_owned() + inside;
        assert_eq!(fs::read_to_string(&kept).unwrap(), "one\n");
        fs::write(&kept, "One\n").unwrap();
        assert_fails(&home.run(["rollback", "job"]), &["version 1 of", "is damaged", "publish anew with --rerun"]);
        run(&home, &["job", "--out", output], "exit 9").already_published();
        assert_eq!(status(&home, "job").1, Some(2));
    }
}

#[test]
fn why_tells_that_a_run_would_finish_a_rollback() {
    let home = declared("keep", &["one", "two"]);
    crashing(&home, "before-commit").run(["rollback", "job"]).expect_signal(9);
    home.run(["recover"]).success();
    let why = home.run(["why", "job"]).success();
    prints(&why, "finish what an earlier attempt left open");
    prints(&why, "it is a rollback to version 1; the next run finishes it without the command");
    assert!(home.run(["why", "job", "--json"]).stdout.contains("\"would\": \"recover\""));
}

#[test]
fn who_reads_a_version_that_was_changed_by_hand_is_told() {
    let home = declared("keep", &["one"]);
    let config = home.read("refrain.toml");
    let reader = "[task.reader]\ncommand = \"cat $REFRAIN_IN_JOB > $REFRAIN_OUT\"\nin.job = { task = \"job\" }\n\
                  out.out = \"read.csv\"\n";
    home.config(&format!("{config}\n{reader}"));
    home.write("out.csv", "HAND\n");
    run(&home, &["job", "--rerun"], "").published();
    home.run(["rollback", "job", "--to", "1"]).success();
    run(&home, &["reader"], "")
        .published()
        .says("input `job` is version 3 of `job`, which is version 1 as it was changed by hand");
    assert_eq!(home.read("read.csv"), "HAND\n");
}

#[test]
fn a_home_that_is_copied_while_a_commit_is_decided_finishes_it_and_goes_back_to_the_version_before() {
    let both = |home: &Home| [home.read("a.txt"), home.read("d/it")];
    for point in ["after-intent", "after-rename"] {
        let home = home();
        let flags = ["job", "--out", "a=a.txt", "--out", "d=d/", "--rerun"];
        let script = |word: &str| format!("echo {word} > $REFRAIN_OUT_A; echo {word} > $REFRAIN_OUT_D/it");
        run(&home, &flags, &script("one")).published();
        killed_at(&home, point, &flags, &script("two"));
        let copied = tempfile::tempdir().unwrap();
        let status = Command::new("cp").arg("-a").arg(home.join(".")).arg(copied.path()).status().unwrap();
        assert!(status.success());
        let copy = Home::at(env!("CARGO_BIN_EXE_refrain"), copied.path());
        run(&copy, &flags[..5], "exit 9").already_published();
        assert_eq!(both(&copy), ["two\n", "two\n"], "{point}");
        copy.run(["rollback", "job", "--to", "1"]).success();
        assert_eq!(both(&copy), ["one\n", "one\n"], "{point}");
        assert!(!copy.run(["rollback", "job", "--to", "2"]).success().stderr.contains("by hand"), "{point}");
        assert_eq!(both(&copy), ["two\n", "two\n"], "{point}");
    }
}
