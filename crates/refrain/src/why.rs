//! What a `run` would do now, and why: looks at everything, changes nothing.

use crate::boundary::Boundary;
use crate::compact;
use crate::conclude::describe;
use crate::holder::life_of;
use crate::lineage::{Lineages, StaleInput};
use crate::peek::{changed, drift, everywhere, find_published, in_part, made_from_now, partition_flag, whole};
use crate::plan::{Plan, PlannedSource};
use crate::process::{Liveness, ProcessIdentity};
use crate::sealed::fitting;
use crate::task::{OnChange, Task};
use refrain_core::{
    Adopt, AttemptFilter, AttemptId, Difference, Error, ErrorKind, Generation, Input, Key, KeyState, Partition,
    Publication, Result, differences,
};
use refrain_input::reads_original;
use serde::Serialize;
use std::collections::BTreeSet;

/// What a run would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The task.
    pub task: String,
    /// The partition.
    pub partition: String,
    /// What `run` would do.
    pub would: Would,
    /// Whether something changed since the publication, so that `--if-changed` would run.
    pub changed: bool,
    /// What changed, with its values before and now.
    pub changes: Vec<Difference>,
    /// The reasons, one line each.
    pub because: Vec<String>,
    /// What it would be refused with first, where that is one of the reasons.
    #[serde(skip)]
    pub refusal: Option<String>,
    /// The attempt that sealed what a run would publish without the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_by: Option<AttemptId>,
    /// The next command, where one helps.
    pub next: Option<String>,
    /// Where the outputs are published.
    pub outputs: Vec<String>,
    /// What is counted on to be published before: the last of it, where it is read.
    #[serde(skip)]
    pub after: Option<Key>,
}

/// What a run would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Would {
    /// Run the command and publish.
    Run,
    /// Answer that it is published.
    Nothing,
    /// End with "held".
    Wait,
    /// Finish what an earlier attempt decided or sealed, without the command where possible.
    Recover,
    /// Refuse.
    Refuse,
}

impl Boundary {
    /// Tells what [`Boundary::run`] would do.
    pub fn why(&self, task: &Task, partition: &Partition) -> Result<Why> {
        self.why_after(task, partition, &BTreeSet::new())
    }

    /// Tells what [`Boundary::run`] would do once these keys have been published anew.
    pub fn why_after(&self, task: &Task, partition: &Partition, before: &BTreeSet<Key>) -> Result<Why> {
        let key = Key { task: task.name.clone(), partition: partition.key.clone() };
        match Plan::new(task, partition, &self.sinks) {
            Ok(plan) => self.why_plan(&plan, true, before),
            // Locations that need parameters cannot be filled in here; what was published can be found all the same.
            Err(_) if self.store.key(&key)?.is_some() => {
                let mut why = self.why_plan(&self.bare_plan(&key)?, false, before)?;
                if let Err(error) = task.demand_variables() {
                    told(&mut why, error);
                }
                Ok(why)
            }
            Err(error) => Err(error),
        }
    }

    /// The same for a key of a task that is not in the configuration: what it would be made from is not known.
    ///
    /// # Errors
    /// `invalid` when the key was never attempted.
    pub fn why_key(&self, key: &Key) -> Result<Why> {
        if self.store.key(key)?.is_none() {
            return Err(Error::invalid(format!(
                "there is no task `{}` in refrain.toml, and `{key}` was never attempted",
                key.task
            ))
            .hint("refrain status lists what was attempted"));
        }
        self.why_plan(&self.bare_plan(key)?, false, &BTreeSet::new())
    }

