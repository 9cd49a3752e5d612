//! What is published for an input to read.

use super::graph::output_of;
use super::reads::{Reads, reads};
use crate::boundary::Boundary;
use crate::peek::{everywhere, find_published, newest_shown};
use crate::plan::{Plan, PlannedSource};
use crate::task::{PublicationRef, Task};
use refrain_core::{Error, Key, Partition, PinnedPublication, Publication, Result, RunRecord, are};
use std::collections::BTreeSet;

/// How far back a chain is looked through for its first gap: what lies before is told by the run of that one.
const FARTHEST: usize = 1000;

/// What an input would read now.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    /// What is published, in order of time.
    pub(crate) publications: Vec<PinnedPublication>,
    /// What is not published.
    pub(crate) missing: Vec<Key>,
    /// What is published at its first output, while another output is still to follow.
    pub(crate) unfinished: Vec<Key>,
    /// The input reads what its own run replaces, so that no later version makes it stale.
    pub(crate) replaced: bool,
}

impl Readable {
    /// Leaves away what is published anew before it is read; returns the last of that.
    pub(crate) fn count_on(&mut self, before: &BTreeSet<Key>) -> Option<Key> {
        let Self { publications, missing, unfinished, .. } = self;
        let all = publications.iter().map(|one| &one.key).chain(&*missing).chain(&*unfinished);
        let last = all.filter(|key| before.contains(key)).max().cloned();
        publications.retain(|one| !before.contains(&one.key));
        missing.retain(|key| !before.contains(key));
        unfinished.retain(|key| !before.contains(key));
        last
    }

    /// The version of the whole input, in one line: equal exactly when the publications are the same.
    pub(crate) fn version(&self) -> String {
        if self.missing.is_empty() { version_of(&self.publications) } else { "missing".to_owned() }
    }
}

/// Names publications in one line.
pub(crate) fn version_of(publications: &[PinnedPublication]) -> String {
    match publications {
        [] => "nothing".to_owned(),
        [one] => format!("{} {} version {} run {}", one.key, one.output, one.generation, one.run_id),
        [first, ..] => {
            let mut hasher = blake3::Hasher::new();
            for one in publications {
                hasher.update(one.to_string().as_bytes()).update(b"\n");
            }
            format!("{} publications of {}, blake3:{}", publications.len(), first.key.task, hasher.finalize().to_hex())
        }
    }
}

impl Boundary {
    /// What an input of the plan would read now.
    ///
    /// # Errors
    /// `invalid` when no partition can be told; those of a sink that cannot be read.
    pub(crate) fn readable(&self, plan: &Plan, reference: &PublicationRef) -> Result<Readable> {
        let producer = self.producer(reference, &plan.task)?;
        let output = output_of(reference, producer)?;
        let mut readable = Readable::default();
        let partitions = match reads(reference, &plan.task, &plan.partition, producer)? {
            Reads::Nothing => Vec::new(),
            Reads::One(one) => vec![one],
            Reads::Each(all) => all,
            Reads::Replaced(own) => {
                readable.replaced = true;
                vec![own]
            }
        };
        for partition in partitions {
            let key = Key { task: producer.name.clone(), partition: partition.key.clone() };
            let Some(publication) = self.published_now(&key, Some((producer, &partition)))? else {
                if !readable.replaced {
                    readable.missing.push(key);
                }
                continue;
            };
            if !everywhere(self, &key, &publication)? {
                readable.unfinished.push(key.clone());
            }
            match pinned(&key, &output, &publication) {
                Some(pinned) => readable.publications.push(pinned),
                None => readable.missing.push(key),
            }
        }
        Ok(readable)
    }

    /// Refuses a partition of which an input can never be read, as before the start of a chain, with the input's name:
    /// to publish what its other inputs need would not help.
    pub(crate) fn refuse_unreadable(&self, plan: &Plan) -> std::result::Result<(), (String, Error)> {
        for input in &plan.inputs {
            let PlannedSource::Publication(reference) = &input.source else { continue };
            let read = self.producer(reference, &plan.task);
            read.and_then(|producer| reads(reference, &plan.task, &plan.partition, producer).map(drop))
                .map_err(|error| (input.name.clone(), error))?;
        }
        Ok(())
    }

