//! Names and literals in statements. Values are bound wherever that is possible; what cannot be bound is quoted here.

use refrain_core::{Error, Result};
use std::fmt;

/// A relation with its schema; never looked up by a search path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relation {
    /// The schema's own name.
    pub schema: String,
    /// The relation's own name.
    pub name: String,
}

impl Relation {
    /// A relation of these names, as the catalog has them.
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }

    /// Reads a name as SQL reads it: what is not quoted is folded to lower case; without a schema it is one of `public`.
    ///
    /// # Errors
    /// `invalid` when it is no name.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = identifiers(text)?;
        match (parts.pop(), parts.pop(), parts.pop()) {
            (Some(name), None, None) => Ok(Self::new("public", name)),
            (Some(name), Some(schema), None) => Ok(Self::new(schema, name)),
            _ => Err(Error::invalid(format!("`{text}` is no name of a table"))
                .hint("write schema.table, each part in double quotes if it is not all lower case: \"My\".\"Table\"")),
        }
    }
}

impl fmt::Display for Relation {
    /// Quoted, for a statement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", quote_identifier(&self.schema), quote_identifier(&self.name))
    }
}

/// An identifier as a statement needs it: always in quotes (PGS-08).
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal of a statement, whatever `standard_conforming_strings` says.
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// The identifiers of a dotted name.
fn identifiers(text: &str) -> Result<Vec<String>> {
    let wrong = || {
        Error::invalid(format!("`{text}` is no name of a table"))
            .hint("write schema.table, each part in double quotes if it is not all lower case: \"My\".\"Table\"")
    };
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let part = if let Some(quoted) = rest.strip_prefix('"') {
            let (part, after) = quoted_identifier(quoted).ok_or_else(wrong)?;
            rest = after;
            part
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            rest = after;
            let plain = part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$');
            if !plain {
                return Err(wrong());
            }
            // The server folds ASCII letters only where the encoding is UTF-8.
            part.to_ascii_lowercase()
        };
        if part.is_empty() || part.contains('\0') {
            return Err(wrong());
        }
        parts.push(part);
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(parts),
            None => return Err(wrong()),
        }
    }
}

/// What stands before the closing quote, and what follows it.
fn quoted_identifier(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        part.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                part.push('"');
                rest = after;
            }
            None => return Some((part, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Relation, quote_identifier, quote_literal};

    #[test]
    fn pgs_08_names_are_read_and_quoted_as_sql_does() {
        for (text, schema, name) in [
            ("delays", "public", "delays"),
            ("Mart.Delays", "mart", "delays"),
            ("\"My.Schema\".\"Order\"\"x\"", "My.Schema", "Order\"x"),
            ("public.\"select\"", "public", "select"),
            (" tage.\u{00FC}ber ", "tage", "\u{00FC}ber"),
        ] {
            assert_eq!(Relation::parse(text).unwrap(), Relation::new(schema, name), "{text}");
        }
        assert_eq!(Relation::new("a.b", "x\"y").to_string(), "\"a.b\".\"x\"\"y\"");
        for text in ["", "a.b.c", "a b", "\"a", "a;drop table b", "1a", "\"\""] {
            assert!(Relation::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_literal_stays_one() {
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\'b"), "E'a\\\\''b'");
        assert_eq!(quote_identifier("a\"b"), "\"a\"\"b\"");
    }
}
