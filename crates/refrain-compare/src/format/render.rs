//! Values of Arrow arrays as text, and their hashes.

use crate::rows::{NULL_HASH, hash_value};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use jiff::{SignedDuration, Timestamp, civil};

/// Writes the hash of every value of `array` into `hashes`, each `stride` after the one before, starting at `start`.
///
/// A number has the same hash in whatever type it is held exactly.
pub(super) fn hash(array: &dyn Array, hashes: &mut [u64], start: usize, stride: usize) {
    let nulls = array.logical_nulls();
    let mut put = |row: usize, hash: u64| hashes[start + row * stride] = hash;
    match array.data_type() {
        DataType::Int8 => numbers::<Int8Type>(array, &mut put, |value| hash_value(&i64::from(value).to_le_bytes())),
        DataType::Int16 => numbers::<Int16Type>(array, &mut put, |value| hash_value(&i64::from(value).to_le_bytes())),
        DataType::Int32 => numbers::<Int32Type>(array, &mut put, |value| hash_value(&i64::from(value).to_le_bytes())),
        DataType::Int64 => numbers::<Int64Type>(array, &mut put, |value| hash_value(&value.to_le_bytes())),
        DataType::UInt8 => numbers::<UInt8Type>(array, &mut put, |value| hash_value(&u64::from(value).to_le_bytes())),
        DataType::UInt16 => numbers::<UInt16Type>(array, &mut put, |value| hash_value(&u64::from(value).to_le_bytes())),
        DataType::UInt32 => numbers::<UInt32Type>(array, &mut put, |value| hash_value(&u64::from(value).to_le_bytes())),
        DataType::UInt64 => numbers::<UInt64Type>(array, &mut put, |value| hash_value(&value.to_le_bytes())),
        DataType::Float16 => numbers::<Float16Type>(array, &mut put, |value| float(f64::from(value))),
        DataType::Float32 => numbers::<Float32Type>(array, &mut put, |value| float(f64::from(value))),
        DataType::Float64 => numbers::<Float64Type>(array, &mut put, float),
        DataType::Utf8 => {
            array
                .as_string::<i32>()
                .iter()
                .enumerate()
                .for_each(|(row, text)| put(row, bytes(text.map(str::as_bytes))));
        }
        DataType::LargeUtf8 => {
            array
                .as_string::<i64>()
                .iter()
                .enumerate()
                .for_each(|(row, text)| put(row, bytes(text.map(str::as_bytes))));
        }
        DataType::Utf8View => {
            array.as_string_view().iter().enumerate().for_each(|(row, text)| put(row, bytes(text.map(str::as_bytes))));
        }
        DataType::Binary => array.as_binary::<i32>().iter().enumerate().for_each(|(row, value)| put(row, bytes(value))),
        DataType::LargeBinary => {
            array.as_binary::<i64>().iter().enumerate().for_each(|(row, value)| put(row, bytes(value)));
        }
        kind => {
            let data = array.to_data();
            match (kind.primitive_width(), data.buffers().first()) {
                (Some(width), Some(buffer)) => {
                    let values = buffer.as_slice().chunks_exact(width).skip(data.offset()).take(array.len());
                    values.enumerate().for_each(|(row, value)| put(row, hash_value(value)));
                }
                _ => (0..array.len())
                    .for_each(|row| put(row, text(array, row).map_or(NULL_HASH, |text| hash_value(text.as_bytes())))),
            }
        }
    }
    if let Some(nulls) = nulls {
        (0..array.len()).filter(|row| nulls.is_null(*row)).for_each(|row| hashes[start + row * stride] = NULL_HASH);
    }
}

fn numbers<T: ArrowPrimitiveType>(
    array: &dyn Array,
    put: &mut impl FnMut(usize, u64),
    hash: impl Fn(T::Native) -> u64,
) {
    for (row, value) in array.as_primitive::<T>().values().iter().enumerate() {
        put(row, hash(*value));
    }
}

