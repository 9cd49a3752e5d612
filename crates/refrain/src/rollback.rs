//! Publishes an earlier kept version again: a new generation, a new commit, the same rules.

use crate::attempt::Work;
use crate::boundary::{Boundary, Options};
use crate::clock::Stopwatch;
use crate::driver::{Driver, Pause};
use crate::peek::{made_from_now, partition_flag};
use crate::plan::{Plan, PlannedOutput};
use crate::process::{EventReceiver, EventSender};
use crate::report::Conclusion;
use crate::task::{OutputSpec, Task};
use refrain_core::{
    Error, ErrorKind, Fingerprint, Generation, Goal, Key, Partition, Publication, Restores, Result, RunRecord, Want,
};
use std::collections::BTreeMap;

/// How a version is kept; of several outputs the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kept {
    AsPublished,
    /// Only as a person changed it after it was published.
    Edited,
}

impl Boundary {
    /// Publishes version `to` of every output of the key again; without `to`, the newest version before the one that
    /// stands. `events` makes the channel through which signals come in, as for [`Boundary::run`].
    ///
    /// # Errors
    /// `invalid` when nothing is published, or the version is not kept for every output; `refused` without `to`, when the
    /// version before is kept only as it was changed by hand.
    pub fn rollback(
        &self,
        key: &Key,
        to: Option<Generation>,
        events: impl FnOnce() -> Result<(EventSender, EventReceiver)>,
    ) -> Result<Conclusion> {
        let plan = self.bare_plan(key)?;
        let state = self.store.key(key)?;
        let Some(published) = self.published_now(key, None)? else {
            return Err(Error::invalid(format!("`{key}` is not published, so there is no earlier version"))
                .hint(format!("refrain log {} shows its attempts", key.task)));
        };
        let (to, how) = self.choose_version(key, &published, to)?;
        for slot in published.run.slots() {
            self.sinks.of(slot)?.demand_restorable(slot, to)?;
        }
        let plan = with_outputs(plan, &published.run);
        let current = state.and_then(|state| state.run).map_or(published.run.generation, |run| run.generation);
        let want = Want::Rerun { from: current.max(published.run.generation) };
        let mut driver = Driver::new(self, plan, Options::default(), Goal::Publish, want, Stopwatch::start());
        driver.restore(to);
        let edited = if how == Kept::Edited { " as it was changed by hand" } else { "" };
        driver.notes.push(format!("publishing version {to}{edited} again, as a new version"));
        let (sender, receiver) = events()?;
        Ok(match driver.drive(&sender, &receiver) {
            Pause::End => driver.into_conclusion(),
            Pause::Execute(run) => match Work::open(driver, run, sender, receiver) {
                Ok(work) => work.restore(),
                Err(conclusion) => *conclusion,
            },
        })
    }

    /// The version to publish again, and how it is kept.
    fn choose_version(&self, key: &Key, published: &Publication, to: Option<Generation>) -> Result<(Generation, Kept)> {
        let kept = self.kept_versions(&published.run)?;
        let current = published.run.generation;
        // A rollback goes on from what it published again: the next one goes further back.
        let base = published.run.restores.as_ref().map_or(current, |restores| restores.version);
        let offers = |best| self.offers(key, &published.run, &kept, best);
        match to {
            Some(to) if to == current => {
                Err(Error::invalid(format!("version {to} of `{key}` is the one that is published")).hint(offers(None)))
            }
            Some(to) => kept
                .get(&to)
                .map(|how| (to, *how))
                .ok_or_else(|| Error::invalid(format!("version {to} of `{key}` is not kept")).hint(offers(None))),
            None => match kept.range(..base).next_back() {
                Some((version, Kept::AsPublished)) => Ok((*version, Kept::AsPublished)),
                // What a person wrote there is published only for a person who says so.
                Some((version, Kept::Edited)) => Err(Error::refused(format!(
                    "version {version} of `{key}` was changed by hand after it was published, and only the changed \
                     content is kept"
                ))
                .hint(offers(Some(*version)))),
                None => Err(self.nothing_before(key, published, base)?.hint(offers(None))),
            },
        }
    }

