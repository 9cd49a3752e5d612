//! The ways to hold an input still.

use crate::call::{finish, home, names, run, start};
use crate::{MODES, declare};
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;
use refrain_testkit::strace::trace;
use std::fs;

/// A home whose task reads a directory of two files.
fn with_tree(pin: &str, script: &str) -> Home {
    let home = home();
    home.write("data/a", "a1\n");
    home.write("data/b", "b1\n");
    declare(&home, "data/", pin, script);
    home
}

#[test]
fn ledg_10_a_retry_reads_what_the_first_attempt_read_whichever_way_it_is_pinned() {
    for pin in MODES {
        let home = with_tree(pin, "test -e ready || exit 3");
        run(&home, &["job"], "").nothing(3, "task_failed");
        home.write("ready", "");
        fs::rename(home.join("data"), home.join("aside")).unwrap();
        home.write("data/a", "a2\n");
        home.write("data/b", "b1\n");
        let why = home.run(["why", "job"]).success().stdout;
        assert_eq!(why.contains("would refuse"), pin == "verify", "{pin}: {why}");
        if pin == "verify" {
            assert!(why.contains("`a` changed") && why.contains("next: repeat the command with `--rerun`"), "{why}");
            let call = run(&home, &["job"], "").nothing(125, "refused");
            call.says("input `in`").says("`a` changed").says("--rerun");
            run(&home, &["job", "--rerun"], "").published();
            assert_eq!(home.read("out.txt"), "a2\nb1\n");
            continue;
        }
        let call = run(&home, &["job"], "").published();
        assert_eq!(home.read("out.txt"), "a1\nb1\n", "{pin}");
        assert!(call.report["inputs"][0]["version"].as_str().unwrap().starts_with("blake3:"));
    }
}

#[test]
fn a_change_of_what_is_read_in_place_refuses_the_publication_and_names_the_files() {
    for pin in ["verify", "link"] {
        let home = with_tree(pin, "echo a2 > data/a; cp data/b data/new");
        let call = run(&home, &["job"], "").nothing(123, "refused");
        let call = call.says("input `in`").says("`a` changed");
        if pin == "verify" {
            call.says("`new` is new").says("--rerun");
        }
        assert!(!home.exists("out.txt"));
    }
}

#[test]
fn a_kept_copy_is_read_whatever_becomes_of_the_original_while_the_command_runs() {
    for pin in ["auto", "copy"] {
        let home = with_tree(pin, "rm -r data; mkdir data; echo other > data/a");
        run(&home, &["job"], "").published();
        assert_eq!(home.read("out.txt"), "a1\nb1\n");
    }
}

#[test]
fn a_command_that_writes_to_its_input_publishes_nothing_and_its_retry_reads_the_pinned_content() {
    for pin in ["auto", "copy"] {
        let meddle = r#"test -e ready || { chmod -R u+w "$REFRAIN_IN_IN"; echo mine >> "$REFRAIN_IN_IN/a"; }"#;
        let home = with_tree(pin, meddle);
        run(&home, &["job"], "").nothing(123, "refused").says("`a` changed");
        home.write("ready", "");
        run(&home, &["job"], "").published();
        assert_eq!(home.read("out.txt"), "a1\nb1\n");
        home.run(["gc"]).success();
        assert_eq!(names(&home.join(".refrain/views")), Vec::<String>::new());
    }
}

#[test]
fn a_second_run_over_unchanged_input_opens_none_of_its_files_and_copies_none() {
    for pin in MODES {
        let home = home();
        for part in 0..40 {
            home.write(format!("data/sub/{part}"), format!("{part}\n"));
        }
        // What was written in the very last moment is read again, on purpose.
        let opened = |task: &str| {
            let home = &home;
            home.config(&format!(
                "[task.{task}]\ncommand = 'true > $REFRAIN_OUT; echo x > $REFRAIN_OUT'\n\
                 in.in = {{ path = \"data/\", pin = \"{pin}\" }}\nout.out = \"{task}.txt\"\n"
            ));
            let trace = trace(&home.refrain().command(["run", task]), &["openat"]);
            trace.output.clone().success();
            let files = |call: &&refrain_testkit::strace::Call| {
                call.args.contains("/sub/") && !call.args.contains("O_DIRECTORY") && call.succeeded()
            };
            trace.of_first().filter(files).count()
        };
        assert!(opened("first") >= 40, "{pin}");
        opened("second");
        assert_eq!(opened("third"), 0, "{pin}");
    }
}

