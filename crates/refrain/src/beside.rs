//! What would be published beside something that the key published before, instead of in its place; and slots that nobody
//! reaches any more (docs/decisions/0019-declarations-that-change.md).

use crate::boundary::Boundary;
use crate::peek::partition_flag;
use crate::plan::Plan;
use refrain_core::{
    Adopt, AttemptFilter, AttemptRecord, Error, Key, KeyState, Outcome, Result, RunRecord, SlotAddress, Window,
};

impl Boundary {
    /// Refuses outputs that leave standing beside them what the key published before, as it was declared then.
    pub(crate) fn refuse_beside(&self, plan: &Plan, adopt: Adopt) -> Result<()> {
        let outputs = plan.slots();
        outputs.iter().try_for_each(|output| {
            let sink = self.sinks.of(&output.slot)?;
            let named = |error: Error| error.within(format!("output `{}`", output.name));
            sink.supersede(&plan.key, output, &outputs, adopt).map_err(named)
        })
    }

    /// Refuses to add to what stands there when the store remembers a publication of which no head tells. `anchor`: whether
    /// the head of the first output shows it.
    pub(crate) fn refuse_lost_heads(&self, plan: &Plan, state: Option<&KeyState>, anchor: bool) -> Result<()> {
        let Some(run) = state.and_then(|state| state.run.as_ref()) else { return Ok(()) };
        for (index, output) in plan.slots().iter().enumerate() {
            let sink = self.sinks.of(&output.slot)?;
            let known = if anchor { index > 0 && run.slots().any(|slot| *slot == output.slot) } else { true };
            if !known || !sink.rests_on_head(&output.slot, output.manner.as_deref()) {
                continue;
            }
            let head = sink.read(&output.slot)?;
            if head.is_some_and(|head| head.publication_of(&plan.key).is_some()) {
                continue;
            }
            if self.attempts_for(&plan.key, run)?.iter().any(|attempt| has_published(attempt, index == 0)) {
                return Err(Error::refused(format!(
                    "the head of {} is lost: this home's state remembers that version {} of `{}` was published (run {}), so its \
                     rows may stand there already",
                    self.locate(&output.slot),
                    run.generation,
                    plan.key,
                    run.run_id
                ))
                .hint(format!(
                    "put the head back from a backup; or look for its rows, let them go, and say so: refrain run {}{} --adopt",
                    plan.key.task,
                    partition_flag(plan)
                )));
            }
        }
        Ok(())
    }

    /// Whether a slot of a run may be left alone because nobody reaches it any more: nothing was ever published there by the
    /// run, or a person answers for it.
    pub(crate) fn is_forgone(&self, key: &Key, run: &RunRecord, slot: &SlotAddress, adopt: bool) -> Result<bool> {
        if self.sinks.of(slot)?.reaches(slot)? {
            return Ok(false);
        }
        let attempts = self.attempts_for(key, run)?;
        Ok(adopt || (!attempts.is_empty() && attempts.iter().all(has_published_nothing)))
    }

    /// Whether the run was published and somebody else's publication has taken its place.
    pub(crate) fn was_replaced(&self, key: &Key, run: &RunRecord) -> Result<bool> {
        let is_over = |attempt: &AttemptRecord| {
            let outcome = attempt.ending.as_ref().map(|ending| ending.outcome);
            matches!(outcome, Some(Outcome::Published | Outcome::Superseded))
        };
        Ok(self.attempts_for(key, run)?.iter().any(is_over))
    }

    fn attempts_for(&self, key: &Key, run: &RunRecord) -> Result<Vec<AttemptRecord>> {
        let filter = AttemptFilter {
            task: Some(key.task.clone()),
            partition: Some(key.partition.clone()),
            ..AttemptFilter::default()
        };
        let mut attempts = self.store.attempts(&filter)?;
        attempts.retain(|attempt| attempt.run == Some(run.run_id));
        Ok(attempts)
    }
}

/// Whether the attempt published all outputs, or the first one at least where it is about that.
fn has_published(attempt: &AttemptRecord, first: bool) -> bool {
    match attempt.ending.as_ref().map(|ending| ending.outcome) {
        Some(Outcome::Published) => true,
        Some(Outcome::Decided) => first,
        _ => false,
    }
}

/// The attempt told its end, and will not commit after it.
fn has_published_nothing(attempt: &AttemptRecord) -> bool {
    attempt.ending.as_ref().is_some_and(|ending| ending.is_settled() && ending.window == Window::NothingPublished)
}