    /// Why there is nothing to go back to by default.
    fn nothing_before(&self, key: &Key, published: &Publication, base: Generation) -> Result<Error> {
        // What an earlier version published elsewhere, the head here does not tell of.
        let first = match published.run.anchor().filter(|_| base == Generation::new(1)) {
            Some(anchor) => self.sinks.of(anchor)?.read(anchor)?.is_some_and(|head| head.history.is_empty()),
            None => false,
        };
        Ok(Error::invalid(match published.run.restores {
            _ if first => format!("version {base} of `{key}` is its first publication: there never was an earlier one"),
            Some(_) => format!("`{key}` shows version {base} again, and no version before that is kept"),
            None => format!("no version of `{key}` before version {base} is kept"),
        }))
    }

    /// What is kept, and the command that publishes one of it, `best` if given.
    fn offers(
        &self,
        key: &Key,
        run: &RunRecord,
        kept: &BTreeMap<Generation, Kept>,
        best: Option<Generation>,
    ) -> String {
        let keeps_none = |slot| self.sinks.of(slot).is_ok_and(|sink| !sink.capabilities().rollback);
        if kept.is_empty() && run.slots().any(keeps_none) {
            return format!(
                "no versions of tables are kept; publish it again from its inputs: refrain run {}{} --rerun",
                key.task,
                self.flag_of(key)
            );
        }
        if kept.is_empty() {
            return format!("refrain log {}{} shows what was published", key.task, self.flag_of(key));
        }
        let named = |(version, how): (&Generation, &Kept)| {
            let edited = if *how == Kept::Edited { " (as it was changed by hand)" } else { "" };
            format!("{version}{edited}")
        };
        let list: Vec<_> = kept.iter().map(named).collect();
        let one = best.or_else(|| kept.keys().next_back().copied()).unwrap_or_default();
        let (task, flag) = (&key.task, self.flag_of(key));
        format!("kept: {}; to publish version {one} again: refrain rollback {task}{flag} --to {one}", list.join(", "))
    }

    /// The replaced versions that every output of the run has.
    fn kept_versions(&self, run: &RunRecord) -> Result<BTreeMap<Generation, Kept>> {
        let mut common: Option<BTreeMap<Generation, Kept>> = None;
        for slot in run.slots() {
            let mut kept = BTreeMap::new();
            for version in self.sinks.of(slot)?.versions(slot)?.into_iter().filter(|version| !version.current) {
                let how = if version.edited { Kept::Edited } else { Kept::AsPublished };
                // What was published comes before what became of it by hand, as it does when it is restored.
                kept.entry(version.generation).and_modify(|best: &mut Kept| *best = how.min(*best)).or_insert(how);
            }
            common = Some(match common {
                None => kept,
                Some(former) => {
                    let both = |(version, how): (Generation, Kept)| Some((version, how.max(*kept.get(&version)?)));
                    former.into_iter().filter_map(both).collect()
                }
            });
        }
        Ok(common.unwrap_or_default())
    }

    /// A plan for a key of which only the state is known: its outputs are those of its run.
    pub(crate) fn bare_plan(&self, key: &Key) -> Result<Plan> {
        let task = match self.home.config.declared(&key.task) {
            Some(task) => Task { inputs: Vec::new(), code: Vec::new(), ..task.clone() },
            None => Task::new(key.task.as_str(), refrain_core::PartitionScheme::Free, &self.home.directory)?,
        };
        let interval = match task.partitions.calendar() {
            Some(calendar) => Some(calendar.interval_of_key(&key.partition)?),
            None => None,
        };
        let partition = Partition { key: key.partition.clone(), interval };
        let plan = Plan { key: key.clone(), task, partition, outputs: Vec::new(), inputs: Vec::new() };
        self.sinks.find_ways(&plan);
        Ok(match self.store.key(key)?.and_then(|state| state.run) {
            Some(run) => with_outputs(plan, &run),
            None => plan,
        })
    }
}

