//! What the trials share: the scratch homes, the calls, and what was found so far.

use super::Progress;
use super::call::{Called, Caller, Circumstances};
use super::ground::Ground;
use super::inputs::Inputs;
use super::stage::{Change, Stage};
use super::today;
use super::verdict::{Failure, Finding, Kind, Trial};
use super::writes::Write;
use refrain::core::{Partition, Result};
use refrain::{Home, Task};
use refrain_compare::{Cause, Comparison, FileComparison, Known, Options, Verdict, compare};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use toml::Value;

/// How many of the last bytes of what a failed command printed are told.
const TAIL: usize = 4096;
/// How many files of an output have a finding of their own.
const MOST_FILES: usize = 10;
/// How many files of an output are listed in the comparison.
const MOST_COMPARED: usize = 100;

/// A check at work.
pub(super) struct Trials<'a> {
    pub(super) home: &'a Home,
    pub(super) task: &'a Task,
    pub(super) partition: &'a Partition,
    pub(super) ground: Ground,
    pub(super) inputs: Inputs,
    pub(super) caller: Caller<'a>,
    pub(super) progress: &'a dyn Progress,
    /// The trials that were made.
    pub(super) done: Vec<Trial>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
    pub(super) writes: BTreeSet<Write>,
}

/// Either what was wanted, or a task that fails by itself.
pub(super) type Ran<T> = Result<std::result::Result<T, Box<Failure>>>;

/// A run that published, with the home in which it did.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) stage: Stage,
    pub(super) called: Called,
    /// Whether the clock was [`today::SHIFT`] ahead.
    pub(super) shifted: bool,
}

impl Trials<'_> {
    /// A scratch home of this name; `second` reads the inputs' second copies.
    pub(super) fn stage(&self, name: &str, second: bool, command: Option<Value>) -> Result<Stage> {
        let change = Change {
            task: self.task,
            partition: self.partition,
            cwd: self.ground.inside(&self.task.directory),
            inputs: self.inputs.places(second).collect(),
            command,
        };
        Stage::make(self.home, self.caller.scratch.join("homes").join(name), &change)
    }

    /// One run from the task's inputs, alone and undisturbed.
    pub(super) fn undisturbed(&mut self, name: &str) -> Ran<Played> {
        let stage = self.stage(name, false, None)?;
        let called = self.caller.run(&stage, &Circumstances::default())?;
        Ok(if called.published() {
            Ok(Played { stage, called, shifted: false })
        } else {
            Err(Box::new(failure(&called)))
        })
    }

    /// Keeps in mind what was written outside the outputs.
    pub(super) fn note_writes(&mut self) -> Result<()> {
        self.writes.extend(self.ground.writes()?);
        Ok(())
    }

    /// Compares the outputs of two runs; what differs is told as findings of this kind or a milder one.
    pub(super) fn compare(&mut self, trial: &'static str, one: &Played, other: &Played, worst: Kind) -> Result<bool> {
        let mut equal = true;
        for (first, second) in one.stage.outputs.iter().zip(&other.stage.outputs) {
            let comparison = compare(&first.place, &second.place, &options(self, self.known(one, other)))
                .map_err(|error| refrain::Error::new(refrain::ErrorKind::Internal, "cannot compare").because(error))?;
            if comparison.is_equal() {
                continue;
            }
            equal = false;
            let mut findings = differences(trial, &first.name, &comparison, worst);
            if other.shifted {
                findings.iter_mut().zip(&comparison.files).for_each(|(finding, file)| today::attribute(finding, file));
            }
            if grows(&first.place, &second.place) {
                for finding in &mut findings {
                    finding.kind = Kind::ReadsOwnOutput;
                    "it begins with what was published before: the command reads its own output, or a copy of it"
                        .clone_into(&mut finding.cause);
                    today::OWN_HINT.clone_into(&mut finding.hint);
                }
            }
            let mut comparison = comparison;
            comparison.files.truncate(MOST_COMPARED);
            if let Some(finding) = findings.first_mut() {
                finding.comparison = Some(Box::new(comparison));
            }
            self.findings.extend(findings);
        }
        Ok(equal)
    }

    /// Whether two undisturbed runs were found to differ.
    pub(super) fn differ_alone(&self) -> bool {
        self.findings.iter().any(|finding| finding.trial == "twice" && finding.comparison.is_some())
    }

    /// What may have leaked into the outputs from the circumstances of the two runs.
    fn known(&self, one: &Played, other: &Played) -> Vec<Known> {
        let mut known = Vec::new();
        let text = |path: &Path| path.display().to_string();
        let told = |called: &Called| called.report.clone();
        if let (Some(left), Some(right)) = (told(&one.called), told(&other.called)) {
            for (what, left, right) in
                [("the attempt's id", left.attempt, right.attempt), ("the run's id", left.run, right.run)]
            {
                if let (Some(left), Some(right)) = (left, right) {
                    known.push(Known::new(what, left, right));
                }
            }
        }
        known.push(Known::new(
            "the directory for temporary files ($TMPDIR)",
            text(&one.called.temporary),
            text(&other.called.temporary),
        ));
        for held in &self.inputs.held {
            known.push(Known::new(
                format!("the path of the input `{}`", held.name),
                text(&held.first),
                text(&held.second),
            ));
        }
        known.push(Known::new("the staging path", text(&one.stage.home), text(&other.stage.home)));
        known
    }
}

