//! What the caller may say about a file and about the table that it goes into.

use std::collections::BTreeMap;

/// How a file is read. The default fits files that say it all themselves.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The text that stands for NULL in CSV and TSV when it is not quoted; by default an empty field.
    pub null: Option<String>,
    /// What stands between the fields of CSV and TSV: one ASCII character; by default a comma, a tab.
    pub delimiter: Option<char>,
    /// What the target's columns take, for those that are named; of no consequence to CSV and TSV.
    pub shapes: BTreeMap<String, Shape>,
}

impl Options {
    pub(crate) fn shape(&self, column: &str) -> Shape {
        self.shapes.get(column).copied().unwrap_or_default()
    }
}

/// What the target's column takes, where that decides how a value is spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Not known, or a type that is not among the others. Lists of Parquet and Arrow become array literals when their elements are
    /// simple values; what else is nested becomes JSON.
    #[default]
    Any,
    /// A type of text (`typcategory = 'S'`): binary values that are UTF-8 are written as they are.
    Text,
    /// `json` or `jsonb`: a string of JSON Lines keeps its quotes, lists are JSON. A column of strings in Parquet or Arrow is taken to
    /// hold JSON already, for that is how it is stored there.
    Json,
    /// An array (`typcategory = 'A'`): lists are array literals, at any depth.
    Array,
}
