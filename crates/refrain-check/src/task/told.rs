//! What was written outside the outputs, as findings.

use super::trials::Trials;
use super::verdict::{Finding, Kind};
use super::writes::{How, Write, is_cache, is_compiled};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Turns what was written outside the outputs into findings.
/// Of a task that failed only what concerns its outputs is told.
pub(super) fn writes(trials: &mut Trials<'_>, failed: bool) {
    let writes = std::mem::take(&mut trials.writes);
    let mut others = Vec::new();
    let trial = trials.done.first().map_or("twice", |trial| trial.name);
    let real = |spec: &refrain::task::OutputSpec| {
        if spec.table.is_some() {
            return None;
        }
        let location = spec.location.render(trials.partition, &trials.task.params).ok()?;
        let place = trials.task.base.join(location);
        Some((spec.name.clone(), place.canonicalize().unwrap_or(place)))
    };
    let outputs: Vec<_> = trials.task.outputs.iter().filter_map(real).collect();
    let mut writes: Vec<_> = writes.into_iter().collect();
    note_caches(trials, &mut writes);
    // Of a file that was created and then changed, the first is told.
    writes.dedup_by(|later, first| later.path == first.path);
    for write in writes {
        let Some((name, _)) = outputs.iter().find(|(_, place)| write.path.starts_with(place)) else {
            others.push(write);
            continue;
        };
        let what = format!("it {} `{}`, where readers find the output", write.how.word(), write.path.display());
        let mut finding = Finding::new(Kind::WritesLiveOutput, trial, what)
            .of(name)
            .because("the command writes to the published place instead of $REFRAIN_OUT: readers see half of it, and a repetition adds to it")
            .hint("write to $REFRAIN_OUT (or $REFRAIN_OUT_<NAME>) alone; it is empty at the start of every attempt");
        finding.writes = vec![write];
        // Then it is this that makes the output grow.
        for grown in trials.findings.iter_mut().filter(|grown| grown.output.as_ref() == Some(name)) {
            if grown.kind == Kind::ReadsOwnOutput {
                "the command adds to what is published, and takes its output from there".clone_into(&mut grown.cause);
            }
        }
        trials.findings.push(finding);
    }
    if let Some(first) = others.first().filter(|_| !failed) {
        let more = others.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let mut finding = Finding::new(
            Kind::UndeclaredWrite,
            trial,
            format!("it {} `{}`{more}, outside its outputs", first.how.word(), first.path.display()),
        )
        .because("what is written there is not staged, not published and not taken back when the command fails")
        .hint("declare it as an output, or write it to $TMPDIR if it is only needed while the command runs");
        finding.writes = others;
        trials.findings.push(finding);
    }
}

/// Caches are no results; where outputs differ they may be why, and one of the home that every run changes is no cache.
fn note_caches(trials: &mut Trials<'_>, writes: &mut Vec<Write>) {
    let home = &trials.home.directory;
    let changes =
        |write: &Write| write.how == How::Changed && write.path.starts_with(home) && !is_compiled(&write.path);
    let growing: BTreeSet<PathBuf> =
        writes.iter().filter(|write| changes(write)).map(|write| write.path.clone()).collect();
    let is_told = |write: &Write| !is_cache(&write.path) || growing.contains(&write.path);
    let (told, caches): (Vec<_>, Vec<_>) = std::mem::take(writes).into_iter().partition(is_told);
    *writes = told;
    let mut paths: Vec<_> = caches.into_iter().map(|write| write.path).filter(|path| !is_compiled(path)).collect();
    paths.dedup();
    if trials.findings.iter().any(|finding| finding.comparison.is_some()) && !paths.is_empty() {
        let shown: Vec<_> = paths.iter().take(3).map(|path| format!("`{}`", path.display())).collect();
        let more = if paths.len() > 3 { format!(" and {} more", paths.len() - 3) } else { String::new() };
        trials.notes.push(format!("the command keeps {}{more}, which may be why outputs differ", shown.join(", ")));
    }
}
