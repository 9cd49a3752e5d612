//! The commands of every day and what they say of dates: status, log, id, clocks, locales.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod calendar;
#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod clock;
mod dates;
mod ids;
mod locale;
mod story;

use refrain_testkit::program::{Home, Output};
use std::process::Command;

/// Runs `refrain ARGUMENTS` of the home on a terminal of so many columns, with this in front of it (`NO_COLOR=1`).
fn on_a_terminal(home: &Home, columns: u16, environment: &str, arguments: &str) -> String {
    let line = format!("stty cols {columns} rows 50; {environment} {} {arguments}", env!("CARGO_BIN_EXE_refrain"));
    let mut command = Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]).current_dir(home.path()).env("SHELL", "/bin/sh").env("TERM", "xterm");
    for name in ["REFRAIN_HOME", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    Output::of(&mut command, b"").success().stdout.replace('\r', "")
}
