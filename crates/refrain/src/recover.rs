//! Settles what attempts left open: fences them, rolls forward what was decided, records how they ended, and publishes
//! what they had sealed.

use crate::attempt::Work;
use crate::boundary::{Boundary, Options};
use crate::clock::Stopwatch;
use crate::driver::{Driver, Pause};
use crate::holder::life_of;
use crate::peek::{Peek, peek};
use crate::plan::Plan;
use crate::process::{Liveness, channel};
use crate::report::{Conclusion, exit_code, outcome_of};
use crate::sealed::fitting;
use refrain_core::{
    AttemptFilter, AttemptId, Error, ErrorKind, Generation, Goal, Key, KeySummary, Outcome, Result, TaskName, Want,
    Window,
};
use std::collections::BTreeMap;

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
    /// What this attempt had sealed is published; the command was not run.
    Sealed(AttemptId),
    /// Nothing of the attempts was published, and nothing will be.
    NothingPublished,
    /// It was published, and what another key published has taken its place.
    Replaced,
    /// Nothing of the attempts was published, and nothing will be; this earlier version stands.
    Standing(Generation),
    /// Nothing of the attempts was published. What this one sealed stays there, and only a run can publish it, or replace it.
    Kept {
        /// The attempt that sealed it.
        maker: AttemptId,
        /// Why it was not published now.
        why: String,
        /// The command for it.
        next: String,
    },
    /// Nothing of the attempts was published. What this one sealed stays there, and could not be published now.
    Refused {
        /// The attempt that sealed it.
        maker: AttemptId,
        /// Why not.
        error: Error,
    },
    /// An attempt still works on it: nothing was touched.
    Running(String),
    /// It could not be settled; the window tells what of it stands.
    Failed(Error, Window),
}

impl Finding {
    /// The exit code of a call that found this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_, Window::Published) => exit_code::DECIDED,
            Self::Failed(_, Window::Unknown) => exit_code::UNKNOWN,
            Self::Failed(error, Window::NothingPublished) | Self::Refused { error, .. } => outcome_of(error.kind).1,
            _ => exit_code::PUBLISHED,
        }
    }
}

impl Boundary {
    /// Settles every attempt whose end is not known, of one task or of all, and publishes without the command what was
    /// sealed and not published, where the sinks keep it. An attempt that still runs is left alone.
    ///
    /// `go_on` is asked before each key; what is begun is finished.
    ///
    /// # Crash safety
    /// Each key is settled by the steps of any attempt; dying inside leaves one more attempt to settle.
    pub fn recover(&self, task: Option<&TaskName>, go_on: impl Fn() -> bool) -> Result<Vec<Recovered>> {
        let open = self.open_keys(task)?.into_iter().take_while(|_| go_on());
        let recovered = open.filter_map(|(key, is_open)| {
            let finding = self.recover_key(&key, is_open);
            // What could not be looked at may be published, or not.
            let failed = |error| Some(Finding::Failed(error, Window::Unknown));
            Some(Recovered { finding: finding.unwrap_or_else(failed)?, key })
        });
        Ok(recovered.collect())
    }

    /// The keys with something open, those that cannot be read, and, with `false`, those that may have something sealed.
    fn open_keys(&self, task: Option<&TaskName>) -> Result<BTreeMap<Key, bool>> {
        let unfinished = AttemptFilter { task: task.cloned(), unfinished: true, ..AttemptFilter::default() };
        let (mut keys, mut readable, mut all) = (BTreeMap::new(), Vec::new(), true);
        self.store.for_each_key(task, &mut |summary| {
            all &= !summary.is_unreadable;
            if summary.lease.is_some() || summary.is_unreadable {
                keys.insert(summary.key, true);
                return Ok(());
            }
            if may_be_sealed(&summary) {
                keys.insert(summary.key.clone(), false);
            }
            readable.push(summary.key);
            Ok(())
        })?;
        let mut add = |filter: &AttemptFilter| -> Result<()> {
            keys.extend(self.store.attempts(filter)?.into_iter().map(|record| (record.key, true)));
            Ok(())
        };
        if all {
            add(&unfinished)?;
        } else {
            // One key that cannot be read does not hide the others.
            for Key { task, partition } in readable {
                add(&AttemptFilter { task: Some(task), partition: Some(partition), ..unfinished.clone() })?;
            }
        }
        Ok(keys)
    }

    /// Nothing when there was nothing to do.
    fn recover_key(&self, key: &Key, is_open: bool) -> Result<Option<Finding>> {
        if let Some(lease) = self.store.key(key)?.and_then(|state| state.lease) {
            let life = life_of(&lease);
            if life == Liveness::Alive || (life == Liveness::Unknowable && !lease.expired(&self.store.now()?)) {
                return Ok(Some(Finding::Running(crate::conclude::describe(self, key, &lease))));
            }
        }
        let settled = if is_open { Some(self.settle(key)?) } else { None };
        match settled {
            None | Some(Finding::NothingPublished | Finding::Standing(_)) => Ok(self.publish_sealed(key)?.or(settled)),
            settled => Ok(settled),
        }
    }

