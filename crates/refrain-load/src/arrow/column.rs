//! One column of a record batch: how its values are written.

use super::Form;
use super::civil::{self, Style};
use super::number::{self, Special};
use crate::copy_text::{self, Nul};
use crate::options::Shape;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use std::fmt;
use std::ops::Range;

/// Why a value cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// A character with the code zero.
    Nul,
    /// Bytes for a column of text that are no text.
    NotUtf8,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nul => "the value has a NUL character, which PostgreSQL cannot hold",
            Self::NotUtf8 => "the value is binary and not UTF-8, and the target's column is text",
        })
    }
}

impl From<Nul> for Bad {
    fn from(_: Nul) -> Self {
        Self::Nul
    }
}

/// A column, its type found out once and not for every value.
pub(super) struct Column {
    nulls: Option<NullBuffer>,
    pub(super) values: Values,
    shape: Shape,
}

type Native<T> = <T as ArrowPrimitiveType>::Native;

pub(super) enum Values {
    Null,
    Bool(BooleanBuffer),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
    Float16(ScalarBuffer<Native<Float16Type>>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal32(ScalarBuffer<i32>, i8),
    Decimal64(ScalarBuffer<i64>, i8),
    Decimal128(ScalarBuffer<i128>, i8),
    Decimal256(ScalarBuffer<Native<Decimal256Type>>, i8),
    Date32(ScalarBuffer<i32>),
    Date64(ScalarBuffer<i64>),
    Time32(ScalarBuffer<i32>, TimeUnit),
    Time64(ScalarBuffer<i64>, TimeUnit),
    Timestamp(ScalarBuffer<i64>, TimeUnit, bool),
    Duration(ScalarBuffer<i64>, TimeUnit),
    Months(ScalarBuffer<i32>),
    DayTime(ScalarBuffer<Native<IntervalDayTimeType>>),
    MonthDayNano(ScalarBuffer<Native<IntervalMonthDayNanoType>>),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    BytesView(BinaryViewArray),
    FixedBytes(FixedSizeBinaryArray),
    Uuid(FixedSizeBinaryArray),
    Dictionary(Vec<usize>, Box<Column>),
    /// The last says whether it is an array literal.
    List(Ranges, Box<Column>, bool),
    Struct(Vec<(String, Column)>),
    Map(Ranges, Box<(Column, Column)>),
}

/// Where the elements of each list stand.
pub(super) enum Ranges {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    Fixed(usize),
}

impl Ranges {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "offsets into an array that is in memory"
    )]
    pub(super) fn of(&self, row: usize) -> Range<usize> {
        match self {
            Self::Small(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Large(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Fixed(size) => row * size..(row + 1) * size,
        }
    }
}

/// Whether a type can be written; the one that cannot, otherwise.
pub(super) fn check(kind: &DataType) -> Result<(), DataType> {
    match kind {
        DataType::RunEndEncoded(..) | DataType::Union(..) | DataType::ListView(_) | DataType::LargeListView(_) => {
            Err(kind.clone())
        }
        DataType::Dictionary(_, inner) => check(inner),
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _) => check(inner.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check(field.data_type())),
        _ => Ok(()),
    }
}

