//! Lists as array literals; structures, maps and what else is nested as JSON.

use super::civil::Style;
use super::column::{Column, Values};
use crate::array_text;
use std::ops::Range;

impl Column {
    /// Appends a nested value that is not NULL, without the escapes of COPY.
    pub(super) fn nested(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::List(ranges, elements, true) => array_literal(elements, ranges.of(row), out),
            _ => self.json(row, out),
        }
    }

    /// Appends the value as JSON. Numbers keep all their digits; what JSON cannot write as a number is a string, as are dates, times and
    /// binary values.
    pub(super) fn json(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            return out.extend_from_slice(b"null");
        }
        match &self.values {
            Values::Dictionary(keys, values) => values.json(keys[row], out),
            Values::List(ranges, elements, _) => {
                let each = ranges.of(row);
                sequence((b'[', b']'), each, out, |element, out| elements.json(element, out));
            }
            Values::Struct(fields) => sequence((b'{', b'}'), 0..fields.len(), out, |place, out| {
                let (name, column) = &fields[place];
                string(name.as_bytes(), out);
                out.push(b':');
                column.json(row, out);
            }),
            Values::Map(ranges, entries) => sequence((b'{', b'}'), ranges.of(row), out, |entry, out| {
                let mut key = vec![];
                entries.0.shown(entry, &mut key);
                string(&key, out);
                out.push(b':');
                entries.1.json(entry, out);
            }),
            values => {
                let start = out.len();
                self.plain(row, out, Style::Iso);
                if !is_bare(values, &out[start..]) {
                    let text = out.split_off(start);
                    string(&text, out);
                }
            }
        }
    }
}

/// Whether a value stands in JSON without quotes.
fn is_bare(values: &Values, text: &[u8]) -> bool {
    match values {
        Values::Bool(_)
        | Values::Int8(_)
        | Values::Int16(_)
        | Values::Int32(_)
        | Values::Int64(_)
        | Values::UInt8(_)
        | Values::UInt16(_)
        | Values::UInt32(_)
        | Values::UInt64(_)
        | Values::Decimal32(..)
        | Values::Decimal64(..)
        | Values::Decimal128(..)
        | Values::Decimal256(..) => true,
        Values::Float16(_) | Values::Float32(_) | Values::Float64(_) => {
            !text.ends_with(b"NaN") && !text.ends_with(b"y")
        }
        _ => false,
    }
}

fn array_literal(elements: &Column, range: Range<usize>, out: &mut Vec<u8>) {
    sequence((b'{', b'}'), range, out, |element, out| {
        if elements.is_null(element) {
            return out.extend_from_slice(array_text::NULL);
        }
        if let Values::List(ranges, inner, _) = &elements.values {
            return array_literal(inner, ranges.of(element), out);
        }
        let mut text = vec![];
        elements.shown(element, &mut text);
        array_text::push(&text, out);
    });
}

fn sequence(brackets: (u8, u8), range: Range<usize>, out: &mut Vec<u8>, mut write: impl FnMut(usize, &mut Vec<u8>)) {
    out.push(brackets.0);
    for (place, element) in range.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(brackets.1);
}

/// Appends a string in quotes. A character with the code zero stands as it is, for whoever writes the field refuses it.
fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0 => out.push(0),
            1..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}
