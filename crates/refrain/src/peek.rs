//! A look without a lease: is the key published, and did anything change since?
//!
//! A plain read of the heads is final when it is positive (5.12), so that the answer "already published" costs
//! neither a lease nor a write.

use crate::boundary::{Boundary, Options, Repeat};
use crate::compact;
use crate::conclude::not_the_owner;
use crate::lineage::{Lineages, StaleInput};
use crate::plan::{Plan, PlannedInput, PlannedSource};
use crate::report::{Conclusion, Report, exit_code};
use crate::settle::unsettled;
use crate::task::OnChange;
use refrain_core::{
    Adopt, Condition, Difference, DifferenceKind, Error, ErrorKind, Fingerprint, Generation, Head, Key, KeyState,
    Outcome, OutputSlot, Publication, Result, RunRecord, SlotAddress, Want, Window,
};
use std::collections::BTreeSet;

/// Stands for the version of an input that is not there.
const MISSING: &str = "missing";

/// What the look found.
pub(crate) enum Peek {
    /// Nothing to do, or nothing may be done.
    Ended(Box<Conclusion>),
    /// An attempt is needed.
    Go { want: Want, notes: Vec<String> },
}

/// Looks.
pub(crate) fn peek(boundary: &Boundary, plan: &Plan, options: &Options) -> Result<Peek> {
    let state = boundary.store.key(&plan.key)?;
    let head = anchor_head(boundary, plan, state.as_ref(), options.adopt)?;
    // Another key took the slot over and has not published: an attempt of ours takes it back.
    let taken = head.as_ref().is_some_and(|head| head.owner != plan.key);
    if let Some(head) = head.as_ref().filter(|_| taken && !options.adopt) {
        refuse_decided(boundary, plan, head)?;
    }
    let published = head.and_then(|head| head.publication_of(&plan.key).cloned());
    let known = state.as_ref().and_then(|state| state.run.as_ref()).map(|run| run.generation).unwrap_or_default();
    let shown = published.as_ref().map(|publication| publication.run.generation).unwrap_or_default();
    let folded = boundary.folded(plan, state.as_ref())?;
    // What the store forgot on purpose is no news to it.
    let known = if folded.is_some() { shown } else { known };
    let current = known.max(shown);
    let adopt = if options.adopt { Adopt::Foreign } else { Adopt::Never };
    if !options.adopt {
        boundary.refuse_lost_heads(plan, state.as_ref(), published.is_some())?;
    }
    if options.adopt
        && let Some(line) = others(boundary, plan)?
    {
        return Ok(Peek::Go { want: rerun(current), notes: vec![line] });
    }
    if options.repeat == Repeat::Always {
        // 13.1: also later than what other outputs show, should the record of the first one be damaged.
        let from = if options.adopt { current.max(highest(boundary, plan)?) } else { current };
        return Ok(Peek::Go { want: rerun(from), notes: Vec::new() });
    }
    if let Some(watermark) = folded.filter(|_| published.is_none()) {
        return Err(compact::refuse(plan, &watermark)); // 12.3
    }
    let Some(publication) = published.filter(|_| shown == current && known == shown) else {
        let run = state.as_ref().and_then(|state| state.run.as_ref());
        return continue_or_reopen(boundary, plan, options, run.filter(|run| run.generation > shown));
    };
    let changes = changes(boundary, plan, &publication)?;
    if let Some(output) = plan.outputs.iter().find(|output| !publication.run.slots().any(|slot| *slot == output.slot))
        && plan.task.on_change != OnChange::Refuse
    {
        // "Already published" would be no answer: what is asked for is not there.
        boundary.refuse_beside(plan, adopt)?;
        let line =
            format!("version {current} was not published to {}: opening the next one", boundary.locate(&output.slot));
        return Ok(Peek::Go { want: rerun(current), notes: vec![line] });
    }
    let replace = options.repeat == Repeat::IfChanged || plan.task.on_change == OnChange::Replace;
    if replace && !changes.is_empty() {
        return Ok(Peek::Go { want: rerun(current), notes: vec![changed_line(&publication, &changes)] });
    }
    // An attempt that did not end in order, or does not know how it ended, is settled by a new one.
    let open = taken
        || state.is_some_and(|state| state.lease.is_some())
        || !unsettled(boundary, &plan.key, Some(1))?.is_empty();
    if open || !everywhere(boundary, &plan.key, &publication)? {
        return Ok(Peek::Go { want: Want::Continue, notes: Vec::new() });
    }
    Ok(Peek::Ended(Box::new(already_published(boundary, plan, &publication, &changes))))
}

