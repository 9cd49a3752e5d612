//! Work that attempts sealed and could not publish: a later attempt of the run publishes it without the command
//! (PROTOCOL 5.7), where the sinks of all outputs keep it.

use crate::attempt::Work;
use crate::boundary::Boundary;
use crate::peek::same_places;
use crate::plan::Plan;
use crate::report::Conclusion;
use refrain_core::{
    AttemptId, Error, ErrorKind, Key, OutputSlot, Result, RunRecord, SealedData, Sink, Staged, StagingId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What one attempt sealed for every output of a run.
#[derive(Clone, Debug)]
pub(crate) struct SealedRun {
    pub(crate) maker: AttemptId,
    made_from: String,
    /// Where it is, as [`Staged::place`] names it.
    places: BTreeSet<String>,
}

impl SealedRun {
    /// Whether staging is part of it.
    pub(crate) fn needs(&self, place: &str, id: &StagingId) -> bool {
        self.places.contains(place) || self.maker == id.holder.attempt
    }
}

impl Boundary {
    /// The current run of a key, if it is not published and its outputs keep what is sealed, with what attempts sealed for it,
    /// newest first.
    pub(crate) fn sealed_for(&self, key: &Key) -> Result<Option<(RunRecord, Vec<SealedRun>)>> {
        let Some(run) = self.store.key(key)?.and_then(|state| state.run) else { return Ok(None) };
        // Of others nothing is asked that could fail.
        if !self.keeps_sealed(&run) || self.is_published(&run)? {
            return Ok(None);
        }
        let all = self.sealed_of(&run)?;
        Ok(Some((run, all)))
    }

    /// What attempts of a run that is not published sealed, newest first. Of two attempts never one output each: what a
    /// command makes belongs together.
    pub(crate) fn sealed_of(&self, run: &RunRecord) -> Result<Vec<SealedRun>> {
        if !self.keeps_sealed(run) {
            return Ok(Vec::new());
        }
        let mut all: Option<BTreeMap<AttemptId, SealedRun>> = None;
        for slot in run.slots() {
            if all.as_ref().is_some_and(BTreeMap::is_empty) {
                break;
            }
            let mut here = BTreeMap::new();
            for work in self.sinks.of(slot)?.sealed(slot, run.generation, run.run_id)? {
                let former = match &mut all {
                    Some(all) => all.remove(&work.maker),
                    None => Some(SealedRun { maker: work.maker, made_from: work.made_from, places: BTreeSet::new() }),
                };
                let Some(mut sealed) = former else { continue };
                sealed.places.insert(work.place);
                here.insert(work.maker, sealed);
            }
            all = Some(here);
        }
        Ok(all.unwrap_or_default().into_values().rev().collect())
    }

    /// Whether what is sealed for the run is kept at all its outputs. A rollback has no need of that: it makes them from what
    /// was published.
    fn keeps_sealed(&self, run: &RunRecord) -> bool {
        let keeps = |slot| self.sinks.of(slot).is_ok_and(Sink::keeps_sealed);
        run.restores.is_none() && run.slots().all(keeps)
    }
}

/// The newest that `run` would publish instead of executing: made from what the run pinned by the command, code and
/// parameters of now.
///
/// # Errors
/// `invalid` when a declared code file is missing.
pub(crate) fn fitting(plan: &Plan, run: &RunRecord, all: &[SealedRun]) -> Result<Option<AttemptId>> {
    if all.is_empty() || !same_places(plan, run) {
        return Ok(None);
    }
    let versions = run.inputs.iter().map(|pin| (pin.name.as_str(), pin.version.as_str()));
    let made_from = plan.fingerprint(versions)?.digest;
    Ok(all.iter().find(|sealed| sealed.made_from == made_from).map(|sealed| sealed.maker))
}

impl Work<'_> {
    /// The attempt that may write; or its end, if what an earlier one sealed was published instead, or this one is over.
    pub(crate) fn or_sealed(mut self) -> Result<Self, Box<Conclusion>> {
        match self.take_over() {
            Ok(false) => Ok(self),
            Ok(true) => Err(Box::new(self.publish())),
            Err(_) if self.is_outdone() => Err(Box::new(self.lease_lost())),
            Err(error) => Err(Box::new(self.abandon(error.into()))),
        }
    }

    /// Whether an earlier attempt of this run sealed every output and published none, from what this one would be made
    /// from: then this attempt has them, and the task need not be executed (5.7).
    fn take_over(&mut self) -> Result<bool> {
        let (Some(made_from), false) = (&self.made_from, self.driver.opened) else { return Ok(false) };
        let made_from = made_from.digest.clone();
        let all = self.driver.boundary.sealed_of(&self.run)?;
        for sealed in all.into_iter().filter(|sealed| sealed.made_from == made_from) {
            let maker = sealed.maker;
            if self.take(maker)? {
                self.driver.notes.push(format!(
                    "publishing what attempt {maker} sealed and could not publish; the command is not run"
                ));
                self.driver.sealed_by(maker);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes every output of one attempt, or none.
    fn take(&mut self, maker: AttemptId) -> Result<bool> {
        let mut taken: Vec<(&dyn Sink, &OutputSlot, SealedData)> = Vec::new();
        for output in &self.run.outputs {
            let sink = self.driver.boundary.sinks.of(&output.slot)?;
            let staging = self.outputs.iter().find(|open| open.staging.slot == output.slot);
            let Some(staging) = staging.map(|open| &open.staging.id) else {
                return Err(Error::new(ErrorKind::Internal, "an output has no staging place"));
            };
            if let Some(data) = sink.take_over(&output.slot, staging, maker)? {
                taken.push((sink, output, data));
                continue;
            }
            // A part is of no use: the task makes all of it again.
            for (sink, output, data) in taken {
                let owner = Some((data.slot.clone(), staging.clone()));
                sink.discard(&Staged { place: data.staged, owner })?;
                sink.stage(&data.slot, self.manner(output), staging)?;
            }
            return Ok(false);
        }
        self.taken = taken.into_iter().map(|(_, _, data)| data).collect();
        Ok(true)
    }
}
