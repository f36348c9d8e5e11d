//! Entries of a load that wait to be written to the store.

use hashbrown::HashTable;

use crate::checksum::{Committed, entry_hash};
use crate::entry::{self, NEVER};
use crate::sorting::hash_of;

/// About how much memory an entry takes in addition to its bytes.
const ENTRY_BYTES: usize = 120;

/// An entry as it is now, and what the store's checksum holds of it.
pub struct Entry {
    /// The key, and the data behind it. One allocation holds both, and is used again when the data changes.
    bytes: Vec<u8>,
    key_bytes: usize,
    is_there: bool,
    is_dirty: bool,
    hash: u32,
    committed: Option<Committed>,
}

impl Entry {
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    /// The data; None if the entry is removed.
    pub fn data(&self) -> Option<&[u8]> {
        self.is_there.then(|| &self.bytes[self.key_bytes..])
    }

    /// What the store's checksum and index of due times hold of it, before and after the write.
    pub fn change(&self) -> (Option<Committed>, Option<Committed>) {
        let now = self.data().map(|data| Committed {
            hash: self.hash,
            due: entry::due(data).unwrap_or(NEVER),
        });
        (self.committed, now)
    }
}

/// Entries by key.
#[derive(Default)]
pub struct Pending {
    table: HashTable<Entry>,
    /// About how much memory they take.
    pub bytes: usize,
}

impl Pending {
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.table.find(hash_of(key), |entry| entry.key() == key)
    }

    /// Add an entry that the store holds, or lacks.
    pub fn add_stored(&mut self, key: &[u8], data: Option<&[u8]>) {
        let committed = data.map(|data| Committed::of(key, data));
        let given = data.unwrap_or_default();
        self.write(key, data.is_some(), given.len(), |out| {
            out.extend_from_slice(given);
        });
        let entry = self
            .table
            .find_mut(hash_of(key), |entry| entry.key() == key);
        let entry = entry.expect("it was just added");
        (entry.committed, entry.is_dirty) = (committed, false);
    }

    /// Change an entry, or add one that the store lacks. `write` appends the data, of so many bytes.
    pub fn write(
        &mut self,
        key: &[u8],
        is_there: bool,
        data_bytes: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let hash = hash_of(key);
        let found = self.table.entry(
            hash,
            |entry| entry.key() == key,
            |entry| hash_of(entry.key()),
        );
        let entry = found
            .or_insert_with(|| {
                self.bytes += ENTRY_BYTES + key.len();
                let mut bytes = Vec::with_capacity(key.len() + data_bytes);
                bytes.extend_from_slice(key);
                Entry {
                    bytes,
                    key_bytes: key.len(),
                    is_there,
                    is_dirty: true,
                    hash: 0,
                    committed: None,
                }
            })
            .into_mut();
        let before = entry.bytes.len();
        entry.bytes.truncate(entry.key_bytes);
        write(&mut entry.bytes);
        self.bytes = (self.bytes + entry.bytes.len()).saturating_sub(before);
        entry.hash = entry_hash(key, &entry.bytes[entry.key_bytes..]);
        (entry.is_there, entry.is_dirty) = (is_there, true);
    }

    /// Remove all entries; return those that were changed, in no order.
    pub fn take(&mut self) -> Vec<Entry> {
        let taken = std::mem::take(self).table.into_iter();
        taken.filter(|entry| entry.is_dirty).collect()
    }
}
