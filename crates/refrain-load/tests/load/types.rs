//! One column of every type of Arrow, with what PostgreSQL must hold afterwards.

use arrow_array::builder::{
    BinaryBuilder, FixedSizeBinaryBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder,
    StringDictionaryBuilder,
};
use arrow_array::types::{Float16Type, Int8Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Date64Array, Decimal128Array, Decimal256Array,
    DurationMicrosecondArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, NullArray, PrimitiveArray, RecordBatch, StringArray,
    StringViewArray, StructArray, Time32MillisecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// What is selected for NULL.
pub(crate) const NULL: &str = "<null>";

/// A column: its values, its type in PostgreSQL, and the texts that PostgreSQL then selects; the last row is NULL.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) array: ArrayRef,
    pub(crate) target: &'static str,
    pub(crate) expected: Vec<&'static str>,
}

/// All columns, of three rows each.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = vec![];
    let mut case = |array: ArrayRef, target, expected: [&'static str; 2]| {
        assert_eq!(array.len(), 3, "{target}");
        let name = format!("c{}", cases.len());
        cases.push(Case { name, array, target, expected: expected.to_vec() });
    };
    numbers(&mut case);
    texts(&mut case);
    times(&mut case);
    nested(&mut case);
    cases
}

/// All columns as one batch.
pub(crate) fn batch(cases: &[Case]) -> RecordBatch {
    let field = |case: &Case| Field::new(&case.name, case.array.data_type().clone(), true);
    let schema = Schema::new(cases.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), cases.iter().map(|case| Arc::clone(&case.array)).collect()).unwrap()
}

type Add<'a> = &'a mut dyn FnMut(ArrayRef, &'static str, [&'static str; 2]);

fn numbers(case: Add<'_>) {
    case(Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])), "boolean", ["true", "false"]);
    case(Arc::new(Int8Array::from(vec![Some(i8::MIN), Some(0), None])), "smallint", ["-128", "0"]);
    case(Arc::new(Int16Array::from(vec![Some(i16::MIN), Some(7), None])), "smallint", ["-32768", "7"]);
    case(Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(7), None])), "integer", ["-2147483648", "7"]);
    case(Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(7), None])), "bigint", ["-9223372036854775808", "7"]);
    case(Arc::new(UInt8Array::from(vec![Some(255), Some(7), None])), "smallint", ["255", "7"]);
    case(Arc::new(UInt16Array::from(vec![Some(65_535), Some(7), None])), "integer", ["65535", "7"]);
    case(Arc::new(UInt32Array::from(vec![Some(u32::MAX), Some(7), None])), "bigint", ["4294967295", "7"]);
    case(Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(7), None])), "numeric", ["18446744073709551615", "7"]);
    let half = |value: f32| <Float16Type as arrow_array::ArrowPrimitiveType>::Native::from_f32(value);
    case(Arc::new(Float16Array::from(vec![Some(half(0.5)), Some(half(-2.0)), None])), "real", ["0.5", "-2"]);
    case(Arc::new(Float32Array::from(vec![Some(0.1), Some(f32::NAN), None])), "real", ["0.1", "NaN"]);
    case(Arc::new(Float64Array::from(vec![Some(5e-324), Some(f64::INFINITY), None])), "float8", ["5e-324", "Infinity"]);
    case(Arc::new(Float64Array::from(vec![Some(f64::NEG_INFINITY), Some(-0.0), None])), "float8", ["-Infinity", "-0"]);
    case(Arc::new(Float64Array::from(vec![Some(41.0), Some(1e9), None])), "integer", ["41", "1000000000"]);
    let decimal = Decimal128Array::from(vec![Some(-5), Some(10_i128.pow(37)), None]).with_precision_and_scale(38, 4);
    case(Arc::new(decimal.unwrap()), "numeric", ["-0.0005", "1000000000000000000000000000000000.0000"]);
    let wide = Decimal256Array::from(vec![Some(i256::from_i128(12_345)), Some(i256::MAX / i256::from_i128(10)), None]);
    let most = "578960446186580977117854925043439539266349923328202820197287920039565648199.6";
    case(Arc::new(wide.with_precision_and_scale(76, 1).unwrap()), "numeric", ["1234.5", most]);
    case(Arc::new(NullArray::new(3)), "integer", [NULL, NULL]);
}

fn texts(case: Add<'_>) {
    case(Arc::new(StringArray::from(vec![Some("tab\tback\\slash"), Some(""), None])), "text", ["tab\tback\\slash", ""]);
    case(Arc::new(StringArray::from(vec![Some("\\N"), Some("\\."), None])), "text", ["\\N", "\\."]);
    case(Arc::new(LargeStringArray::from(vec![Some("ü😀"), Some("NULL"), None])), "text", ["ü😀", "NULL"]);
    let view = StringViewArray::from(vec![Some("a text of more than twelve bytes"), Some("short"), None]);
    case(Arc::new(view), "text", ["a text of more than twelve bytes", "short"]);
    let mut bytes = BinaryBuilder::new();
    bytes.append_value([0, 255, b'\\']);
    bytes.append_value([]);
    bytes.append_null();
    case(Arc::new(bytes.finish()), "bytea", ["\\x00ff5c", "\\x"]);
    case(Arc::new(LargeBinaryArray::from(vec![Some(&b"hi"[..]), Some(b"\n"), None])), "bytea", ["\\x6869", "\\x0a"]);
    let mut fixed = FixedSizeBinaryBuilder::new(2);
    fixed.append_value([1, 2]).unwrap();
    fixed.append_value([3, 4]).unwrap();
    fixed.append_null();
    case(Arc::new(fixed.finish()), "bytea", ["\\x0102", "\\x0304"]);
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    dictionary.append_value("UA\n");
    dictionary.append_value("AA");
    dictionary.append_null();
    case(Arc::new(dictionary.finish()), "text", ["UA\n", "AA"]);
}

