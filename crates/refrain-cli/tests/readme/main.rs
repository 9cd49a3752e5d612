//! The commands of the README's sections on PostgreSQL and on objects, with what they print, against real servers.
//!
//! The lines that begin with `$ ` are run by one shell, in a copy of the examples; only those that make the server are left
//! out. What differs from run to run (ids, times, processes, how two hosts share their dates) is masked on both sides.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod masks;

use masks::masked;
use refrain_postgres::Link;
use refrain_testkit::object::MiniStack;
use refrain_testkit::postgres::{Server, Version};
use refrain_testkit::program::Output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const TABLES: &str = "## A table in PostgreSQL";
const OBJECTS: &str = "## Objects in a bucket";

/// What makes the server and the database, or the bucket, which are there already.
const SET_UP: [&str; 10] = [
    "export PATH=",
    "initdb ",
    "pg_ctl ",
    "createdb ",
    "export WAREHOUSE=",
    "python3 -m venv ",
    "S3_PERSIST=",
    "export AWS_",
    "curl ",
    "export LAKE=",
];

/// The database, as the README's commands make and show it.
const SHOWN: &str = "postgresql://127.0.0.1:5544/flights";

/// A command with what it prints.
#[derive(Debug)]
struct Step {
    command: String,
    printed: String,
}

#[test]
fn the_commands_of_the_section_on_postgresql_print_what_it_says() {
    let steps = steps(&section(TABLES));
    assert!(steps.len() > 12 && steps.iter().any(|step| step.command.contains("REFRAIN_CRASH_AT")), "{steps:#?}");
    let database = Server::shared(Version::V15).database();
    let shown = Link::parse(&database.url()).unwrap().to_string();
    walk(&steps, &[("WAREHOUSE".to_owned(), database.url())], (SHOWN, &shown));
}

#[test]
fn the_commands_of_the_section_on_objects_print_what_it_says() {
    let steps = steps(&section(OBJECTS));
    assert!(steps.len() > 8 && steps.iter().any(|step| step.command.contains("REFRAIN_CRASH_AT")), "{steps:#?}");
    let bucket = MiniStack::shared().bucket();
    let mut environment = bucket.environment();
    let lake = bucket.url("").trim_end_matches('/').to_owned();
    environment.push(("LAKE".to_owned(), lake.clone()));
    walk(&steps, &environment, ("s3://flights", &lake));
}

/// Runs the steps in a copy of the examples and compares what they print, where the README shows `shown` instead of `found`.
fn walk(steps: &[Step], environment: &[(String, String)], (shown, found): (&str, &str)) {
    let examples = copy_of_the_examples();
    let output = run(steps, environment, &examples.path().join("flights"));
    let mut printed = output.stdout.split(SEPARATOR);
    assert_eq!(printed.next(), Some(""), "{output}");
    for step in steps {
        let printed = printed.next().unwrap_or_else(|| panic!("nothing of `{}`\n{output}", step.command));
        let wanted = step.printed.replace(shown, found);
        assert_eq!(masked(printed), masked(&wanted), "{}", step.command);
    }
}

#[test]
fn the_example_that_the_readme_begins_with_needs_no_database() {
    let examples = copy_of_the_examples();
    let mut command = Command::new(BIN);
    command.arg("--home").arg(examples.path().join("flights"));
    command.args(["backfill", "daily_delays", "--from", "2013-01-01", "--to", "2013-01-07"]);
    for variable in ["WAREHOUSE", "REFRAIN_STORE_URL", "PGHOST", "PGPORT", "PGSERVICE"] {
        command.env_remove(variable);
    }
    Output::of(&mut command, b"").success().says("7 published, 0 already published, 0 failed");
}

const BIN: &str = env!("CARGO_BIN_EXE_refrain");

/// Between what two commands print.
const SEPARATOR: &str = "\u{1e}\n";

fn run(steps: &[Step], environment: &[(String, String)], directory: &Path) -> Output {
    let mut script = "exec 2>&1\n".to_owned();
    for step in steps {
        // A calendar is for terminals; elsewhere it is asked for.
        let command = step.command.replace("refrain status ", "refrain status --grid ");
        script.push_str(&format!("printf '\\036\\n'\n{command}\n"));
    }
    let programs = [Path::new(BIN).parent().unwrap(), &Version::V15.programs(), Path::new("/usr/bin:/bin")];
    let path = programs.map(|directory| directory.to_str().unwrap().to_owned()).join(":");
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-c", &script]).current_dir(directory).env_clear();
    command.env("PATH", path).env("LC_ALL", "C.UTF-8").env("HOME", directory);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    Output::of(&mut command, b"")
}

/// The text of a section.
fn section(title: &str) -> String {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let (_, section) = readme.split_once(title).expect("the section");
    section.split_once("\n## ").map_or(section, |(section, _)| section).to_owned()
}

/// The commands in the section's blocks, without those that make the server.
fn steps(section: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block = None;
    for line in section.lines() {
        let within = block == Some("```");
        if line.starts_with("```") {
            block = if block.is_none() { Some(line) } else { None };
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| within) {
            if SET_UP.iter().all(|start| !command.starts_with(start)) {
                steps.push(Step { command: command.to_owned(), printed: String::new() });
            }
        } else if let Some(step) = steps.last_mut().filter(|_| within) {
            step.printed.push_str(line);
            step.printed.push('\n');
        }
    }
    steps
}

fn copy_of_the_examples() -> TempDir {
    let copy = TempDir::new().unwrap();
    for example in ["flights", "flights/data", "warehouse", "lake"] {
        let (from, to) = (repository().join("examples").join(example), copy.path().join(example));
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(&from).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
    copy
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
