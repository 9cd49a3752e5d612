//! A small file of every binary format.

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use std::io::{Cursor, Write};
use std::sync::Arc;

/// Names and contents.
pub(crate) fn samples(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a.csv.gz", gzip(text)),
        ("a.csv.zst", zstd::encode_all(text.as_bytes(), 3).unwrap()),
        ("a.zip", zip(text)),
        ("a.tar", tar(text)),
        ("a.parquet", parquet()),
        ("a.db", sqlite()),
    ]
}

fn gzip(text: &str) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    writer.write_all(text.as_bytes()).unwrap();
    writer.finish().unwrap()
}

fn zip(text: &str) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(vec![]));
    writer.start_file("a.csv", zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    writer.finish().unwrap().into_inner()
}

fn tar(text: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(vec![]);
    let mut header = tar::Header::new_ustar();
    header.set_size(text.len() as u64);
    builder.append_data(&mut header, "a.csv", text.as_bytes()).unwrap();
    builder.into_inner().unwrap()
}

fn parquet() -> Vec<u8> {
    let ids: ArrayRef = Arc::new((0..100).map(Some).collect::<Int64Array>());
    let names: ArrayRef = Arc::new((0..100).map(|id| Some(format!("name {}", id % 7))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
    let mut file = vec![];
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn sqlite() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let rows = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200) INSERT INTO t SELECT i, 'x' || i FROM c";
    connection.execute_batch(&format!("CREATE TABLE t (id INTEGER, name TEXT); {rows}")).unwrap();
    drop(connection);
    std::fs::read(path).unwrap()
}
