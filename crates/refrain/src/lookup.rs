//! Finds runs, attempts and publications: by id, by path, by key.

use crate::boundary::Boundary;
use crate::peek::{find_published, has_followed, in_part, is_taken, partition_flag};
use crate::plan::Plan;
use crate::task::Task;
use refrain_core::{
    AttemptFilter, AttemptRecord, Condition, Error, ErrorKind, Generation, Head, Key, OutputSlot, Partition,
    PinnedInput, Publication, Result, SlotAddress, Version,
};
use refrain_object::Address;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

/// What `show` found.
#[derive(Debug)]
pub enum Found {
    /// One attempt, or the attempts of one run; newest first.
    Attempts(Vec<AttemptRecord>),
    /// A published path: what it says of its origin, and what the head says.
    Published(Box<PublishedPath>),
}

/// A published path.
#[derive(Debug)]
pub struct PublishedPath {
    /// The path.
    pub location: String,
    /// What of it was asked for: a path within a published directory.
    pub part: Option<String>,
    /// Whose it is.
    pub key: Key,
    /// What is published there.
    pub publication: Publication,
    /// Whether it still is what was published: empty, or what differs.
    pub drift: Option<String>,
    /// The versions that can be read.
    pub versions: Vec<Version>,
}

/// What an attempt's run reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputsOf {
    /// Its pins, which the store knows until the key's next run.
    Pinned(Vec<PinnedInput>),
    /// Names and versions, which the head knows of the publications that were replaced last.
    Versions(Vec<(String, String)>),
    /// Nobody knows any more.
    Unknown,
}

/// Where a version of an output can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path or URL.
    pub location: String,
    /// Whether it is kept as a person changed it after it was published.
    pub edited: bool,
}

/// Where readers find a publication.
#[derive(Debug, Default)]
pub struct Places {
    /// The places, in the order of the outputs.
    pub found: Vec<Place>,
    /// Why an output has none among them.
    pub lacking: Option<Error>,
}

/// What a published path says of its own origin, as JSON, where the filesystem has user attributes. Needs no home.
pub fn provenance(path: &Path) -> Option<String> {
    refrain_sink::provenance_of(path).ok().flatten()
}

/// At least so many characters of an id are asked for.
const SHORTEST: usize = 4;

/// So many attempts are listed when an id fits several.
const LISTED: usize = 20;

pub(crate) const SHORTER: &str = "refrain log lists the attempts; of an id any part of 4 characters or more will do that no other has, such as its end";

/// The end of an id, which is random: short, and no other id of a home has it.
pub fn short_id(id: impl Display) -> String {
    let id = id.to_string();
    id.rsplit_once('-').map_or(id.clone(), |(_, end)| end.to_owned())
}

fn one_line(record: &AttemptRecord) -> String {
    let run = record.run.map(|run| format!(" of run {run}")).unwrap_or_default();
    format!("{:.0}  attempt {}{run}: {}", record.started_at, record.attempt, record.key)
}

impl Boundary {
    /// Finds an attempt or run by a part of its id, or a published path or URL.
    ///
    /// # Errors
    /// `invalid` when nothing is found, or the part fits several ids.
    pub fn find(&self, id_or_path: &str, base: &Path) -> Result<Found> {
        if Address::is_one(id_or_path) {
            let found = self.find_url(id_or_path)?;
            return Ok(Found::Published(Box::new(found)));
        }
        let path = base.join(id_or_path);
        if path.symlink_metadata().is_ok()
            && let Some(found) =
                self.find_path(&path).transpose().or_else(|| self.find_holder(&path).transpose()).transpose()?
        {
            return Ok(Found::Published(Box::new(found)));
        }
        if id_or_path.contains("://")
            && let Some(found) = self.find_place(id_or_path)?
        {
            return Ok(Found::Published(Box::new(found)));
        }
        let attempts = self.attempts_named(id_or_path)?;
        if attempts.is_empty() {
            return Err(Error::invalid(format!(
                "`{id_or_path}` is no published path and no run or attempt of this home"
            ))
            .hint(SHORTER));
        }
        Ok(Found::Attempts(attempts))
    }

    /// The attempt with this id, or the attempts of the run with it, newest first; none if there is none. Of an id any
    /// part is enough that only one has.
    ///
    /// # Errors
    /// `invalid` when several have it; the message lists them.
    pub(crate) fn attempts_named(&self, id: &str) -> Result<Vec<AttemptRecord>> {
        let looks_like_id = id.len() >= SHORTEST && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if !looks_like_id {
            return Ok(Vec::new());
        }
        let filter = AttemptFilter { id_part: Some(id.to_owned()), ..AttemptFilter::default() };
        let attempts = self.store.attempts(&filter)?;
        let part = id.to_ascii_lowercase();
        let has_it = |id: Option<String>| id.filter(|id| id.contains(&part));
        let run_or_attempt = |record: &AttemptRecord| {
            has_it(record.run.map(|run| run.to_string())).unwrap_or_else(|| record.attempt.to_string())
        };
        let meant: BTreeSet<String> = attempts.iter().map(run_or_attempt).collect();
        if meant.len() <= 1 {
            return Ok(attempts);
        }
        let mut lines: Vec<String> = attempts.iter().take(LISTED).map(one_line).collect();
        if attempts.len() > LISTED {
            lines.push(format!("and {} more", attempts.len() - LISTED));
        }
        Err(Error::invalid(format!("`{id}` is part of several ids:\n  {}", lines.join("\n  ")))
            .hint("give a part that only one of them has: ids of one minute begin alike, their ends differ"))
    }

