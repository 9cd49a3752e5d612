//! Parquet, written by the Arrow writer.

use crate::support::{compare_bytes, only, shuffle, told};
use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use refrain_compare::{Cause, FindingKind, Verdict};
use std::sync::Arc;

const ROWS: i64 = 5000;

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
}

fn write(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let mut file = vec![];
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    file
}

/// Rows in the given order, loaded at some second, with sums that may have noise.
fn batch(order: &[i64], second: i64, noise: f64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(order.to_vec()));
    let names: ArrayRef =
        Arc::new(order.iter().map(|id| (id % 5 != 0).then(|| format!("name {id}"))).collect::<StringArray>());
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let sums: ArrayRef = Arc::new(order.iter().map(|id| Some(*id as f64 * (1.1 + noise))).collect::<Float64Array>());
    let at = order
        .iter()
        .map(|id| Some(1_742_811_300_000_000 + second * 1_000_000 + id))
        .collect::<TimestampMicrosecondArray>();
    RecordBatch::try_from_iter([("id", ids), ("name", names), ("sum", sums), ("loaded_at", Arc::new(at) as ArrayRef)])
        .unwrap()
}

fn in_order() -> Vec<i64> {
    (0..ROWS).collect()
}

#[test]
fn det_01_the_same_rows_stored_in_another_way() {
    let rows = batch(&in_order(), 0, 0.0);
    let plain = write(&rows, properties());
    for (other, kind) in [
        (properties().set_max_row_group_row_count(Some(1000)), FindingKind::ParquetLayout),
        (properties().set_compression(Compression::ZSTD(ZstdLevel::default())), FindingKind::ParquetCompression),
        (properties().set_created_by("another program".to_owned()), FindingKind::ParquetCreator),
        (
            properties().set_key_value_metadata(Some(vec![KeyValue::new("run".to_owned(), "7".to_owned())])),
            FindingKind::ParquetMetadata,
        ),
        (properties().set_dictionary_enabled(false), FindingKind::ParquetLayout),
    ] {
        let comparison = compare_bytes("a.parquet", &plain, write(&rows, other));
        assert_eq!((only(&comparison).kind, comparison.verdict), (kind, Verdict::ContentEqual));
    }
}

#[test]
fn another_order_and_other_values() {
    let mut order = in_order();
    shuffle(&mut order);
    let plain = write(&batch(&in_order(), 0, 0.0), properties());
    let comparison = compare_bytes("a.parquet", &plain, write(&batch(&order, 0, 0.0), properties()));
    assert_eq!(only_rows(&told(&comparison)), [(FindingKind::RowOrder, "same rows in another order")]);

    let comparison = compare_bytes("a.parquet", &plain, write(&batch(&order, 7, 1e-15), properties()));
    let told = told(&comparison);
    assert!(told[0].1.starts_with("column `sum` differs in "), "{told:?}");
    assert!(told[0].1.contains("numeric noise, largest relative difference "), "{told:?}");
    assert_eq!(told[1].1, "column `loaded_at` differs in 5000 of 5000 rows: looks like a wall-clock time");
    assert_eq!(told[2].0, FindingKind::RowOrder);
}

fn only_rows<'a>(told: &[(FindingKind, &'a str)]) -> Vec<(FindingKind, &'a str)> {
    let is_row = |kind| !matches!(kind, FindingKind::ParquetLayout);
    told.iter().copied().filter(|(kind, _)| is_row(*kind)).collect()
}

#[test]
fn another_type_of_a_column() {
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let float: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
    let file = |column| write(&RecordBatch::try_from_iter([("n", column)]).unwrap(), properties());
    let comparison = compare_bytes("a.parquet", file(Arc::clone(&narrow)), file(wide));
    assert_eq!(told(&comparison)[0].1, "column `n` has type Int32 on the left side and Int64 on the right");
    assert!(!told(&comparison).iter().any(|(kind, _)| *kind == FindingKind::ColumnValues));
    let comparison = compare_bytes("a.parquet", file(narrow), file(float));
    assert!(!told(&comparison).iter().any(|(kind, _)| *kind == FindingKind::ColumnValues));
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
}

#[test]
fn nested_values_are_compared() {
    use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{FixedSizeBinaryArray, StructArray};
    let file = |last: i32, id: u8| {
        let mut list = ListBuilder::new(Int32Builder::new());
        list.append_value([Some(1), None]);
        list.append_value([Some(last)]);
        let list: ArrayRef = Arc::new(list.finish());
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        for _ in 0..2 {
            map.keys().append_value("k");
            map.values().append_value(1);
            map.append(true).unwrap();
        }
        let map: ArrayRef = Arc::new(map.finish());
        let inner: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let structure: ArrayRef = Arc::new(StructArray::try_from(vec![("s", inner)]).unwrap());
        let ids = [[id; 16], [7; 16]];
        let ids: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap());
        let columns = [("list", list), ("map", map), ("structure", structure), ("id", ids)];
        write(&RecordBatch::try_from_iter(columns).unwrap(), properties())
    };
    let comparison = compare_bytes("a.parquet", file(5, 1), file(6, 1));
    let values = told(&comparison).into_iter().find(|(kind, _)| *kind == FindingKind::ColumnValues).unwrap();
    assert_eq!(values.1, "column `list` differs in 1 of 2 rows: other numbers, largest relative difference 2e-1");
    let comparison = compare_bytes("a.parquet", file(5, 0x44), file(5, 0x45));
    let finding = comparison.findings().find(|(_, finding)| finding.column.as_deref() == Some("id")).unwrap().1;
    assert_eq!(finding.cause, Some(Cause::RandomUuid));
    assert_eq!(finding.examples[0].left.as_deref(), Some("44444444-4444-4444-4444-444444444444"));
}