/// Every NaN is the same to a reader, and so is a whole number in a column of another type.
fn float(value: f64) -> u64 {
    /// Above this, floating-point numbers do not tell all whole numbers apart.
    const MOST: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < MOST && (value != 0.0 || value.is_sign_positive()) {
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number and small enough")]
        let whole = value as i64;
        return hash_value(&whole.to_le_bytes());
    }
    hash_value(&(if value.is_nan() { f64::NAN } else { value }).to_le_bytes())
}

fn bytes(value: Option<&[u8]>) -> u64 {
    value.map_or(NULL_HASH, hash_value)
}

/// A value as text, `None` for a null.
pub(crate) fn text(array: &dyn Array, row: usize) -> Option<String> {
    if array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Null => return None,
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float16 => array.as_primitive::<Float16Type>().value(row).to_string(),
        DataType::Float32 => format!("{:?}", array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Decimal256(..) => array.as_primitive::<Decimal256Type>().value_as_string(row),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).to_owned(),
        DataType::Utf8View => array.as_string_view().value(row).to_owned(),
        DataType::Binary => binary(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => binary(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => binary(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(16) => uuid(array.as_fixed_size_binary().value(row)),
        DataType::FixedSizeBinary(_) => binary(array.as_fixed_size_binary().value(row)),
        DataType::List(_) => list(array.as_list::<i32>().value(row).as_ref()),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row).as_ref()),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row).as_ref()),
        DataType::Map(..) => list(&array.as_map().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let cells = fields
                .iter()
                .zip(columns)
                .map(|(field, column)| format!("{:?}: {}", field.name(), inner(column.as_ref(), row)));
            format!("{{{}}}", cells.collect::<Vec<_>>().join(", "))
        }
        kind => temporal(kind, array, row).unwrap_or_else(|| format!("{:?}", array.slice(row, 1).to_data().buffers())),
    })
}

/// Values inside a list or a structure, with strings in quotes so that two different values never read the same.
fn inner(array: &dyn Array, row: usize) -> String {
    match (text(array, row), array.data_type()) {
        (None, _) => "null".to_owned(),
        (Some(text), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => format!("{text:?}"),
        (Some(text), _) => text,
    }
}

fn list(array: &dyn Array) -> String {
    let elements: Vec<String> = (0..array.len()).map(|row| inner(array, row)).collect();
    format!("[{}]", elements.join(", "))
}

fn binary(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => super::hex(value),
    }
}

fn uuid(value: &[u8]) -> String {
    let mut text: String = super::hex(value);
    for place in [20, 16, 12, 8] {
        text.insert(place, '-');
    }
    text
}

fn temporal(kind: &DataType, array: &dyn Array, row: usize) -> Option<String> {
    let data = array.to_data();
    let width = kind.primitive_width()?;
    let start = (data.offset() + row) * width;
    let value = data.buffers().first()?.as_slice().get(start..start + width)?;
    let number = match *value {
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        ref bytes => i64::from_le_bytes(bytes.try_into().ok()?),
    };
    let nanoseconds = |unit: &TimeUnit| {
        i128::from(number)
            * match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1000,
                TimeUnit::Nanosecond => 1,
            }
    };
    match kind {
        DataType::Timestamp(unit, zone) => {
            let text = Timestamp::from_nanosecond(nanoseconds(unit)).ok()?.to_string();
            Some(if zone.is_some() { text } else { text.trim_end_matches('Z').to_owned() })
        }
        DataType::Date32 => {
            let days = SignedDuration::from_hours(number.checked_mul(24)?);
            civil::date(1970, 1, 1).checked_add(days).ok().map(|date| date.to_string())
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let since = SignedDuration::from_nanos(i64::try_from(nanoseconds(unit)).ok()?);
            civil::Time::midnight().checked_add(since).ok().map(|time| time.to_string())
        }
        _ => Some(number.to_string()),
    }
}
