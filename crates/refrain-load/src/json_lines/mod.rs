//! JSON Lines: one object a line, as rows of COPY's text format.
//!
//! The file is read twice. The first time finds the keys of all its objects, for they are the columns, and what is no JSON, before
//! anything is sent; the second time makes the rows. A key that an object has not is NULL.

mod keys;
mod lines;
mod object;

use crate::copy_text;
use crate::input::Input;
use crate::options::{Options, Shape};
use crate::place::Place;
use lines::Lines;
use refrain_core::{Error, Result};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of a chunk after which it is handed on.
const CHUNK_BYTES: usize = 128 << 10;

/// A file of JSON Lines on its way to the server.
pub(crate) struct JsonLines {
    path: PathBuf,
    lines: Lines,
    columns: Vec<String>,
    shapes: Vec<Shape>,
    places: HashMap<String, usize>,
    rows: u64,
    row: Vec<u8>,
    /// For each column, where its value stands in `row`.
    cells: Vec<Option<(usize, usize)>>,
    scratch: Vec<u8>,
    is_over: bool,
}

impl JsonLines {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self> {
        let keys::Found { columns, places, rows } = keys::find(path)?;
        Ok(Self {
            path: path.to_owned(),
            lines: Lines::open(path)?,
            shapes: columns.iter().map(|name| options.shape(name)).collect(),
            cells: vec![None; columns.len()],
            columns,
            places,
            rows,
            row: vec![],
            scratch: vec![],
            is_over: false,
        })
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(crate) fn input(&self) -> &Input {
        self.lines.input()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<bool> {
        chunk.clear();
        if self.is_over {
            return Ok(false);
        }
        chunk.reserve(CHUNK_BYTES + CHUNK_BYTES / 8);
        while chunk.len() < CHUNK_BYTES {
            if !self.lines.advance()? {
                self.is_over = true;
                return Ok(true);
            }
            self.add_row(chunk)?;
        }
        Ok(true)
    }

    fn add_row(&mut self, chunk: &mut Vec<u8>) -> Result<()> {
        let Self { columns, places, shapes, row, cells, scratch, .. } = self;
        row.clear();
        cells.fill(None);
        let mut likely = 0;
        let read = object::each(self.lines.current(), |key, value: &RawValue| {
            let place = if columns.get(likely).is_some_and(|name| *name == *key) {
                likely
            } else {
                let place = places.get(key.as_ref()).copied();
                place.ok_or_else(|| format!("the key `{key}` was not there when the file was read first"))?
            };
            likely = place + 1;
            if cells[place].is_some() {
                return Err(format!("it has the key `{key}` twice"));
            }
            let start = row.len();
            spell(value, shapes[place], row, scratch).map_err(|reason| format!("the value of `{key}` {reason}"))?;
            cells[place] = Some((start, row.len()));
            Ok(())
        });
        read.map_err(|reason| lines::bad(&self.path, self.lines.number(), &reason))?;
        for (place, cell) in self.cells.iter().enumerate() {
            if place > 0 {
                chunk.push(b'\t');
            }
            chunk.extend_from_slice(cell.map_or(copy_text::NULL, |(start, end)| &self.row[start..end]));
        }
        chunk.push(b'\n');
        Ok(())
    }

    /// The server's lines are the rows.
    pub(crate) fn explain(&self, server_line: u64, column: Option<&str>) -> Place {
        let place = Place { row: server_line, column: column.map(str::to_owned), ..Place::default() };
        let Ok(mut lines) = Lines::open(&self.path) else { return place };
        for _ in 0..server_line {
            if !lines.advance().unwrap_or(false) {
                return place;
            }
        }
        let place = Place { line: Some(lines.number()), ..place };
        match column.and_then(|column| object::value(lines.current(), column)) {
            Some(value) => place.with_value(&value),
            None => place,
        }
    }
}

/// Appends a value as a field of COPY.
fn spell(value: &RawValue, shape: Shape, out: &mut Vec<u8>, scratch: &mut Vec<u8>) -> std::result::Result<(), String> {
    const NUL: &str = "has a character \\u0000, which PostgreSQL cannot hold";
    let raw = value.get();
    let pushed = match (raw.as_bytes()[0], shape) {
        (b'n', _) => {
            out.extend_from_slice(copy_text::NULL);
            Ok(())
        }
        (b'"', Shape::Any | Shape::Text | Shape::Array) => {
            let inner = &raw[1..raw.len() - 1];
            if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
                copy_text::push(inner.as_bytes(), out)
            } else {
                let text: String = serde_json::from_str(raw).map_err(|error| format!("cannot be read: {error}"))?;
                copy_text::push(text.as_bytes(), out)
            }
        }
        (b'[', Shape::Array) => {
            scratch.clear();
            object::array_literal(value, scratch).map_err(|reason| format!("is no array: {reason}"))?;
            copy_text::push(scratch, out)
        }
        _ if raw.contains("\\u0000") => Err(copy_text::Nul),
        _ => copy_text::push(raw.as_bytes(), out),
    };
    pushed.map_err(|copy_text::Nul| NUL.to_owned())
}

/// The error for a file that is one document and no lines.
fn no_object(path: &Path, number: u64, line: &str) -> Error {
    let (what, hint) = match line.as_bytes().first() {
        Some(b'[') => ("an array", "write one object a line; `jq -c '.[]'` makes them of an array"),
        _ => ("no object", "write one object a line"),
    };
    lines::bad(path, number, &format!("it is {what}")).hint(hint)
}
