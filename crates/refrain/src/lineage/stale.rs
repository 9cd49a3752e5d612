//! Whether a publication still stands on what is published: its pins, and theirs, followed backwards.

use super::standing::list;
use crate::boundary::Boundary;
use refrain_core::{Error, Generation, Key, PinnedPublication, Publication, Result, RunId, RunRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// An input that a publication was made from and that does not stand any more as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaleInput {
    /// The input's name.
    pub(crate) input: String,
    /// What it was made from.
    pub(crate) made_from: PinnedPublication,
    /// What became of it.
    pub(crate) now: Now,
}

/// What became of a publication that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Now {
    /// Another version stands.
    Replaced(Generation, RunId),
    /// Nothing of it is published.
    Gone,
    /// It stands, and is itself made from something that does not.
    Stale,
}

impl fmt::Display for StaleInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input, made_from, now } = self;
        let PinnedPublication { key, generation, run_id, .. } = made_from;
        write!(f, "input `{input}` was version {generation} of `{key}` (run {run_id}); ")?;
        match now {
            Now::Replaced(generation, run) => write!(f, "version {generation} stands now (run {run})"),
            Now::Gone => f.write_str("nothing of it is published now"),
            Now::Stale => f.write_str("it still stands, and is stale itself"),
        }
    }
}

impl Boundary {
    /// What a run that goes on reads and that has been published anew since, one line each.
    pub(crate) fn newer_than_pinned(&self, run: &RunRecord) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for pin in &run.inputs {
            for read in pin.lineage.iter().flat_map(|lineage| &lineage.publications) {
                let now = self.published_now(&read.key, None)?.map(|now| now.run);
                if let Some(now) = now.filter(|now| now.run_id != read.run_id) {
                    lines.push(format!(
                        "input `{}` is pinned to version {} of `{}`; version {} stands now, and `--rerun` would read it",
                        pin.name, read.generation, read.key, now.generation
                    ));
                }
            }
        }
        Ok(lines)
    }
}

/// Follows pins backwards and remembers what it found, so that a chain of dates costs one look at each.
#[derive(Debug)]
pub(crate) struct Lineages<'b> {
    boundary: &'b Boundary,
    found: BTreeMap<Key, Vec<StaleInput>>,
    standing: BTreeMap<Key, Option<RunRecord>>,
}

impl<'b> Lineages<'b> {
    pub(crate) fn new(boundary: &'b Boundary) -> Self {
        Self { boundary, found: BTreeMap::new(), standing: BTreeMap::new() }
    }

    /// The inputs of what the key shows that do not stand any more; `publication` is what it shows.
    pub(crate) fn stale(&mut self, key: &Key, publication: &Publication) -> Result<Vec<StaleInput>> {
        self.standing.insert(key.clone(), Some(publication.run.clone()));
        self.follow(key)
    }

    /// The same for a publication that is about to be read.
    pub(crate) fn stale_now(&mut self, pinned: &PinnedPublication) -> Result<Vec<StaleInput>> {
        self.follow(&pinned.key)
    }

    /// Depth first without recursion: a chain of hours may be long.
    fn follow(&mut self, key: &Key) -> Result<Vec<StaleInput>> {
        let mut stack = vec![key.clone()];
        let mut entered = BTreeSet::new();
        while let Some(key) = stack.last().cloned() {
            let first = entered.insert(key.clone());
            let (stale, open) = self.look(&key)?;
            // What was entered and is not known yet leads back to itself: it adds nothing.
            let open: Vec<Key> = open.into_iter().filter(|key| first && !entered.contains(key)).collect();
            if open.is_empty() {
                self.found.insert(key, stale);
                stack.pop();
            } else {
                stack.extend(open);
            }
        }
        Ok(self.found.get(key).cloned().unwrap_or_default())
    }

    /// The inputs of one key, and those keys that must be known before the answer is complete.
    fn look(&mut self, key: &Key) -> Result<(Vec<StaleInput>, Vec<Key>)> {
        let Some(run) = self.standing(key)? else { return Ok((Vec::new(), Vec::new())) };
        let (mut stale, mut open) = (Vec::new(), Vec::new());
        for pin in &run.inputs {
            let publications = pin.lineage.iter().flat_map(|lineage| &lineage.publications);
            // What the run itself replaced is no longer there by its own doing.
            for made_from in publications.filter(|made_from| made_from.key != *key) {
                let now = match self.standing(&made_from.key)? {
                    None => Now::Gone,
                    Some(now) if now.run_id != made_from.run_id => Now::Replaced(now.generation, now.run_id),
                    Some(_) => match self.found.get(&made_from.key) {
                        None => {
                            open.push(made_from.key.clone());
                            continue;
                        }
                        Some(theirs) if theirs.is_empty() => continue,
                        Some(_) => Now::Stale,
                    },
                };
                stale.push(StaleInput { input: pin.name.clone(), made_from: made_from.clone(), now });
            }
        }
        Ok((stale, open))
    }

    fn standing(&mut self, key: &Key) -> Result<Option<RunRecord>> {
        if let Some(known) = self.standing.get(key) {
            return Ok(known.clone());
        }
        let run = self.boundary.published_now(key, None)?.map(|publication| publication.run);
        self.standing.insert(key.clone(), run.clone());
        Ok(run)
    }

    /// The commands that bring a stale key right, what it reads first.
    pub(crate) fn repair(&self, key: &Key) -> String {
        let mut tasks: Vec<Vec<Key>> = Vec::new();
        for key in self.stale_before(key) {
            match tasks.iter_mut().find(|keys| keys.first().is_some_and(|first| first.task == key.task)) {
                Some(keys) => keys.push(key),
                None => tasks.push(vec![key]),
            }
        }
        for keys in &mut tasks {
            keys.sort();
        }
        let commands: Vec<_> = tasks.iter().map(|keys| self.boundary.command_for(keys, " --if-changed")).collect();
        commands.join(" && ")
    }

    /// The key and every stale one that it is made from, producers first.
    fn stale_before(&self, key: &Key) -> Vec<Key> {
        let mut order = vec![key.clone()];
        let mut next = 0;
        while let Some(stale) = order.get(next).and_then(|key| self.found.get(key)) {
            for input in stale.iter().filter(|input| input.now == Now::Stale) {
                if !order.contains(&input.made_from.key) {
                    order.push(input.made_from.key.clone());
                }
            }
            next += 1;
        }
        order.reverse();
        order
    }

    /// Nothing is built on what is stale.
    pub(crate) fn refuse_stale(&mut self, read: &[PinnedPublication]) -> Result<()> {
        let mut stale = Vec::new();
        let mut why = None;
        for one in read {
            if let Some(first) = self.stale_now(one)?.into_iter().next() {
                why.get_or_insert(first);
                stale.push(one.key.clone());
            }
        }
        let Some(why) = why else { return Ok(()) };
        let verb = if stale.len() == 1 { "is" } else { "are" };
        let repair = match stale.as_slice() {
            [only] => self.repair(only),
            _ => self.boundary.command_for(&stale, " --if-changed"),
        };
        Err(Error::refused(format!("it reads {}, which {verb} stale: its {why}", list(&stale)))
            .hint(format!("bring it right first: {repair}")))
    }
}