/// An output at which another key publishes, or last claimed, and which is to be taken over: what stands there is replaced
/// as an own publication would be, and kept as a version.
fn others(boundary: &Boundary, plan: &Plan) -> Result<Option<String>> {
    for output in &plan.outputs {
        let head = boundary.sinks.of(&output.slot)?.read(&output.slot)?;
        if let Some(head) = head.filter(|head| head.owner != plan.key) {
            return Ok(Some(format!("taking {} over from `{}`", boundary.locate(&output.slot), head.owner)));
        }
    }
    Ok(None)
}

/// Refuses to take back what another key has taken over by a run that is decided already: readers see its first output, and
/// this one is to follow.
fn refuse_decided(boundary: &Boundary, plan: &Plan, taken: &Head) -> Result<()> {
    let Some(claim) = taken.claim.as_ref().filter(|_| taken.publication.is_none()) else { return Ok(()) };
    let of_plan = |slot: &SlotAddress| plan.outputs.iter().any(|output| output.slot == *slot);
    for slot in &claim.slots {
        let sink = boundary.sinks.of(slot)?;
        let Some(head) = (if sink.reaches(slot)? { sink.read(slot)? } else { None }) else { continue };
        let Some(decided) = head.publication.filter(|_| head.owner == taken.owner) else { continue };
        if let Some(slot) = decided.run.slots().find(|slot| of_plan(slot)) {
            let (at, owner) = (boundary.locate(slot), &taken.owner);
            return Err(Error::refused(format!(
                "{at} is being taken over by `{owner}`, which has published at its first output"
            ))
            .hint(format!("to finish that: refrain run {}{}", owner.task, boundary.flag_of(owner))));
        }
    }
    Ok(())
}

/// The latest generation that any output shows.
fn highest(boundary: &Boundary, plan: &Plan) -> Result<Generation> {
    let mut highest = Generation::default();
    for output in &plan.outputs {
        let head = boundary.sinks.of(&output.slot)?.read(&output.slot)?;
        highest = highest.max(head.map(|head| head.generation()).unwrap_or_default());
    }
    Ok(highest)
}

fn rerun(from: Generation) -> Want {
    Want::Rerun { from }
}

/// A run that was never published goes on, with what it pinned; the slots of a run are pinned, too, so that a task which
/// publishes elsewhere now needs the next one. So does a call that is to bring right what changed (`--if-changed`): what
/// it published from pins that do not stand would need the same call again.
fn continue_or_reopen(boundary: &Boundary, plan: &Plan, options: &Options, run: Option<&RunRecord>) -> Result<Peek> {
    let go_on = Ok(Peek::Go { want: Want::Continue, notes: Vec::new() });
    let Some(run) = run else { return go_on };
    let what = if !same_places(plan, run) {
        boundary.refuse_beside(plan, if options.adopt { Adopt::Foreign } else { Adopt::Never })?;
        "the outputs".to_owned()
    } else if options.repeat == Repeat::IfChanged && run.restores.is_none() {
        match moved_input(boundary, plan, run)? {
            Some(input) => format!("input `{input}`"),
            None => return go_on,
        }
    } else {
        return go_on;
    };
    let line = format!("{what} changed since version {} was begun: opening the next one", run.generation);
    Ok(Peek::Go { want: rerun(run.generation), notes: vec![line] })
}

/// Whether the run publishes where the plan would. How an output is published is mended like a command: only its place is
/// pinned.
pub(crate) fn same_places(plan: &Plan, run: &RunRecord) -> bool {
    let places = |outputs: &[OutputSlot]| -> Vec<_> {
        outputs.iter().map(|output| (output.name.clone(), output.slot.clone())).collect()
    };
    places(&run.outputs) == places(&plan.slots())
}

