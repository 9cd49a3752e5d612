//! The search: breadth first, exhaustive, states known by a 64-bit fingerprint.

use super::hash::{FingerprintSet, fingerprint};
use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;

/// A world that can be explored.
pub(super) trait Model {
    /// One state: everything that decides what can happen next, and nothing else.
    type State: Clone + Hash;
    /// Names one step.
    type Label: Copy;

    /// Where everything begins.
    fn initial(&mut self) -> Self::State;

    /// Every step that may be taken next.
    fn expand(&mut self, state: &Self::State, steps: &mut Vec<Step<Self::State, Self::Label>>);

    /// The step in words, with the rule that it follows.
    fn describe(&self, label: Self::Label) -> String;
}

/// One step, and what it broke.
#[derive(Clone, Debug)]
pub(super) struct Step<State, Label> {
    /// The step's name.
    pub(super) label: Label,
    /// The state after it.
    pub(super) state: State,
    /// The property that it broke, if any.
    pub(super) violation: Option<Violation>,
}

/// A property that does not hold, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property's name.
    pub property: super::Property,
    /// What was seen.
    pub what: String,
}

/// The end of a search.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Distinct states.
    pub states: usize,
    /// Steps taken, those to known states included.
    pub steps: usize,
    /// Length of the longest of the shortest ways.
    pub depth: usize,
    /// Whether the search stopped at its limit before it was exhausted.
    pub truncated: bool,
    /// The first property found broken, with a shortest way to it.
    pub found: Option<Counterexample>,
}

/// A shortest way to a broken property.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What broke.
    pub violation: Violation,
    /// The steps, in words.
    pub trace: Vec<String>,
}

/// Explores `model` until nothing new is found, a property breaks, or `limit` states are known.
pub(super) fn search<M: Model>(model: &mut M, limit: usize) -> Outcome {
    let mut known = FingerprintSet::default();
    let mut ways: Vec<(u32, Option<M::Label>)> = vec![(0, None)];
    let mut frontier = VecDeque::new();
    let mut outcome = Outcome { states: 1, steps: 0, depth: 0, truncated: false, found: None };
    let initial = model.initial();
    known.insert(fingerprint(&initial));
    frontier.push_back((0_u32, 0_usize, initial));
    let mut steps = Vec::new();
    while let Some((index, depth, state)) = frontier.pop_front() {
        outcome.depth = outcome.depth.max(depth);
        model.expand(&state, &mut steps);
        for step in steps.drain(..) {
            outcome.steps += 1;
            if let Some(violation) = step.violation {
                let mut trace = way_to(model, &ways, index);
                trace.push(model.describe(step.label));
                outcome.states = known.len();
                outcome.found = Some(Counterexample { violation, trace });
                return outcome;
            }
            if known.insert(fingerprint(&step.state)) {
                frontier.push_back((u32::try_from(ways.len()).unwrap_or(u32::MAX), depth + 1, step.state));
                ways.push((index, Some(step.label)));
            }
        }
        if known.len() > limit {
            outcome.truncated = true;
            break;
        }
    }
    outcome.states = known.len();
    outcome
}

fn way_to<M: Model>(model: &M, ways: &[(u32, Option<M::Label>)], mut index: u32) -> Vec<String> {
    let mut trace = Vec::new();
    while let Some((parent, Some(label))) = ways.get(index as usize).copied() {
        trace.push(model.describe(label));
        index = parent;
    }
    trace.reverse();
    trace
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} broken after {} steps: {}", self.violation.property, self.trace.len(), self.violation.what)?;
        for (number, step) in self.trace.iter().enumerate() {
            writeln!(f, "  {:2}. {step}", number + 1)?;
        }
        Ok(())
    }
}
