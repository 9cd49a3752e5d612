//! Why two runs differ, by experiment: what no longer differs when one circumstance is held still is due to that one.
//!
//! The clock is held by libfaketime(1) at one moment; what was published is held back by taking all writes away.

use super::call::Circumstances;
use super::today;
use super::trials::{Played, Trials, options};
use super::twice::{SHORT_GAP, faked, libfaketime, show};
use super::verdict::{Finding, Kind};
use refrain::core::{Clock, Result};
use refrain::task::CommandClock;
use refrain_compare::compare;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A command may wait for a clock that stands still: so many times as long as the first run it has, and this at least.
const PATIENCE: u32 = 5;
const LEAST: Duration = Duration::from_secs(20);

/// What is the same in two runs.
#[derive(Debug, Default)]
struct Same {
    outputs: BTreeSet<String>,
    files: BTreeSet<(String, String)>,
}

impl Same {
    fn holds(&self, finding: &Finding) -> bool {
        let Some(output) = &finding.output else { return false };
        self.outputs.contains(output)
            || self.files.contains(&(output.clone(), finding.file.clone().unwrap_or_default()))
    }
}

/// Settles the cause of what the first and the second run differ in.
pub(super) fn settle(trials: &mut Trials<'_>, first: &Played, second: &Circumstances) -> Result<()> {
    if !trials.findings.iter().any(is_open) {
        return Ok(());
    }
    let library = libfaketime().filter(|_| trials.task.clock != CommandClock::Logical);
    let mut still: Vec<_> = library.map(|library| faked(&library, &moment())).into_iter().flatten().collect();
    if !still.is_empty() {
        // Whatever the time zone is.
        still.push(("FAKETIME_FMT".into(), "%s".into()));
    }
    let hold = |circumstances: &Circumstances| {
        let mut held = circumstances.clone();
        held.env.retain(|(name, _)| name == "TZ" || name == "LC_ALL");
        held.env.extend(still.iter().cloned());
        held
    };
    trials.progress.step("twice: once more with the clock held still, to tell why the outputs differ");
    let (plain, other) = (hold(&Circumstances::default()), hold(second));
    let Some(one) = run(trials, first, "held", false, &plain)? else { return Ok(()) };
    let Some(alone) = run(trials, first, "held-and-alone", true, &other)? else { return Ok(()) };
    let same = compared(trials, &one, &alone)?;
    if !trials.findings.iter().any(|finding| is_open(finding) && same.holds(finding)) {
        return Ok(());
    }
    // What differs still, when only the publication is in its place again, is due to that.
    trials.ground.reset()?;
    if trials.ground.is_shielded() && !show(trials, first).is_empty() {
        return Ok(());
    }
    let stage = trials.stage("held-and-shown", true, None)?;
    let Some(called) = trials.caller.run_within(&stage, &other, patience(first))? else { return Ok(()) };
    if !called.published() {
        return Ok(());
    }
    let shown = compared(trials, &one, &Played { stage, called, shifted: false })?;
    // Times of files, which no library holds still, may have been the same by chance.
    let mut again = Same::default();
    if trials.findings.iter().any(|finding| is_open(finding) && same.holds(finding) && !shown.holds(finding)) {
        trials.caller.pause(SHORT_GAP)?;
        let Some(later) = run(trials, first, "held-and-alone-again", true, &other)? else { return Ok(()) };
        again = compared(trials, &one, &later)?;
    }
    for finding in trials.findings.iter_mut().filter(|finding| is_open(finding) && same.holds(finding)) {
        if shown.holds(finding) {
            tell_clock(finding, !still.is_empty());
        } else if again.holds(finding) && finding.kind != Kind::BytesDiffer {
            tell_own(finding);
        }
    }
    Ok(())
}

fn is_open(finding: &Finding) -> bool {
    finding.trial == "twice"
        && matches!(finding.kind, Kind::ContentDiffers | Kind::WallClock | Kind::ReadsOwnOutput | Kind::BytesDiffer)
}

fn tell_clock(finding: &mut Finding, held: bool) {
    // Without a clock that stands still nothing is proved; what does not look like it is no order of rows either.
    if !held || finding.kind == Kind::ReadsOwnOutput {
        return;
    }
    if finding.kind == Kind::BytesDiffer {
        "the time of the run: with the clock held still the bytes are the same".clone_into(&mut finding.cause);
        return;
    }
    finding.kind = Kind::WallClock;
    format!("{}: with the clock held still the outputs are the same", today::CAUSE).clone_into(&mut finding.cause);
    today::HINT.clone_into(&mut finding.hint);
}

/// That it reads what stands published.
fn tell_own(finding: &mut Finding) {
    if finding.kind == Kind::ReadsOwnOutput {
        return;
    }
    finding.kind = Kind::ReadsOwnOutput;
    "the command reads its own former output: without that in its place the outputs are the same"
        .clone_into(&mut finding.cause);
    today::OWN_HINT.clone_into(&mut finding.hint);
}

fn run(
    trials: &mut Trials<'_>,
    first: &Played,
    name: &str,
    second: bool,
    circumstances: &Circumstances,
) -> Result<Option<Played>> {
    trials.ground.reset()?;
    let stage = trials.stage(name, second, None)?;
    let called = trials.caller.run_within(&stage, circumstances, patience(first))?;
    Ok(called.filter(super::call::Called::published).map(|called| Played { stage, called, shifted: false }))
}

fn patience(first: &Played) -> Duration {
    (first.called.lasted * PATIENCE).max(LEAST)
}

/// Now, in seconds.
fn moment() -> String {
    refrain::SystemClock.now().as_second().to_string()
}

fn compared(trials: &Trials<'_>, one: &Played, other: &Played) -> Result<Same> {
    let mut same = Same::default();
    for (left, right) in one.stage.outputs.iter().zip(&other.stage.outputs) {
        let comparison = compare(&left.place, &right.place, &options(trials, Vec::new()))
            .map_err(|error| refrain::Error::new(refrain::ErrorKind::Internal, "cannot compare").because(error))?;
        if comparison.is_equal() {
            same.outputs.insert(left.name.clone());
            continue;
        }
        let differing: BTreeSet<_> = comparison.files.iter().map(|file| file.name().to_owned()).collect();
        let names = today::files(&left.place).into_iter().filter_map(|file| name(&file, &left.place));
        let equal = names.filter(|name| !differing.contains(name) && right.place.join(name).exists());
        same.files.extend(equal.map(|file| (left.name.clone(), file)));
    }
    Ok(same)
}

fn name(file: &Path, root: &Path) -> Option<String> {
    file.strip_prefix(root).ok().map(|name| name.display().to_string())
}
