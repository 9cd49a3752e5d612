//! Patterns of input files.

use crate::call::{home, run};
use refrain_testkit::program::Home;
use std::fs;

const LIST: &str = r#"cd "$REFRAIN_IN_RAW" && find . -type f | LC_ALL=C sort | while read -r f; do echo "$f $(cat "$f")"; done > "$REFRAIN_OUT""#;

fn with_days() -> Home {
    let home = home();
    for (file, content) in [
        ("data/eu/2025-03-24-1.csv", "e1"),
        ("data/eu/2025-03-24-2.csv", "e2"),
        ("data/us/2025-03-24-1.csv", "u1"),
        ("data/us/2025-03-25-1.csv", "u2"),
    ] {
        home.write(file, content);
    }
    home.config(&format!(
        "[task.load]\npartition = \"daily\"\ncommand = '''{LIST}'''\nin.raw = \"data/*/{{date}}-*.csv\"\nout.out = \"out/{{date}}\"\n"
    ));
    home
}

#[test]
fn the_command_finds_the_matched_files_under_their_names_below_the_fixed_part() {
    let home = with_days();
    run(&home, &["load", "--date", "2025-03-24"], "").published();
    assert_eq!(
        home.read("out/2025-03-24"),
        "./eu/2025-03-24-1.csv e1\n./eu/2025-03-24-2.csv e2\n./us/2025-03-24-1.csv u1\n"
    );
}

#[test]
fn no_match_is_a_missing_input_and_is_refused_before_the_command_with_pattern_and_date() {
    let home = with_days();
    let call = run(&home, &["load", "--date", "2025-03-26"], "").nothing(125, "error");
    call.says("input `raw`").says("2025-03-26").says("data/*/2025-03-26-*.csv");
    let why = home.run(["why", "load", "--date", "2025-03-26"]);
    assert!(why.stdout.contains("no file matches"), "{why}");
    fs::remove_dir_all(home.join("data")).unwrap();
    run(&home, &["load", "--date", "2025-03-24"], "").nothing(125, "error").says("no file matches");
}

#[test]
fn a_file_that_comes_or_goes_later_is_a_change_and_one_of_another_date_is_none() {
    let home = with_days();
    let again = |flags: &[&str]| run(&home, &[&["load", "--date", "2025-03-24"], flags].concat(), "");
    again(&[]).published();
    home.write("data/us/2025-03-25-2.csv", "of another date");
    again(&[]).already_published().never_says("changed");
    home.write("data/us/2025-03-24-2.csv", "u3");
    again(&[]).already_published().says("changed since it was published").says("raw");
    again(&["--if-changed"]).published();
    assert!(home.read("out/2025-03-24").contains("us/2025-03-24-2.csv u3"));
    fs::remove_file(home.join("data/eu/2025-03-24-1.csv")).unwrap();
    again(&["--if-changed"]).published();
    assert!(!home.read("out/2025-03-24").contains("eu/2025-03-24-1.csv"));
}

#[test]
fn a_wildcard_in_a_name_is_written_in_brackets_and_a_value_stands_for_itself() {
    let home = home();
    home.write("data/[a]*.csv", "literal");
    home.write("data/a1.csv", "matched");
    let cat = r#"cat "$REFRAIN_IN_RAW" > "$REFRAIN_OUT""#;
    let call = |path: &str, task: &str| {
        let [input, output] = [format!("raw={path}"), format!("{task}.txt")];
        run(&home, &[task, "--in", &input, "--out", &output], cat).published();
        home.read(output)
    };
    assert_eq!(call("data/[[]a][*].csv", "one"), "literal");
    let params = ["two", "--in", "raw=data/{param.N}.csv", "--param", "N=[a]*", "--out", "two.txt"];
    run(&home, &params, cat).published();
    assert_eq!(home.read("two.txt"), "literal");
    run(&home, &["three", "--in", "raw=data/[a]*.csv", "--out", "three.txt"], LIST).published();
    assert_eq!(home.read("three.txt"), "./a1.csv matched\n");
    let bare = ["five", "--in", "raw=data/[[]a]?*.csv", "--out", "five.txt"];
    home.write("data/[[]a]?*.csv", "odd");
    std::fs::remove_file(home.join("data/[a]*.csv")).unwrap();
    run(&home, &bare, cat).nothing(125, "error").says("to name it, write `").says("data/[[][[]]a][?][*].csv`");
    run(&home, &["four", "--in", "raw=data/[a.csv", "--out", "four.txt"], cat).nothing(125, "error").says("malformed");
}

#[test]
fn a_name_of_an_input_that_would_leave_its_directory_is_refused() {
    let home = with_days();
    for name in ["..", "a/b", ".a"] {
        let input = format!("in.\"{name}\" = \"data/eu/2025-03-24-1.csv\"");
        home.config(&format!("[task.job]\ncommand = \"true\"\nout.o = \"o.txt\"\n{input}\n"));
        run(&home, &["job"], "").nothing(125, "error").says("cannot name an input");
    }
}

#[test]
fn a_home_whose_own_path_has_wildcards_is_no_pattern() {
    let root = home();
    let home = Home::at(env!("CARGO_BIN_EXE_refrain"), root.join("h[1]*"));
    home.write("data/x.csv", "x");
    run(&home, &["one", "--in", "raw=data/x.csv", "--out", "one.txt"], r#"cat "$REFRAIN_IN_RAW" > "$REFRAIN_OUT""#)
        .published();
    run(&home, &["two", "--in", "raw=data/*.csv", "--out", "two.txt"], LIST).published();
    assert_eq!(home.read("two.txt"), "./x.csv x\n");
}
