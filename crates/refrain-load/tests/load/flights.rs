//! The flights of the example as record batches, with the types that a careful writer gives them.

use arrow_array::builder::{Int32Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of one day.
pub(crate) fn csv(day: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/flights/data/2013-01-{day:02}.csv"))
}

/// The columns of all days, for CREATE TABLE.
pub(crate) const TABLE: &str = "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, \
     sched_arr_time int, arr_delay int, carrier text, flight int, tailnum text, origin text, dest text, air_time int, \
     distance int, hour int, minute int, time_hour timestamptz";

/// The types of the columns.
pub(crate) fn schema(header: &str) -> SchemaRef {
    let field = |name: &str| {
        let kind = match name {
            "carrier" | "tailnum" | "origin" | "dest" => DataType::Utf8,
            "time_hour" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => DataType::Int32,
        };
        Field::new(name, kind, true)
    };
    Arc::new(Schema::new(header.trim_end().split(',').map(field).collect::<Vec<_>>()))
}

/// The rows of one day.
pub(crate) fn batch(day: u32) -> RecordBatch {
    let text = std::fs::read_to_string(csv(day)).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let schema = schema(header);
    let rows: Vec<Vec<Option<&str>>> =
        rows.lines().map(|row| row.split(',').map(|cell| Some(cell).filter(|cell| *cell != "NA")).collect()).collect();
    let column = |(place, field): (usize, &Arc<Field>)| {
        let cells = rows.iter().map(|row| row[place]);
        let array: ArrayRef = match field.data_type() {
            DataType::Utf8 => {
                let mut builder = StringBuilder::new();
                cells.for_each(|cell| builder.append_option(cell));
                Arc::new(builder.finish())
            }
            DataType::Int32 => {
                let mut builder = Int32Builder::new();
                cells.for_each(|cell| builder.append_option(cell.map(|cell| cell.parse::<i32>().unwrap())));
                Arc::new(builder.finish())
            }
            _ => {
                let mut builder = TimestampMicrosecondBuilder::new().with_timezone("UTC");
                let read = |cell: &str| cell.parse::<Timestamp>().unwrap().as_microsecond();
                cells.for_each(|cell| builder.append_option(cell.map(read)));
                Arc::new(builder.finish())
            }
        };
        array
    };
    let columns = schema.fields().iter().enumerate().map(column).collect();
    RecordBatch::try_new(schema, columns).unwrap()
}