    fn why_plan(&self, plan: &Plan, declared: bool, before: &BTreeSet<Key>) -> Result<Why> {
        let state = self.store.key(&plan.key)?;
        let mut why = Why {
            task: plan.key.task.to_string(),
            partition: plan.key.partition.clone(),
            would: Would::Run,
            changed: false,
            changes: Vec::new(),
            because: Vec::new(),
            refusal: None,
            sealed_by: None,
            next: None,
            outputs: plan.outputs.iter().map(|output| self.locate(&output.slot)).collect(),
            after: None,
        };
        if let Some(lease) = state.as_ref().and_then(|state| state.lease.as_ref()) {
            let dead = life_of(lease) == Liveness::Dead;
            if !dead && !lease.expired(&self.store.now()?) {
                why.would = Would::Wait;
                why.because.push(format!("it is being run by {}", describe(self, &plan.key, lease)));
                why.next = Some(format!("refrain run {}{} --wait", plan.key.task, partition_flag(plan)));
                return Ok(why);
            }
            why.would = Would::Recover;
            why.because.push(if dead {
                format!("attempt {} ended without a word; the next run settles it", lease.attempt)
            } else {
                let who = describe(self, &plan.key, lease);
                format!("{who} has not renewed its lease in time, as when it is stopped; the next run takes over")
            });
        }
        match find_published(self, plan, state.as_ref())? {
            Some(publication) if !everywhere(self, &plan.key, &publication)? => {
                why.would = Would::Recover;
                why.because.push(in_part(&publication));
                last_words(state.as_ref(), &mut why);
                self.refusals(plan, &mut why)?;
            }
            Some(publication) if up_to_date(&publication, state.as_ref()) => {
                self.published(plan, &publication, declared, before, &mut why)?;
                // Of a publication that the store does not know, a run learns by an attempt.
                let is_news = !is_known(&publication, state.as_ref()) && self.folded(plan, state.as_ref())?.is_none();
                let begins = match why.would {
                    Would::Run | Would::Recover => true,
                    Would::Nothing => is_news,
                    Would::Wait | Would::Refuse => false,
                };
                if begins {
                    self.refusals(plan, &mut why)?;
                }
            }
            published => {
                self.unpublished(plan, state.as_ref(), published.as_ref(), before, &mut why)?;
                if matches!(why.would, Would::Run | Would::Recover) {
                    self.sealed_before(plan, state.as_ref(), declared, &mut why)?;
                }
            }
        }
        Ok(why)
    }

    fn published(
        &self,
        plan: &Plan,
        publication: &Publication,
        declared: bool,
        before: &BTreeSet<Key>,
        why: &mut Why,
    ) -> Result<()> {
        let generation = publication.run.generation;
        why.because.push(format!(
            "version {generation} was published by attempt {} (sealed {:.0}{})",
            publication.attempt,
            publication.sealed_at,
            who(self, &plan.key, publication.attempt)?.map(|who| format!(", {who}")).unwrap_or_default()
        ));
        if why.would == Would::Run {
            why.would = Would::Nothing;
        }
        if declared
            && plan.task.on_change != OnChange::Refuse
            && let Some(output) =
                plan.outputs.iter().find(|output| !publication.run.slots().any(|it| *it == output.slot))
        {
            if why.would == Would::Nothing {
                why.would = Would::Run;
            }
            why.because.push(format!("that version was not published to {}", self.locate(&output.slot)));
            self.beside(plan, why);
            return Ok(());
        }
        if let Some(error) = drift(self, plan, publication)? {
            told(why, error);
            return Ok(());
        }
        if !declared {
            why.because.push("what `run` would be given is not known here, so changes are not compared".to_owned());
            return Ok(());
        }
        let mut lineages = Lineages::new(self);
        let changed = changed(&mut lineages, plan, publication, whole(self))?;
        self.counted_on(plan, before, why)?;
        if changed.differences.is_empty() && why.after.is_none() {
            match publication.restored() {
                Some(version) => why.because.push(self.chosen(plan, publication, &version)?),
                None => {
                    why.because
                        .push("the command, the code, the parameters and the inputs are what they were".to_owned());
                }
            }
            return Ok(());
        }
        why.changed = true;
        why.because.extend(changed.others().iter().map(Difference::with_values));
        why.because.extend(changed.stale.iter().map(StaleInput::to_string));
        let is_stale = !changed.stale.is_empty();
        why.changes = changed.differences;
        match plan.task.on_change {
            OnChange::Keep if is_stale => why.next = Some(lineages.repair(&plan.key)),
            OnChange::Keep => {
                why.next = Some(format!("refrain run {}{} --if-changed", plan.key.task, partition_flag(plan)));
            }
            OnChange::Replace => why.would = Would::Run,
            OnChange::Refuse => why.would = Would::Refuse,
        }
        Ok(())
    }

