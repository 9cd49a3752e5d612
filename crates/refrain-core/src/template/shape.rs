//! What a template can become for any partition, as a pattern.

use super::{Piece, Template};
use crate::{Partition, PartitionScheme, Result};
use std::collections::BTreeMap;

/// Fields of a date format that print digits, always so many.
const FIXED: &str = "YmdHMSjGVuFyT";

impl Template {
    /// Patterns that match the location of every partition of the scheme, the parameters being these; of names that
    /// anybody may choose, only that of this partition. `quote` writes a text as the pattern of itself.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn shapes(
        &self,
        scheme: &PartitionScheme,
        partition: &Partition,
        params: &BTreeMap<String, String>,
        quote: &dyn Fn(&str) -> String,
    ) -> Result<Vec<String>> {
        let names: Vec<&str> = match scheme {
            PartitionScheme::Values(names) => names.iter().map(String::as_str).collect(),
            _ => vec![partition.key.as_str()],
        };
        names.into_iter().map(|name| self.shape(name, partition, params, quote)).collect()
    }

    fn shape(
        &self,
        name: &str,
        partition: &Partition,
        params: &BTreeMap<String, String>,
        quote: &dyn Fn(&str) -> String,
    ) -> Result<String> {
        let mut shape = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => shape.push_str(&quote(literal)),
                Piece::Date => shape.push_str(&digits(&self.dated(partition)?.key, quote)),
                Piece::DateFormat(format) => {
                    let text = self.date_text(format, partition)?;
                    if has_fixed_fields(format) {
                        shape.push_str(&digits(&text, quote));
                    } else {
                        let parts: Vec<&str> =
                            text.split('/').map(|part| if part.is_empty() { "" } else { "*" }).collect();
                        shape.push_str(&parts.join("/"));
                    }
                }
                Piece::Partition if partition.interval.is_some() => shape.push_str(&digits(&partition.key, quote)),
                Piece::Partition => shape.push_str(&quote(name)),
                Piece::Param(param) => {
                    let value = params.get(param).ok_or_else(|| self.missing_param(param, params))?;
                    shape.push_str(&quote(value));
                }
            }
        }
        Ok(shape)
    }
}

/// Any digit for each digit. An hour may have an offset of either sign, or none.
fn digits(text: &str, quote: &dyn Fn(&str) -> String) -> String {
    let (text, hour) = match text.split_once('T') {
        Some((date, hour)) if hour.starts_with(|char: char| char.is_ascii_digit()) => (date, Some(hour)),
        _ => (text, None),
    };
    let plain = |text: &str| {
        text.chars()
            .map(|char| if char.is_ascii_digit() { "[0-9]".to_owned() } else { quote(&char.to_string()) })
            .collect::<String>()
    };
    match hour {
        Some(_) => format!("{}T*", plain(text)),
        None => plain(text),
    }
}

fn has_fixed_fields(format: &str) -> bool {
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char == '%' && !chars.next().is_some_and(|field| field == '%' || FIXED.contains(field)) {
            return false;
        }
    }
    true
}