impl Column {
    pub(super) fn new(array: &dyn Array, form: Form) -> Self {
        Self {
            nulls: array.logical_nulls().filter(|nulls| nulls.null_count() > 0),
            values: values(array, form),
            shape: form.shape,
        }
    }

    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) || matches!(self.values, Values::Null)
    }

    /// Appends the value as a field of COPY.
    #[inline]
    pub(super) fn field(&self, row: usize, out: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Result<(), Bad> {
        if self.is_null(row) {
            out.extend_from_slice(copy_text::NULL);
            return Ok(());
        }
        match &self.values {
            Values::Text(array) => copy_text::push(array.value(row).as_bytes(), out)?,
            Values::LargeText(array) => copy_text::push(array.value(row).as_bytes(), out)?,
            Values::TextView(array) => copy_text::push(array.value(row).as_bytes(), out)?,
            Values::Dictionary(keys, values) => return values.field(keys[row], out, scratch),
            Values::Bytes(_) | Values::LargeBytes(_) | Values::BytesView(_) | Values::FixedBytes(_)
                if self.shape == Shape::Text =>
            {
                let text = std::str::from_utf8(self.bytes(row)).map_err(|_| Bad::NotUtf8)?;
                copy_text::push(text.as_bytes(), out)?;
            }
            Values::List(..) | Values::Struct(_) | Values::Map(..) => {
                scratch.clear();
                self.nested(row, scratch);
                copy_text::push(scratch, out)?;
            }
            _ if self.shape == Shape::Json => {
                scratch.clear();
                self.json(row, scratch);
                copy_text::push(scratch, out)?;
            }
            Values::Bytes(_) | Values::LargeBytes(_) | Values::BytesView(_) | Values::FixedBytes(_) => {
                out.push(b'\\');
                self.plain(row, out, Style::Sql);
            }
            _ => self.plain(row, out, Style::Sql),
        }
        Ok(())
    }

    /// Appends the value as PostgreSQL reads it outside COPY; false for NULL.
    pub(super) fn shown(&self, row: usize, out: &mut Vec<u8>) -> bool {
        if self.is_null(row) {
            return false;
        }
        match &self.values {
            Values::Dictionary(keys, values) => return values.shown(keys[row], out),
            Values::List(..) | Values::Struct(_) | Values::Map(..) => self.nested(row, out),
            _ => self.plain(row, out, Style::Sql),
        }
        true
    }

    /// Appends a simple value without anything to escape it.
    #[inline]
    pub(super) fn plain(&self, row: usize, out: &mut Vec<u8>, style: Style) {
        match &self.values {
            Values::Bool(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            Values::Int8(values) => number::whole(values[row], out),
            Values::Int16(values) => number::whole(values[row], out),
            Values::Int32(values) => number::whole(values[row], out),
            Values::Int64(values) => number::whole(values[row], out),
            Values::UInt8(values) => number::whole(values[row], out),
            Values::UInt16(values) => number::whole(values[row], out),
            Values::UInt32(values) => number::whole(values[row], out),
            Values::UInt64(values) => number::whole(values[row], out),
            Values::Float16(values) => {
                let value = f32::from(values[row]);
                number::float(value, Special::of(value.into()), out);
            }
            Values::Float32(values) => number::float(values[row], Special::of(values[row].into()), out),
            Values::Float64(values) => number::float(values[row], Special::of(values[row]), out),
            Values::Decimal32(values, scale) => number::decimal(values[row].into(), *scale, out),
            Values::Decimal64(values, scale) => number::decimal(values[row].into(), *scale, out),
            Values::Decimal128(values, scale) => number::decimal(values[row], *scale, out),
            Values::Decimal256(values, scale) => number::wide_decimal(values[row], *scale, out),
            Values::Date32(values) => civil::date(values[row].into(), out),
            Values::Date64(values) => civil::date(values[row].div_euclid(86_400_000), out),
            Values::Time32(values, unit) => civil::time(values[row].into(), *unit, out),
            Values::Time64(values, unit) => civil::time(values[row], *unit, out),
            Values::Timestamp(values, unit, has_zone) => civil::timestamp(values[row], *unit, *has_zone, style, out),
            Values::Duration(values, unit) => civil::interval(0, 0, values[row], *unit, out),
            Values::Months(values) => civil::interval(values[row], 0, 0, TimeUnit::Second, out),
            Values::DayTime(values) => {
                let value = values[row];
                civil::interval(0, value.days, value.milliseconds.into(), TimeUnit::Millisecond, out);
            }
            Values::MonthDayNano(values) => {
                let value = values[row];
                civil::interval(value.months, value.days, value.nanoseconds, TimeUnit::Nanosecond, out);
            }
            Values::Text(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Values::LargeText(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Values::TextView(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Values::Uuid(array) => uuid(array.value(row), out),
            Values::Bytes(_) | Values::LargeBytes(_) | Values::BytesView(_) | Values::FixedBytes(_) => {
                out.extend_from_slice(b"\\x");
                hex(self.bytes(row), out);
            }
            Values::Null | Values::Dictionary(..) | Values::List(..) | Values::Struct(_) | Values::Map(..) => {}
        }
    }

    fn bytes(&self, row: usize) -> &[u8] {
        match &self.values {
            Values::Bytes(array) => array.value(row),
            Values::LargeBytes(array) => array.value(row),
            Values::BytesView(array) => array.value(row),
            Values::FixedBytes(array) => array.value(row),
            _ => &[],
        }
    }
}

fn values(array: &dyn Array, form: Form) -> Values {
    macro_rules! primitive {
        ($kind:ty) => {
            array.as_primitive::<$kind>().values().clone()
        };
    }
    match array.data_type() {
        DataType::Boolean => Values::Bool(array.as_boolean().values().clone()),
        DataType::Int8 => Values::Int8(primitive!(Int8Type)),
        DataType::Int16 => Values::Int16(primitive!(Int16Type)),
        DataType::Int32 => Values::Int32(primitive!(Int32Type)),
        DataType::Int64 => Values::Int64(primitive!(Int64Type)),
        DataType::UInt8 => Values::UInt8(primitive!(UInt8Type)),
        DataType::UInt16 => Values::UInt16(primitive!(UInt16Type)),
        DataType::UInt32 => Values::UInt32(primitive!(UInt32Type)),
        DataType::UInt64 => Values::UInt64(primitive!(UInt64Type)),
        DataType::Float16 => Values::Float16(primitive!(Float16Type)),
        DataType::Float32 => Values::Float32(primitive!(Float32Type)),
        DataType::Float64 => Values::Float64(primitive!(Float64Type)),
        DataType::Decimal32(_, scale) => Values::Decimal32(primitive!(Decimal32Type), *scale),
        DataType::Decimal64(_, scale) => Values::Decimal64(primitive!(Decimal64Type), *scale),
        DataType::Decimal128(_, scale) => Values::Decimal128(primitive!(Decimal128Type), *scale),
        DataType::Decimal256(_, scale) => Values::Decimal256(primitive!(Decimal256Type), *scale),
        DataType::Date32 => Values::Date32(primitive!(Date32Type)),
        DataType::Date64 => Values::Date64(primitive!(Date64Type)),
        DataType::Time32(TimeUnit::Second) => Values::Time32(primitive!(Time32SecondType), TimeUnit::Second),
        DataType::Time32(unit) => Values::Time32(primitive!(Time32MillisecondType), *unit),
        DataType::Time64(TimeUnit::Microsecond) => {
            Values::Time64(primitive!(Time64MicrosecondType), TimeUnit::Microsecond)
        }
        DataType::Time64(unit) => Values::Time64(primitive!(Time64NanosecondType), *unit),
        DataType::Timestamp(unit, zone) => {
            let values = match unit {
                TimeUnit::Second => primitive!(TimestampSecondType),
                TimeUnit::Millisecond => primitive!(TimestampMillisecondType),
                TimeUnit::Microsecond => primitive!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => primitive!(TimestampNanosecondType),
            };
            Values::Timestamp(values, *unit, zone.is_some())
        }
        DataType::Duration(unit) => {
            let values = match unit {
                TimeUnit::Second => primitive!(DurationSecondType),
                TimeUnit::Millisecond => primitive!(DurationMillisecondType),
                TimeUnit::Microsecond => primitive!(DurationMicrosecondType),
                TimeUnit::Nanosecond => primitive!(DurationNanosecondType),
            };
            Values::Duration(values, *unit)
        }
        DataType::Interval(IntervalUnit::YearMonth) => Values::Months(primitive!(IntervalYearMonthType)),
        DataType::Interval(IntervalUnit::DayTime) => Values::DayTime(primitive!(IntervalDayTimeType)),
        DataType::Interval(IntervalUnit::MonthDayNano) => Values::MonthDayNano(primitive!(IntervalMonthDayNanoType)),
        DataType::Utf8 => Values::Text(array.as_string().clone()),
        DataType::LargeUtf8 => Values::LargeText(array.as_string().clone()),
        DataType::Utf8View => Values::TextView(array.as_string_view().clone()),
        DataType::Binary => Values::Bytes(array.as_binary().clone()),
        DataType::LargeBinary => Values::LargeBytes(array.as_binary().clone()),
        DataType::BinaryView => Values::BytesView(array.as_binary_view().clone()),
        DataType::FixedSizeBinary(16) if form.is_uuid => Values::Uuid(array.as_fixed_size_binary().clone()),
        DataType::FixedSizeBinary(_) => Values::FixedBytes(array.as_fixed_size_binary().clone()),
        _ => nested_values(array, form),
    }
}

fn nested_values(array: &dyn Array, form: Form) -> Values {
    let child = |array: &dyn Array| Column::new(array, form);
    match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            Values::Dictionary(dictionary.normalized_keys(), Box::new(child(dictionary.values().as_ref())))
        }
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let ranges = Ranges::Small(list.offsets().clone());
            Values::List(ranges, Box::new(child(list.values().as_ref())), is_array(field.data_type(), form.shape))
        }
        DataType::LargeList(field) => {
            let list = array.as_list::<i64>();
            let ranges = Ranges::Large(list.offsets().clone());
            Values::List(ranges, Box::new(child(list.values().as_ref())), is_array(field.data_type(), form.shape))
        }
        DataType::FixedSizeList(field, size) => {
            let list = array.as_fixed_size_list();
            let ranges = Ranges::Fixed(usize::try_from(*size).unwrap_or_default());
            Values::List(ranges, Box::new(child(list.values().as_ref())), is_array(field.data_type(), form.shape))
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(|column| child(column.as_ref()));
            Values::Struct(fields.iter().map(|field| field.name().clone()).zip(columns).collect())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries = Box::new((child(map.keys().as_ref()), child(map.values().as_ref())));
            Values::Map(Ranges::Small(map.offsets().clone()), entries)
        }
        _ => Values::Null,
    }
}

/// Whether a list with such elements is written as an array literal.
fn is_array(element: &DataType, shape: Shape) -> bool {
    match shape {
        Shape::Array => true,
        Shape::Json => false,
        Shape::Any | Shape::Text => !element.is_nested(),
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
}

fn uuid(bytes: &[u8], out: &mut Vec<u8>) {
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        hex(&[*byte], out);
    }
}