/// How outputs are compared: `known` is what may have leaked into them.
pub(super) fn options(trials: &Trials<'_>, known: Vec<Known>) -> Options {
    Options {
        known,
        host_name: fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned()),
        temporary: Some(trials.caller.scratch.clone()),
        ..Options::default()
    }
}

/// A finding for each file that differs.
fn differences(trial: &'static str, output: &str, comparison: &Comparison, worst: Kind) -> Vec<Finding> {
    let finding = |file: &FileComparison| {
        let kind = match file.verdict {
            Verdict::ContentDiffers if worst == Kind::ContentDiffers && is_clock(file) => Kind::WallClock,
            Verdict::ContentDiffers => worst,
            _ => Kind::BytesDiffer,
        };
        let texts: Vec<_> = file.findings.iter().map(|finding| finding.text.as_str()).collect();
        let hints: BTreeSet<_> =
            file.findings.iter().map(|finding| finding.hint.as_str()).filter(|hint| !hint.is_empty()).collect();
        let equal = if kind == Kind::BytesDiffer { "the bytes differ, the content is equal: " } else { "" };
        let mut finding = Finding::new(kind, trial, format!("{equal}{}", texts.join("; "))).of(output);
        finding.file = Some(file.name().to_owned()).filter(|name| !name.is_empty());
        finding.hint(hints.into_iter().collect::<Vec<_>>().join(" "))
    };
    let mut findings: Vec<_> = comparison.files.iter().take(MOST_FILES).map(finding).collect();
    if comparison.files.len() > MOST_FILES {
        let rest = comparison.files.len() - MOST_FILES;
        let names: Vec<_> = comparison.files[MOST_FILES..].iter().take(3).map(|file| file.name().to_owned()).collect();
        let kind = if comparison.files[MOST_FILES..].iter().any(|file| file.verdict == Verdict::ContentDiffers) {
            worst
        } else {
            Kind::BytesDiffer
        };
        let what = format!("{rest} more files differ: {}, …", names.join(", "));
        findings.push(Finding::new(kind, trial, what).of(output).hint("see the findings before this one"));
    }
    findings
}

/// Whether all that differs looks like the time of the run.
fn is_clock(file: &FileComparison) -> bool {
    !file.findings.is_empty() && file.findings.iter().all(|finding| finding.cause == Some(Cause::WallClock))
}

/// Whether the second file is the first one with more behind it.
fn grows(first: &Path, second: &Path) -> bool {
    let file = |path: &Path| {
        let length = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
        Some((BufReader::new(File::open(path).ok()?), length))
    };
    let (Some((mut first, shorter)), Some((mut second, longer))) = (file(first), file(second)) else { return false };
    if shorter == 0 || longer <= shorter {
        return false;
    }
    loop {
        let (Ok(one), Ok(other)) = (first.fill_buf(), second.fill_buf()) else { return false };
        let length = one.len().min(other.len());
        if one.is_empty() {
            return true;
        }
        if length == 0 || one[..length] != other[..length] {
            return false;
        }
        first.consume(length);
        second.consume(length);
    }
}

/// Why a run did not publish.
pub(super) fn failure(called: &Called) -> Failure {
    let error = called.report.as_ref().and_then(|report| report.error.as_ref());
    // What refrain itself said at the end is told as `what` and `hint`.
    let own = called.stderr.rfind("\nerror: ").map(|at| at + 1).or(called.stderr.starts_with("error: ").then_some(0));
    let own = own.filter(|_| error.is_some()).unwrap_or(called.stderr.len());
    Failure {
        what: called.end(),
        hint: error.and_then(|error| error.hint.clone()).unwrap_or_default(),
        task_exit: called.report.as_ref().and_then(|report| report.task_exit),
        stdout: tail(&called.stdout),
        stderr: tail(&called.stderr[..own]),
    }
}

/// The first line of the command's own that says what went wrong.
pub(super) fn said(stderr: &str) -> Option<&str> {
    const OURS: &[&str] = &["error:", "caused by:", "hint:", "note:", "reached ", "Nothing was published."];
    stderr.lines().find(|line| !line.trim().is_empty() && !OURS.iter().any(|ours| line.starts_with(ours)))
}

fn tail(text: &str) -> String {
    let start = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= TAIL).unwrap_or(text.len());
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::grows;
    use std::fs;

    #[test]
    fn more_behind_is_told_from_another_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (one, two, other) = (place("one", "a\n"), place("two", "a\nb\n"), place("other", "b\na\n"));
        assert!(grows(&one, &two));
        for (first, second) in [(&two, &one), (&one, &one), (&one, &other), (&place("empty", ""), &one)] {
            assert!(!grows(first, second), "{} {}", first.display(), second.display());
        }
    }
}