impl Work<'_> {
    /// Publishes the kept version that the run names; whoever continues the run after a crash does the same.
    pub(crate) fn restore(mut self) -> Conclusion {
        let restores = self.run.restores.as_ref().map(|restores| restores.version);
        let wanted = |version: &Generation| self.driver.restores.is_none_or(|wanted| wanted == *version);
        let Some(version) = restores.filter(wanted) else {
            let error = self.meets_another();
            return self.abandon(error.into());
        };
        self.driver.options.allow_empty = true;
        match self.is_edited(version) {
            Ok(edited) => self.edited = edited,
            Err(error) => return self.abandon(error.into()),
        }
        // What a person wrote was made from nothing that is known here.
        let made_from = self.made_from_then(version).filter(|_| !self.edited);
        self.made_from = Some(made_from.unwrap_or_else(Fingerprint::unknown));
        for output in &self.outputs {
            let slot = &output.staging.slot;
            let sink = self.driver.boundary.sinks.of(slot);
            if let Err(error) = sink.and_then(|sink| sink.restore(slot, version, &output.staging.place)) {
                let error = self.or_anew(error);
                return self.abandon(error.into());
            }
        }
        self.publish()
    }

    /// The run that this attempt is to go on with was begun by a call that wanted something else.
    fn meets_another(&self) -> Error {
        let (key, again) = (&self.driver.plan.key, self.again());
        let generation = self.run.generation;
        Error::new(
            ErrorKind::Conflict,
            format!(
                "version {generation} of `{key}` was begun meanwhile and is not published: nothing was rolled back"
            ),
        )
        .hint(format!("to finish that version, or to see what stands: {again}; then repeat the rollback"))
    }

    /// Whatever becomes of the version, the way that needs none is named too.
    fn or_anew(&self, error: Error) -> Error {
        let anew = format!("to run the command instead: {} --rerun", self.again());
        let hint = error.hint.as_ref().map_or_else(|| anew.clone(), |hint| format!("{hint}; {anew}"));
        error.hint(hint)
    }

    fn again(&self) -> String {
        let plan = &self.driver.plan;
        format!("refrain run {}{}", plan.key.task, partition_flag(plan))
    }

    /// What the version to restore was made from.
    fn made_from_then(&self, version: Generation) -> Option<Fingerprint> {
        let head = self.driver.machine.heads().get(self.run.anchor()?)?;
        head.made_from(version).cloned()
    }

    /// Whether one output of the version is kept only as it was changed by hand.
    fn is_edited(&self, version: Generation) -> Result<bool> {
        let edited = self.driver.boundary.kept_versions(&self.run)?.get(&version).copied();
        Ok(edited == Some(Kept::Edited))
    }
}

impl Driver<'_> {
    /// The kept version that the run is to publish again, if the call is a rollback.
    ///
    /// It holds until something changes from what is in force now, not from what the old version was made from: else the
    /// next `--if-changed` would undo it. Of a task that is not declared only that is known what the publication that is
    /// replaced was made from.
    pub(crate) fn restored(&self) -> Result<Option<Restores>> {
        let Some(version) = self.restores else { return Ok(None) };
        self.demand_kept(version)?;
        let in_force = match self.boundary.plan_of(&self.plan.key) {
            Some(plan) => made_from_now(self.boundary, &plan)?,
            None => self.was_in_force(),
        };
        Ok(Some(Restores { version, in_force }))
    }

    /// Looks once more, now that nobody else may publish: whoever did meanwhile may have removed the version, and a run
    /// that restores it could never be finished. Who published just before may still be removing versions: the run then
    /// ends in an error that names the way on.
    fn demand_kept(&self, version: Generation) -> Result<()> {
        let key = &self.plan.key;
        for output in &self.plan.outputs {
            let slot = &output.slot;
            let kept = self.boundary.sinks.of(slot)?.versions(slot)?;
            if !kept.iter().any(|kept| kept.generation == version && !kept.locations.is_empty()) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("version {version} of `{key}` is not kept any more: it was removed meanwhile"),
                )
                .hint(format!(
                    "to see what stands: refrain log {}{}",
                    key.task,
                    partition_flag(&self.plan)
                )));
            }
        }
        Ok(())
    }

    fn was_in_force(&self) -> Fingerprint {
        let published = self.machine.heads().values().filter_map(|head| head.publication.as_ref());
        let replaced = published.max_by_key(|publication| publication.run.generation);
        replaced.map_or_else(Fingerprint::unknown, |publication| match &publication.run.restores {
            Some(restores) => restores.in_force.clone(),
            None => publication.fingerprint.clone(),
        })
    }
}

fn with_outputs(mut plan: Plan, run: &RunRecord) -> Plan {
    plan.outputs = run
        .outputs
        .iter()
        .filter_map(|output| {
            // The location is only shown in the fingerprint, which a rollback does not draw from the plan.
            let spec = OutputSpec::new(&output.name, "output").ok()?;
            Some(PlannedOutput { spec, slot: output.slot.clone(), manner: output.manner.clone() })
        })
        .collect();
    plan
}