    fn find_path(&self, path: &Path) -> Result<Option<PublishedPath>> {
        let mut text = path.to_string_lossy().into_owned();
        if path.is_dir() && !text.ends_with('/') {
            text.push('/');
        }
        let slot = self.sinks.address(&text, Path::new("/"))?;
        self.published_at(&slot)
    }

    /// The published directory that a path lies in.
    fn find_holder(&self, path: &Path) -> Result<Option<PublishedPath>> {
        let Ok(path) = std::path::absolute(path) else { return Ok(None) };
        for above in path.ancestors().skip(1) {
            // No place to publish to holds anything.
            let Ok(slot) = self.sinks.address(&format!("{}/", above.display()), Path::new("/")) else { continue };
            if let Some(mut found) = self.published_at(&slot)? {
                found.part = path.strip_prefix(above).ok().map(|part| part.display().to_string());
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_url(&self, url: &str) -> Result<PublishedPath> {
        let prefix = format!("{url}/");
        let spellings = [url, &prefix];
        let written = if url.ends_with('/') { &spellings[..1] } else { &spellings[..] };
        for spelling in written {
            if let Some(found) = self.published_at(&self.sinks.address(spelling, Path::new("/"))?)? {
                return Ok(found);
            }
        }
        Err(Error::invalid(format!("nothing is published at `{url}`")).hint(
            "`refrain status` tells what is published; a prefix is named as its output is, not by one of its objects",
        ))
    }

    /// A place as `refrain path` prints it that is no path of a filesystem, among those of the runs that the state knows.
    fn find_place(&self, place: &str) -> Result<Option<PublishedPath>> {
        let mut slot = None;
        self.store.for_each_key(None, &mut |summary| {
            let run = if slot.is_none() { self.store.key(&summary.key)?.and_then(|state| state.run) } else { None };
            slot = slot.take().or_else(|| run?.slots().find(|slot| self.locate(slot) == place).cloned());
            Ok(())
        })?;
        slot.map_or(Ok(None), |slot| self.published_at(&slot))
    }

    /// A slot's head as readers see it, and whether what stands there still is what it says (13.2): also while another key
    /// has claimed the slot and not published yet, and after that one failed (2.4).
    pub(crate) fn condition_seen(&self, slot: &SlotAddress) -> Result<(Option<Head>, Condition)> {
        let sink = self.sinks.of(slot)?;
        let head = sink.read(slot)?.map(Head::as_seen);
        let condition = sink.condition(slot, head.as_ref())?;
        Ok((head, condition))
    }

    fn published_at(&self, slot: &SlotAddress) -> Result<Option<PublishedPath>> {
        let sink = self.sinks.of(slot)?;
        let (Some(head), condition) = self.condition_seen(slot)? else { return Ok(None) };
        let Some(publication) = head.publication else { return Ok(None) };
        let drift = match condition {
            Condition::Intact => None,
            Condition::Drifted(what) | Condition::Foreign(what) => Some(what),
            Condition::Missing | Condition::Absent => Some("it is gone".to_owned()),
        };
        let versions = sink.versions(slot)?;
        Ok(Some(PublishedPath {
            location: sink.location(slot),
            part: None,
            key: head.owner,
            publication,
            drift,
            versions,
        }))
    }

    /// What the attempt's run reads.
    pub fn inputs_of(&self, record: &AttemptRecord) -> Result<InputsOf> {
        let Some(run_id) = record.run else { return Ok(InputsOf::Pinned(Vec::new())) };
        let run = self.store.key(&record.key)?.and_then(|state| state.run);
        let anchor = run.as_ref().and_then(|run| run.anchor().cloned());
        if let Some(run) = run.filter(|run| run.run_id == run_id) {
            return Ok(InputsOf::Pinned(run.inputs));
        }
        let head = anchor.map(|anchor| self.sinks.of(&anchor)?.read(&anchor)).transpose()?.flatten();
        let former = head.and_then(|head| head.history.into_iter().find(|former| former.run_id == run_id));
        Ok(former.and_then(|former| former.made_from).map_or(InputsOf::Unknown, |made_from| {
            let input = |(part, value): (String, String)| {
                let version = serde_json::from_str(&value).unwrap_or(value);
                Some((part.strip_prefix("input:")?.to_owned(), version))
            };
            InputsOf::Versions(made_from.parts.into_iter().filter_map(input).collect())
        }))
    }

    /// Where readers find a publication: of one output or of all, of the published version or of a kept one.
    ///
    /// # Errors
    /// `invalid` when it is not published.
    pub fn paths(
        &self,
        task: &Task,
        partition: &Partition,
        output: Option<&str>,
        version: Option<Generation>,
    ) -> Result<Places> {
        let key = Key { task: task.name.clone(), partition: partition.key.clone() };
        match self.store.key(&key)?.and_then(|state| state.run) {
            Some(_) => self.paths_of(&self.bare_plan(&key)?, output, version),
            None => self.paths_of(&Plan::new(task, partition, &self.sinks)?, output, version),
        }
    }

    /// The same for a task that is not in the configuration: its outputs are those of its run.
    pub fn paths_of_key(&self, key: &Key, output: Option<&str>, version: Option<Generation>) -> Result<Places> {
        let plan = self.bare_plan(key)?;
        self.paths_of(&plan, output, version)
    }

    fn paths_of(&self, plan: &Plan, output: Option<&str>, version: Option<Generation>) -> Result<Places> {
        let mut places = Places::default();
        for (_, read) in self.versions_to_read(plan, output, version)? {
            match read {
                Ok(Version { locations, edited, .. }) => {
                    places.found.extend(locations.into_iter().map(|location| Place { location, edited }));
                }
                Err(error) => drop(places.lacking.get_or_insert(error)),
            }
        }
        Ok(places)
    }

    /// A version of one output or of all: the published one, or a kept one; an error for an output that has it not.
    pub(crate) fn versions_to_read(
        &self,
        plan: &Plan,
        output: Option<&str>,
        version: Option<Generation>,
    ) -> Result<Vec<(OutputSlot, Result<Version>)>> {
        let state = self.store.key(&plan.key)?;
        let Some(publication) = find_published(self, plan, state.as_ref())? else {
            let error = Error::invalid(format!("`{}` is not published", plan.key));
            let (task, flag) = (&plan.key.task, partition_flag(plan));
            return Err(error.hint(match self.home.config.declared(task) {
                Some(_) => format!("to publish it: refrain run {task}{flag}"),
                None => format!("to see what was run: refrain log {task}{flag}"),
            }));
        };
        let outputs: Vec<_> =
            publication.run.outputs.iter().filter(|known| output.is_none_or(|name| name == known.name)).collect();
        if outputs.is_empty() {
            let names: Vec<_> = publication.run.outputs.iter().map(|output| output.name.as_str()).collect();
            return Err(Error::invalid(format!("`{}` has no output `{}`", plan.key, output.unwrap_or_default()))
                .hint(format!("its outputs: {}", names.join(", "))));
        }
        let mut found = Vec::new();
        for output in outputs {
            let sink = self.sinks.of(&output.slot)?;
            if version.is_none()
                && let Some(head) = sink.read(&output.slot)?.filter(|head| is_taken(head, &plan.key))
            {
                let what = format!("output `{}` of `{}` was taken over by `{}`", output.name, plan.key, head.owner);
                found.push((
                    output.clone(),
                    Err(Error::invalid(what).hint(format!(
                        "what stands there now: refrain path {}{}",
                        head.owner.task,
                        self.flag_of(&head.owner)
                    ))),
                ));
                continue;
            }
            let versions = sink.versions(&output.slot)?;
            let fits = |found: &&Version| version.map_or(found.current, |v| found.generation == v);
            // What was published comes before what became of it by hand.
            let wanted = versions.iter().filter(fits).min_by_key(|found| found.edited);
            let is_newest = version.is_none_or(|version| version == publication.run.generation);
            let wanted = match wanted.cloned() {
                Some(wanted) => Ok(wanted),
                None if is_newest && !has_followed(self, &plan.key, &publication, &output.slot)? => {
                    Err(still_to_follow(plan, &publication, output))
                }
                None => Err(not_there(plan, output, version, &versions)),
            };
            found.push((output.clone(), wanted));
        }
        Ok(found)
    }
}

/// An output of a run that is decided and not finished.
fn still_to_follow(plan: &Plan, publication: &Publication, output: &OutputSlot) -> Error {
    let (task, flag) = (&plan.key.task, partition_flag(plan));
    let what = format!("output `{}` of `{}` is not there yet: {}", output.name, plan.key, in_part(publication));
    Error::new(ErrorKind::Unavailable, what)
        .hint(format!("to finish it: refrain run {task}{flag}, or refrain recover {task}"))
}

fn not_there(plan: &Plan, output: &OutputSlot, version: Option<Generation>, versions: &[Version]) -> Error {
    let list: Vec<_> = versions.iter().map(|found| found.generation.to_string()).collect();
    let which = version.map_or_else(|| "the published version".to_owned(), |v| format!("version {v}"));
    let what = format!("{which} of output `{}` of `{}` is not there", output.name, plan.key);
    Error::invalid(what).hint(if list.is_empty() {
        "nothing of it can be read; to publish it again, repeat the `refrain run` with --rerun".to_owned()
    } else {
        format!("versions that can be read: {}", list.join(", "))
    })
}
