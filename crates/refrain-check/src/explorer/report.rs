//! The result of an exploration, for people.

use super::model::Explorer;
use super::search::search;
use super::{Config, Outcome, Probe};
use std::fmt;

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The configuration's name.
    pub name: String,
    /// How the search ended.
    pub outcome: Outcome,
    /// What was reached at least once.
    pub probes: Vec<Probe>,
}

/// Explores a configuration to its end, or to the first broken property.
pub fn explore(config: Config) -> Report {
    let (name, limit) = (config.name.clone(), config.limit);
    let mut explorer = Explorer::new(config);
    let outcome = search(&mut explorer, limit);
    Report { name, outcome, probes: explorer.probes() }
}

impl Report {
    /// Whether every state was visited and nothing broke.
    pub fn holds(&self) -> bool {
        self.outcome.found.is_none() && !self.outcome.truncated
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { states, steps, depth, truncated, found } = &self.outcome;
        let end = match (found, truncated) {
            (Some(_), _) => "broken",
            (None, true) => "not exhausted",
            (None, false) => "holds",
        };
        write!(f, "{}: {end}, {states} states, {steps} steps, depth {depth}", self.name)?;
        match found {
            Some(found) => write!(f, "\n{found}"),
            None => Ok(()),
        }
    }
}
