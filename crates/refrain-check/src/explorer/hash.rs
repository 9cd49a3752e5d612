//! Fingerprints of states, and hash tables for keys that are small or already mixed.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// States by fingerprint.
pub(super) type FingerprintSet = HashSet<u64, BuildHasherDefault<Mixed>>;
/// A table whose keys are a few small numbers.
pub(super) type SmallMap<Key, Value> = HashMap<Key, Value, BuildHasherDefault<Mixing>>;

/// 64 bits that tell states apart: with n states the chance of one confusion is about n * n / 2^65.
pub(super) fn fingerprint<T: Hash>(value: &T) -> u64 {
    let mut hasher = Mixing::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Folds every word in by a 128-bit multiplication.
#[derive(Clone, Debug)]
pub(super) struct Mixing(u64);

impl Default for Mixing {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Mixing {
    fn fold(&mut self, word: u64) {
        let product = folded_product(self.0 ^ word, 0xa076_1d64_78bd_642f);
        self.0 = product.rotate_left(23).wrapping_add(word.wrapping_mul(0x8ebc_6af0_9c88_c6e3));
    }
}

impl Hasher for Mixing {
    fn finish(&self) -> u64 {
        folded_product(self.0, 0x5899_65cc_7537_4cc3)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.fold(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.fold(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.fold(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.fold(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.fold(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the two halves of the product are folded into one")]
fn folded_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product ^ (product >> 64)) as u64
}

/// The hasher of what is a fingerprint already.
#[derive(Clone, Debug, Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
