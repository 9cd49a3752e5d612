//! Every partition of a task at a glance.

mod expected;

use crate::boundary::Boundary;
use crate::holder::life_of;
use crate::lineage::Lineages;
use crate::peek::{drift, find_published};
use crate::plan::Plan;
use crate::process::Liveness;
use crate::task::Task;
use expected::{Expected, add_expected, in_range};
use jiff::Timestamp;
use refrain_core::{
    Generation, Interval, Key, KeySummary, Outcome, Publication, Result, StoreTime, TaskName, differences,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The state of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionStatus {
    /// The task.
    pub task: String,
    /// The partition.
    pub partition: String,
    /// Its state.
    pub state: State,
    /// The version that stands, where it was looked for; else the newest that was begun.
    pub generation: Option<Generation>,
    /// When the newest attempt ended, or began if it has not ended.
    pub at: Option<Timestamp>,
    /// What a person should know about it.
    pub note: Option<String>,
}

/// The state of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The current run is published.
    Published,
    /// Published, and the command, the code, a parameter or a publication that it was made from changed since.
    Stale,
    /// Published, and what stands there now is not what was published.
    Drifted,
    /// An attempt works on it.
    Running,
    /// The last attempt did not publish.
    Failed,
    /// An attempt ended without a word; the next run or `refrain recover` settles it.
    Unsettled,
    /// Within the range, its interval is over, and it was never attempted.
    Missing,
    /// Within the range, its interval is not over yet, and it was never attempted.
    Open,
    /// At or below the watermark: what is known of it is compacted. What it published stands.
    Compacted,
}

/// Which partitions to look at, and how closely.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The first and last interval.
    pub range: Option<(Interval, Interval)>,
    /// Only the newest so many are looked at closely and returned; the counts are of all.
    pub newest: Option<usize>,
    /// Only the newest so many are looked at closely; of the others is told what the store knows.
    pub closely: Option<usize>,
    /// Without a range, gaps are told up to the last interval that is over at this moment; else up to the newest
    /// partition that was attempted.
    pub until: Option<Timestamp>,
}

/// What a survey found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Surveyed {
    /// The partitions, in order.
    pub partitions: Vec<PartitionStatus>,
    /// How many of each state there are, before a close look.
    pub counts: BTreeMap<State, u64>,
}

impl Boundary {
    /// Looks at all partitions of a task.
    pub fn survey(&self, task: &TaskName, survey: &Survey) -> Result<Surveyed> {
        let declared = self.home.config.declared(task);
        let calendar = declared.and_then(|task| task.partitions.calendar());
        let now = self.store.now()?;
        let mut surveyed = Surveyed::default();
        let mut found: std::collections::VecDeque<PartitionStatus> = std::collections::VecDeque::new();
        self.store.for_each_key(Some(task), &mut |summary| {
            let status = status_of(&summary, &now);
            if in_range(calendar, &status.partition, survey) {
                *surveyed.counts.entry(status.state).or_default() += 1;
                found.push_back(status);
                if survey.newest.is_some_and(|newest| found.len() > newest) {
                    found.pop_front();
                }
            }
            Ok(())
        })?;
        let mut partitions = Vec::from(found);
        let glanced_at = survey.closely.map_or(0, |closely| partitions.len().saturating_sub(closely));
        let mut lineages = Lineages::new(self);
        for status in &mut partitions[glanced_at..] {
            let at_a_glance = status.state;
            if let Err(error) = self.look_closely(task, declared, status, &mut lineages) {
                // One partition that cannot be looked at does not hide the others.
                status.note = Some(error.message);
            }
            if status.state != at_a_glance {
                *surveyed.counts.entry(at_a_glance).or_default() -= 1;
                *surveyed.counts.entry(status.state).or_default() += 1;
            }
        }
        surveyed.counts.retain(|_, count| *count > 0);
        if let Some(task) = declared {
            let watermark = self.store.watermark(&task.name)?;
            let expected = Expected { task, survey, now: self.now(), watermark: watermark.as_ref() };
            add_expected(&expected, &mut partitions, &mut surveyed.counts)?;
            for status in partitions.iter_mut().filter(|status| status.state == State::Compacted) {
                if let Err(error) = self.look_at_compacted(task, status) {
                    status.note = Some(error.message);
                }
            }
        }
        surveyed.partitions = partitions;
        Ok(surveyed)
    }

