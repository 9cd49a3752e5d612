//! Every partition of a task at a glance.

mod compacted;
mod expected;

use crate::boundary::Boundary;
use crate::holder::life_of;
use crate::home::Home;
use crate::lineage::{Lineages, StaleInput};
use crate::peek::{Changed, changed, changed_line, drift, everywhere, find_published, in_part};
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
use refrain_input::{Glance, GlanceLimits, Glanced};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// So many files are listed of inputs where only the newest partitions are looked at closely.
const LISTED: usize = 50_000;

/// So much of contents that are not known is read, in bytes.
const READ: u64 = 64 * 1024 * 1024;

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
    /// Published, and the command, the code, a parameter or an input that it was made from changed since.
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
    /// Whether the files are looked at that these were made from. Contents that are not known are read up to a bound.
    pub inputs: bool,
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
    /// Of how many partitions an input was not compared, since too much would have had to be read.
    pub unread: u64,
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
        let limits = GlanceLimits { entries: survey.closely.map_or(usize::MAX, |_| LISTED), bytes: READ };
        let glance = survey.inputs.then(|| self.inputs.glance(limits));
        let mut looking = Looking { lineages: Lineages::new(self), glance, unread: 0 };
        // The newest first: what may be read may not be enough for all.
        let looked_at = partitions[glanced_at..].iter_mut().rev();
        for status in looked_at.filter(|status| status.state != State::Unreadable) {
            if let Err(error) = self.look_closely(task, status, &mut looking) {
                // One partition that cannot be looked at does not hide the others.
                status.note = Some(error.message);
            }
        }
        surveyed.unread = looking.unread;
        if let Some(glance) = looking.glance {
            glance.end();
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
    fn look_closely(&self, name: &TaskName, status: &mut PartitionStatus, looking: &mut Looking<'_>) -> Result<()> {
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
            let ending = state.and_then(|state| state.last_attempt?.ending);
            // An attempt that could not go on has said so.
            let is_told = ending.is_some_and(|ending| ending.outcome == Outcome::Decided);
            let stands = match drifted {
                Some(error) => Some(error.message),
                None if !is_told && !everywhere(self, &key, &publication)? => {
                    let run = format!("refrain run {name}{}", self.flag_of(&key));
                    Some(format!("{}; `{run}` finishes it", in_part(&publication)))
                }
                None => pending.then(|| format!("version {} stands", publication.run.generation)),
            };
            let notes: Vec<_> = status.note.take().into_iter().chain(stands).collect();
            status.note = (!notes.is_empty()).then(|| notes.join("; "));
            return Ok(());
        }
        if let Some(error) = drifted {
            status.state = State::Drifted;
            status.note = Some(error.message);
            return Ok(());
        }
        let (changed, untold) = match self.plan_of(&key).map(|plan| looking.changed(&plan, &publication)) {
            Some(Ok(found)) => found,
            // What it would be made from is not known, as for locations that need parameters, or cannot be read.
            other => {
                let error = other.and_then(Result::err);
                let untold = error.map(|error| format!("whether it changed cannot be told: {}", error.message));
                (Changed::only(looking.lineages.stale(&key, &publication)?), untold.into_iter().collect())
            }
        };
        let reasons = reasons(&publication, &changed);
        if !reasons.is_empty() {
            status.state = State::Stale;
            status.note = Some(reasons.join("; "));
        } else if !untold.is_empty() {
            status.note = Some(untold.join("; "));
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
}

/// What looking closely at one partition after the other finds out for the next.
struct Looking<'b> {
    lineages: Lineages<'b>,
    glance: Option<Glance<'b>>,
    /// Of how many partitions an input was not compared.
    unread: u64,
}

impl Looking<'_> {
    /// What a run would be made from that the publication was not, as `why` tells it, without what is in buckets; and
    /// which inputs could not be compared.
    fn changed(&mut self, plan: &Plan, publication: &Publication) -> Result<(Changed, Vec<String>)> {
        let Self { lineages, glance, unread } = self;
        let mut untold = Vec::new();
        let changed = changed(lineages, plan, publication, |name, location| {
            let Some(glance) = glance else { return Ok(None) };
            let pinned = publication.run.inputs.iter().find(|pin| pin.name == name);
            match glance.look(location) {
                Ok(Glanced::Version(version)) => Ok(Some(version)),
                Ok(Glanced::Unread(Some(bytes))) if pinned.is_some_and(|pin| pin.bytes != bytes) => {
                    Ok(Some(format!("{bytes} bytes")))
                }
                Ok(Glanced::Unread(_)) => {
                    *unread += u64::from(untold.is_empty());
                    untold.push(format!("input `{name}` was not compared: too much would have to be read"));
                    Ok(None)
                }
                Ok(Glanced::Elsewhere) => Ok(None),
                Err(error) if error.kind == ErrorKind::Invalid => Err(error),
                Err(error) => {
                    untold.push(format!("input `{name}` cannot be compared: {}", error.message));
                    Ok(None)
                }
            }
        })?;
        Ok((changed, untold))
    }
}

/// Why a declared task cannot be run as it is declared.
pub fn why_unfit(home: &Home, task: &TaskName) -> Option<Error> {
    home.config.declared(task).and_then(|declared| home.config.task(declared.name.as_str()).err())
}

/// Why what is published is stale: of each input that is, the first publication, and what else changed.
fn reasons(publication: &Publication, changed: &Changed) -> Vec<String> {
    let mut named = BTreeSet::new();
    let stale = changed.stale.iter().filter(|stale| named.insert(stale.input()));
    let mut reasons: Vec<String> = stale.map(StaleInput::to_string).collect();
    let others = changed.others();
    if !others.is_empty() {
        reasons.push(changed_line(publication, &others));
    }
    reasons
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
