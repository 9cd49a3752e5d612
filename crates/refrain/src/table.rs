//! A table that a task publishes, as it is declared.

use crate::task::{OutputSpec, Task};
use refrain_core::{Error, ErrorKind, Partition, PartitionScheme, Result, Template};
use refrain_postgres::{Link, Relation, quote_identifier, quote_literal};
use refrain_sink::postgres::{Comparison, Manner, Mode, Parameters, ScopeCondition, Source, read_sql};
use std::fmt::{self, Write};

/// A declared table.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// How its database is reached.
    pub link: Link,
    /// The table.
    pub relation: Relation,
    /// What a publication does with the rows that are there.
    pub mode: Mode,
    /// Which rows one partition has; all conditions must hold.
    pub scope: Vec<ScopeSpec>,
    /// Where the rows come from.
    pub source: SourceSpec,
    /// The rest, as it is for every partition.
    pub details: Details,
}

/// What is the same for every partition.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "as many independent wishes")]
pub struct Details {
    /// The columns that name a row, for a merge.
    pub key: Vec<String>,
    /// Columns that a merge writes and never compares.
    pub exclude: Vec<String>,
    /// What a merge sets columns to, by column, as SQL over `old` and `new`.
    pub set: Vec<(String, String)>,
    /// Whether another generation may apply again what `set` computes from the table's row.
    pub set_again: bool,
    /// Which of staged rows with one key wins: the last in this order.
    pub order_by: Vec<String>,
    /// Whether a merge removes the rows of the scope that are not staged.
    pub delete_missing: bool,
    /// The column that names the run of each row.
    pub run_column: Option<String>,
    /// Columns whose every present value must be staged again.
    pub covers: Vec<String>,
    /// Whether a replacement may be much smaller than what it replaces.
    pub allow_shrink: bool,
    /// Whether the whole table is emptied by TRUNCATE.
    pub truncate: bool,
}

/// One condition of the scope.
#[derive(Clone, Debug)]
pub struct ScopeSpec {
    /// The column's own name.
    pub column: String,
    /// How it compares.
    pub comparison: Comparison,
    /// The value for one partition.
    pub value: ScopeValue,
}

/// A value of the scope.
#[derive(Clone, Debug)]
pub enum ScopeValue {
    /// Text with placeholders.
    Text(Template),
    /// The first instant of the interval.
    Start,
    /// The first instant after the interval.
    End,
}

/// Where rows come from.
#[derive(Clone, Debug)]
pub enum SourceSpec {
    /// A file that the task writes.
    File {
        /// Its base name.
        name: String,
        /// Its format's name.
        format: String,
        /// The text that stands for NULL.
        null: Option<String>,
    },
    /// A file of SQL.
    Sql {
        /// Its path, as declared.
        file: String,
    },
    /// The task writes into the staging table itself.
    Direct,
}

impl TableSpec {
    /// Where the rows are published, as a location with placeholders: for messages, and to tell partitions apart.
    ///
    /// # Errors
    /// `invalid` when a value has a placeholder that nobody knows.
    pub(crate) fn location(&self, scheme: &PartitionScheme) -> Result<Template> {
        let plain = |text: String| text.replace('{', "{{").replace('}', "}}");
        let mut text = plain(format!("{} {}", self.link, self.relation));
        for (index, condition) in self.scope.iter().enumerate() {
            let joint = if index == 0 { "where" } else { "and" };
            let value = match &condition.value {
                ScopeValue::Text(template) => template.as_str(),
                ScopeValue::Start | ScopeValue::End => "{date}",
            };
            let (column, operator) = (plain(quote_identifier(&condition.column)), condition.comparison.operator());
            let _infallible = write!(text, " {joint} {column} {operator} {value}");
        }
        if self.has_slot_for_each_key() && *scheme != PartitionScheme::None {
            text.push_str(" key {partition}");
        }
        text.parse()
    }

    /// The base name of the file that the task writes, if that is how the rows come.
    pub fn file(&self) -> Option<&str> {
        match &self.source {
            SourceSpec::File { name, .. } => Some(name),
            SourceSpec::Sql { .. } | SourceSpec::Direct => None,
        }
    }

