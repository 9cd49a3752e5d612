//! `log`, `log10` and `pow` as part of the program. `SQLite`'s full-text search, the Parquet reader and the progress bar ask
//! the linker for these three and for nothing else of the mathematics library; as long as they come from here, no call has
//! to find, map and bind it, which is a twentieth of a call that has nothing to do (docs/PERFORMANCE.md).
//!
//! A program that is linked against this crate needs `libm.so` only if something else of it is asked for, and then the
//! linker takes that one from there: nothing breaks, it only starts as slowly as before.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unsafe_code, reason = "a name that C code knows can stand once in a program, which the compiler cannot check")]

/// The natural logarithm, as C11 7.12.6.7 has it, but that `errno` is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn log(x: f64) -> f64 {
    libm::log(x)
}

/// The logarithm to base 10, as C11 7.12.6.8 has it, but that `errno` is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// `x` to the power of `y`, as C11 7.12.7.4 has it, but that `errno` is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

#[cfg(test)]
mod tests {
    use super::{log, log10, pow};
    use std::f64::consts::{E, LN_2};

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() <= f64::EPSILON * other.abs()
    }

    #[test]
    fn values_are_those_of_mathematics() {
        assert!(near(log(E), 1.0) && near(log(2.0), LN_2) && log(1.0) == 0.0);
        assert!(near(log10(1e15), 15.0) && near(log10(0.001), -3.0));
        assert!(near(pow(2.0, 0.5), std::f64::consts::SQRT_2) && near(pow(10.0, 3.0), 1000.0));
    }

    #[test]
    fn the_ends_of_the_ranges_are_those_of_the_standard() {
        assert!(log(0.0) == f64::NEG_INFINITY && log(-1.0).is_nan() && log10(f64::INFINITY) == f64::INFINITY);
        assert!(near(pow(f64::NAN, 0.0), 1.0) && pow(0.0, -1.0) == f64::INFINITY && pow(-8.0, 0.5).is_nan());
    }
}
