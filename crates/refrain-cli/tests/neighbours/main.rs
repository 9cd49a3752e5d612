//! Commands that meet: a gc beside a pin, a run after a killed rollback, a backfill beside another. Every scenario names
//! its end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod backfill_kills;
mod backfills;
#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod collecting;
mod followups;
mod immovable;
mod looks;
mod overtaken;
mod owners;
mod pins;
mod rollbacks;
mod told;

use refrain_testkit::program::Home;

/// The program, which is killed (or frozen, by `point=stop`) at a crash point.
fn crashing(home: &Home, point: &str) -> refrain_testkit::program::Refrain {
    home.refrain().env("REFRAIN_CRASH_AT", point)
}

/// Runs an ad hoc command until the crash point kills it.
#[track_caller]
fn killed_at(home: &Home, point: &str, flags: &[&str], script: &str) {
    let arguments = [&["run"], flags, &["--", "sh", "-c", script]].concat();
    crashing(home, point).run(arguments).expect_signal(9);
}

/// The state, the version and the note of a task's only key.
fn status(home: &Home, task: &str) -> (String, Option<u64>, String) {
    let text = home.run(["status", "--json"]).success().stdout;
    let all: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let of = |entry: &&serde_json::Value| entry["task"] == task;
    let entry = all.as_array().and_then(|all| all.iter().find(of)).unwrap_or_else(|| panic!("no {task}: {text}"));
    let word = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    (word("state"), entry["generation"].as_u64(), word("note"))
}

/// The heads of the slots of a home.
pub(crate) fn heads(home: &Home) -> Vec<std::path::PathBuf> {
    let slots = home.join(".refrain/slots");
    let all = call::names(&slots).into_iter().map(|name| slots.join(name));
    all.filter(|path| path.extension() == Some("head".as_ref())).collect()
}
