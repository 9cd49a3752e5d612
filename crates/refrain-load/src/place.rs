//! Where in a file something stands.

use std::fmt;

/// Characters of a value that are shown.
const SHOWN: usize = 200;

/// A place in a staged file. `Display` is for people: "line 3, column `delay`: `x`".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line on which the row begins, as editors count (from 1); nothing for formats without lines.
    pub line: Option<u64>,
    /// The row, from 1, without the header.
    pub row: u64,
    /// The column.
    pub column: Option<String>,
    /// The value as the file has it, or its beginning; nothing for NULL and when no column is known.
    pub value: Option<String>,
}

impl Place {
    /// The place with the start of a value.
    pub(crate) fn with_value(mut self, value: &str) -> Self {
        self.value = Some(match value.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &value[..end]),
            None => value.to_owned(),
        });
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}")?,
            None => write!(f, "row {}", self.row)?,
        }
        if let Some(column) = &self.column {
            write!(f, ", column `{column}`")?;
        }
        match &self.value {
            Some(value) => write!(f, ": `{value}`"),
            None => Ok(()),
        }
    }
}

/// Reads the line and the column out of the context of a server's error about a COPY into `table`, such as
/// `COPY stage, line 123, column delay: "x"`.
///
/// The server's messages are in its own language, which a role cannot change (`lc_messages`): the line is the first number behind the
/// table's name, the column the first of `columns` that is followed by a colon.
pub fn parse_context(context: &str, table: &str, columns: &[String]) -> Option<(u64, Option<String>)> {
    let rest = &context[context.find(table)? + table.len()..];
    let start = rest.find(|c: char| c.is_ascii_digit())?;
    let rest = &rest[start..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let line = rest[..end].parse().ok()?;
    let named = columns.iter().filter_map(|column| {
        let place = rest[end..].find(&format!(" {column}:"))?;
        Some((place, std::cmp::Reverse(column.len()), column))
    });
    Some((line, named.min().map(|(_, _, column)| column.clone())))
}

#[cfg(test)]
mod tests {
    use super::{Place, parse_context};

    #[test]
    fn the_context_of_an_error_is_read_in_any_language() {
        let columns = ["delay".to_owned(), "arr delay".to_owned(), "b".to_owned()];
        let read = |context: &str| parse_context(context, "stage_17", &columns);
        let delay = Some((123, Some("delay".to_owned())));
        assert_eq!(read(r#"COPY stage_17, line 123, column delay: "x""#), delay);
        assert_eq!(read("COPY stage_17, Zeile 123, Spalte delay: »x«"), delay);
        assert_eq!(read("COPY stage_17, line 123, column delay: null input"), delay);
        assert_eq!(
            read(r#"COPY stage_17, line 5, column arr delay: " b: 7""#),
            Some((5, Some("arr delay".to_owned())))
        );
        assert_eq!(read(r#"COPY stage_17, line 5: "1,2,3""#), Some((5, None)));
        assert_eq!(read("SQL statement \"SELECT 1\""), None);
    }

    #[test]
    fn a_place_reads_well() {
        let place = Place { line: Some(3), row: 2, column: Some("delay".to_owned()), value: None }.with_value("x");
        assert_eq!(place.to_string(), "line 3, column `delay`: `x`");
        assert_eq!(Place { row: 2, ..Place::default() }.to_string(), "row 2");
        let long = Place::default().with_value(&"ü".repeat(300));
        assert_eq!(long.value.unwrap().chars().count(), 203);
    }
}
