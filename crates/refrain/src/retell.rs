//! What became of an attempt, beyond its own record: for people who read the log.

use crate::boundary::Boundary;
use crate::holder::life_of;
use crate::lookup::Place;
use crate::process::Liveness;
use crate::settle::WITHOUT_A_WORD;
use refrain_core::{AttemptRecord, KeyState, Outcome, Result, Window};

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retold {
    /// Whether it works on its key right now, as far as can be seen.
    pub running: bool,
    /// Whether its end is known from another attempt: the time of its ending is when that found out.
    pub found_out: bool,
    /// Where what it published can be read: nothing if it published nothing, or its version is kept no longer.
    pub places: Vec<Place>,
    /// The command that helps, if the key waits for one and no later attempt changed that.
    pub next: Option<String>,
}

impl Boundary {
    /// Tells what became of an attempt. Reads the key and, if it published, its sinks.
    pub fn retell(&self, record: &AttemptRecord) -> Result<Retold> {
        let state = self.store.key(&record.key)?;
        let running = self.is_running(record, state.as_ref())?;
        let newest = state.as_ref().and_then(|state| state.last_attempt.as_ref());
        let is_newest = newest.is_some_and(|newest| newest.attempt == record.attempt);
        let published = record.ending.as_ref().is_some_and(|ending| ending.outcome == Outcome::Published);
        let places = match record.generation.filter(|_| published) {
            // A version that is not kept has no place, which is no failure of the one who asks.
            Some(version) => self.paths_of_key(&record.key, None, Some(version)).unwrap_or_default().found,
            None => Vec::new(),
        };
        let next = is_newest.then(|| self.next_command(record, running)).flatten();
        let message = record.ending.as_ref().and_then(|ending| ending.message.as_ref());
        let found_out = message.is_some_and(|message| message.starts_with(WITHOUT_A_WORD));
        Ok(Retold { running, found_out, places, next })
    }

    fn is_running(&self, record: &AttemptRecord, state: Option<&KeyState>) -> Result<bool> {
        let lease = state.and_then(|state| state.lease.as_ref()).filter(|lease| lease.attempt == record.attempt);
        Ok(match lease {
            Some(lease) => life_of(lease) != Liveness::Dead && !lease.expired(&self.store.now()?),
            None => false,
        })
    }

    fn next_command(&self, record: &AttemptRecord, running: bool) -> Option<String> {
        let run = format!("refrain run {}{}", record.key.task, self.flag_of(&record.key));
        let ending = record.ending.as_ref();
        match ending.map(|ending| ending.outcome) {
            Some(Outcome::Recovered) if ending.is_some_and(|ending| ending.window == Window::Published) => None,
            _ if running => Some(format!("{run} --wait")),
            None | Some(Outcome::Unknown) => Some(format!("refrain recover {}", record.key.task)),
            Some(Outcome::Published | Outcome::AlreadyPublished | Outcome::Superseded) => None,
            Some(_) => Some(run),
        }
    }
}
