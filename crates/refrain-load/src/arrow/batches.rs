//! The record batches of a file, one after the other.

use crate::format::Format;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{LogicalType, Type as Physical};
use parquet::schema::types::SchemaDescriptor;
use refrain_core::{Error, Result};
use std::error::Error as StdError;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

/// Rows of a batch, at most.
const MOST_ROWS: usize = 8192;

/// Bytes of a batch, about.
const BATCH_BYTES: u64 = 4 << 20;

const BUFFER_BYTES: usize = 128 << 10;

/// The start of an Arrow IPC file; a stream has none. Source: <https://arrow.apache.org/docs/format/Columnar.html>.
const ARROW_MAGIC: &[u8] = b"ARROW1";

/// The batches of a file.
pub(super) struct Batches {
    reader: Reader,
    schema: SchemaRef,
    uuids: Vec<bool>,
    /// How much of all is done, in rows, batches or bytes.
    done: u64,
    all: Option<u64>,
}

enum Reader {
    Parquet(ParquetRecordBatchReader),
    File(FileReader<BufReader<File>>),
    Stream(StreamReader<BufReader<File>>),
}

impl Batches {
    pub(super) fn open(path: &Path, format: Format) -> Result<Self> {
        let mut file =
            File::open(path).map_err(|error| Error::io(format!("cannot read `{}`", path.display()), error))?;
        let opened = if format == Format::Parquet {
            Self::parquet(file)
        } else {
            let mut magic = vec![];
            let read = file.by_ref().take(ARROW_MAGIC.len() as u64).read_to_end(&mut magic).and_then(|_| file.rewind());
            read.map_err(|error| Error::io(format!("cannot read `{}`", path.display()), error))?;
            let file = BufReader::with_capacity(BUFFER_BYTES, file);
            if magic == ARROW_MAGIC { Self::file(file) } else { Self::stream(file) }
        };
        opened.map_err(|error| {
            let name = if format == Format::Parquet { "Parquet" } else { "Arrow IPC" };
            Error::guard(format!(
                "`{}` cannot be read as {name}: it is another format or was not written to its end",
                path.display()
            ))
            .because(error)
        })
    }

    /// The types are those that the writing program had in memory, where it has noted them: a duration of pandas is stored as
    /// a number.
    fn parquet(file: File) -> std::result::Result<Self, Box<dyn StdError + Send + Sync>> {
        let mut metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
        let parquet = metadata.metadata().file_metadata().schema_descr();
        let uuids = uuids(parquet, metadata.schema());
        if let Some(schema) = with_wide_int96(metadata.schema(), parquet) {
            let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
            metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)?;
        }
        let rows = metadata.metadata().file_metadata().num_rows();
        let widest = metadata.metadata().row_groups().iter().filter_map(|group| {
            let rows = u64::try_from(group.num_rows()).ok()?;
            u64::try_from(group.total_byte_size()).ok()?.checked_div(rows)
        });
        let fitting = BATCH_BYTES / widest.max().unwrap_or(0).max(1);
        let batch = usize::try_from(fitting).unwrap_or(MOST_ROWS).clamp(1, MOST_ROWS);
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).with_batch_size(batch).build()?;
        let schema = reader.schema();
        Ok(Self { reader: Reader::Parquet(reader), schema, uuids, done: 0, all: u64::try_from(rows).ok() })
    }

    fn file(file: BufReader<File>) -> std::result::Result<Self, Box<dyn StdError + Send + Sync>> {
        let reader = FileReader::try_new(file, None)?;
        let (schema, all) = (reader.schema(), reader.num_batches() as u64);
        let uuids = arrow_uuids(&schema);
        Ok(Self { reader: Reader::File(reader), schema, uuids, done: 0, all: Some(all) })
    }

    fn stream(file: BufReader<File>) -> std::result::Result<Self, Box<dyn StdError + Send + Sync>> {
        let reader = StreamReader::try_new(file, None)?;
        let schema = reader.schema();
        let uuids = arrow_uuids(&schema);
        Ok(Self { reader: Reader::Stream(reader), schema, uuids, done: 0, all: None })
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Whether a column holds UUIDs.
    pub(super) fn is_uuid(&self, column: usize) -> bool {
        self.uuids.get(column).copied().unwrap_or(false)
    }

    /// The number of rows, where the file says it.
    pub(super) fn rows(&self) -> Option<u64> {
        if matches!(self.reader, Reader::Parquet(_)) { self.all } else { None }
    }

    /// The next batch; `rows` were in those before.
    pub(super) fn next(&mut self, path: &Path, rows: u64) -> Result<Option<RecordBatch>> {
        let batch = match &mut self.reader {
            Reader::Parquet(reader) => reader.next(),
            Reader::File(reader) => reader.next(),
            Reader::Stream(reader) => reader.next(),
        };
        let batch = batch.transpose().map_err(|error| {
            Error::guard(format!("`{}` is damaged behind row {rows}", path.display())).because(error)
        })?;
        if let Some(batch) = &batch {
            self.done = match &mut self.reader {
                Reader::Parquet(_) => self.done + batch.num_rows() as u64,
                Reader::File(_) => self.done + 1,
                Reader::Stream(reader) => reader
                    .get_mut()
                    .stream_position()
                    .map_err(|error| Error::io(format!("cannot read `{}`", path.display()), error))?,
            };
        }
        Ok(batch)
    }

    /// About how far into a file of `size` bytes the reading is.
    pub(super) fn reached(&self, size: u64) -> u64 {
        let Some(all) = self.all else { return self.done };
        let reached = u128::from(size) * u128::from(self.done) / u128::from(all.max(1));
        u64::try_from(reached).unwrap_or(size)
    }

    /// The batch that has the row of that number from zero, and where it is there.
    pub(super) fn row(&mut self, path: &Path, row: u64) -> Option<(RecordBatch, usize)> {
        let mut before = 0;
        loop {
            let batch = self.next(path, before).ok()??;
            let after = before + batch.num_rows() as u64;
            if row < after {
                return Some((batch, usize::try_from(row - before).ok()?));
            }
            before = after;
        }
    }
}

/// The columns of sixteen bytes that Parquet calls UUIDs.
fn uuids(parquet: &SchemaDescriptor, schema: &Schema) -> Vec<bool> {
    let fields = parquet.root_schema().get_fields().iter();
    let annotated = fields.map(|field| field.get_basic_info().logical_type_ref() == Some(&LogicalType::Uuid));
    annotated.zip(arrow_uuids(schema)).map(|(annotated, named)| annotated || named).collect()
}

fn arrow_uuids(schema: &Schema) -> Vec<bool> {
    schema.fields().iter().map(|field| field.extension_type_name() == Some("arrow.uuid")).collect()
}

/// The schema with 96-bit times as microseconds, for nanoseconds of 64 bits end in the year 2262; nothing when there are none.
fn with_wide_int96(schema: &Schema, parquet: &SchemaDescriptor) -> Option<Schema> {
    let mut is_any = false;
    let fields = schema.fields().iter().zip(parquet.root_schema().get_fields()).map(|(field, parquet)| {
        match field.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, zone)
                if parquet.is_primitive() && parquet.get_physical_type() == Physical::INT96 =>
            {
                is_any = true;
                let kind = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                Arc::new(Field::clone(field).with_data_type(kind))
            }
            _ => Arc::clone(field),
        }
    });
    let fields: Fields = fields.collect();
    is_any.then(|| Schema::new(fields))
}