    /// Refuses what is asked of an output and a table of this kind cannot give.
    pub(crate) fn refuse_unfit(&self, spec: &OutputSpec) -> Result<()> {
        if spec.stdout && self.file().is_none() {
            return Err(Error::invalid("the standard output is a file, and no file is loaded into this table")
                .hint("name its format by the name that it would have: from = \"rows.csv\""));
        }
        if spec.check.is_some() && matches!(self.source, SourceSpec::Sql { .. }) {
            return Err(Error::invalid("a check would run before the SQL, which makes the rows when they are sealed")
                .hint(
                    "leave `check` away and let the SQL fail where something is wrong: DO $$ … RAISE EXCEPTION … $$",
                ));
        }
        Ok(())
    }

    fn has_slot_for_each_key(&self) -> bool {
        match self.mode {
            Mode::Append => true,
            Mode::Merge => !self.details.delete_missing,
            Mode::Replace | Mode::SwapPartition | Mode::Table => false,
        }
    }

    /// How one partition is published.
    ///
    /// # Errors
    /// `invalid` when a value cannot be filled in, or the SQL cannot be read.
    pub(crate) fn manner(&self, task: &Task, partition: &Partition) -> Result<Manner> {
        let scope = self.scope.iter().map(|condition| {
            Ok(ScopeCondition {
                column: condition.column.clone(),
                comparison: condition.comparison,
                value: condition.value.of(task, partition)?,
            })
        });
        let details = self.details.clone();
        Ok(Manner {
            schema: self.relation.schema.clone(),
            table: self.relation.name.clone(),
            mode: self.mode,
            scope: scope.collect::<Result<Vec<_>>>()?,
            source: self.source(task, partition)?,
            key: details.key,
            exclude: details.exclude,
            set: details.set,
            set_again: details.set_again,
            order_by: details.order_by,
            delete_missing: details.delete_missing,
            run_column: details.run_column,
            covers: details.covers,
            allow_shrink: details.allow_shrink,
            truncate: details.truncate,
        })
    }

    fn source(&self, task: &Task, partition: &Partition) -> Result<Source> {
        Ok(match &self.source {
            SourceSpec::Direct => Source::Direct,
            SourceSpec::File { name, format, null } => {
                Source::File { name: name.clone(), format: format.clone(), null: null.clone() }
            }
            SourceSpec::Sql { file } => {
                let path = task.base.join(file);
                let text = std::fs::read_to_string(&path).map_err(|error| {
                    Error::invalid(format!("the SQL of `{}` cannot be read: {}", task.name, path.display()))
                        .because(error)
                })?;
                let values = read_sql(file, &text, &sql_parameters(task, partition))?;
                Source::Sql { file: file.clone(), text, values }
            }
        })
    }
}

impl fmt::Display for ScopeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = quote_identifier(&self.column);
        write!(f, "{column} {} ", self.comparison.operator())?;
        match &self.value {
            ScopeValue::Text(template) => f.write_str(&quote_literal(template.as_str())),
            ScopeValue::Start => f.write_str("{date_start}"),
            ScopeValue::End => f.write_str("{date_end}"),
        }
    }
}

/// What SQL may use as `:name`: the variables of a command, lower case and without `REFRAIN_`, that are the same for every
/// attempt of the partition.
fn sql_parameters(task: &Task, partition: &Partition) -> Parameters {
    let mut values =
        Parameters::from([("task".to_owned(), task.name.to_string()), ("partition".to_owned(), partition.key.clone())]);
    if let Some(interval) = &partition.interval {
        values.insert("date".to_owned(), interval.key.clone());
        values.insert("date_start".to_owned(), interval.start.to_string());
        values.insert("date_end".to_owned(), interval.end.to_string());
    }
    // In the case of the parameter's own name, as in `{param.NAME}`.
    let word = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    values.extend(task.params.iter().map(|(name, value)| (format!("param_{}", word(name)), value.clone())));
    values
}

impl ScopeValue {
    fn of(&self, task: &Task, partition: &Partition) -> Result<String> {
        let instant = |which: fn(&refrain_core::Interval) -> jiff::Timestamp| {
            let interval = partition.interval.as_ref();
            interval.map(|interval| which(interval).to_string()).ok_or_else(|| {
                Error::new(ErrorKind::Invalid, "`{date_start}` and `{date_end}` are for partitions that are dates")
            })
        };
        match self {
            Self::Text(template) => template.render(partition, &task.params),
            Self::Start => instant(|interval| interval.start),
            Self::End => instant(|interval| interval.end),
        }
    }
}