fn times(case: Add<'_>) {
    case(
        Arc::new(Date32Array::from(vec![Some(15_706), Some(-719_528), None])),
        "date",
        ["2013-01-01", "0001-01-01 BC"],
    );
    case(
        Arc::new(Date64Array::from(vec![Some(0), Some(253_402_300_800_000), None])),
        "date",
        ["1970-01-01", "10000-01-01"],
    );
    case(
        Arc::new(Time32MillisecondArray::from(vec![Some(1), Some(86_399_000), None])),
        "time",
        ["00:00:00.001", "23:59:59"],
    );
    case(
        Arc::new(Time64NanosecondArray::from(vec![Some(1_000), Some(43_200_000_000_000), None])),
        "time",
        ["00:00:00.000001", "12:00:00"],
    );
    case(
        Arc::new(TimestampSecondArray::from(vec![Some(1_357_034_400), Some(-1), None])),
        "timestamp",
        ["2013-01-01 10:00:00", "1969-12-31 23:59:59"],
    );
    case(
        Arc::new(
            TimestampMillisecondArray::from(vec![Some(1_357_034_400_007), Some(-1), None]).with_timezone("+02:00"),
        ),
        "timestamptz",
        ["2013-01-01 10:00:00.007+00", "1969-12-31 23:59:59.999+00"],
    );
    case(
        Arc::new(
            TimestampMicrosecondArray::from(vec![Some(1), Some(-62_167_219_200_000_000), None]).with_timezone("UTC"),
        ),
        "timestamptz",
        ["1970-01-01 00:00:00.000001+00", "0001-01-01 00:00:00+00 BC"],
    );
    case(
        Arc::new(TimestampNanosecondArray::from(vec![Some(1_600), Some(0), None])),
        "timestamp",
        ["1970-01-01 00:00:00.000002", "1970-01-01 00:00:00"],
    );
    case(
        Arc::new(DurationMicrosecondArray::from(vec![Some(-1_500_000), Some(3_600_000_000), None])),
        "interval",
        ["-00:00:01.5", "01:00:00"],
    );
}

fn nested(case: Add<'_>) {
    let mut ints = ListBuilder::new(Int32Builder::new());
    ints.append_value([Some(1), None, Some(-3)]);
    ints.append_value([]);
    ints.append_null();
    let ints = ints.finish();
    case(Arc::new(ints.clone()), "integer[]", ["{1,NULL,-3}", "{}"]);
    case(Arc::new(ints), "jsonb", ["[1, null, -3]", "[]"]);
    let mut names = ListBuilder::new(StringBuilder::new());
    names.append_value([Some("a \"b\" \\ c,d"), Some("NULL"), None, Some("")]);
    names.append_value([Some("\t\n")]);
    names.append_null();
    let names: ArrayRef = Arc::new(names.finish());
    case(Arc::clone(&names), "text[]", [r#"{"a \"b\" \\ c,d","NULL",NULL,""}"#, "{\"\t\n\"}"]);
    let moments = TimestampMicrosecondArray::from(vec![0, 1, 2, 3, 4, 5]).with_timezone("UTC");
    let field = Arc::new(Field::new_list_field(moments.data_type().clone(), true));
    let nulls = Some(vec![true, true, false].into());
    let pairs = FixedSizeListArray::new(field, 2, Arc::new(moments), nulls);
    case(
        Arc::new(pairs),
        "timestamptz[]",
        [
            r#"{"1970-01-01 00:00:00+00","1970-01-01 00:00:00.000001+00"}"#,
            r#"{"1970-01-01 00:00:00.000002+00","1970-01-01 00:00:00.000003+00"}"#,
        ],
    );
    let numbers = PrimitiveArray::<arrow_array::types::Float64Type>::from(vec![Some(f64::NAN), Some(1.5), None]);
    let fields = vec![
        Arc::new(Field::new("say \"n\"", DataType::Float64, true)),
        Arc::new(Field::new("list", names.data_type().clone(), true)),
    ];
    let structs = StructArray::new(fields.into(), vec![Arc::new(numbers), names], Some(vec![true, true, false].into()));
    case(
        Arc::new(structs),
        "jsonb",
        [
            r#"{"list": ["a \"b\" \\ c,d", "NULL", null, ""], "say \"n\"": "NaN"}"#,
            r#"{"list": ["\t\n"], "say \"n\"": 1.5}"#,
        ],
    );
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k");
    map.values().append_value(1);
    map.append(true).unwrap();
    map.append(true).unwrap();
    map.append(false).unwrap();
    case(Arc::new(map.finish()), "jsonb", [r#"{"k": 1}"#, "{}"]);
}
