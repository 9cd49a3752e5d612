//! How a table is published: pinned with the run, and remembered by what is staged.

use super::statements::Parameters;
use refrain_core::{Error, ErrorKind, Result};
use refrain_postgres::Relation;
use serde::{Deserialize, Serialize};

/// Everything that is declared of one table, filled in for one partition. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "as many independent wishes")]
pub struct Manner {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// What a publication does with the rows that are there.
    pub mode: Mode,
    /// Which rows are replaced; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<Condition>,
    /// Where the rows come from.
    pub source: Source,
    /// The columns that name a row, for a merge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Columns that a merge writes and never compares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// What a merge sets columns to, by column, as SQL over `old` (the table's row) and `new` (the staged one).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, String)>,
    /// Whether another generation may apply again what `set` computes from the table's row.
    #[serde(default)]
    pub set_again: bool,
    /// Of staged rows with one key the one that comes last in this order wins: columns, each with a trailing ` desc` or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order_by: Vec<String>,
    /// Whether a merge removes the rows of the scope that are not staged.
    #[serde(default)]
    pub delete_missing: bool,
    /// The column that names the run of each row, so that another generation can remove them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_column: Option<String>,
    /// Columns whose every present value must be staged again, so that a part never replaces the whole (DATA-05).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covers: Vec<String>,
    /// Whether a replacement may be much smaller than what it replaces.
    #[serde(default)]
    pub allow_shrink: bool,
    /// Whether the whole table is emptied by TRUNCATE: fast, and readers with an older snapshot see nothing (PGX-07).
    #[serde(default)]
    pub truncate: bool,
}

/// What a publication does with the rows that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The rows of the scope are replaced.
    Replace,
    /// The partition of the scope is replaced by another table.
    SwapPartition,
    /// Rows are inserted or updated by their key.
    Merge,
    /// Rows are added, once.
    Append,
    /// All rows are replaced.
    Table,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 5] = [Self::Replace, Self::SwapPartition, Self::Merge, Self::Append, Self::Table];

    /// The mode's name in `refrain.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::SwapPartition => "swap-partition",
            Self::Merge => "merge",
            Self::Append => "append",
            Self::Table => "table",
        }
    }
}

/// One condition of a scope: a column beside a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The column's own name.
    pub column: String,
    /// How it compares.
    pub comparison: Comparison,
    /// The value, as text.
    pub value: String,
}

/// How a column compares with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// Equal.
    #[serde(rename = "=")]
    Equal,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Less or equal.
    #[serde(rename = "<=")]
    AtMost,
    /// Greater.
    #[serde(rename = ">")]
    Greater,
    /// Greater or equal.
    #[serde(rename = ">=")]
    AtLeast,
}

impl Comparison {
    /// The operator.
    pub fn operator(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }
}

/// Where the rows come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A file that the task writes and Refrain loads.
    File {
        /// Its base name.
        name: String,
        /// csv, tsv, jsonl, parquet or arrow.
        format: String,
        /// The text that stands for NULL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        null: Option<String>,
    },
    /// SQL that Refrain runs: `"REFRAIN_STAGING"` in it is the staging table.
    Sql {
        /// The file, for messages.
        file: String,
        /// Its text.
        text: String,
        /// The values of the parameters that it uses.
        #[serde(default, skip_serializing_if = "Parameters::is_empty")]
        values: Parameters,
    },
    /// The task itself writes into the staging table.
    Direct,
}

impl Manner {
    /// Reads what [`write`](Self::write) wrote.
    pub fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|error| Error::new(ErrorKind::Corrupt, "cannot read how a table is published").because(error))
    }

    /// The manner as it is pinned.
    pub fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write how a table is published").because(error))
    }

    /// The table.
    pub fn relation(&self) -> Relation {
        Relation::new(&self.schema, &self.table)
    }

    /// Whether a publication leaves nothing else in its scope.
    pub(super) fn owns_scope(&self) -> bool {
        match self.mode {
            Mode::Replace | Mode::Table | Mode::SwapPartition => true,
            Mode::Merge => self.delete_missing,
            Mode::Append => false,
        }
    }

    /// The columns that have one value in the whole scope.
    pub(super) fn fixed(&self) -> impl Iterator<Item = &Condition> {
        self.scope.iter().filter(|condition| condition.comparison == Comparison::Equal)
    }
}
