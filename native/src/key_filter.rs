//! A filter that shows for most keys that they were never added.

use std::hash::Hasher;

use rustc_hash::FxHasher;

/// Bits of the filter, a power of two: 8 MiB. Of ten million keys, one in twenty seems to be there and is not.
const BITS: u64 = 1 << 26;

const PROBES: u64 = 4;

/// A Bloom filter of byte strings.
pub struct KeyFilter {
    words: Vec<u64>,
}

impl KeyFilter {
    /// Return a filter to which nothing was added.
    pub fn new() -> Self {
        KeyFilter {
            words: vec![0; (BITS / 64) as usize],
        }
    }

    /// Add a key.
    pub fn add(&mut self, key: &[u8]) {
        for bit in bits_of(key) {
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    /// Whether a key may have been added; false only if it was not.
    pub fn may_hold(&self, key: &[u8]) -> bool {
        bits_of(key).all(|bit| self.words[(bit / 64) as usize] & (1 << (bit % 64)) != 0)
    }
}

fn bits_of(key: &[u8]) -> impl Iterator<Item = u64> {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    let hash = hasher.finish();
    // The second half spreads the probes; an odd step reaches every bit.
    let (first, step) = (hash, (hash >> 32) | 1);
    (0..PROBES).map(move |probe| first.wrapping_add(probe.wrapping_mul(step)) % BITS)
}
