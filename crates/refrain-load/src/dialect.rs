//! What stands behind `COPY t (columns) FROM STDIN`.

use std::fmt;

/// In which of PostgreSQL's text formats the chunks of a source are. `Display` is the option list.
///
/// The encoding is always said, so that neither `client_encoding` nor the role's default counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// CSV, whose first record is a header.
    Csv {
        /// Between the fields.
        delimiter: char,
        /// What stands for NULL when it is not quoted.
        null: String,
    },
    /// The text format with its defaults.
    Text,
}

impl fmt::Display for Dialect {
    /// `WITH (FORMAT ...)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Csv { delimiter, null } => {
                let (delimiter, null) = (literal(&delimiter.to_string()), literal(null));
                write!(f, "WITH (FORMAT csv, HEADER true, DELIMITER {delimiter}, NULL {null}, ENCODING 'UTF8')")
            }
            Self::Text => f.write_str("WITH (FORMAT text, ENCODING 'UTF8')"),
        }
    }
}

/// A string constant that means the same whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''").replace('\\', "\\\\");
    if text.contains('\\') { format!("E'{quoted}'") } else { format!("'{quoted}'") }
}

#[cfg(test)]
mod tests {
    use super::Dialect;

    #[test]
    fn options_are_quoted() {
        let dialect = Dialect::Csv { delimiter: '\'', null: r"\N".to_owned() };
        assert_eq!(
            dialect.to_string(),
            r"WITH (FORMAT csv, HEADER true, DELIMITER '''', NULL E'\\N', ENCODING 'UTF8')"
        );
        assert_eq!(Dialect::Text.to_string(), "WITH (FORMAT text, ENCODING 'UTF8')");
    }
}