    fn settle(&self, key: &Key) -> Result<Finding> {
        let plan = self.bare_plan(key)?;
        let mut driver = Driver::new(self, plan, Options::default(), Goal::Settle, Want::Continue, Stopwatch::start());
        let (sender, receiver) = channel();
        if let Pause::Execute(_) = driver.drive(&sender, &receiver) {
            driver.fail(Error::new(ErrorKind::Internal, "recovery was asked to run the task").into());
        }
        let conclusion = driver.into_conclusion();
        let begun = self.store.key(key)?.and_then(|state| state.run).map(|run| run.generation);
        Ok(match (conclusion.report.outcome, conclusion.error) {
            (Outcome::Published | Outcome::AlreadyPublished, _) if conclusion.report.generation < begun => {
                Finding::Standing(conclusion.report.generation.unwrap_or_default())
            }
            (Outcome::Published | Outcome::AlreadyPublished, _) => Finding::Published,
            (_, None) => match self.store.key(key)?.and_then(|state| state.run) {
                Some(run) if self.was_replaced(key, &run)? => Finding::Replaced,
                _ => Finding::NothingPublished,
            },
            // Somebody took the lease since the look at it.
            (Outcome::Held | Outcome::Fenced, _) => somebody_else(),
            // Only a refusal rests on what the outputs are known to hold.
            (_, Some(error)) => match conclusion.report.window {
                Window::NothingPublished if error.kind != ErrorKind::Refused => Finding::Failed(error, Window::Unknown),
                window => Finding::Failed(error, window),
            },
        })
    }

    /// Publishes what was sealed for a run that is settled, where `run` would do the same; nothing when nothing is.
    fn publish_sealed(&self, key: &Key) -> Result<Option<Finding>> {
        let Some((run, all)) = self.sealed_for(key)? else { return Ok(None) };
        let Some(newest) = all.first().map(|sealed| sealed.maker) else { return Ok(None) };
        let (task, flag) = (&key.task, self.flag_of(key));
        let Some(plan) = self.plan_of(key) else {
            return Ok(Some(Finding::Kept {
                maker: newest,
                why: format!("what the task `{task}` is made from is not in refrain.toml"),
                next: format!("repeat the call that made it: refrain run {task} … -- COMMAND"),
            }));
        };
        let maker = match fitting(&plan, &run, &all) {
            Ok(Some(maker)) => maker,
            Ok(None) => {
                return Ok(Some(Finding::Kept {
                    maker: newest,
                    why: "it was made from something else than a run would be made from now".to_owned(),
                    next: format!("to make it again: refrain run {task}{flag}"),
                }));
            }
            Err(error) => return Ok(Some(Finding::Refused { maker: newest, error })),
        };
        match peek(self, &plan, &Options::default()) {
            Ok(Peek::Go { want: Want::Continue, .. }) => {}
            Ok(_) => return Ok(None),
            Err(error) => return Ok(Some(Finding::Refused { maker, error })),
        }
        let Conclusion { report, error, .. } = self.only_take_over(plan);
        Ok(match (report.outcome, error) {
            (Outcome::Published, _) => Some(Finding::Sealed(report.sealed_by.unwrap_or(maker))),
            (Outcome::AlreadyPublished, _) => Some(Finding::Published),
            (Outcome::Held | Outcome::Fenced | Outcome::Superseded, _) => Some(somebody_else()),
            (_, None) => Some(Finding::Kept {
                maker,
                why: "it is not as it was sealed any more".to_owned(),
                next: format!("to make it again: refrain run {task}{flag}"),
            }),
            (_, Some(error)) if report.window == Window::NothingPublished => Some(Finding::Refused { maker, error }),
            (_, Some(error)) => Some(Finding::Failed(error, report.window)),
        })
    }

    /// An attempt that ends where another one would execute the command.
    fn only_take_over(&self, plan: Plan) -> Conclusion {
        let mut driver = Driver::new(self, plan, Options::default(), Goal::Publish, Want::Continue, Stopwatch::start());
        driver.recover();
        let (sender, receiver) = channel();
        let run = match driver.drive(&sender, &receiver) {
            Pause::End => return driver.into_conclusion(),
            Pause::Execute(run) => run,
        };
        match Work::open(driver, run, sender, receiver).and_then(Work::or_sealed) {
            Ok(work) => work.stand_down(),
            Err(conclusion) => *conclusion,
        }
    }

    /// The plan of a task that is declared, and needs nothing that only the command line tells.
    pub(crate) fn plan_of(&self, key: &Key) -> Option<Plan> {
        let task = self.home.config.declared(&key.task)?;
        let partition = task.partitions.partition_of_key(&key.partition).ok()?;
        Plan::new(task, &partition, &self.sinks).ok()
    }
}

/// Whether the newest attempt of a key may have sealed what is not published.
fn may_be_sealed(summary: &KeySummary) -> bool {
    let ending = summary.last_attempt.as_ref().and_then(|attempt| attempt.ending.as_ref());
    // After a recovery an earlier version may stand.
    let is_published =
        |ending: &refrain_core::Ending| ending.window == Window::Published && ending.outcome != Outcome::Recovered;
    summary.run.is_some() && ending.is_some_and(|ending| !is_published(ending))
}

fn somebody_else() -> Finding {
    Finding::Running("another attempt".to_owned())
}
