//! Apache Parquet: rows through Arrow, and what the footer says about how they are stored.

use super::render;
use crate::error::Error;
use crate::report::{Finding, FindingKind};
use crate::rows::{Batch, Cells, Column, Side, Stop, Table, Visit, Want};
use crate::story::cut;
use arrow_array::RecordBatchReader;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BATCH_ROWS: usize = 2048;

/// A Parquet file.
pub(crate) struct ParquetTable {
    path: PathBuf,
    metadata: Arc<ParquetMetaData>,
    columns: Vec<Column>,
}

impl ParquetTable {
    /// Reads the footer.
    pub(crate) fn open(path: &Path) -> Result<Self, Stop> {
        let builder = builder(path)?;
        let fields = builder.schema().fields();
        let columns =
            fields.iter().map(|field| Column { name: field.name().clone(), kind: field.data_type().to_string() });
        Ok(Self { path: path.to_owned(), metadata: Arc::clone(builder.metadata()), columns: columns.collect() })
    }
}

/// The types are those of the Parquet schema, not those that the writing program had in memory.
fn builder(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, Stop> {
    let file = File::open(path).map_err(Error::read(path))?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).map_err(broken)
}

#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn broken(error: ParquetError) -> Stop {
    Stop::Broken(error.to_string())
}

impl Table for ParquetTable {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn scan(&self, want: Want, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let reader = builder(&self.path)?.with_batch_size(BATCH_ROWS).build().map_err(broken)?;
        let width = reader.schema().fields().len();
        for batch in reader {
            let batch = batch.map_err(|error| Stop::Broken(error.to_string()))?;
            let rows = batch.num_rows();
            let mut hashes = vec![0; rows * width];
            for (column, array) in batch.columns().iter().enumerate() {
                render::hash(array.as_ref(), &mut hashes, column, width);
            }
            let cells = if want == Want::Values { Cells::Arrow(batch) } else { Cells::Absent };
            if visit(Batch { rows, columns: width, hashes, cells })?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Says what differs beside the rows.
pub(crate) fn findings(left: &ParquetTable, right: &ParquetTable) -> Vec<Finding> {
    let mut findings = vec![];
    let (file_left, file_right) = (left.metadata.file_metadata(), right.metadata.file_metadata());
    let creators = [file_left.created_by(), file_right.created_by()].map(|name| name.unwrap_or("nobody"));
    if creators[0] != creators[1] {
        let text = format!("written by `{}` and by `{}`", cut(creators[0]), cut(creators[1]));
        findings
            .push(Finding::new(FindingKind::ParquetCreator, false, text).hint("Use the same version of the writer."));
    }
    let compressions = [compressions(&left.metadata), compressions(&right.metadata)];
    if compressions[0] != compressions[1] {
        let names = compressions.map(|names| names.into_iter().collect::<Vec<_>>().join(", "));
        let text = format!("compressed with {} on the left side and {} on the right", names[0], names[1]);
        findings.push(Finding::new(FindingKind::ParquetCompression, false, text));
    }
    let metadata = [metadata(&left.metadata), metadata(&right.metadata)];
    let keys: BTreeSet<&String> = metadata.iter().flat_map(BTreeMap::keys).collect();
    for key in keys.into_iter().filter(|key| metadata[0].get(*key) != metadata[1].get(*key)) {
        let text = format!("metadata `{}` differs", cut(key));
        let [left, right] = [0, 1].map(|side| metadata[side].get(key).map(|value| cut(value)));
        findings.push(Finding::new(FindingKind::ParquetMetadata, false, text).example(left, right));
    }
    findings.extend(layout(&left.metadata, &right.metadata));
    findings
}

fn layout(left: &ParquetMetaData, right: &ParquetMetaData) -> Option<Finding> {
    let groups =
        |metadata: &ParquetMetaData| metadata.row_groups().iter().map(RowGroupMetaData::num_rows).collect::<Vec<_>>();
    let (groups_left, groups_right) = (groups(left), groups(right));
    let text = if groups_left != groups_right {
        let (left, right) = (groups_left.len(), groups_right.len());
        if left == right {
            "row groups of other sizes".to_owned()
        } else {
            format!("{left} row groups on the left side, {right} on the right")
        }
    } else if encodings(left) != encodings(right) {
        "the columns' encodings differ".to_owned()
    } else if left.file_metadata().version() != right.file_metadata().version() {
        "other versions of the Parquet format".to_owned()
    } else {
        return None;
    };
    Some(
        Finding::new(FindingKind::ParquetLayout, false, text)
            .hint("Fix the size of row groups, and write from one thread."),
    )
}

fn compressions(metadata: &ParquetMetaData) -> BTreeSet<String> {
    let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    chunks
        .map(|chunk| format!("{:?}", chunk.compression()).split('(').next().unwrap_or_default().to_lowercase())
        .collect()
}

fn encodings(metadata: &ParquetMetaData) -> Vec<String> {
    let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    chunks.map(|chunk| format!("{:?}", chunk.encodings().collect::<Vec<_>>())).collect()
}

fn metadata(metadata: &ParquetMetaData) -> BTreeMap<String, String> {
    let entries = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    entries.map(|entry| (entry.key.clone(), entry.value.clone().unwrap_or_default())).collect()
}

/// Opens both sides, or says which of them is broken.
pub(crate) fn open_pair(left: &Path, right: &Path) -> Result<(ParquetTable, ParquetTable), (Side, Stop)> {
    let left = ParquetTable::open(left).map_err(|stop| (Side::Left, stop))?;
    Ok((left, ParquetTable::open(right).map_err(|stop| (Side::Right, stop))?))
}