/// The first input of which the run has pinned something else than a run that is opened now would read, or something that
/// is stale itself. A path where nothing is any more does not count: only the run's own copy can be read.
fn moved_input(boundary: &Boundary, plan: &Plan, run: &RunRecord) -> Result<Option<String>> {
    let mut lineages = Lineages::new(boundary);
    for input in plan.inputs.iter().filter(|input| !plan.reads_replaced(&input.name)) {
        let Some(now) = version_now(boundary, plan, input, &mut whole(boundary))? else { continue };
        let Some(pin) = run.inputs.iter().find(|pin| pin.name == input.name) else {
            return Ok(Some(input.name.clone()));
        };
        let is_kept = now == MISSING && matches!(input.source, PlannedSource::Path { .. }) && pin.lineage.is_none();
        if pin.version != now && !is_kept {
            return Ok(Some(input.name.clone()));
        }
        for read in pin.lineage.iter().flat_map(|lineage| &lineage.publications) {
            if !lineages.stale_now(read)?.is_empty() {
                return Ok(Some(input.name.clone()));
            }
        }
    }
    let is_declared = |name: &str| plan.inputs.iter().any(|input| input.name == name);
    Ok(run.inputs.iter().find(|pin| !is_declared(&pin.name)).map(|pin| pin.name.clone()))
}

/// What the key shows to readers.
pub(crate) fn find_published(
    boundary: &Boundary,
    plan: &Plan,
    state: Option<&KeyState>,
) -> Result<Option<Publication>> {
    let head = anchor_head(boundary, plan, state, false)?;
    newest_shown(boundary, &plan.key, state.and_then(|state| state.run.as_ref()), head)
}

/// What the head of the run's anchor shows for the key; as long as that is no publication of the run, the newest one that
/// stands at its own anchor among the slots that were claimed with it: an earlier run may have published elsewhere (5.2, 5.5).
pub(crate) fn newest_shown(
    boundary: &Boundary,
    key: &Key,
    run: Option<&RunRecord>,
    head: Option<Head>,
) -> Result<Option<Publication>> {
    let Some(head) = head else { return Ok(None) };
    let mut newest = head.publication_of(key).cloned();
    let generation = |shown: &Option<Publication>| shown.as_ref().map(|it| it.run.generation).unwrap_or_default();
    let Some(run) = run.filter(|run| generation(&newest) < run.generation) else { return Ok(newest) };
    let claimed = |head: &Head| head.claim.iter().flat_map(|claim| claim.slots.clone()).collect::<Vec<_>>();
    let mut open = claimed(&head);
    let mut looked_at: BTreeSet<_> = run.anchor().cloned().into_iter().collect();
    while let Some(slot) = open.pop() {
        let sink = boundary.sinks.of(&slot)?;
        if !looked_at.insert(slot.clone()) || !sink.reaches(&slot)? {
            continue;
        }
        let Some(head) = sink.read(&slot)? else { continue };
        open.extend(claimed(&head));
        let shown = head.publication_of(key).filter(|shown| shown.run.anchor() == Some(&slot)).cloned();
        if generation(&shown) > generation(&newest) {
            newest = shown;
        }
    }
    Ok(newest)
}

/// The head of the run's anchor; for a key without a run, of the first output.
fn anchor_head(boundary: &Boundary, plan: &Plan, state: Option<&KeyState>, adopt: bool) -> Result<Option<Head>> {
    let declared = plan.outputs.first().map(|output| &output.slot);
    let run = state.and_then(|state| state.run.as_ref());
    let anchor = match run.and_then(|run| Some((run, run.anchor()?))) {
        Some((run, pinned)) if boundary.is_forgone(&plan.key, run, pinned, adopt)? => {
            declared.filter(|slot| *slot != pinned)
        }
        Some((_, pinned)) => Some(pinned),
        None => declared,
    };
    let Some(anchor) = anchor else { return Ok(None) };
    boundary.sinks.of(anchor)?.read(anchor)
}