    /// Why a rollback stands, and how what it restored differs from what a run would make.
    fn chosen(&self, plan: &Plan, publication: &Publication, version: &str) -> Result<String> {
        let chosen = format!("it was rolled back to {version} on purpose, and nothing changed since");
        if !publication.fingerprint.is_known() {
            return Ok(format!("{chosen}; what that was made from is not known"));
        }
        let differences = differences(&publication.fingerprint, &made_from_now(self, plan)?);
        if differences.is_empty() {
            return Ok(format!("{chosen}; a run would be made from the same"));
        }
        let differences: Vec<_> = differences.iter().map(Difference::with_values).collect();
        Ok(format!(
            "{chosen}; from that version to what `run` would be given now: {}; `--rerun` would replace it",
            differences.join(", ")
        ))
    }

    fn unpublished(
        &self,
        plan: &Plan,
        state: Option<&KeyState>,
        published: Option<&Publication>,
        before: &BTreeSet<Key>,
        why: &mut Why,
    ) -> Result<()> {
        match (state.and_then(|state| state.run.as_ref()), published) {
            (Some(run), Some(published)) => why.because.push(format!(
                "version {} was begun and is not published yet; version {} stands",
                run.generation, published.run.generation
            )),
            (Some(run), None) => {
                let what = if self.was_replaced(&plan.key, run)? {
                    "was published, and what another task published has taken its place"
                } else {
                    "was begun and is not published yet"
                };
                why.because.push(format!("version {} {what}", run.generation));
            }
            (None, Some(published)) => why.because.push(format!(
                "version {} stands at the sink, and this store does not know of it",
                published.run.generation
            )),
            (None, None) => match self.folded(plan, state)? {
                Some(watermark) => {
                    let again = format!("refrain run {}{} --rerun", plan.key.task, partition_flag(plan));
                    told(why, compact::refuse(plan, &watermark).hint(again));
                }
                None => why.because.push("it was never published".to_owned()),
            },
        }
        let restores = state.and_then(|state| state.run.as_ref()?.restores.as_ref());
        if let Some(restores) = restores {
            why.would = Would::Recover;
            let version = restores.version;
            why.because
                .push(format!("it is a rollback to version {version}; the next run finishes it without the command"));
        }
        if let Some(published) = published
            && let Some(error) = drift(self, plan, published)?
        {
            why.because.push(format!("{}; `run` publishes in its place", error.message));
        }
        last_words(state, why);
        self.refusals(plan, why)?;
        self.beside(plan, why);
        let run = state.and_then(|state| state.run.as_ref());
        let at_anchor = published.is_some_and(|it| run.is_none_or(|run| it.run.anchor() == run.anchor()));
        if let Err(error) = self.refuse_lost_heads(plan, state, at_anchor) {
            told(why, error);
        }
        let begun = run.filter(|run| !run.inputs.is_empty());
        match begun {
            Some(run) => {
                for pin in &run.inputs {
                    let (name, version) = (&pin.name, &pin.version);
                    why.because.push(format!("input `{name}` is pinned: {version}"));
                    // A copy would be made again where it is gone; to look at an original changes nothing.
                    if reads_original(pin)
                        && let Err(error) = self.open_path(plan, pin)
                    {
                        // The last attempt may have said it, too.
                        why.because.retain(|line| !line.ends_with(&error.message));
                        told(why, error);
                    }
                }
            }
            None if restores.is_some() => {}
            None => self.would_pin(plan, before, why)?,
        }
        Ok(())
    }

    /// What stands in the way at the outputs.
    fn refusals(&self, plan: &Plan, why: &mut Why) -> Result<()> {
        self.foresee_refusals(plan)?.into_iter().for_each(|error| told(why, error));
        Ok(())
    }

    /// What an earlier attempt sealed is published instead of made again.
    fn sealed_before(&self, plan: &Plan, state: Option<&KeyState>, declared: bool, why: &mut Why) -> Result<()> {
        let Some(run) = state.and_then(|state| state.run.as_ref()) else { return Ok(()) };
        let all = self.sealed_of(run)?;
        if !declared {
            why.because.extend(all.first().map(|newest| {
                let maker = newest.maker;
                format!("attempt {maker} sealed what it made and could not publish it: the same call publishes that")
            }));
            return Ok(());
        }
        match fitting(plan, run, &all) {
            Ok(Some(maker)) => {
                why.would = Would::Recover;
                why.sealed_by = Some(maker);
                why.because.push(format!("attempt {maker} sealed what it made and could not publish it"));
            }
            Ok(None) => {}
            Err(error) => told(why, error),
        }
        Ok(())
    }

