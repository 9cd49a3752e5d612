//! Settles what attempts left open: fences them, rolls forward what was decided, records how they ended.

use crate::boundary::{Boundary, Options};
use crate::clock::Stopwatch;
use crate::driver::{Driver, Pause};
use crate::holder::life_of;
use crate::process::{Liveness, channel};
use refrain_core::{AttemptFilter, Error, Generation, Goal, Key, Outcome, Result, TaskName, Want, Window};
use std::collections::BTreeSet;

/// What became of one key.
#[derive(Debug)]
pub struct Recovered {
    /// The key.
    pub key: Key,
    /// What was found.
    pub finding: Finding,
}

/// What recovery found.
#[derive(Debug)]
pub enum Finding {
    /// The key is published: what was begun is finished.
    Published,
    /// Nothing of the attempts was published, and nothing will be.
    NothingPublished,
    /// Nothing of the attempts was published, and nothing will be; this earlier version stands.
    Standing(Generation),
    /// An attempt still works on it: nothing was touched.
    Running(String),
    /// It could not be settled; the window tells what of it stands.
    Failed(Error, Window),
}

impl Boundary {
    /// Settles every attempt whose end is not known, of one task or of all. An attempt that still runs is left
    /// alone.
    ///
    /// # Crash safety
    /// Each key is settled by the steps of any attempt; dying inside leaves one more attempt to settle.
    pub fn recover(&self, task: Option<&TaskName>) -> Result<Vec<Recovered>> {
        let filter = AttemptFilter { task: task.cloned(), unfinished: true, ..AttemptFilter::default() };
        let mut keys: BTreeSet<Key> = self.store.attempts(&filter)?.into_iter().map(|record| record.key).collect();
        self.store.for_each_key(task, &mut |summary| {
            if summary.lease.is_some() {
                keys.insert(summary.key);
            }
            Ok(())
        })?;
        Ok(keys
            .into_iter()
            .map(|key| {
                let finding =
                    self.recover_key(&key).unwrap_or_else(|error| Finding::Failed(error, Window::NothingPublished));
                Recovered { key, finding }
            })
            .collect())
    }

    fn recover_key(&self, key: &Key) -> Result<Finding> {
        if let Some(lease) = self.store.key(key)?.and_then(|state| state.lease) {
            let life = life_of(&lease);
            if life == Liveness::Alive || (life == Liveness::Unknowable && !lease.expired(&self.store.now()?)) {
                return Ok(Finding::Running(crate::conclude::describe(self, key, &lease)));
            }
        }
        let plan = self.bare_plan(key)?;
        let mut driver = Driver::new(self, plan, Options::default(), Goal::Settle, Want::Continue, Stopwatch::start());
        let (sender, receiver) = channel();
        if let Pause::Execute(_) = driver.drive(&sender, &receiver) {
            driver.fail(Error::new(refrain_core::ErrorKind::Internal, "recovery was asked to run the task").into());
        }
        let conclusion = driver.into_conclusion();
        let begun = self.store.key(key)?.and_then(|state| state.run).map(|run| run.generation);
        Ok(match (conclusion.report.outcome, conclusion.error) {
            (Outcome::Published | Outcome::AlreadyPublished, _) if conclusion.report.generation < begun => {
                Finding::Standing(conclusion.report.generation.unwrap_or_default())
            }
            (Outcome::Published | Outcome::AlreadyPublished, _) => Finding::Published,
            (_, None) => Finding::NothingPublished,
            // Somebody took the lease since the look at it.
            (Outcome::Held | Outcome::Fenced, _) => Finding::Running("another attempt".to_owned()),
            (_, Some(error)) => Finding::Failed(error, conclusion.report.window),
        })
    }
}
