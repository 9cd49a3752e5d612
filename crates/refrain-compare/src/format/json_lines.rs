//! JSON Lines: one document a line, objects as rows.

use super::json::{Object, canonical, shown};
use super::{Collector, lines};
use crate::rows::{Column, Stop, Table, Visit, Want, hash_value};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Objects with more keys than this in all are compared as wholes.
const MOST_COLUMNS: usize = 2000;

/// A file with one JSON document a line.
pub(crate) struct JsonLinesTable {
    path: PathBuf,
    columns: Vec<Column>,
    /// Where each key stands among the columns; empty when lines are not objects and are compared as wholes.
    places: HashMap<String, usize>,
}

impl JsonLinesTable {
    /// Reads the file once to learn its keys.
    pub(crate) fn open(path: &Path) -> Result<Self, Stop> {
        let (mut columns, mut places, mut number) = (vec![], HashMap::new(), 0);
        let mut are_objects = true;
        lines::each(path, |line| {
            number += 1;
            if line.trim_ascii().is_empty() {
                return Ok(true);
            }
            let broken = |error: serde_json::Error| Stop::Broken(format!("line {number}: {error}"));
            if are_objects && line.trim_ascii().starts_with(b"{") {
                for (key, _) in serde_json::from_slice::<Object<'_>>(line).map_err(broken)?.0 {
                    if !places.contains_key(&key) {
                        places.insert(key.clone(), columns.len());
                        columns.push(Column { name: key, kind: String::new() });
                    }
                }
                are_objects = columns.len() <= MOST_COLUMNS;
            } else {
                serde_json::from_slice::<&RawValue>(line).map_err(broken)?;
                are_objects = false;
            }
            Ok(true)
        })?;
        if !are_objects {
            places.clear();
            columns = vec![Column { name: "value".to_owned(), kind: String::new() }];
        }
        Ok(Self { path: path.to_owned(), columns, places })
    }

    fn row(&self, line: &[u8], collector: &mut Collector) -> Result<(), String> {
        let text = |error: serde_json::Error| error.to_string();
        if self.places.is_empty() {
            let value = serde_json::from_slice::<&RawValue>(line).map_err(text)?;
            return cell(value, collector);
        }
        let mut cells: Vec<Option<&RawValue>> = vec![None; self.columns.len()];
        for (key, value) in serde_json::from_slice::<Object<'_>>(line).map_err(text)?.0 {
            if let Some(place) = self.places.get(&key) {
                cells[*place] = Some(value);
            }
        }
        for value in cells {
            match value {
                Some(value) => cell(value, collector)?,
                None => collector.hashed_cell(0, None),
            }
        }
        Ok(())
    }
}

fn cell(value: &RawValue, collector: &mut Collector) -> Result<(), String> {
    let mut spelled = String::new();
    canonical(value, 0, &mut spelled)?;
    collector.hashed_cell(hash_value(spelled.as_bytes()), Some(shown(value).as_bytes()));
    Ok(())
}

impl Table for JsonLinesTable {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn scan(&self, want: Want, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let mut collector = Collector::new(want, self.columns.len());
        let (mut is_over, mut number) = (false, 0);
        lines::each(&self.path, |line| {
            number += 1;
            if line.trim_ascii().is_empty() {
                return Ok(true);
            }
            self.row(line, &mut collector).map_err(|reason| Stop::Broken(format!("line {number}: {reason}")))?;
            is_over = collector.end_row() && visit(collector.take())?.is_break();
            Ok(!is_over)
        })?;
        if is_over { Ok(()) } else { visit(collector.take()).map(|_| ()) }
    }
}