    /// What would stand beside what is published.
    fn beside(&self, plan: &Plan, why: &mut Why) {
        if let Err(error) = self.refuse_beside(plan, Adopt::Never) {
            told(why, error);
        }
    }

    fn would_pin(&self, plan: &Plan, before: &BTreeSet<Key>, why: &mut Why) -> Result<()> {
        if let Err((input, error)) = self.refuse_unreadable(plan) {
            refuse(why, &input, error);
            return Ok(());
        }
        for input in &plan.inputs {
            let name = &input.name;
            match &input.source {
                PlannedSource::Path { location, .. } => match self.inputs.version(location) {
                    Ok(_) => why.because.push(format!("input `{name}` would be {location}")),
                    Err(error) if error.kind == ErrorKind::Invalid => {
                        refuse(why, name, self.lacking(plan, input, error));
                    }
                    Err(error) => return Err(error),
                },
                PlannedSource::Publication(reference) => {
                    let fit = self.readable(plan, reference).and_then(|mut readable| {
                        let after = readable.count_on(before);
                        self.refuse_unfit(plan, reference, &readable)?;
                        Ok((after, readable.version()))
                    });
                    match fit {
                        Ok((Some(key), _)) => {
                            why.because.push(format!("input `{name}` would be what `{key}` publishes before"));
                            why.after = Some(key);
                        }
                        Ok((None, version)) => why.because.push(format!("input `{name}` would be {version}")),
                        Err(error) => refuse(why, name, error),
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the run would read something that is published anew before it.
    fn counted_on(&self, plan: &Plan, before: &BTreeSet<Key>, why: &mut Why) -> Result<()> {
        for input in &plan.inputs {
            let PlannedSource::Publication(reference) = &input.source else { continue };
            let mut readable = self.readable(plan, reference)?;
            if let Some(key) = readable.count_on(before).filter(|_| !readable.replaced) {
                why.because.push(format!("input `{}` would be what `{key}` publishes before", input.name));
                why.after = Some(key);
            }
        }
        Ok(())
    }
}

fn last_words(state: Option<&KeyState>, why: &mut Why) {
    let ending = state.and_then(|state| state.last_attempt.as_ref()).and_then(|attempt| attempt.ending.as_ref());
    if let Some(message) = ending.and_then(|ending| ending.message.as_ref()) {
        why.because.push(format!("the last attempt: {message}"));
    }
}

/// What a run would be refused with; what the last attempt said of it need not be said twice.
fn told(why: &mut Why, error: Error) {
    why.would = Would::Refuse;
    why.because.retain(|line| !line.ends_with(&error.message));
    why.refusal.get_or_insert_with(|| error.message.clone());
    why.because.push(error.message);
    why.next = error.hint;
}

/// An input that cannot be read; what the last attempt said of it need not be said twice.
fn refuse(why: &mut Why, input: &str, error: Error) {
    why.would = Would::Refuse;
    why.because.retain(|line| !line.ends_with(&error.message));
    let line = format!("input `{input}`: {}", error.message);
    why.refusal.get_or_insert_with(|| line.clone());
    why.because.push(line);
    why.next = why.next.take().or(error.hint);
}

/// The process of an attempt, if the store remembers it.
fn who(boundary: &Boundary, key: &Key, attempt: AttemptId) -> Result<Option<String>> {
    let filter = AttemptFilter::of(key, attempt);
    let record = boundary.store.attempts(&filter)?.into_iter().next();
    let process = record.and_then(|record| serde_json::from_str::<ProcessIdentity>(&record.process).ok());
    Ok(process.map(|process| process.to_string()))
}

fn up_to_date(publication: &Publication, state: Option<&KeyState>) -> bool {
    publication.run.generation >= known(state)
}

fn is_known(publication: &Publication, state: Option<&KeyState>) -> bool {
    publication.run.generation == known(state)
}

/// The generation of the run that the store knows.
fn known(state: Option<&KeyState>) -> Generation {
    state.and_then(|state| state.run.as_ref()).map(|run| run.generation).unwrap_or_default()
}