    /// The names of all tasks that are declared or were ever attempted.
    pub fn task_names(&self) -> Result<Vec<TaskName>> {
        let mut names: Vec<TaskName> = self.home.config.tasks.iter().map(|task| task.name.clone()).collect();
        self.store.for_each_key(None, &mut |summary| {
            if !names.contains(&summary.key.task) {
                names.push(summary.key.task);
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// What stands at the sinks: the store only tells what was attempted.
    fn look_closely(
        &self,
        name: &TaskName,
        declared: Option<&Task>,
        status: &mut PartitionStatus,
        lineages: &mut Lineages<'_>,
    ) -> Result<()> {
        let key = Key { task: name.clone(), partition: status.partition.clone() };
        let plan = self.bare_plan(&key)?;
        let state = self.store.key(&key)?;
        let begun = status.generation;
        let Some(publication) = find_published(self, &plan, state.as_ref())? else {
            status.generation = None;
            if status.state == State::Published {
                status.state = State::Missing;
                status.note = Some("nothing is published there any more".to_owned());
            }
            return Ok(());
        };
        status.generation = Some(publication.run.generation);
        if status.generation < begun {
            if status.state == State::Published {
                status.state = State::Failed;
            }
            let stands = format!("version {} stands", publication.run.generation);
            status.note = Some(status.note.take().map_or_else(|| stands.clone(), |note| format!("{note}; {stands}")));
        }
        if status.state != State::Published {
            return Ok(());
        }
        if let Some(error) = drift(self, &plan, &publication)? {
            status.state = State::Drifted;
            status.note = Some(error.message);
        } else if let Some(stale) = lineages.stale(&key, &publication)?.first() {
            status.state = State::Stale;
            status.note = Some(stale.to_string());
        } else if let Some(change) = declared.and_then(|task| self.changed_definition(task, &publication, &key)) {
            status.state = State::Stale;
            status.note = Some(change);
        }
        Ok(())
    }

    /// What a compacted partition published is told by its head alone.
    fn look_at_compacted(&self, task: &Task, status: &mut PartitionStatus) -> Result<()> {
        let key = Key { task: task.name.clone(), partition: status.partition.clone() };
        let partition = task.partitions.partition_of_key(&key.partition)?;
        let published = self.published_now(&key, Some((task, &partition)))?;
        status.generation = published.map(|publication| publication.run.generation);
        status.note = Some(match status.generation {
            Some(_) => "published before the watermark".to_owned(),
            None => "nothing is published there; a run needs --rerun".to_owned(),
        });
        Ok(())
    }

    /// Command, code, parameters, outputs and what tasks published; paths cost a read of each, so that only `why` compares
    /// them. Nothing when it cannot be told, as for locations that need parameters.
    fn changed_definition(&self, task: &Task, publication: &Publication, key: &Key) -> Option<String> {
        let partition = task.partitions.partition_of_key(&key.partition).ok()?;
        let plan = Plan::new(task, &partition, &self.sinks).ok()?;
        let mut changes = differences(&publication.fingerprint, &self.made_from_publications(&plan).ok()?);
        changes.retain(|change| change.part.strip_prefix("input:").is_none_or(|name| plan.reads_publication(name)));
        (!changes.is_empty()).then(|| crate::peek::changed_line(&changes))
    }
}

fn status_of(summary: &KeySummary, now: &StoreTime) -> PartitionStatus {
    let attempt = summary.last_attempt.as_ref();
    let ending = attempt.and_then(|attempt| attempt.ending.as_ref());
    let state = match (&summary.lease, ending) {
        (Some(lease), _) => {
            let dead = life_of(lease) == Liveness::Dead;
            if dead || lease.expired(now) { State::Unsettled } else { State::Running }
        }
        (None, Some(ending)) => match ending.outcome {
            Outcome::Published | Outcome::AlreadyPublished | Outcome::Superseded => State::Published,
            Outcome::Decided | Outcome::Unknown => State::Unsettled,
            _ => State::Failed,
        },
        (None, None) => State::Unsettled,
    };
    PartitionStatus {
        task: summary.key.task.to_string(),
        partition: summary.key.partition.clone(),
        state,
        generation: summary.generation,
        at: ending.map(|ending| ending.at).or(attempt.map(|attempt| attempt.started_at)),
        note: ending.and_then(|ending| ending.message.clone()).filter(|_| state != State::Published),
    }
}
