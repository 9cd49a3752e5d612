//! A task that would read by path what it publishes.

use crate::call::{home, run};
use refrain_testkit::program::Home;
use std::os::unix::fs::symlink;

const DATE: [&str; 2] = ["--date", "2025-03-24"];

fn with_data() -> Home {
    let home = home();
    home.write("data/2025-03-24.csv", "1\n");
    home.write("wh/summary.csv", "1\n");
    home.write("wh/2025-03-24-raw.csv", "1\n");
    home.write("deep/in/x.csv", "1\n");
    symlink(home.join("wh"), home.join("link")).unwrap();
    home
}

#[test]
fn an_input_that_an_output_of_this_or_another_date_can_be_is_refused_however_it_is_spelled() {
    let home = with_data();
    let (file, tree) = ("wh/{date}.csv", "wh/dt={date}/");
    for (input, output) in [
        ("wh/{date}.csv", file),
        ("wh/2025-03-23.csv", file),
        ("wh/../wh/./2025-03-23.csv", file),
        ("link/2025-03-23.csv", file),
        ("wh/{date:%Y}-*.csv", file),
        ("wh/", file),
        ("link", file),
        ("*/*.csv", file),
        ("**/*.csv", file),
        ("wh/**", tree),
        ("wh/dt=2025-03-23/part.csv", tree),
        ("wh/dt=*/part.csv", tree),
        ("link/dt=2025-03-23/", tree),
        ("wh/2025/03/23.csv", "wh/{date:%Y/%m/%d}.csv"),
        ("wh/23-Mar.csv", "wh/{date:%d-%b}.csv"),
    ] {
        let [spec, out] = [format!("a={input}"), format!("o={output}")];
        let flags = [&["job"][..], &DATE, &["--in", &spec, "--out", &out]].concat();
        let call = run(&home, &flags, "true").nothing(125, "error");
        call.says("input `a`").says("task = \"self\", partition = \"previous\"");
    }
}

#[test]
fn neighbours_of_an_output_may_be_read() {
    let home = with_data();
    for (index, (input, output)) in [
        ("wh/summary.csv", "wh/{date}.csv"),
        ("data/{date}.csv", "wh/{date}.csv"),
        ("wh/*-raw.csv", "wh/{date}.csv"),
        ("wh/{date}-raw.csv", "wh/{date}-clean.csv"),
        ("deep/in/", "deep/out/{date}/"),
        ("deep/in/**", "deep/out/{date}/"),
    ]
    .into_iter()
    .enumerate()
    {
        let [task, spec, out] = [format!("t{index}"), format!("a={input}"), format!("o={output}")];
        let flags = [&[task.as_str()][..], &DATE, &["--in", &spec, "--out", &out]].concat();
        let write = r#"if [ -d "$REFRAIN_OUT" ]; then echo x > "$REFRAIN_OUT/x"; else echo x > "$REFRAIN_OUT"; fi"#;
        run(&home, &[&flags[..], &["--adopt"]].concat(), write).published();
    }
}

#[test]
fn a_link_within_an_input_to_what_the_task_publishes_is_refused_when_it_is_pinned() {
    let home = with_data();
    home.write("mixed/x.csv", "1\n");
    home.write("wh/2025-03-23.csv", "published\n");
    symlink("../wh/2025-03-23.csv", home.join("mixed/latest.csv")).unwrap();
    for input in ["mixed", "mixed/*.csv"] {
        let spec = format!("a={input}");
        let flags = [&["job"][..], &DATE, &["--in", &spec, "--out", "wh/{date}.csv"]].concat();
        let call = run(&home, &flags, "true").nothing(125, "error");
        call.says("input `a`").says("wh/2025-03-23.csv").says("task = \"self\"");
    }
}

#[test]
fn an_input_that_holds_the_homes_own_state_is_refused() {
    let home = with_data();
    for input in [".", "..", "/"] {
        let [spec, out] = [format!("a={input}"), home.join("../elsewhere.txt").display().to_string()];
        let call = run(&home, &["job", "--in", &spec, "--out", &out], "true");
        call.nothing(125, "error").says("input `a`");
    }
}
