//! Every partition of a task at a glance.

mod compacted;
mod expected;

use crate::boundary::Boundary;
use crate::holder::life_of;
use crate::home::Home;
use crate::lineage::Lineages;
use crate::peek::{drift, find_published};
use crate::plan::Plan;
use crate::process::Liveness;
use crate::task::Task;
pub use compacted::CompactedKey;
use compacted::Folded;
use expected::{Expected, add_expected, in_range};
use jiff::Timestamp;
use refrain_core::{
    Error, ErrorKind, Generation, Interval, Key, KeySummary, Outcome, Publication, Result, StoreTime, TaskName, Window,
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
    /// When what stands was published; where nothing is, or it was not looked for, when the newest attempt ended, or began
    /// if it has not ended.
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
    /// What the state store knows of it cannot be read.
    Unreadable,
    /// At or below the watermark: what is known of it is compacted. What it published stands.
    Compacted,
}

/// Which partitions to look at, and how closely.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The first interval. With `to` alone it is the first that is known.
    pub from: Option<Interval>,
    /// The last interval. With `from` alone it is the last that is known or over.
    pub to: Option<Interval>,
    /// Only the newest so many that were attempted are looked at closely; of the others is told what the store knows.
    pub closely: Option<usize>,
}

impl Survey {
    /// Without a range, gaps are told between the first and the last partition that is known.
    fn is_bounded(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// What a survey found.
#[derive(Debug, Default, Serialize)]
pub struct Surveyed {
    /// The partitions, in order.
    pub partitions: Vec<PartitionStatus>,
    /// How many of each state there are.
    pub counts: BTreeMap<State, u64>,
    /// What is compacted of the task, however much of it is among the partitions.
    pub compacted: Option<CompactedDates>,
    /// Without a range, the dates after the last known one that are over: nothing of them is among the partitions.
    pub since: Option<Since>,
    /// Why keys among the partitions cannot be read.
    #[serde(skip)]
    pub unreadable: Vec<Error>,
}

/// What a task's watermark says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompactedDates {
    /// How many dates were folded.
    pub dates: u64,
    /// The last of them.
    pub through: String,
}

/// Dates of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Since {
    /// The last date of which something is known.
    pub known: String,
    /// The last date that is over.
    pub over: String,
}