/// Reads `dt = {date} and region = 'EU'`.
///
/// # Errors
/// `invalid` when it is no conjunction of comparisons of a column with a value.
pub fn parse_scope(text: &str) -> Result<Vec<ScopeSpec>> {
    let mut scope = Vec::new();
    let mut rest = text.trim();
    loop {
        let (condition, after) = one(rest).ok_or_else(|| unreadable(text))?;
        scope.push(condition?);
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(scope);
        }
        let (word, after) = rest.split_at_checked(3).ok_or_else(|| unreadable(text))?;
        if !word.eq_ignore_ascii_case("and") || !after.starts_with(char::is_whitespace) {
            return Err(unreadable(text));
        }
        rest = after.trim_start();
    }
}

fn unreadable(text: &str) -> Error {
    Error::invalid(format!("`{text}` is no condition that can be bound"))
        .hint("write comparisons of columns with values, joined by `and`: dt = {date} and region = 'EU'; ts >= {date_start} and ts < {date_end}")
}

/// The first comparison, and what follows it.
fn one(text: &str) -> Option<(Result<ScopeSpec>, &str)> {
    let (column, rest) = column(text)?;
    let rest = rest.trim_start();
    let operators = [Comparison::AtLeast, Comparison::AtMost, Comparison::Equal, Comparison::Less, Comparison::Greater];
    let comparison = operators.into_iter().find(|comparison| rest.starts_with(comparison.operator()))?;
    let (value, rest) = value(rest[comparison.operator().len()..].trim_start())?;
    let value = match value.as_str() {
        "{date_start}" => Ok(ScopeValue::Start),
        "{date_end}" => Ok(ScopeValue::End),
        text => text.parse().map(ScopeValue::Text),
    };
    Some((value.map(|value| ScopeSpec { column, comparison, value }), rest))
}

fn column(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return until_quote(quoted, '"');
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), rest))
}

/// A text in quotes, a placeholder, or a word.
fn value(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('\'') {
        return until_quote(quoted, '\'');
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let end = text.strip_prefix('{').and_then(|inner| inner.find('}')).map_or(end, |close| close + 2);
    let (value, rest) = text.split_at_checked(end)?;
    let ended = rest.is_empty() || rest.starts_with(char::is_whitespace);
    (ended && !value.is_empty()).then(|| (value.to_owned(), rest))
}

/// What stands before the closing quote, of which two stand for one, and what follows it.
fn until_quote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once(quote)?;
        found.push_str(before);
        match after.strip_prefix(quote) {
            Some(after) => {
                found.push(quote);
                rest = after;
            }
            None => return Some((found, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ScopeValue, parse_scope};

    fn read(text: &str) -> Vec<(String, &'static str, String)> {
        let value = |value: &ScopeValue| match value {
            ScopeValue::Text(template) => template.as_str().to_owned(),
            ScopeValue::Start => "start".to_owned(),
            ScopeValue::End => "end".to_owned(),
        };
        let scope = parse_scope(text).unwrap();
        scope.iter().map(|it| (it.column.clone(), it.comparison.operator(), value(&it.value))).collect()
    }

    #[test]
    fn a_scope_is_a_conjunction_of_comparisons() {
        let it = |column: &str, operator, value: &str| (column.to_owned(), operator, value.to_owned());
        assert_eq!(read("dt = {date}"), [it("dt", "=", "{date}")]);
        assert_eq!(
            read("TS>={date_start} AND \"My \"\"Ts\" < {date_end}"),
            [it("ts", ">=", "start"), it("My \"Ts", "<", "end")]
        );
        assert_eq!(
            read("m = {date:%Y-%m} and r='it''s and'"),
            [it("m", "=", "{date:%Y-%m}"), it("r", "=", "it's and")]
        );
        assert_eq!(read("n = 5"), [it("n", "=", "5")]);
    }

    #[test]
    fn what_cannot_be_bound_is_refused() {
        for text in
            ["", "dt", "dt = ", "dt = {date} or true", "dt = {date}; drop table x", "now() = 1", "a = 'x", "dt != 1"]
        {
            assert!(parse_scope(text).is_err(), "{text}");
        }
    }
}