#[test]
fn blocks_are_shared_where_the_filesystem_can_and_that_can_be_demanded() {
    let bin = env!("CARGO_BIN_EXE_refrain");
    let xfs = Mount::xfs(320);
    let ext4 = Mount::ext4(64);
    for (mount, shares) in [(&xfs, true), (&ext4, false)] {
        let home = Home::at(bin, mount.path().join("home"));
        home.write("data/a", "a1\n");
        declare(&home, "data/", "reflink", "");
        let call = run(&home, &["job"], "");
        if shares {
            call.published();
            assert_eq!(home.read("out.txt"), "a1\n");
        } else {
            call.nothing(125, "error").says("reflink").says("`pin = \"auto\"`");
        }
        declare(&home, "data/", "auto", "");
        home.run(["run", "job"]).success();
    }
    // Another filesystem than the home's has no second name for a file.
    let home = Home::at(bin, ext4.path().join("other"));
    fs::write(xfs.path().join("x"), "x\n").unwrap();
    declare(&home, &xfs.path().join("x").display().to_string(), "link", "");
    run(&home, &["job"], "").nothing(125, "error").says("hard link").says("`pin = \"verify\"`");
}

#[test]
fn an_unknown_way_to_pin_is_refused_with_the_nearest_known_one() {
    let home = with_tree("verfy", "");
    home.run(["run", "job"]).expect_code(125).says("verfy").says("did you mean \"verify\"?");
    declare(&home, "data/", "link", "");
    home.run(["config", "show"]).success();
}

#[test]
fn a_task_that_changes_the_shared_copy_and_undoes_it_refuses_whoever_reads_it_beside() {
    // In place, by another file, and by another directory.
    let undone = [
        r#"chmod u+w "$V/a"; cp -p "$V/a" aside; echo EV > "$V/a"; touch evil; wait_for read; cat aside > "$V/a"; touch -r aside "$V/a""#,
        r#"chmod u+w "$V"; mv "$V/a" "$V/aside"; echo EV > "$V/a"; touch evil; wait_for read; mv "$V/aside" "$V/a""#,
        r#"chmod u+w "$V/.." "$V"; mv "$V" "$V.aside"; mkdir "$V"; echo EV > "$V/a"; touch evil; wait_for read; rm -r "$V"; mv "$V.aside" "$V""#,
    ];
    for bad in undone {
        let home = home();
        home.write("data/a", "a1\n");
        let wait =
            "wait_for() { while [ ! -e $1 ] && [ -e refrain.toml ]; do sleep 0.01; done; }; V=\"$REFRAIN_IN_IN\"; ";
        let good = r#"touch open; wait_for evil; cat "$V/a" > "$REFRAIN_OUT"; touch read; wait_for undone"#;
        let task = |name: &str, script: &str| {
            format!("[task.{name}]\ncommand = '''{wait}{script}'''\nin.in = \"data/\"\nout.out = \"{name}.txt\"\n")
        };
        let bad = format!(r#"wait_for open; {bad}; touch undone; echo bad > "$REFRAIN_OUT""#);
        home.config(&(task("good", good) + &task("bad", &bad)));
        let good = start(&home, &["good"], "");
        let meddled = home.run(["run", "bad"]);
        assert_eq!(meddled.code, Some(123), "{meddled}");
        let good = finish(good).nothing(123, "refused");
        good.says("the copy that the command read as the input `in`").says("or another one that ran beside it");
        assert!(!home.exists("good.txt") && !home.exists("bad.txt"));
    }
}

#[test]
fn nothing_of_the_homes_own_state_is_an_input() {
    let home = home();
    home.write("data/a", "a1\n");
    run(&home, &["first", "--out", "first.txt"], "echo x > \"$REFRAIN_OUT\"");
    for (link, target) in [("db", ".refrain/state.db"), ("state", ".refrain"), ("data/up", "../.refrain")] {
        std::os::unix::fs::symlink(target, home.join(link)).unwrap();
    }
    for path in
        [".refrain/state.db", ".refrain", "db", "state/", "data/", ".refrain/*.db", ".ref*/*.db", "data/*/*.db", "d*"]
    {
        for pin in ["auto", "verify"] {
            declare(&home, path, pin, "");
            run(&home, &["job"], "").nothing(125, "error").says("the home's own state");
        }
    }
}
