//! Finds runs, attempts and publications: by id, by path, by key.

use crate::boundary::Boundary;
use crate::peek::find_published;
use crate::plan::Plan;
use crate::task::Task;
use refrain_core::{
    AttemptFilter, AttemptRecord, Error, Generation, Key, Partition, PinnedInput, Publication, Result, Version,
};
use std::path::Path;

/// What `show` found.
#[derive(Debug)]
pub enum Found {
    /// Attempts whose id, or whose run's id, starts so; newest first.
    Attempts(Vec<AttemptRecord>),
    /// A published path: what it says of its origin, and what the head says.
    Published(Box<PublishedPath>),
}

/// A published path.
#[derive(Debug)]
pub struct PublishedPath {
    /// The path.
    pub location: String,
    /// Whose it is.
    pub key: Key,
    /// What is published there.
    pub publication: Publication,
    /// Whether it still is what was published: empty, or what differs.
    pub drift: Option<String>,
    /// The versions that can be read.
    pub versions: Vec<Version>,
}

/// What a published path says of its own origin, as JSON, where the filesystem has user attributes. Needs no home.
pub fn provenance(path: &Path) -> Option<String> {
    refrain_sink::provenance_of(path).ok().flatten()
}

impl Boundary {
    /// Finds an attempt or run by the beginning of its id, or a published path.
    ///
    /// # Errors
    /// `invalid` when nothing is found.
    pub fn find(&self, id_or_path: &str, base: &Path) -> Result<Found> {
        let path = base.join(id_or_path);
        if path.symlink_metadata().is_ok()
            && let Some(found) = self.find_path(&path)?
        {
            return Ok(Found::Published(Box::new(found)));
        }
        let looks_like_id = id_or_path.len() >= 4 && id_or_path.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if looks_like_id {
            let filter = AttemptFilter { id_prefix: Some(id_or_path.to_owned()), ..AttemptFilter::default() };
            let attempts = self.store.attempts(&filter)?;
            if !attempts.is_empty() {
                return Ok(Found::Attempts(attempts));
            }
        }
        Err(Error::invalid(format!("`{id_or_path}` is no published path and no run or attempt of this home"))
            .hint("refrain log lists the attempts; an id may be shortened to 4 characters or more"))
    }

    fn find_path(&self, path: &Path) -> Result<Option<PublishedPath>> {
        let mut text = path.to_string_lossy().into_owned();
        if path.is_dir() && !text.ends_with('/') {
            text.push('/');
        }
        let slot = self.sinks.address(&text, Path::new("/"))?;
        let sink = self.sinks.of(&slot)?;
        let Some(head) = sink.read(&slot)? else { return Ok(None) };
        let Some(publication) = head.publication.clone() else { return Ok(None) };
        let drift = match sink.condition(&slot, Some(&head))? {
            refrain_core::Condition::Intact => None,
            refrain_core::Condition::Drifted(what) | refrain_core::Condition::Foreign(what) => Some(what),
            refrain_core::Condition::Missing | refrain_core::Condition::Absent => Some("it is gone".to_owned()),
        };
        let versions = sink.versions(&slot)?;
        Ok(Some(PublishedPath { location: sink.location(&slot), key: head.owner, publication, drift, versions }))
    }

    /// What the attempt's run reads, as long as the store knows the run: until the key's next one.
    pub fn inputs_of(&self, record: &AttemptRecord) -> Result<Vec<PinnedInput>> {
        let run = self.store.key(&record.key)?.and_then(|state| state.run);
        Ok(run.filter(|run| Some(run.run_id) == record.run).map(|run| run.inputs).unwrap_or_default())
    }

    /// Where readers find a publication, one place a line: of one output or of all, of the published version or of a
    /// kept one.
    ///
    /// # Errors
    /// `invalid` when it is not published, or the version is not kept.
    pub fn paths(
        &self,
        task: &Task,
        partition: &Partition,
        output: Option<&str>,
        version: Option<Generation>,
    ) -> Result<Vec<String>> {
        let key = Key { task: task.name.clone(), partition: partition.key.clone() };
        // What was published is known by its key; only what never was needs the declaration.
        match self.store.key(&key)?.and_then(|state| state.run) {
            Some(_) => self.paths_of(&self.bare_plan(&key)?, output, version),
            None => self.paths_of(&Plan::new(task, partition, &self.sinks)?, output, version),
        }
    }

    /// The same for a task that is not in the configuration: its outputs are those of its run.
    pub fn paths_of_key(&self, key: &Key, output: Option<&str>, version: Option<Generation>) -> Result<Vec<String>> {
        let plan = self.bare_plan(key)?;
        self.paths_of(&plan, output, version)
    }

    fn paths_of(&self, plan: &Plan, output: Option<&str>, version: Option<Generation>) -> Result<Vec<String>> {
        let state = self.store.key(&plan.key)?;
        let Some(publication) = find_published(self, plan, state.as_ref())? else {
            let error = Error::invalid(format!("`{}` is not published", plan.key));
            let (task, flag) = (&plan.key.task, crate::peek::partition_flag(plan));
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
        let mut places = Vec::new();
        for output in outputs {
            let sink = self.sinks.of(&output.slot)?;
            let versions = sink.versions(&output.slot)?;
            let wanted = versions.iter().find(|found| version.map_or(found.current, |v| found.generation == v));
            let Some(wanted) = wanted else {
                let list: Vec<_> = versions.iter().map(|found| found.generation.to_string()).collect();
                let which = version.map_or_else(|| "the published version".to_owned(), |v| format!("version {v}"));
                return Err(Error::invalid(format!(
                    "{which} of output `{}` of `{}` is not there",
                    output.name, plan.key
                ))
                .hint(format!("versions that can be read: {}", list.join(", "))));
            };
            places.extend(wanted.locations.iter().cloned());
        }
        Ok(places)
    }
}