impl Boundary {
    /// Looks at all partitions of a task.
    pub fn survey(&self, task: &TaskName, survey: &Survey) -> Result<Surveyed> {
        let declared = self.home.config.declared(task);
        let calendar = declared.and_then(|task| task.partitions.calendar());
        let now = self.store.now()?;
        let mut surveyed = Surveyed::default();
        let mut partitions = Vec::new();
        self.store.for_each_key(Some(task), &mut |summary| {
            if in_range(calendar, &summary.key.partition, survey) {
                let mut status = status_of(&summary, &now);
                if let Some(error) = self.why_unreadable(&summary)? {
                    status.note = Some(error.message.clone());
                    surveyed.unreadable.push(error);
                }
                partitions.push(status);
            }
            Ok(())
        })?;
        let glanced_at = survey.closely.map_or(0, |closely| partitions.len().saturating_sub(closely));
        let mut lineages = Lineages::new(self);
        let looked_at = partitions[glanced_at..].iter_mut();
        for status in looked_at.filter(|status| status.state != State::Unreadable) {
            if let Err(error) = self.look_closely(task, declared, status, &mut lineages) {
                // One partition that cannot be looked at does not hide the others.
                status.note = Some(error.message);
            }
        }
        if let Some(task) = declared {
            let watermark = self.store.watermark(&task.name)?;
            if let (Some(watermark), None, Some(calendar)) = (&watermark, &survey.from, calendar) {
                let folded = Folded { task, calendar, watermark, to: survey.to.as_ref() };
                partitions.extend(self.folded_partitions(&folded, &partitions));
            }
            let expected = Expected { task, survey, now: self.now(), watermark: watermark.as_ref() };
            surveyed.since = add_expected(&expected, &mut partitions)?;
            for status in partitions.iter_mut().filter(|status| status.state == State::Compacted) {
                if let Err(error) = self.look_at_compacted(task, status) {
                    status.note = Some(error.message);
                }
            }
            surveyed.compacted =
                watermark.map(|watermark| CompactedDates { dates: watermark.folded, through: watermark.through });
        }
        for status in &partitions {
            *surveyed.counts.entry(status.state).or_default() += 1;
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

    /// Why a key that was shown as unreadable cannot be read.
    pub(crate) fn why_unreadable(&self, summary: &KeySummary) -> Result<Option<Error>> {
        if !summary.is_unreadable {
            return Ok(None);
        }
        match self.store.key(&summary.key) {
            Err(error) if matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Invalid) => Ok(Some(error)),
            // It was mended since.
            found => found.map(|_| None),
        }
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
        if status.state == State::Published {
            status.at = Some(publication.sealed_at);
        }
        // What another key took over counts only where the task, as it is declared, still publishes.
        let drifted = match drift(self, &plan, &publication)? {
            Some(_) => drift(self, &self.plan_of(&key).unwrap_or(plan), &publication)?,
            None => None,
        };
        let pending = status.generation < begun;
        if pending && status.state == State::Published {
            status.state = State::Failed;
        }
        if status.state != State::Published {
            let stands = match drifted {
                Some(error) => Some(error.message),
                None => pending.then(|| format!("version {} stands", publication.run.generation)),
            };
            let notes: Vec<_> = status.note.take().into_iter().chain(stands).collect();
            status.note = (!notes.is_empty()).then(|| notes.join("; "));
            return Ok(());
        }
        if let Some(error) = drifted {
            status.state = State::Drifted;
            status.note = Some(error.message);
        } else if let Some(stale) = lineages.stale(&key, &publication)?.first() {
            status.state = State::Stale;
            status.note = Some(stale.to_string());
        } else if let Some(change) = declared.and_then(|task| self.changed_definition(task, &publication, &key)) {
            status.state = State::Stale;
            status.note = Some(change);
        } else if let Some(error) = why_unfit(&self.home, name) {
            // Nothing against what it published.
            status.note = Some(error.message);
        }
        Ok(())
    }

    /// What a compacted partition published is told by its head alone.
    fn look_at_compacted(&self, task: &Task, status: &mut PartitionStatus) -> Result<()> {
        let key = Key { task: task.name.clone(), partition: status.partition.clone() };
        let partition = task.partitions.partition_of_key(&key.partition)?;
        if status.generation.is_none() {
            let published = self.published_now(&key, Some((task, &partition)))?;
            status.at = published.as_ref().map(|publication| publication.sealed_at);
            status.generation = published.map(|publication| publication.run.generation);
        }
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
        let changes = publication.changes_among(&self.made_from_publications(&plan).ok()?, |change| {
            change.part.strip_prefix("input:").is_none_or(|name| plan.reads_publication(name))
        });
        (!changes.is_empty()).then(|| crate::peek::changed_line(publication, &changes))
    }
}

/// Why a declared task cannot be run as it is declared.
pub fn why_unfit(home: &Home, task: &TaskName) -> Option<Error> {
    home.config.declared(task).and_then(|declared| home.config.task(declared.name.as_str()).err())
}

fn status_of(summary: &KeySummary, now: &StoreTime) -> PartitionStatus {
    let attempt = summary.last_attempt.as_ref();
    let ending = attempt.and_then(|attempt| attempt.ending.as_ref());
    let state = match (&summary.lease, ending) {
        _ if summary.is_unreadable => State::Unreadable,
        (Some(lease), _) => {
            let dead = life_of(lease) == Liveness::Dead;
            if dead || lease.expired(now) { State::Unsettled } else { State::Running }
        }
        (None, Some(ending)) => match ending.outcome {
            Outcome::Published | Outcome::AlreadyPublished | Outcome::Superseded => State::Published,
            Outcome::Recovered if ending.window == Window::Published => State::Published,
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
