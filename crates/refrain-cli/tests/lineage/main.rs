//! Tasks that read what tasks published: pins, chains of dates, what is stale and how it comes right, with the real
//! program and a month of flights.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../call/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod call;
mod chains;
mod flights;
mod intervals;
mod kills;
mod pins;
mod settings;

use refrain_testkit::program::Home;

/// Two daily tasks: `raw` publishes what `source` says, `sum` puts it below what it published for the day before.
const TWO: &str = r#"
[task.raw]
partition = "daily"
command = 'cat source > "$REFRAIN_OUT"'
keep = { versions = 0, grace = "0s" }
out.raw = "raw/{date}.txt"

[task.sum]
partition = "daily"
command = '''
echo "$REFRAIN_DATE" >> runs.log
cat ${REFRAIN_IN_PRIOR:+"$REFRAIN_IN_PRIOR"} "$REFRAIN_IN_RAW" > "$REFRAIN_OUT"
'''
in.raw = { task = "raw" }
in.prior = { task = "self", partition = "previous", start = "2013-01-01" }
out.sum = "sum/{date}.txt"
"#;

fn two() -> Home {
    let home = call::home();
    home.config(TWO);
    home.write("source", "one\n");
    home
}

fn backfill(home: &Home, task: &str, days: u32, flags: &[&str]) -> refrain_testkit::program::Output {
    let to = format!("2013-01-{days:02}");
    home.run([&["backfill", task, "--from", "2013-01-01", "--to", &to], flags].concat())
}

/// Publishes what `source` says for a day, as `raw`, once more.
fn publish_raw(home: &Home, date: &str, source: &str) {
    home.write("source", source);
    home.run(["run", "raw", "--date", date, "--rerun"]).success();
}

/// Partition, state and version of a task's partitions, in order.
fn states(home: &Home, task: &str) -> Vec<(String, String, u64)> {
    let text = home.run(["status", task, "--json"]).success().stdout;
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let state = |it: &serde_json::Value| {
        (word(&it["partition"]), word(&it["state"]), it["generation"].as_u64().unwrap_or_default())
    };
    all.iter().map(state).collect()
}

/// The partitions in a state.
fn in_state(home: &Home, task: &str, state: &str) -> Vec<String> {
    states(home, task).into_iter().filter(|(_, it, _)| it == state).map(|(partition, ..)| partition).collect()
}
