//! Publishes an earlier kept version again: a new generation, a new commit, the same rules.

use crate::attempt::Work;
use crate::boundary::{Boundary, Options};
use crate::clock::Stopwatch;
use crate::driver::{Driver, Pause};
use crate::peek::made_from_now;
use crate::plan::{Plan, PlannedOutput};
use crate::process::channel;
use crate::report::Conclusion;
use crate::task::{OutputSpec, Task};
use refrain_core::{
    Error, ErrorKind, Fingerprint, Generation, Goal, Key, Partition, Publication, Result, RunRecord, Want,
};
use std::collections::BTreeSet;

impl Boundary {
    /// Publishes version `to` of every output of the key again; without `to`, the newest version before the one that
    /// stands.
    ///
    /// # Errors
    /// `invalid` when nothing is published, or the version is not kept for every output.
    pub fn rollback(&self, key: &Key, to: Option<Generation>) -> Result<Conclusion> {
        let plan = self.bare_plan(key)?;
        let state = self.store.key(key)?;
        let Some(published) = self.published_now(key, None)? else {
            return Err(Error::invalid(format!("`{key}` is not published, so there is no earlier version"))
                .hint(format!("refrain log {} shows its attempts", key.task)));
        };
        let to = self.choose_version(key, &published, to)?;
        let plan = with_outputs(plan, &published.run);
        let current = state.and_then(|state| state.run).map_or(published.run.generation, |run| run.generation);
        let want = Want::Rerun { from: current.max(published.run.generation) };
        let mut driver = Driver::new(self, plan, Options::default(), Goal::Publish, want, Stopwatch::start());
        driver.restore(to);
        driver.notes.push(format!("publishing version {to} again, as a new version"));
        let (sender, receiver) = channel();
        Ok(match driver.drive(&sender, &receiver) {
            Pause::End => driver.into_conclusion(),
            Pause::Execute(run) => match Work::open(driver, run, sender, receiver) {
                Ok(work) => work.restore(),
                Err(conclusion) => *conclusion,
            },
        })
    }

    fn choose_version(&self, key: &Key, published: &Publication, to: Option<Generation>) -> Result<Generation> {
        let kept = self.kept_versions(&published.run)?;
        let current = published.run.generation;
        // A rollback goes on from what it published again: the next one goes further back.
        let base = published.run.restores.unwrap_or(current);
        let chosen = match to {
            Some(to) if to == current => {
                return Err(Error::invalid(format!("version {to} of `{key}` is the one that is published")));
            }
            Some(to) => kept.get(&to).copied(),
            None => kept.range(..base).next_back().copied(),
        };
        chosen.ok_or_else(|| {
            let wanted = to.map_or_else(|| "an earlier version".to_owned(), |to| format!("version {to}"));
            let error = Error::invalid(format!("{wanted} of `{key}` is not kept"));
            if kept.is_empty() {
                return error.hint("`keep = { versions = N }` in the task says how many replaced versions are kept");
            }
            let list: Vec<_> = kept.iter().map(ToString::to_string).collect();
            error.hint(format!("kept: {}", list.join(", ")))
        })
    }

    /// The replaced versions that every output of the run has.
    fn kept_versions(&self, run: &RunRecord) -> Result<BTreeSet<Generation>> {
        let mut common: Option<BTreeSet<Generation>> = None;
        for slot in run.slots() {
            let versions = self.sinks.of(slot)?.versions(slot)?;
            let kept: BTreeSet<_> = versions.iter().filter(|version| !version.current).map(|v| v.generation).collect();
            common = Some(match common {
                None => kept,
                Some(former) => former.intersection(&kept).copied().collect(),
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
        Ok(match self.store.key(key)?.and_then(|state| state.run) {
            Some(run) => with_outputs(plan, &run),
            None => plan,
        })
    }
}

impl Work<'_> {
    /// Publishes the kept version that the run names; whoever continues the run after a crash does the same.
    pub(crate) fn restore(mut self) -> Conclusion {
        let Some(version) = self.run.restores else {
            return self.abandon(Error::new(ErrorKind::Internal, "the run names no version to restore").into());
        };
        self.driver.options.allow_empty = true;
        // The rollback holds until something changes from what was in force when it was asked for, not from what the
        // old version was made from: else the next `--if-changed` would undo it.
        match self.in_force() {
            Ok(fingerprint) => self.made_from = Some(fingerprint),
            Err(error) => return self.abandon(error.into()),
        }
        for output in &self.outputs {
            let slot = &output.staging.slot;
            let sink = self.driver.boundary.sinks.of(slot);
            if let Err(error) = sink.and_then(|sink| sink.restore(slot, version, &output.staging.place)) {
                return self.abandon(error.into());
            }
        }
        self.publish()
    }

    /// What a run of the task would be made from now; for a task that is not declared, what the publication that is
    /// replaced was made from.
    fn in_force(&self) -> Result<Fingerprint> {
        let (boundary, key) = (self.driver.boundary, &self.driver.plan.key);
        let declared = boundary.home.config.declared(&key.task);
        if let Some(task) = declared
            && let Ok(partition) = task.partitions.partition_of_key(&key.partition)
            && let Ok(plan) = Plan::new(task, &partition, &boundary.sinks)
        {
            return made_from_now(boundary, &plan);
        }
        let published = self.driver.machine.heads().values().filter_map(|head| head.publication.as_ref());
        let replaced = published.max_by_key(|publication| publication.run.generation);
        Ok(replaced.map_or_else(|| Fingerprint::builder().build(), |publication| publication.fingerprint.clone()))
    }
}

fn with_outputs(mut plan: Plan, run: &RunRecord) -> Plan {
    plan.outputs = run
        .outputs
        .iter()
        .filter_map(|output| {
            // The location is only shown in the fingerprint, which a rollback does not draw from the plan.
            let spec = OutputSpec::new(&output.name, "output").ok()?;
            Some(PlannedOutput { spec, slot: output.slot.clone() })
        })
        .collect();
    plan
}