    /// What keeps an input from being pinned, if anything does: nothing is built on what is not there or not whole.
    pub(crate) fn refuse_incomplete(&self, plan: &Plan, reference: &PublicationRef, readable: &Readable) -> Result<()> {
        let verb = |keys: &[Key]| are(keys.len());
        if !readable.missing.is_empty() {
            let keys = &readable.missing;
            let all = [self.missing_before(plan, reference, keys)?.as_slice(), keys].concat();
            return Err(Error::refused(format!("it reads {}, which {} not published", list(keys), verb(keys)))
                .hint(format!("publish first what it reads: {}", self.command_for(&all, ""))));
        }
        if let Some(first) = readable.unfinished.first() {
            let keys = &readable.unfinished;
            return Err(Error::refused(format!(
                "it reads {}, which {} published at the first output only, and another output is still to follow",
                list(keys),
                verb(keys)
            ))
            .hint(format!("to finish it: refrain run {}{}", first.task, self.flag_of(first))));
        }
        Ok(())
    }

    /// The partitions of the reader's own chain that are not published before the missing one, in order of time.
    fn missing_before(&self, plan: &Plan, reference: &PublicationRef, missing: &[Key]) -> Result<Vec<Key>> {
        let [missing] = missing else { return Ok(Vec::new()) };
        if reference.task != plan.task.name {
            return Ok(Vec::new());
        }
        let mut before = Vec::new();
        let mut partition = plan.task.partitions.partition_of_key(&missing.partition)?;
        while before.len() < FARTHEST {
            let Ok(Reads::One(previous)) = reads(reference, &plan.task, &partition, &plan.task) else { break };
            let key = Key { task: plan.task.name.clone(), partition: previous.key.clone() };
            if self.published_now(&key, Some((&plan.task, &previous)))?.is_some() {
                break;
            }
            before.insert(0, key);
            partition = previous;
        }
        Ok(before)
    }

    /// What the key shows to readers at its first output.
    pub(crate) fn published_now(
        &self,
        key: &Key,
        declared: Option<(&Task, &Partition)>,
    ) -> Result<Option<Publication>> {
        let state = self.store.key(key)?;
        let run = state.as_ref().and_then(|state| state.run.as_ref());
        if let Some(anchor) = run.and_then(RunRecord::anchor) {
            return newest_shown(self, key, run, self.sinks.of(anchor)?.read(anchor)?);
        }
        let mut plan = self.bare_plan(key)?;
        match (plan.outputs.is_empty(), declared, self.home.config.declared(&key.task)) {
            (true, Some((task, partition)), _) => plan = Plan::new(task, partition, &self.sinks)?,
            // The outputs of a key that is compacted are those that are declared.
            (true, None, Some(task)) => plan = Plan::new(task, &plan.partition, &self.sinks).unwrap_or(plan),
            _ => {}
        }
        find_published(self, &plan, state.as_ref())
    }

    fn producer<'a>(&'a self, reference: &PublicationRef, reader: &'a Task) -> Result<&'a Task> {
        if reference.task == reader.name {
            return Ok(reader);
        }
        self.home.config.task(reference.task.as_str())
    }

    /// The flag that names the partition of a key on the command line.
    pub(crate) fn flag_of(&self, key: &Key) -> String {
        let dated = self.home.config.declared(&key.task).is_some_and(|task| task.partitions.calendar().is_some());
        match key.partition.as_str() {
            "" => String::new(),
            date if dated => format!(" --date {date}"),
            name => format!(" --partition {name}"),
        }
    }

    /// The command for keys of one task, in order: `run` for one, `backfill` for dates.
    pub(crate) fn command_for(&self, keys: &[Key], flag: &str) -> String {
        let dated = |key: &Key| self.flag_of(key).starts_with(" --date");
        match keys {
            [first, .., last] if keys.iter().all(dated) => {
                let (from, to) = (&first.partition, &last.partition);
                format!("refrain backfill {} --from {from} --to {to}{flag}", first.task)
            }
            [first, ..] => format!("refrain run {}{}{flag}", first.task, self.flag_of(first)),
            [] => String::new(),
        }
    }
}

/// One output of a publication; nothing when the publication has no such output.
pub(crate) fn pinned(key: &Key, output: &str, publication: &Publication) -> Option<PinnedPublication> {
    let slot = &publication.run.outputs.iter().find(|known| known.name == output)?.slot;
    Some(PinnedPublication {
        key: key.clone(),
        output: output.to_owned(),
        slot: slot.clone(),
        generation: publication.run.generation,
        run_id: publication.run.run_id,
        digest: publication.data_for(slot)?.digest.clone(),
    })
}

/// Names keys for a message: the first few, and how many more there are.
pub(crate) fn list(keys: &[Key]) -> String {
    const SHOWN: usize = 3;
    let names: Vec<_> = keys.iter().take(SHOWN).map(|key| format!("`{key}`")).collect();
    let more = keys.len().saturating_sub(SHOWN);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}
