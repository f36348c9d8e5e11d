//! Keys in tables and in order.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

/// The first bytes of a key as a number: keys that differ in them are in the order of these numbers.
///
/// Comparing numbers is much faster than following a pointer for each comparison.
fn rank(key: &[u8]) -> u128 {
    let mut first = [0; 16];
    let length = key.len().min(16);
    first[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(first)
}

/// Return items in the order of their keys.
pub fn in_order<T>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> &[u8]) -> Vec<T> {
    let mut ranked: Vec<(u128, T)> = items.map(|item| (rank(key(&item)), item)).collect();
    ranked.sort_unstable_by(|(one, item), (other, that)| {
        one.cmp(other).then_with(|| key(item).cmp(key(that)))
    });
    ranked.into_iter().map(|(_, item)| item).collect()
}

/// Return the hash of a key.
pub fn hash_of(key: &[u8]) -> u64 {
    FxBuildHasher.hash_one(key)
}
