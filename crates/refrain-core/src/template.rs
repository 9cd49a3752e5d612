//! Templates of locations: `reports/{date:%Y/%m/%d}/{param.REGION}.csv`.
//!
//! | placeholder | becomes |
//! | --- | --- |
//! | `{date}` | the key of the interval, such as `2025-03-24` |
//! | `{date:%Y/%m}` | the interval's start in the calendar's zone, through strftime |
//! | `{partition}` | the key of the partition |
//! | `{param.REGION}` | the parameter |
//! | `{{`, `}}` | a brace |
//!
//! A template makes a path or URL and nothing else: values are refused that would change the path's shape, but they are
//! not quoted for any other language. What goes into SQL must be bound, not rendered.

mod distinct;
mod shape;
#[cfg(test)]
mod tests;

use crate::{Error, Partition, PartitionScheme, Result, nearest, without_password};
use jiff::civil::date;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// A location with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Date,
    DateFormat(String),
    Partition,
    Param(String),
}

impl Template {
    /// Reads a template. An unknown placeholder, a lone brace or a bad date format is refused.
    pub fn parse(text: &str) -> Result<Self> {
        let pieces = parse_pieces(text)?;
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The location for one partition.
    ///
    /// Refuses a value that is empty, has a `/`, `..` or a control character, or makes a path component `.` or `..`.
    pub fn render(&self, partition: &Partition, params: &BTreeMap<String, String>) -> Result<String> {
        self.render_with(partition, params, &str::to_owned)
    }

    /// The same, with values written as the language of the location asks for: in a pattern, a value stands for itself.
    pub fn render_with(
        &self,
        partition: &Partition,
        params: &BTreeMap<String, String>,
        quote: &dyn Fn(&str) -> String,
    ) -> Result<String> {
        let mut rendered = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => rendered.push_str(literal),
                Piece::Date => rendered.push_str(&quote(&self.dated(partition)?.key)),
                Piece::DateFormat(format) => rendered.push_str(&quote(&self.date_text(format, partition)?)),
                Piece::Partition if partition.key.is_empty() => {
                    return Err(self.unfit("`{partition}` has no value: the task has no partitions"));
                }
                Piece::Partition => rendered.push_str(&quote(self.harmless("partition", &partition.key)?)),
                Piece::Param(name) => {
                    let value = params.get(name).ok_or_else(|| self.missing_param(name, params))?;
                    rendered.push_str(&quote(self.harmless(&format!("param.{name}"), value)?));
                }
            }
        }
        self.check_shape(&rendered)?;
        Ok(rendered)
    }

    /// Whether the text depends on the partition at all.
    pub fn depends_on_partition(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Date | Piece::Partition => true,
            Piece::DateFormat(format) => format.replace("%%", "").contains('%'),
            Piece::Literal(_) | Piece::Param(_) => false,
        })
    }

    /// The parameters that the template names.
    pub fn params(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for piece in &self.pieces {
            if let Piece::Param(name) = piece {
                names.insert(name.as_str());
            }
        }
        names
    }

    /// Refuses a template that cannot serve the scheme: one that needs a date the task has not, or one that sends two
    /// partitions to the same place, so that each would replace the other.
    pub fn check(&self, scheme: &PartitionScheme) -> Result<()> {
        let needs_date = |piece: &Piece| matches!(piece, Piece::Date | Piece::DateFormat(_));
        if scheme.calendar().is_none() && self.pieces.iter().any(needs_date) {
            return Err(self.unfit(&format!("`{{date}}` has no value: the task has {scheme}")));
        }
        let (apart, placeholder) = match scheme {
            PartitionScheme::None if self.pieces.contains(&Piece::Partition) => {
                return Err(self.unfit("`{partition}` has no value: the task has no partitions"));
            }
            PartitionScheme::None => return Ok(()),
            PartitionScheme::Dates(calendar) => (self.distinguishes(calendar), "{date}"),
            PartitionScheme::Values(_) | PartitionScheme::Free => {
                (self.pieces.contains(&Piece::Partition), "{partition}")
            }
        };
        if apart {
            return Ok(());
        }
        let same = self.pieces.iter().find_map(|piece| match piece {
            Piece::DateFormat(format) => Some(format!(": `{{date:{format}}}` is the same for both")),
            _ => None,
        });
        let add = format!("add `{placeholder}` to the location{}", same.unwrap_or_default());
        Err(self
            .unfit(&format!("the task has {scheme}, and two of them would be published to the same place"))
            .hint(add))
    }

    fn dated<'a>(&self, partition: &'a Partition) -> Result<&'a crate::Interval> {
        partition.interval.as_ref().ok_or_else(|| self.unfit("`{date}` has no value: the partition is not a date"))
    }

    fn date_text(&self, format: &str, partition: &Partition) -> Result<String> {
        let start = &self.dated(partition)?.start_civil;
        format_date(format, start)
            .map_err(|cause| self.unfit(&format!("`{format}` cannot print {start}")).because(cause))
    }

    /// The value, when it is one piece of a path and stays one.
    fn harmless<'a>(&self, name: &str, value: &'a str) -> Result<&'a str> {
        let reason = if value.is_empty() {
            "it is empty"
        } else if value.contains('/') {
            "it has a `/`"
        } else if value.contains("..") {
            "it has `..`"
        } else if value.chars().any(char::is_control) {
            "it has a control character"
        } else {
            return Ok(value);
        };
        Err(self.unfit(&format!("`{{{name}}}` may not become `{}`: {reason}", value.escape_debug())))
    }

    /// Harmless values side by side can still spell a step upwards, which the author of the template did not write.
    fn check_shape(&self, rendered: &str) -> Result<()> {
        let steps = |text: &str| text.split('/').filter(|part| matches!(*part, "." | "..")).count();
        let literal = |piece: &Piece| match piece {
            Piece::Literal(literal) => literal.clone(),
            // Stands for a value that never makes a component `.` or `..`.
            _ => "x".to_owned(),
        };
        if steps(rendered) == steps(&self.pieces.iter().map(literal).collect::<String>()) {
            return Ok(());
        }
        Err(self.unfit(&format!("its values make it `{rendered}`, which steps out of its directory")))
    }

    fn missing_param(&self, name: &str, params: &BTreeMap<String, String>) -> Error {
        let error = self.unfit(&format!("the parameter `{name}` is not given"));
        match nearest(name, params.keys().map(String::as_str)) {
            Some(known) => error.hint(format!("did you mean `{{param.{known}}}`?")),
            None => error.hint(format!("give `--param {name}=VALUE`")),
        }
    }

    fn unfit(&self, reason: &str) -> Error {
        Error::invalid(format!("the location `{}` cannot be used: {reason}", without_password(&self.text)))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Template {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn parse_pieces(text: &str) -> Result<Vec<Piece>> {
    let bad = |reason: &str| {
        Error::invalid(format!("the location `{}` is malformed: {reason}", without_password(text).escape_debug()))
    };
    if text.chars().any(char::is_control) {
        return Err(bad("it has a control character"));
    }
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        literal.push_str(before);
        if brace.starts_with("{{") || brace.starts_with("}}") {
            literal.push_str(&brace[..1]);
            rest = &brace[2..];
        } else if let Some((name, after)) = brace.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(placeholder(name, &bad)?);
            rest = after;
        } else {
            let brace = &brace[..1];
            return Err(bad(&format!("`{brace}` has no partner")).hint(format!("write `{brace}{brace}` for a brace")));
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

fn placeholder(name: &str, bad: &impl Fn(&str) -> Error) -> Result<Piece> {
    match name.split_once(':') {
        Some(("date", format)) => return date_format(format, bad),
        None if name == "date" => return Ok(Piece::Date),
        None if name == "partition" => return Ok(Piece::Partition),
        _ => {}
    }
    let legal = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(param) = name.strip_prefix("param.").filter(|param| legal(param)) {
        return Ok(Piece::Param(param.to_owned()));
    }
    let error = bad(&format!("`{{{name}}}` is not a placeholder"));
    let word = name.split([':', '.']).next().unwrap_or(name);
    Err(match nearest(word, ["date", "partition", "param"]) {
        Some("param") => error.hint("a parameter is `{param.NAME}`, with letters, digits and `_` in its name"),
        Some(known) => error.hint(format!("did you mean `{{{known}}}`?")),
        None => error.hint("placeholders are `{date}`, `{date:%Y/%m/%d}`, `{partition}` and `{param.NAME}`"),
    })
}

/// A date format is tried once here, so that a bad one is found when the task is declared and not when it runs.
fn date_format(format: &str, bad: &impl Fn(&str) -> Error) -> Result<Piece> {
    const HINT: &str = "a date format is like `{date:%Y/%m/%d}`";
    let sample = date(2025, 3, 24).at(5, 0, 0, 0).to_zoned_datetime(TimeZone::UTC);
    let sample = sample.unwrap_or_else(|_| Timestamp::UNIX_EPOCH.to_zoned_datetime(TimeZone::UTC));
    let text = format_date(format, &sample)
        .map_err(|cause| bad(&format!("`{format}` is not a date format")).hint(HINT).because(cause))?;
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(bad(&format!("the date format `{format}` prints nothing or a control character")).hint(HINT));
    }
    Ok(Piece::DateFormat(format.to_owned()))
}

fn format_date(format: &str, start: &ZonedDateTime) -> Result<String, jiff::Error> {
    BrokenDownTime::from(start).to_string(format)
}
