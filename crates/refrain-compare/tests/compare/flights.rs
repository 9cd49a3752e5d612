//! A day of real flights in every format: another order is another order and no more, whatever it is stored in.

use crate::support::{compare_bytes, flights, shuffle, told, with_rows};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use refrain_compare::{FindingKind, Verdict};
use std::io::{Cursor, Write as _};
use std::sync::Arc;

type Rows = Vec<Vec<String>>;

/// Writes a CSV text in some format.
type Write = fn(&str) -> Vec<u8>;

/// The names of the columns, and the rows.
fn table(csv: &str) -> (Vec<String>, Rows) {
    let mut rows: Rows = csv.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
    (rows.remove(0), rows)
}

fn tsv(csv: &str) -> Vec<u8> {
    csv.replace(',', "\t").into_bytes()
}

fn json_lines(csv: &str) -> Vec<u8> {
    let (names, rows) = table(csv);
    let object = |row: &Vec<String>| {
        let entries =
            names.iter().zip(row).map(|(name, value)| (name.clone(), serde_json::Value::from(value.as_str())));
        serde_json::Value::Object(entries.collect()).to_string() + "\n"
    };
    rows.iter().map(object).collect::<String>().into_bytes()
}

fn parquet(csv: &str) -> Vec<u8> {
    let (names, rows) = table(csv);
    let column = |(place, name): (usize, &String)| {
        let values: StringArray = rows.iter().map(|row| Some(row[place].as_str())).collect();
        (name.clone(), Arc::new(values) as ArrayRef)
    };
    let batch = RecordBatch::try_from_iter(names.iter().enumerate().map(column)).unwrap();
    let mut file = vec![];
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn sqlite(csv: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flights.db");
    let mut connection = rusqlite::Connection::open(&path).unwrap();
    let transaction = connection.transaction().unwrap();
    let (names, rows) = table(csv);
    transaction.execute_batch(&format!("CREATE TABLE flights ({})", names.join(", "))).unwrap();
    let places = vec!["?"; names.len()].join(", ");
    for row in rows {
        let insert = format!("INSERT INTO flights VALUES ({places})");
        transaction.prepare(&insert).unwrap().execute(rusqlite::params_from_iter(row)).unwrap();
    }
    transaction.commit().unwrap();
    drop(connection);
    std::fs::read(path).unwrap()
}

fn zip(csv: &str) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(vec![]));
    writer.start_file("flights.csv", zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(csv.as_bytes()).unwrap();
    writer.finish().unwrap().into_inner()
}

fn gzip(csv: &str) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    writer.write_all(csv.as_bytes()).unwrap();
    writer.finish().unwrap()
}

#[test]
fn det_07_another_order_in_every_format() {
    let shuffled = with_rows(&flights(), |rows| shuffle(rows));
    let formats: [(&str, Write); 8] = [
        ("flights.csv", |csv| csv.as_bytes().to_vec()),
        ("flights.tsv", tsv),
        ("flights.jsonl", json_lines),
        ("flights.parquet", parquet),
        ("flights.db", sqlite),
        ("flights.zip", zip),
        ("flights.csv.gz", gzip),
        ("flights.csv.zst", |csv| zstd::encode_all(csv.as_bytes(), 3).unwrap()),
    ];
    for (name, write) in formats {
        let comparison = compare_bytes(name, write(&flights()), write(&shuffled));
        let told = told(&comparison);
        assert_eq!(told[0].0, FindingKind::RowOrder, "{name}: {told:?}");
        assert!(told[0].1.ends_with("same rows in another order"), "{name}: {told:?}");
        assert_eq!(comparison.verdict, Verdict::ContentEqual, "{name}: {told:?}");

        let changed = shuffled.replace(",UA,", ",ZZ,");
        let comparison = compare_bytes(name, write(&flights()), write(&changed));
        let finding =
            comparison.findings().find(|(_, finding)| finding.column.as_deref() == Some("carrier")).unwrap().1;
        assert_eq!((finding.differing, finding.total), (Some(165), Some(842)), "{name}: {finding:?}");
    }
}
