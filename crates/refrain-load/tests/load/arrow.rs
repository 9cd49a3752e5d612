//! Parquet and Arrow IPC: what needs no server.

use super::{drain, file, flights, read, refusal};
use arrow_array::builder::{FixedSizeBinaryBuilder, Int32Builder, ListBuilder};
use arrow_array::{Array, ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch, RunArray, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use refrain_load::{Format, Options, Shape, open};
use std::sync::Arc;

/// A file of Parquet.
pub(crate) fn parquet(batches: &[RecordBatch]) -> Vec<u8> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2000)).build();
    let mut writer = ArrowWriter::try_new(vec![], batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// A file of Arrow IPC.
pub(crate) fn ipc_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(vec![], &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn ipc_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(vec![], &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn one(name: &str, array: ArrayRef) -> RecordBatch {
    let schema = Schema::new(vec![Field::new(name, array.data_type().clone(), true)]);
    RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap()
}

#[test]
fn real_rows_are_the_same_in_every_format() {
    let days: Vec<RecordBatch> = (1..=31).map(flights::batch).collect();
    let mut expected = String::new();
    for day in 1..=31 {
        for row in std::fs::read_to_string(flights::csv(day)).unwrap().lines().skip(1) {
            let cells = row.split(',').map(|cell| match cell {
                "NA" => "\\N".to_owned(),
                time if time.ends_with(":00Z") => time.replace('T', " ").replace('Z', "+00"),
                cell => cell.to_owned(),
            });
            expected += &(cells.collect::<Vec<_>>().join("\t") + "\n");
        }
    }
    let formats = [("a.parquet", parquet(&days)), ("a.arrow", ipc_file(&days)), ("a.arrows", ipc_stream(&days))];
    for (name, content) in formats {
        let (_directory, path) = file(name, content);
        let (source, text) = read(&path, &Options::default()).unwrap();
        assert!(text == expected, "{name}");
        assert_eq!(source.rows(), Some(expected.lines().count() as u64));
        assert_eq!(source.columns(), days[0].schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>());
        let place = source.explain(842 + 3, Some("tailnum"));
        assert_eq!((place.line, place.row), (None, 845));
        assert_eq!(place.value.as_deref(), expected.lines().nth(844).unwrap().split('\t').nth(11));
    }
}

#[test]
fn times_of_96_bits_reach_beyond_nanoseconds() {
    let schema = Arc::new(parse_message_type("message m { required int96 t; }").unwrap());
    let mut writer = SerializedFileWriter::new(vec![], schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // 9999-12-31 is Julian day 5373484, 1970-01-01 is 2440588.
    let mut values = [Int96::new(), Int96::new()];
    values[0].set_data(1000, 0, 2_440_588);
    values[1].set_data(0, 0, 5_373_484);
    column.typed::<Int96Type>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let (_directory, path) = file("a.parquet", writer.into_inner().unwrap());
    let text = read(&path, &Options::default()).unwrap().1;
    assert_eq!(text, "1970-01-01 00:00:00.000001\n9999-12-31 00:00:00\n");
}

#[test]
fn sixteen_bytes_are_a_uuid_where_the_file_says_so() {
    use parquet::data_type::FixedLenByteArrayType;
    let message = "message m { required fixed_len_byte_array(16) u (UUID); }";
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut writer = SerializedFileWriter::new(vec![], schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let value = FixedLenByteArray::from(ByteArray::from((0..16).collect::<Vec<u8>>()));
    column.typed::<FixedLenByteArrayType>().write_batch(&[value], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let (_directory, path) = file("a.parquet", writer.into_inner().unwrap());
    let expected = "00010203-0405-0607-0809-0a0b0c0d0e0f\n";
    assert_eq!(read(&path, &Options::default()).unwrap().1, expected);

    let mut bytes = FixedSizeBinaryBuilder::new(16);
    bytes.append_value((0..16).collect::<Vec<u8>>()).unwrap();
    let array: ArrayRef = Arc::new(bytes.finish());
    let named = [("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())];
    let field =
        Field::new("u", DataType::FixedSizeBinary(16), true).with_metadata(std::collections::HashMap::from(named));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::clone(&array)]).unwrap();
    let (_directory, path) = file("a.arrow", ipc_file(&[batch]));
    assert_eq!(read(&path, &Options::default()).unwrap().1, expected);
    let (_directory, path) = file("a.arrow", ipc_file(&[one("u", array)]));
    assert_eq!(read(&path, &Options::default()).unwrap().1, "\\\\x000102030405060708090a0b0c0d0e0f\n");
}

#[test]
fn what_the_target_takes_decides_how_a_value_is_spelled() {
    let spelled = |array: ArrayRef, shape| {
        let (_directory, path) = file("a.parquet", parquet(&[one("v", array)]));
        let options = Options { shapes: [("v".to_owned(), shape)].into(), ..Options::default() };
        read(&path, &options).map(|(_, text)| text).map_err(|error| error.message.replace(path.to_str().unwrap(), "f"))
    };
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"a\tb"[..]]));
    assert_eq!(spelled(Arc::clone(&bytes), Shape::Any).unwrap(), "\\\\x610962\n");
    assert_eq!(spelled(bytes, Shape::Text).unwrap(), "a\\tb\n");
    let no_text = spelled(Arc::new(BinaryArray::from(vec![&b"\xff"[..]])), Shape::Text);
    let expected = "row 1 of `f`, column `v`: the value is binary and not UTF-8, and the target's column is text";
    assert_eq!(no_text.unwrap_err(), expected);
    let mut deep = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    deep.values().append_value([Some(1), None]);
    deep.append(true);
    let deep: ArrayRef = Arc::new(deep.finish());
    assert_eq!(spelled(Arc::clone(&deep), Shape::Any).unwrap(), "[[1,null]]\n");
    assert_eq!(spelled(deep, Shape::Array).unwrap(), "{{\"1\",NULL}}\n");
    let json: ArrayRef = Arc::new(StringArray::from(vec![r#"{"a":1}"#]));
    assert_eq!(spelled(json, Shape::Json).unwrap(), "{\"a\":1}\n");
    assert_eq!(spelled(Arc::new(Int64Array::from(vec![7])), Shape::Json).unwrap(), "7\n");
}

#[test]
fn what_cannot_be_loaded_is_named() {
    let nul = parquet(&[one("v", Arc::new(StringArray::from(vec!["a", "b\0"])))]);
    let expected = "row 2 of `a.parquet`, column `v`: the value has a NUL character, which PostgreSQL cannot hold";
    assert_eq!(refusal("a.parquet", nul), expected);
    let runs = RunArray::try_new(&Int32Array::from(vec![2]), &Int32Array::from(vec![5])).unwrap();
    let told = refusal("a.arrow", ipc_file(&[one("v", Arc::new(runs))]));
    assert!(told.starts_with("column `v` of `a.arrow` is of the type RunEndEncoded"), "{told}");
    let fields = vec![Field::new("v", DataType::Int32, true), Field::new("v", DataType::Int32, true)];
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let twice = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![Arc::clone(&column), column]).unwrap();
    assert_eq!(refusal("a.arrow", ipc_file(&[twice])), "`a.arrow` has two columns of the same name: `v`");
    for (name, format) in [("a.parquet", "Parquet"), ("a.arrow", "Arrow IPC")] {
        let expected =
            format!("`{name}` cannot be read as {format}: it is another format or was not written to its end");
        assert_eq!(refusal(name, "no such thing at all"), expected);
        assert_eq!(refusal(name, ""), expected);
    }
    let whole = parquet(&[flights::batch(1)]);
    assert!(refusal("a.parquet", &whole[..whole.len() - 1]).contains("cannot be read as Parquet"));
}

#[test]
fn damage_is_told_and_never_loaded_in_part_without_a_word() {
    let stream = ipc_stream(&[flights::batch(1), flights::batch(2)]);
    let (_directory, path) = file("a.arrows", &stream[..stream.len() / 4 * 3]);
    let mut source = open(&path, Format::ArrowIpc, &Options::default()).unwrap();
    let error = drain(&mut source).unwrap_err();
    assert!(error.message.ends_with("is damaged behind row 842"), "{}", error.message);
}
