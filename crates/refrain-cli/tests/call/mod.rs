//! Calls of `refrain run` and what they told, for people and for machines.

use refrain_testkit::program::{Home, Output, Running};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub(crate) const NOTHING: &str = "Nothing was published.";
pub(crate) const PUBLISHED: &str = "The output is published.";
pub(crate) const UNKNOWN: &str = "It is unknown whether the output was published; `refrain recover` decides.";

/// A fresh home.
pub(crate) fn home() -> Home {
    Home::temp(env!("CARGO_BIN_EXE_refrain"))
}

/// An ended `refrain run`.
pub(crate) struct Call {
    pub(crate) output: Output,
    pub(crate) report: Value,
}

/// Runs `refrain run FLAGS --report FILE -- sh -c SCRIPT` in the home; without a script, the declared command.
#[track_caller]
pub(crate) fn run(home: &Home, flags: &[&str], script: &str) -> Call {
    run_as(home, &home.refrain(), flags, script)
}

/// The same from another directory or environment.
#[track_caller]
pub(crate) fn run_as(home: &Home, refrain: &refrain_testkit::program::Refrain, flags: &[&str], script: &str) -> Call {
    let place = report_place(home);
    let output = refrain.run(arguments(flags, &place, script));
    Call::of(output, &place)
}

/// Starts the same and lets it run; [`finish`] ends it.
pub(crate) fn start(home: &Home, flags: &[&str], script: &str) -> (Running, String) {
    let place = report_place(home);
    (home.spawn(arguments(flags, &place, script)), place)
}

/// Waits for the end of a started call.
#[track_caller]
pub(crate) fn finish((running, place): (Running, String)) -> Call {
    Call::of(running.wait(), &place)
}

/// A file for a report that no other call of this home uses.
fn report_place(home: &Home) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    home.join(format!("report-{}.json", COUNT.fetch_add(1, Ordering::Relaxed))).display().to_string()
}

fn arguments(flags: &[&str], place: &str, script: &str) -> Vec<String> {
    let mut arguments = vec!["run".to_owned()];
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    arguments.extend(["--report".to_owned(), place.to_owned()]);
    if !script.is_empty() {
        arguments.extend(["--", "sh", "-c", script].map(str::to_owned));
    }
    arguments
}

impl Call {
    #[track_caller]
    fn of(output: Output, place: &str) -> Self {
        let text = fs::read_to_string(place).unwrap_or_else(|error| panic!("no report: {error}\n{output}"));
        let report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON: {error}: {text}"));
        Self { output, report }
    }

    /// Fails the test unless the exit code, the outcome and the window are these, and the last line of standard error
    /// is the window's sentence (for an error) or says what was done (for none).
    #[track_caller]
    pub(crate) fn ends(self, code: i32, outcome: &str, window: &str) -> Self {
        let output = &self.output;
        assert_eq!(output.code, Some(code), "exit code\n{output}");
        let told = [&self.report["outcome"], &self.report["window"], &self.report["exit_code"]];
        assert_eq!(told, [&Value::from(outcome), &Value::from(window), &Value::from(code)], "\n{output}");
        assert_eq!(self.report["schema"], 1);
        if code == 0 {
            let first = if outcome == "already_published" { "already published: " } else { "published: " };
            let last = output.stderr.lines().last().unwrap_or_default();
            assert!(last.starts_with(first), "the last line does not say what was done\n{output}");
            assert!(self.report["error"].is_null(), "{}", self.report);
        } else {
            assert_closes(output, sentence(window));
            assert!(self.report["error"]["message"].is_string(), "{}", self.report);
        }
        self
    }

    /// As [`Call::ends`], for a publication by this very call.
    #[track_caller]
    pub(crate) fn published(self) -> Self {
        self.ends(0, "published", "published")
    }

    /// As [`Call::ends`], for one that stood before.
    #[track_caller]
    pub(crate) fn already_published(self) -> Self {
        self.ends(0, "already_published", "published")
    }

    /// As [`Call::ends`], for a call that published nothing.
    #[track_caller]
    pub(crate) fn nothing(self, code: i32, outcome: &str) -> Self {
        self.ends(code, outcome, "nothing_published")
    }

    /// Fails the test unless standard error contains `text`.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.output.stderr.contains(text), "expected `{text}` on standard error\n{}", self.output);
        self
    }

    /// Fails the test if standard error contains `text`.
    #[track_caller]
    pub(crate) fn never_says(self, text: &str) -> Self {
        assert!(!self.output.stderr.contains(text), "`{text}` on standard error\n{}", self.output);
        self
    }

    /// A number of the report.
    #[track_caller]
    pub(crate) fn number(&self, field: &str) -> u64 {
        self.report[field].as_u64().unwrap_or_else(|| panic!("no number `{field}` in {}", self.report))
    }

    /// A text of the report.
    #[track_caller]
    pub(crate) fn text(&self, field: &str) -> &str {
        self.report[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {}", self.report))
    }
}

/// Returns once the program has the lock file of a slot open.
pub(crate) fn wait_for_a_slots_lock(pid: u32) {
    let is_a_lock = |path: &Path| {
        path.extension().is_some_and(|it| it == "lock") && path.parent().is_some_and(|it| it.ends_with("slots"))
    };
    refrain_testkit::freeze::wait_for("the program opens the lock of a slot", || {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| is_a_lock(&path))
    });
}

/// Fails the test unless standard error ends with `sentence`, as a line of its own.
#[track_caller]
pub(crate) fn assert_closes(output: &Output, sentence: &str) {
    assert_eq!(output.stderr.lines().last(), Some(sentence), "the closing sentence\n{output}");
}

/// Fails the test unless the call failed on Refrain's side before anything was published, and said this.
#[track_caller]
pub(crate) fn assert_fails(output: &Output, phrases: &[&str]) {
    assert_eq!(output.code, Some(125), "{output}");
    for phrase in phrases {
        assert!(output.stderr.contains(phrase), "expected `{phrase}` on standard error\n{output}");
    }
    assert_closes(output, NOTHING);
}

/// The names below a directory; empty when there is none.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return vec![] };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().display().to_string()).collect();
    names.sort();
    names
}

/// How often a script that says `echo x >> runs.log` was executed.
pub(crate) fn executions(home: &Home) -> usize {
    fs::read_to_string(home.join("runs.log")).unwrap_or_default().lines().count()
}

fn sentence(window: &str) -> &'static str {
    match window {
        "nothing_published" => NOTHING,
        "published" => PUBLISHED,
        "unknown" => UNKNOWN,
        other => panic!("no window is called `{other}`"),
    }
}
