//! Whether a publication still stands on what is published: its pins, and theirs, followed backwards.

use super::standing::list;
use crate::boundary::Boundary;
use crate::peek::made_from;
use crate::plan::Plan;
use refrain_core::{Error, Generation, Key, PinnedPublication, Publication, Result, RunId, RunRecord, are};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// An input that a publication was made from and that does not stand any more as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StaleInput {
    /// Another version stands, or none.
    Replaced { input: String, was: PinnedPublication, now: Option<(Generation, RunId)> },
    /// It stands, and is itself made from something that does not.
    Upstream { input: String, was: PinnedPublication },
    /// Another version stands than when the publication was rolled back to.
    SinceRollback { input: String },
}

impl StaleInput {
    /// The input's name.
    pub(crate) fn input(&self) -> &str {
        match self {
            Self::Replaced { input, .. } | Self::Upstream { input, .. } | Self::SinceRollback { input } => input,
        }
    }
}

impl fmt::Display for StaleInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |input: &str, was: &PinnedPublication| {
            format!("input `{input}` was version {} of `{}` (run {})", was.generation, was.key, was.run_id)
        };
        match self {
            Self::Replaced { input, was, now: Some((generation, run)) } => {
                write!(f, "{}; version {generation} stands now (run {run})", of(input, was))
            }
            Self::Replaced { input, was, now: None } => {
                write!(f, "{}; nothing of it is published now", of(input, was))
            }
            Self::Upstream { input, was } => write!(f, "{}; it still stands, and is stale itself", of(input, was)),
            Self::SinceRollback { input } => {
                write!(f, "input `{input}` was published anew since this version was rolled back to")
            }
        }
    }
}

impl Boundary {
    /// What a person should know of the publications that a run reads, one line each: what has been published anew since,
    /// and what was changed by hand.
    pub(crate) fn remarks_on_pins(&self, run: &RunRecord) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for pin in &run.inputs {
            for read in pin.lineage.iter().flat_map(|lineage| &lineage.publications) {
                let Some(now) = self.published_now(&read.key, None)? else { continue };
                if now.run.run_id == read.run_id {
                    if let Some(what) = now.restored().filter(|_| now.edited) {
                        lines.push(format!(
                            "input `{}` is version {} of `{}`, which is {what}",
                            pin.name, read.generation, read.key
                        ));
                    }
                } else {
                    let now = now.run;
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
    standing: BTreeMap<Key, Option<Rc<Publication>>>,
}

impl<'b> Lineages<'b> {
    pub(crate) fn new(boundary: &'b Boundary) -> Self {
        Self { boundary, found: BTreeMap::new(), standing: BTreeMap::new() }
    }

    pub(crate) fn boundary(&self) -> &'b Boundary {
        self.boundary
    }

    /// The inputs of what the key shows that do not stand any more; `publication` is what it shows.
    pub(crate) fn stale(&mut self, key: &Key, publication: &Publication) -> Result<Vec<StaleInput>> {
        self.standing.insert(key.clone(), Some(Rc::new(publication.clone())));
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
        let Some(publication) = self.standing(key)? else { return Ok((Vec::new(), Vec::new())) };
        if publication.run.restores.is_some() {
            return Ok((self.changed_since_rollback(key, &publication)?, Vec::new()));
        }
        let (mut stale, mut open) = (Vec::new(), Vec::new());
        for pin in &publication.run.inputs {
            let publications = pin.lineage.iter().flat_map(|lineage| &lineage.publications);
            // What the run itself replaced is no longer there by its own doing.
            for was in publications.filter(|was| was.key != *key) {
                let (input, was) = (pin.name.clone(), was.clone());
                match self.standing(&was.key)?.map(|now| (now.run.generation, now.run.run_id)) {
                    Some((_, run_id)) if run_id == was.run_id => match self.found.get(&was.key) {
                        None => open.push(was.key),
                        Some(theirs) if theirs.is_empty() => {}
                        Some(_) => stale.push(StaleInput::Upstream { input, was }),
                    },
                    now => stale.push(StaleInput::Replaced { input, was, now }),
                }
            }
        }
        Ok((stale, open))
    }

    /// A rollback pins nothing: it records what its inputs were when it was asked for.
    fn changed_since_rollback(&self, key: &Key, publication: &Publication) -> Result<Vec<StaleInput>> {
        let Some(task) = self.boundary.home.config.declared(&key.task) else { return Ok(Vec::new()) };
        let plan = Plan::new(task, &task.partitions.partition_of_key(&key.partition)?, &self.boundary.sinks)?;
        let (now, _) = made_from(self.boundary, &plan, |_, _| Ok(None))?;
        let changes = publication.changes_among(&now, |change| {
            change.part.strip_prefix("input:").is_some_and(|name| plan.reads_publication(name))
        });
        let names = changes.iter().filter_map(|change| change.part.strip_prefix("input:"));
        Ok(names.map(|name| StaleInput::SinceRollback { input: name.to_owned() }).collect())
    }

    fn standing(&mut self, key: &Key) -> Result<Option<Rc<Publication>>> {
        if let Some(known) = self.standing.get(key) {
            return Ok(known.clone());
        }
        let publication = self.boundary.published_now(key, None)?.map(Rc::new);
        self.standing.insert(key.clone(), publication.clone());
        Ok(publication)
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
            for input in stale {
                if let StaleInput::Upstream { was, .. } = input
                    && !order.contains(&was.key)
                {
                    order.push(was.key.clone());
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
        let verb = are(stale.len());
        let repair = match stale.as_slice() {
            [only] => self.repair(only),
            _ => self.boundary.command_for(&stale, " --if-changed"),
        };
        Err(Error::refused(format!("it reads {}, which {verb} stale: its {why}", list(&stale)))
            .hint(format!("bring it right first: {repair}")))
    }
}
