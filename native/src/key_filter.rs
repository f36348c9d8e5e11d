//! A filter that shows for most keys that they were never added.

use std::hash::Hasher;

use rustc_hash::FxHasher;

/// Parts of the filter, a power of two: 8 MiB. Of ten million keys, one in twenty seems to be there and is not.
const PARTS: usize = 1 << 17;

const PROBES: u32 = 4;

/// Words of the part of the filter that has all bits of a key. The processor fetches it at once.
const PART_WORDS: usize = 8;

/// A Bloom filter of byte strings.
pub struct KeyFilter {
    parts: Vec<[u64; PART_WORDS]>,
}

impl KeyFilter {
    /// Return a filter to which nothing was added.
    pub fn new() -> Self {
        KeyFilter {
            parts: vec![[0; PART_WORDS]; PARTS],
        }
    }

    /// Add a key.
    pub fn add(&mut self, key: &[u8]) {
        let (part, bits) = bits_of(key);
        for (word, bit) in bits {
            self.parts[part][word] |= 1 << bit;
        }
    }

    /// Whether a key may have been added; false only if it was not.
    pub fn may_hold(&self, key: &[u8]) -> bool {
        let (part, mut bits) = bits_of(key);
        bits.all(|(word, bit)| self.parts[part][word] & (1 << bit) != 0)
    }
}

/// Return the part of a key, and the words and bits in it.
fn bits_of(key: &[u8]) -> (usize, impl Iterator<Item = (usize, u32)>) {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    let hash = hasher.finish();
    // The high half of the hash chooses the part, and 9 bits of the low half each bit.
    let bits = (0..PROBES).map(move |probe| {
        let bit = (hash >> (9 * probe)) as usize % (64 * PART_WORDS);
        (bit / 64, (bit % 64) as u32)
    });
    ((hash >> 40) as usize % PARTS, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_added_are_held_and_few_others_are() {
        let mut filter = KeyFilter::new();
        let key = |number: u32| number.to_string().into_bytes();
        let (count, others) = if cfg!(miri) {
            (100, 100)
        } else {
            (1_000_000, 100_000)
        };
        (0..count).for_each(|number| filter.add(&key(number)));
        assert!((0..count).all(|number| filter.may_hold(&key(number))));
        let held = (count..count + others).filter(|number| filter.may_hold(&key(*number)));
        let held = held.count();
        // A million keys take a sixteenth of the bits.
        assert!(held < others as usize / 500, "{held}");
    }
}
