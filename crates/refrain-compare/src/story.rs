//! Says what the differing values of a column look like.
//!
//! Every hypothesis starts out possible and is dropped by the first pair of values that speaks against it, so that what
//! remains holds for *all* pairs; the most telling one that remains is told.

mod hypothesis;
mod pairs;
mod shapes;
mod words;

use crate::options::Known;
use crate::report::{Cause, Example};
use hypothesis::{Scope, Seen};
use pairs::Texts;
use std::borrow::Cow;

/// Longer values are cut in examples.
const EXAMPLE_CHARS: usize = 80;

/// Longer values are not looked into.
const LOOK_BYTES: usize = 64 << 10;

/// Pairs that are looked at in any case.
const ALL_PAIRS: u64 = 100_000;

/// Of more than that, one in so many.
const ONE_IN: u64 = 64;

/// Pairs after which parts of the values are not looked at any more when the whole values tell enough.
const PART_PAIRS: u64 = 64;

/// What is known beside the values themselves.
#[derive(Clone, Copy)]
pub(crate) struct Background<'a> {
    pub(crate) known: &'a [Known],
    pub(crate) host_name: Option<&'a str>,
    pub(crate) examples: usize,
}

/// Collects the pairs of differing values of one column.
pub(crate) struct Story<'a> {
    background: Background<'a>,
    pairs: u64,
    whole: Seen,
    /// The same for the words in which the values differ, as long as every pair has such words.
    part: Option<Seen>,
    examples: Vec<Example>,
}

/// What a story comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) cause: Option<Cause>,
    /// What follows "column `x` differs in n of m rows: ".
    pub(crate) phrase: String,
    pub(crate) hint: String,
    pub(crate) largest: Option<f64>,
}

impl<'a> Story<'a> {
    pub(crate) fn new(background: Background<'a>) -> Self {
        let known = background.known.len();
        Self { background, pairs: 0, whole: Seen::new(known), part: Some(Seen::new(0)), examples: vec![] }
    }

    /// Whether the next pair is worth being looked at: of very many, numbers are all looked at, for the largest
    /// difference is told, and one in some of the others.
    pub(crate) fn wants_next(&self, number: u64) -> bool {
        self.pairs < ALL_PAIRS || number.is_multiple_of(ONE_IN) || self.whole.are_numbers()
    }

    /// Takes a pair of values that differ; `None` is a null.
    pub(crate) fn add(&mut self, left: Option<&[u8]>, right: Option<&[u8]>) {
        self.pairs += 1;
        let (left, right) = (left.map(look), right.map(look));
        if self.examples.len() < self.background.examples {
            let shown = |text: &Option<Cow<'_, str>>| Some(text.as_deref().map_or_else(|| "NULL".to_owned(), cut));
            self.examples.push(Example { left: shown(&left), right: shown(&right) });
        }
        let texts = Texts { left: left.as_deref(), right: right.as_deref() };
        self.whole.add(texts, &self.background);
        if self.pairs > PART_PAIRS && self.whole.is_telling() {
            self.part = None;
            return;
        }
        let words = texts.both().and_then(|(left, right)| pairs::differing_words(left, right));
        self.part = match (self.part.take(), words) {
            (Some(mut part), Some((left, right))) => {
                part.add(Texts { left: Some(left), right: Some(right) }, &self.background);
                part.is_open().then_some(part)
            }
            _ => None,
        };
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.pairs
    }

    pub(crate) fn examples(&self) -> &[Example] {
        &self.examples
    }

    /// What the values look like; `column` is the column's name, which may tell more, `differing` of `total` rows differ.
    pub(crate) fn tell(&self, column: &str, (differing, total): (u64, u64)) -> Option<Told> {
        let scope = Scope { column, pairs: self.pairs, differing, total };
        let whole = self.whole.best(&scope, &self.background);
        if let Some(found) = whole.filter(|found| !found.is_vague()) {
            return Some(words::tell(found, &self.whole, &self.background, false));
        }
        let part = self.part.as_ref().filter(|_| self.pairs > 0);
        let found = part.and_then(|part| part.best(&scope, &self.background).map(|found| (found, part)));
        match (found, whole) {
            (Some((found, seen)), _) => Some(words::tell(found, seen, &self.background, true)),
            (None, Some(found)) => Some(words::tell(found, &self.whole, &self.background, false)),
            (None, None) => None,
        }
    }
}

/// A value as text, not more of it than is worth looking at.
fn look(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LOOK_BYTES)])
}

/// A value as it is shown.
pub(crate) fn cut(text: &str) -> String {
    let clean = |c: char| if c.is_control() { c.escape_default().collect::<String>() } else { c.to_string() };
    let mut shown: String = text.chars().take(EXAMPLE_CHARS).map(clean).collect();
    if text.chars().nth(EXAMPLE_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests;
