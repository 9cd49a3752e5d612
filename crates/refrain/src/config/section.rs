//! One table of the file, taken apart key by key, so that what is left over is an unknown key.

use refrain_core::{Error, Result, nearest, parse_duration, without_password};
use std::time::Duration;
use toml::{Table, Value};

/// A table, its path for messages, and the keys that were asked for.
pub(super) struct Section {
    path: String,
    table: Table,
    known: Vec<String>,
}

impl Section {
    pub(super) fn new(path: impl Into<String>, table: Table) -> Self {
        Self { path: path.into(), table, known: Vec::new() }
    }

    /// The full name of a key of this section.
    pub(super) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.known.push(key.to_owned());
        self.table.remove(key)
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, "a text", &other)),
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Result<Option<u64>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Integer(number)) if number >= 0 => Ok(Some(number.unsigned_abs())),
            Some(other) => Err(self.wrong(key, "a whole number that is not negative", &other)),
        }
    }

    /// A number of things, each of which is kept or done.
    pub(super) fn count(&mut self, key: &str) -> Result<Option<u32>> {
        let Some(number) = self.number(key)? else { return Ok(None) };
        u32::try_from(number)
            .map(Some)
            .map_err(|_| Error::invalid(format!("`{}` must be at most {}, not {number}", self.name(key), u32::MAX)))
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(key, "true or false", &other)),
        }
    }

    pub(super) fn duration(&mut self, key: &str) -> Result<Option<Duration>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let parsed = parse_duration(&text);
        parsed.map(Some).map_err(|error| Error::invalid(format!("`{}`: {error}", self.name(key))))
    }

    pub(super) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(items)) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| match item {
                    Value::String(text) => Ok(text),
                    other => Err(self.wrong(&format!("{key}[{index}]"), "a text", &other)),
                })
                .collect::<Result<Vec<_>>>()
                .map(Some),
            Some(other) => Err(self.wrong(key, "a list of texts", &other)),
        }
    }

    pub(super) fn section(&mut self, key: &str) -> Result<Option<Section>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Section::new(self.name(key), table))),
            Some(other) => Err(self.wrong(key, "a table", &other)),
        }
    }

    /// A section whose keys are the user's own names.
    pub(super) fn named(&mut self, key: &str) -> Result<Option<Section>> {
        match self.table.get(key) {
            Some(Value::String(text)) => {
                let example = format!("{key}.NAME = {:?}", without_password(text));
                Err(Error::invalid(format!("`{}` must be a table of names", self.name(key)))
                    .hint(format!("give it a name: {example}")))
            }
            _ => self.section(key),
        }
    }

    /// The entries of a section whose keys are the user's own names.
    pub(super) fn entries(self) -> impl Iterator<Item = (String, Value)> {
        self.table.into_iter()
    }

    /// Refuses what nobody asked for.
    pub(super) fn done(self) -> Result<()> {
        let known: Vec<_> = self.known.iter().map(String::as_str).collect();
        self.refuse_others(&known)
    }

    /// Refuses a key that is none of these, before one of them is missed: it may be that one, misspelled.
    pub(super) fn refuse_others(&self, known: &[&str]) -> Result<()> {
        let Some(unknown) = self.table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let known = known.iter().copied();
        let error = Error::invalid(format!("unknown key `{}`", self.name(unknown)));
        Err(match nearest(unknown, known.clone()) {
            Some(near) => error.hint(format!("did you mean `{}`?", self.name(near))),
            None => {
                error.hint(format!("known here: {}", known.map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ")))
            }
        })
    }

    pub(super) fn wrong(&self, key: &str, wanted: &str, found: &Value) -> Error {
        Error::invalid(format!("`{}` must be {wanted}, not {}", self.name(key), describe(found)))
    }
}

/// A value for a message. A text is not shown: it may carry a secret.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::String(text) if text.trim().is_empty() => "an empty text".to_owned(),
        Value::String(_) => "a text".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(_) => "a date without quotes".to_owned(),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Table(_) => "a table".to_owned(),
    }
}
