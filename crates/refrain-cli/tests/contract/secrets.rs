//! What must never be printed: a password in a location.

use crate::call::{assert_closes, home};
use refrain_testkit::program::Home;
use std::fs;

const SECRET: &str = "hush-hush";

/// Every command that could echo the configuration, and every place that it could write to.
fn assert_never_told(home: &Home, commands: &[&[&str]]) {
    for arguments in commands {
        let output = home.run(*arguments);
        assert!(!output.stdout.contains(SECRET) && !output.stderr.contains(SECRET), "{output}");
        if output.code != Some(0) {
            assert_closes(&output, crate::call::NOTHING);
        }
    }
    if let Ok(report) = fs::read_to_string(home.join("report.json")) {
        assert!(!report.contains(SECRET), "{report}");
    }
}

const ALL: [&[&str]; 11] = [
    &["run", "job", "--report", "report.json"],
    &["run", "job", "--out", "x.csv", "--report", "report.json", "--", "true"],
    &["-vv", "run", "job"],
    &["config", "show"],
    &["status"],
    &["log"],
    &["log", "--json"],
    &["why", "job"],
    &["show", "out.csv"],
    &["recover"],
    &["stores"],
];

#[test]
fn the_stores_location_is_never_echoed() {
    let home = home();
    home.config(&format!(
        "store = \"postgres://u:{SECRET}@h/db\"\n[task.job]\ncommand = \"true\"\nout.a = \"out.csv\"\n"
    ));
    assert_never_told(&home, &ALL);
    let shown = home.run(["config", "show"]).success();
    assert!(shown.stdout.contains("postgres"), "its kind is told\n{shown}");
}

#[test]
fn whatever_the_store_is_called_its_text_is_never_echoed() {
    for store in [
        "host=localhost user=u password=hush-hush sslmode=no",
        "host = localhost password = 'hush-hush' port=no",
        "password=my hush-hush=1",
        "PostgreSQL://u:hush-hush@localhost/db?sslmode=no",
        "postgresql:/u:hush-hush@h/db",
        "mysql:u:hush-hush@h",
        "u:hush-hush@h/db",
        "hush-hush",
        "jdbc:postgresql://h/db?password=hush-hush",
    ] {
        let home = home();
        home.config(&format!("store = \"{store}\"\n[task.job]\ncommand = \"true\"\nout.a = \"out.csv\"\n"));
        assert_never_told(&home, &ALL);
        assert_never_told(
            &home,
            &[
                &["store", "show"],
                &["store", "join"],
                &["store", "restored"],
                &["store", "init"],
                &["store", "copy"],
                &["store", "copy", "sqlite", store],
                &["store", "copy", store],
                &["store", "copy", store, "sqlite"],
                &["init", "--sink", store],
                &["init"],
            ],
        );
        let told = home.run(["status"]).expect_code(125);
        assert!(told.stderr.contains("hint: "), "{told}");
    }
}

#[test]
fn a_connection_string_that_is_taken_for_a_path_is_never_echoed() {
    let home = home();
    let text = "host=h user=u password=hush-hush";
    for line in [
        format!("out.a = \"{text}\""),
        format!("out.a = {{ to = \"{text}\", table = \"t\" }}"),
        format!("out.a = {{ to = \"hush-hush {text}\", table = \"t\" }}"),
        format!("out.a = \"out.csv\"\nin.b = \"{text}\""),
    ] {
        home.config(&format!("[task.job]\ncommand = \"true\"\n{line}\n"));
        assert_never_told(&home, &ALL);
        assert_eq!(home.run(["run", "job"]).code, Some(125));
    }
    home.config("[task.job]\ncommand = \"true\"\nout.a = \"out.csv\"\n");
    let upper = "PostgreSQL://u:hush-hush@localhost/db?table=t&sslmode=no";
    for flag in [["--out", text], ["--out", upper], ["--in", text], ["--stdout", text]] {
        let (again, named) = (format!("a={text}"), format!("a={upper}"));
        let (call, command): (&[&str], &[&str]) = (&["run", "ad-hoc", "--report", "report.json"], &["--", "true"]);
        let flags: [&[&str]; 3] = [&flag, &[flag[0], &again], &[flag[0], &again, flag[0], &named]];
        for flags in flags {
            assert_never_told(&home, &[&[call, flags, command].concat()]);
        }
    }
    assert!(!home.exists("host=h user=u password=hush-hush") && !home.exists("h user=u password=hush-hush"));
}

#[test]
fn a_location_from_the_environment_is_never_echoed() {
    let home = home();
    home.config("store = \"${STORE}\"\n[task.job]\ncommand = \"true\"\nout.a = \"out.csv\"\n");
    let refrain = home.refrain().env("STORE", format!("postgres://u:{SECRET}@h/db"));
    for arguments in ALL {
        let output = refrain.run(arguments);
        assert!(!output.stdout.contains(SECRET) && !output.stderr.contains(SECRET), "{output}");
    }
    let unset = home.run(["status"]).expect_code(125);
    assert!(unset.stderr.contains("`STORE`, which is not set"), "{unset}");
}

#[test]
fn a_malformed_file_is_not_quoted() {
    let home = home();
    for broken in ["store = \"postgres://u:hush-hush@h/db\n", "store = \"postgres://u:hush-hush@h/db\" x\n"] {
        home.config(broken);
        assert_never_told(&home, &ALL);
        let output = home.run(["status"]).expect_code(125);
        assert!(output.stderr.contains("refrain.toml") && output.stderr.contains("line 1"), "{output}");
    }
}

#[test]
fn a_location_of_an_output_or_input_is_shown_without_its_password() {
    let home = home();
    for line in [
        "out.a = \"postgres://u:hush-hush@h/db\"",
        "out.a = \"postgres://u:hush-hush@h/{nope}\"",
        "out.a = { to = \"postgres://u:hush-hush@h/db\", table = \"t\" }",
        "out.a = \"out.csv\"\nin.b = \"https://u:hush-hush@h/x.csv\"",
    ] {
        home.config(&format!("[task.job]\ncommand = \"true\"\n{line}\n"));
        assert_never_told(&home, &ALL);
        assert_eq!(home.run(["run", "job"]).code, Some(125));
    }
}
