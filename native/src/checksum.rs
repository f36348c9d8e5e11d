//! The checksum of a store: `sowline_materializer.store.checksum`.

use crc32fast::Hasher;

use crate::entry::{self, NEVER};

/// What the checksum and the index of due times hold of a record.
#[derive(Clone, Copy)]
pub struct Committed {
    pub hash: u32,
    pub due: i64,
}

impl Committed {
    /// Return what they hold of an entry with this key and these bytes.
    pub fn of(key: &[u8], data: &[u8]) -> Self {
        Committed {
            hash: entry_hash(key, data),
            due: entry::due(data).unwrap_or(NEVER),
        }
    }
}

/// Return the hash of one entry.
pub fn entry_hash(key: &[u8], data: &[u8]) -> u32 {
    let mut hash = Hasher::new();
    hash.update(key);
    hash.update(data);
    hash.finalize()
}

/// Return the hash of one entry of the index of due times.
pub fn expiry_hash(index: &[u8]) -> u64 {
    let mut hash = Hasher::new_with_initial(1);
    hash.update(index);
    u64::from(hash.finalize())
}

/// The number of entries, and the sum of their hashes.
#[derive(Clone, Copy)]
pub struct Checksum {
    pub entries: i64,
    pub sum: u64,
}

impl Checksum {
    /// Count an entry, or no longer count it.
    pub fn note(&mut self, hash: u64, is_there: bool) {
        if is_there {
            self.entries += 1;
            self.sum = self.sum.wrapping_add(hash);
        } else {
            self.entries -= 1;
            self.sum = self.sum.wrapping_sub(hash);
        }
    }

    /// Replace what is committed of a record. Calls `expiry` for each change of the index of due times.
    pub fn replace<E>(
        &mut self,
        key: &[u8],
        was: Option<Committed>,
        now: Option<Committed>,
        mut expiry: impl FnMut(Vec<u8>, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        for (committed, is_there) in [(was, false), (now, true)] {
            if let Some(committed) = committed {
                self.note(u64::from(committed.hash), is_there);
            }
        }
        let due = |committed: Option<Committed>| committed.map_or(NEVER, |it| it.due);
        if due(was) != due(now) {
            for (due, is_there) in [(due(was), false), (due(now), true)] {
                if due != NEVER {
                    let index = [&due.to_be_bytes(), key].concat();
                    self.note(expiry_hash(&index), is_there);
                    expiry(index, is_there)?;
                }
            }
        }
        Ok(())
    }
}
