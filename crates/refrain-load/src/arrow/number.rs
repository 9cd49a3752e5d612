//! Numbers as PostgreSQL reads them.

use arrow_buffer::i256;

/// Appends a whole number.
#[inline]
pub(super) fn whole(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a floating-point number: its shortest text that reads back as the same number, whole ones without a point, so that also a
/// column of whole numbers takes them.
#[inline]
pub(super) fn float<F: zmij::Float>(value: F, class: Special, out: &mut Vec<u8>) {
    match class {
        Special::Finite => {
            let mut buffer = zmij::Buffer::new();
            let text = buffer.format_finite(value).as_bytes();
            out.extend_from_slice(text.strip_suffix(b".0").unwrap_or(text));
        }
        Special::Nan => out.extend_from_slice(b"NaN"),
        Special::Infinity => out.extend_from_slice(b"Infinity"),
        Special::MinusInfinity => out.extend_from_slice(b"-Infinity"),
    }
}

/// What a floating-point number may be beside a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Finite,
    Nan,
    Infinity,
    MinusInfinity,
}

impl Special {
    #[inline]
    pub(super) fn of(value: f64) -> Self {
        if value.is_finite() {
            Self::Finite
        } else if value.is_nan() {
            Self::Nan
        } else if value > 0.0 {
            Self::Infinity
        } else {
            Self::MinusInfinity
        }
    }
}

/// Appends a decimal number of at most 128 bits with `scale` digits behind the point.
#[inline]
pub(super) fn decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    pointed(itoa::Buffer::new().format(value).as_bytes(), scale, out);
}

/// Appends a decimal number of 256 bits.
pub(super) fn wide_decimal(value: i256, scale: i8, out: &mut Vec<u8>) {
    pointed(value.to_string().as_bytes(), scale, out);
}

/// Appends digits with a point in them; a negative scale says how many zeros were left away.
fn pointed(digits: &[u8], scale: i8, out: &mut Vec<u8>) {
    let (sign, digits) = match digits.strip_prefix(b"-") {
        Some(digits) => (&b"-"[..], digits),
        None => (&b""[..], digits),
    };
    out.extend_from_slice(sign);
    let behind = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        out.extend_from_slice(digits);
        if digits != b"0" {
            out.resize(out.len() + behind, b'0');
        }
    } else if let Some(before) = digits.len().checked_sub(behind).filter(|before| *before > 0) {
        out.extend_from_slice(&digits[..before]);
        out.push(b'.');
        out.extend_from_slice(&digits[before..]);
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + behind - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
}

#[cfg(test)]
mod tests {
    use super::{Special, decimal, float, wide_decimal};
    use arrow_buffer::i256;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = vec![];
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_are_exact() {
        for (value, scale, expected) in [
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 3, "-0.005"),
            (12345, 2, "123.45"),
            (-12345, 0, "-12345"),
            (12, -3, "12000"),
            (0, -3, "0"),
            (i128::MIN, 38, "-1.70141183460469231731687303715884105728"),
        ] {
            assert_eq!(text(|out| decimal(value, scale, out)), expected);
            assert_eq!(text(|out| wide_decimal(i256::from_i128(value), scale, out)), expected);
        }
        let most = "57896044618658097711785492504343953926634992332820282019728792003956564819967";
        assert_eq!(text(|out| wide_decimal(i256::MAX, 0, out)), most);
    }

    #[test]
    fn floats_are_short_and_exact() {
        for (value, expected) in [
            (0.1, "0.1"),
            (5.0, "5"),
            (-0.0, "-0"),
            (1e300, "1e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|out| float(value, Special::of(value), out)), expected);
        }
        assert_eq!(text(|out| float(0.1_f32, Special::Finite, out)), "0.1");
        let least = text(|out| float(5e-324, Special::Finite, out));
        assert_eq!(least.parse::<f64>().unwrap().to_bits(), 1);
    }
}
