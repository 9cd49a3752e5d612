//! The keys of all objects of a file.

use super::lines::{self, Lines};
use super::no_object;
use super::object;
use refrain_core::Result;
use serde::de::IgnoredAny;
use std::collections::HashMap;
use std::path::Path;

/// So many columns a table has at most (<https://www.postgresql.org/docs/current/limits.html>).
const MOST_COLUMNS: usize = 1600;

/// What the first reading finds.
pub(super) struct Found {
    pub(super) columns: Vec<String>,
    pub(super) places: HashMap<String, usize>,
    pub(super) rows: u64,
}

/// Reads a file for its keys, in the order in which they come first.
pub(super) fn find(path: &Path) -> Result<Found> {
    let mut lines = Lines::open(path)?;
    let (mut columns, mut places, mut rows) = (vec![], HashMap::<String, usize>::new(), 0);
    while lines.advance()? {
        let (line, number) = (lines.current(), lines.number());
        if !line.starts_with('{') {
            return Err(no_object(path, number, line));
        }
        rows += 1;
        let mut likely = 0;
        let found = object::each(line, |key, _: IgnoredAny| {
            if columns.get(likely).is_some_and(|name: &String| *name == key) {
                likely += 1;
                return Ok(());
            }
            if let Some(place) = places.get(&*key) {
                likely = place + 1;
                return Ok(());
            }
            if key.is_empty() {
                return Err("it has a key without a name".to_owned());
            }
            if columns.len() == MOST_COLUMNS {
                return Err("with it the objects have more keys than a table can have columns, 1600".to_owned());
            }
            likely = columns.len() + 1;
            places.insert(key.clone().into_owned(), columns.len());
            columns.push(key.into_owned());
            Ok(())
        });
        found.map_err(|reason| lines::bad(path, number, &reason))?;
    }
    Ok(Found { columns, places, rows })
}
