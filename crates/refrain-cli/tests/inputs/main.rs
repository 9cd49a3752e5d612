//! Inputs by path: what is pinned and how, what is noticed, and what a kill, a full disk or a power cut leaves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod faults;
mod kills;
mod modes;
mod patterns;
mod selves;

use refrain_testkit::program::Home;

/// A task `job` with one input `in`, which concatenates whatever it finds there.
fn declare(home: &Home, path: &str, pin: &str, script: &str) {
    let command = format!("{script}\n{CONCATENATE}");
    home.config(&format!(
        "[task.job]\ncommand = '''{command}'''\nin.in = {{ path = \"{path}\", pin = \"{pin}\" }}\nout.out = \"out.txt\"\n"
    ));
}

const CONCATENATE: &str = r#"find -L "$REFRAIN_IN_IN" -type f -print0 | sort -z | xargs -0 cat > "$REFRAIN_OUT""#;
const MODES: [&str; 4] = ["auto", "copy", "link", "verify"];