/// Whether every slot of the run shows the attempt that its anchor was just seen to show, or what another key published
/// there since.
pub(crate) fn everywhere(boundary: &Boundary, key: &Key, publication: &Publication) -> Result<bool> {
    for slot in publication.run.slots().skip(1) {
        if !has_followed(boundary, key, publication, slot)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same of one slot.
pub(crate) fn has_followed(
    boundary: &Boundary,
    key: &Key,
    publication: &Publication,
    slot: &SlotAddress,
) -> Result<bool> {
    let head = boundary.sinks.of(slot)?.read(slot)?;
    let seen = |head: &Head| head.seen().is_some_and(|seen| seen.attempt == publication.attempt);
    Ok(head.is_some_and(|head| seen(&head) || is_taken(&head, key)))
}

/// What is told of a publication that does not stand everywhere.
pub(crate) fn in_part(publication: &Publication) -> String {
    let generation = publication.run.generation;
    format!("version {generation} is published at its first output, and another output is still to follow")
}

/// Whether another key took the slot over and has published there.
pub(crate) fn is_taken(head: &Head, key: &Key) -> bool {
    head.owner != *key && head.publication.is_some()
}

/// What a run now would be made from that the publication was not.
pub(crate) struct Changed {
    /// All of it; an input that is stale counts as changed.
    pub(crate) differences: Vec<Difference>,
    /// The inputs that are stale.
    pub(crate) stale: Vec<StaleInput>,
}

impl Changed {
    /// Inputs that are stale, where nothing else is known.
    pub(crate) fn only(stale: Vec<StaleInput>) -> Self {
        Self { differences: Vec::new(), stale }
    }

    /// What is not told by the inputs that are stale, of which more is known than that they changed.
    pub(crate) fn others(&self) -> Vec<Difference> {
        let told = |part: &str| self.stale.iter().any(|stale| part.strip_prefix("input:") == Some(stale.input()));
        self.differences.iter().filter(|change| !told(&change.part)).cloned().collect()
    }
}

/// What a run now would be made from that the publication was not, all of it.
pub(crate) fn changes(boundary: &Boundary, plan: &Plan, publication: &Publication) -> Result<Vec<Difference>> {
    Ok(changed(&mut Lineages::new(boundary), plan, publication, whole(boundary))?.differences)
}

/// The same, with the versions of paths as `look` finds them, by name and location: of an input of which it tells nothing,
/// nothing is told.
pub(crate) fn changed(
    lineages: &mut Lineages<'_>,
    plan: &Plan,
    publication: &Publication,
    look: impl FnMut(&str, &str) -> Result<Option<String>>,
) -> Result<Changed> {
    let (now, untold) = made_from(lineages.boundary(), plan, look)?;
    let mut differences = publication.changes_among(&now, |change| !untold.contains(&change.part));
    let stale = lineages.stale(&plan.key, publication)?;
    for stale in &stale {
        let part = part_of(stale.input());
        // An input that is declared no more, or differently, differs already.
        if now.parts.contains_key(&part) && !differences.iter().any(|change| change.part == part) {
            let old = publication.fingerprint.parts.get(&part).cloned();
            let new = old.as_ref().map(|version| format!("{version}, which is stale"));
            differences.push(Difference { part, kind: DifferenceKind::Changed, old, new });
        }
    }
    Ok(Changed { differences, stale })
}

/// What a run would be made from now.
pub(crate) fn made_from_now(boundary: &Boundary, plan: &Plan) -> Result<Fingerprint> {
    Ok(made_from(boundary, plan, whole(boundary))?.0)
}

/// What a run would be made from now, as far as `look` tells of its paths, and the parts that are not told.
pub(crate) fn made_from(
    boundary: &Boundary,
    plan: &Plan,
    mut look: impl FnMut(&str, &str) -> Result<Option<String>>,
) -> Result<(Fingerprint, BTreeSet<String>)> {
    let (mut versions, mut untold) = (Vec::new(), BTreeSet::new());
    for input in &plan.inputs {
        match version_now(boundary, plan, input, &mut look)? {
            Some(version) => versions.push((input.name.as_str(), version)),
            None => drop(untold.insert(part_of(&input.name))),
        }
    }
    let told = plan.fingerprint(versions.iter().map(|(name, version)| (*name, version.as_str())))?;
    Ok((told, untold))
}

fn part_of(input: &str) -> String {
    format!("input:{input}")
}

/// Reads whatever must be read.
pub(crate) fn whole(boundary: &Boundary) -> impl Fn(&str, &str) -> Result<Option<String>> {
    |_, location| refrain_core::Input::version(&boundary.inputs, location).map(Some)
}

/// The version that a run would pin now, as far as `look` tells of paths.
fn version_now(
    boundary: &Boundary,
    plan: &Plan,
    input: &PlannedInput,
    look: &mut impl FnMut(&str, &str) -> Result<Option<String>>,
) -> Result<Option<String>> {
    match &input.source {
        PlannedSource::Path { location, .. } => match look(&input.name, location) {
            Err(error) if error.kind == ErrorKind::Invalid => Ok(Some(MISSING.to_owned())),
            version => version,
        },
        PlannedSource::Publication(reference) => Ok(Some(boundary.readable(plan, reference)?.version())),
    }
}

/// One line that names what changed.
pub(crate) fn changed_line(publication: &Publication, changes: &[Difference]) -> String {
    let names: Vec<_> = changes.iter().map(ToString::to_string).collect();
    let since = match publication.restored() {
        Some(version) => format!("it was rolled back to {version}"),
        None => "it was published".to_owned(),
    };
    format!("changed since {since}: {}", names.join(", "))
}

/// The answer to a repeated call. Claims nothing that does not stand: a publication that was changed by hand is
/// not "already published" (13.2).
pub(crate) fn already_published(
    boundary: &Boundary,
    plan: &Plan,
    publication: &Publication,
    changes: &[Difference],
) -> Conclusion {
    let mut report = Report::new(&plan.key, boundary.now());
    report.show(publication, |data| boundary.locate(&data.slot));
    let mut notes = Vec::new();
    let mut taken = |slot: &SlotAddress, owner: &Key| {
        let at = boundary.locate(slot);
        report.outputs.retain(|output| output.location != at);
        notes.push(format!("{at} is not among its outputs any more: `{owner}` has taken it over"));
    };
    let error = look_over(boundary, plan, publication, &mut taken).unwrap_or_else(Some);
    let error = error.or_else(|| refuse_change(plan, publication, changes));
    match &error {
        None => {
            report.outcome = Outcome::AlreadyPublished;
            report.window = Window::Published;
            report.exit_code = exit_code::PUBLISHED;
        }
        Some(error) => report.fail(error),
    }
    report.judge(plan.task.retry.on.as_ref());
    report.finished_at = boundary.now();
    if error.is_none() && !changes.is_empty() {
        notes.push(format!(
            "{}; `--if-changed` would run it again and replace the publication",
            changed_line(publication, changes)
        ));
    }
    Conclusion { report, notes, error }
}

fn refuse_change(plan: &Plan, publication: &Publication, changes: &[Difference]) -> Option<Error> {
    (plan.task.on_change == OnChange::Refuse && !changes.is_empty()).then(|| {
        Error::refused(format!("`{}` is published, and {}", plan.key, changed_line(publication, changes)))
            .hint("`--rerun` replaces the publication; on_change = \"refuse\" is set for this task")
    })
}

/// An error when what stands at a slot is not what was published there, or is another key's.
pub(crate) fn drift(boundary: &Boundary, plan: &Plan, publication: &Publication) -> Result<Option<Error>> {
    look_over(boundary, plan, publication, &mut |_, _| {})
}

/// The same; `taken` is told of each slot at which another key publishes now, and this one no longer wants to.
fn look_over(
    boundary: &Boundary,
    plan: &Plan,
    publication: &Publication,
    taken: &mut dyn FnMut(&SlotAddress, &Key),
) -> Result<Option<Error>> {
    for slot in publication.run.slots() {
        let can = boundary.sinks.of(slot)?.capabilities();
        let (head, condition) = boundary.condition_seen(slot)?;
        if let Some(head) = head.as_ref().filter(|head| is_taken(head, &plan.key)) {
            if plan.outputs.iter().any(|output| output.slot == *slot) {
                return Ok(Some(not_the_owner(boundary, plan, slot, head)));
            }
            // The task publishes elsewhere now.
            taken(slot, &head.owner);
            continue;
        }
        // Claimed for a run that is decided: what is to be published there is still to follow.
        if head.as_ref().is_some_and(|head| head.publication.is_none()) {
            continue;
        }
        let kept = if can.keeps_changes { "; what stands there now is kept as a version" } else { "" };
        let (what, kept) = match condition {
            Condition::Intact => continue,
            Condition::Drifted(what) if can.rollback && !can.keeps_changes => (
                format!("was changed by hand: {what}"),
                "; what is there now stays for readers of this version, and can be published again no more, since it is not \
                 what was published",
            ),
            Condition::Drifted(what) => (format!("was changed by hand: {what}"), kept),
            Condition::Missing | Condition::Absent => (format!("is gone: {}", boundary.locate(slot)), ""),
            Condition::Foreign(what) => (format!("is not what stands there: {what}"), kept),
        };
        let message = format!("the ledger is ahead of the sink: what `{}` published {what}", plan.key);
        return Ok(Some(
            Error::refused(message).hint(format!("to publish it again, repeat the `refrain run` with --rerun{kept}")),
        ));
    }
    Ok(None)
}

/// The partition as it is given on the command line.
pub(crate) fn partition_flag(plan: &Plan) -> String {
    match (&plan.partition.interval, plan.key.partition.as_str()) {
        (_, "") => String::new(),
        (Some(_), key) => format!(" --date {key}"),
        (None, key) => format!(" --partition {key}"),
    }
}
