//! Entries of a load that wait to be written to the store.

use std::hint::black_box;

use hashbrown::HashTable;

use crate::checksum::Committed;
use crate::sorting::{hash_of, in_order};

/// About how much memory an entry takes in addition to its bytes.
const ENTRY_BYTES: usize = 120;

/// How many bytes are allocated at once. One allocation for each entry takes longer than to read its change.
const CHUNK_BYTES: usize = 1 << 20;

/// How much memory the processor fetches at once.
const CACHE_LINE_BYTES: usize = 64;

/// Behind so many lines of an entry, the processor has noticed that they follow each other.
const LINES_MAX: usize = 8;

/// Where an entry is, and what the store's checksum holds of it; all of it in one line of the cache.
#[repr(align(64))]
struct Slot {
    key_hash: u64,
    chunk: u32,
    start: u32,
    key_bytes: u32,
    data_bytes: u32,
    /// How many bytes of data fit where it is.
    room: u32,
    is_there: bool,
    is_dirty: bool,
    committed: Option<Committed>,
}

/// An entry as it is now.
pub struct Entry<'a> {
    pub key: &'a [u8],
    /// The data; None if the entry is removed.
    pub data: Option<&'a [u8]>,
    committed: Option<Committed>,
}

impl Entry<'_> {
    /// What the store's checksum and index of due times hold of it, before and after the write.
    pub fn change(&self) -> (Option<Committed>, Option<Committed>) {
        let now = self.data.map(|data| Committed::of(self.key, data));
        (self.committed, now)
    }
}

/// Keys and data, each data behind its key, in chunks that never move.
#[derive(Default)]
struct Arena {
    chunks: Vec<Vec<u8>>,
}

impl Arena {
    fn key(&self, slot: &Slot) -> &[u8] {
        let start = slot.start as usize;
        &self.chunks[slot.chunk as usize][start..start + slot.key_bytes as usize]
    }

    fn data(&self, slot: &Slot) -> &[u8] {
        let start = slot.start as usize + slot.key_bytes as usize;
        &self.chunks[slot.chunk as usize][start..start + slot.data_bytes as usize]
    }

    /// Add a key, and data that `write` appends; so many bytes have to fit into one chunk. Return where they begin.
    fn add(&mut self, key: &[u8], room: usize, write: impl FnOnce(&mut Vec<u8>)) -> (u32, u32) {
        let bytes = key.len() + room;
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= bytes;
        if !self.chunks.last().is_some_and(fits) {
            self.chunks.push(Vec::with_capacity(bytes.max(CHUNK_BYTES)));
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let start = chunk.len();
        chunk.extend_from_slice(key);
        write(chunk);
        (small(index), small(start))
    }

    /// Return how many bytes were added behind a start.
    fn added(&self, chunk: u32, start: u32) -> usize {
        self.chunks[chunk as usize].len() - start as usize
    }

    fn replace(&mut self, slot: &Slot, data: &[u8]) {
        let start = slot.start as usize + slot.key_bytes as usize;
        self.chunks[slot.chunk as usize][start..start + data.len()].copy_from_slice(data);
    }
}

/// Return a number as one of 32 bits: no message of Kafka is larger, and no load keeps as much.
fn small(number: usize) -> u32 {
    u32::try_from(number).expect("a size below 4 GiB")
}

/// Where the entry of a key is, or would be, until the entries change.
pub struct Lookup {
    key_hash: u64,
    index: Option<u32>,
}

/// Entries by key.
#[derive(Default)]
pub struct Pending {
    /// The indexes of slots.
    table: HashTable<u32>,
    slots: Vec<Slot>,
    arena: Arena,
    /// Where data is written that replaces other data.
    scratch: Vec<u8>,
    /// About how much memory they take.
    pub bytes: usize,
}

impl Pending {
    /// Return where the entry of a key is, or would be.
    pub fn look_up(&self, key: &[u8]) -> Lookup {
        let key_hash = hash_of(key);
        let is_it = |index: &u32| {
            let slot = &self.slots[*index as usize];
            slot.key_hash == key_hash && self.arena.key(slot) == key
        };
        Lookup {
            key_hash,
            index: self.table.find(key_hash, is_it).copied(),
        }
    }

    /// Return the entry that a lookup has found, if any.
    pub fn found(&self, lookup: &Lookup) -> Option<Entry<'_>> {
        lookup.index.map(|index| self.at(index))
    }

    pub fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.found(&self.look_up(key))
    }

    fn entry(&self, slot: &Slot) -> Entry<'_> {
        Entry {
            key: self.arena.key(slot),
            data: slot.is_there.then(|| self.arena.data(slot)),
            committed: slot.committed,
        }
    }

    /// Add an entry that the store holds, or lacks.
    pub fn add_stored(&mut self, key: &[u8], data: Option<&[u8]>) {
        let committed = data.map(|data| Committed::of(key, data));
        let (lookup, given) = (self.look_up(key), data.unwrap_or_default());
        let index = self.write(lookup, key, data.is_some(), given.len(), |out| {
            out.extend_from_slice(given);
        });
        let slot = &mut self.slots[index as usize];
        (slot.committed, slot.is_dirty) = (committed, false);
    }

    /// Change the entry that the lookup of a key has found, or add one that the store lacks; return its index. `write` appends the
    /// data, of so many bytes.
    pub fn write(
        &mut self,
        lookup: Lookup,
        key: &[u8],
        is_there: bool,
        data_bytes: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> u32 {
        let Some(index) = lookup.index else {
            return self.add(key, lookup.key_hash, is_there, data_bytes, write);
        };
        self.scratch.clear();
        write(&mut self.scratch);
        let (slot, data) = (&mut self.slots[index as usize], &self.scratch);
        if data.len() <= slot.room as usize {
            self.arena.replace(slot, data);
        } else {
            // A body that grows with each change would leave its bytes behind each time.
            let room = data.len() + data.len() / 2;
            self.bytes += key.len() + room;
            (slot.chunk, slot.start) = self.arena.add(key, room, |out| {
                out.extend_from_slice(data);
                out.resize(out.len() + room - data.len(), 0);
            });
            slot.room = small(room);
        }
        slot.data_bytes = small(data.len());
        (slot.is_there, slot.is_dirty) = (is_there, true);
        index
    }

    fn add(
        &mut self,
        key: &[u8],
        key_hash: u64,
        is_there: bool,
        data_bytes: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> u32 {
        let index = small(self.slots.len());
        let (chunk, start) = self.arena.add(key, data_bytes, write);
        let data_bytes = self.arena.added(chunk, start) - key.len();
        self.bytes += ENTRY_BYTES + key.len() + data_bytes;
        self.slots.push(Slot {
            key_hash,
            chunk,
            start,
            key_bytes: small(key.len()),
            data_bytes: small(data_bytes),
            room: small(data_bytes),
            is_there,
            is_dirty: true,
            committed: None,
        });
        let slots = &self.slots;
        let key_hash_at = |index: &u32| slots[*index as usize].key_hash;
        self.table.insert_unique(key_hash, index, key_hash_at);
        index
    }

    /// Remove all entries, and return them. As many are expected to come again.
    pub fn take(&mut self) -> Pending {
        let empty = Pending {
            table: HashTable::with_capacity(self.slots.len()),
            slots: Vec::with_capacity(self.slots.len()),
            ..Pending::default()
        };
        std::mem::replace(self, empty)
    }

    /// The entries that were changed, in the order in which they are in memory.
    pub fn changed(&self) -> impl Iterator<Item = Entry<'_>> {
        let dirty = self.slots.iter().filter(|slot| slot.is_dirty);
        dirty.map(|slot| self.entry(slot))
    }

    /// The indexes of those entries in the order of their keys.
    pub fn in_order(&self) -> Vec<u32> {
        let dirty = (0..).zip(&self.slots).filter(|(_, slot)| slot.is_dirty);
        let keys = dirty.map(|(index, slot)| (index, self.arena.key(slot)));
        let ordered = in_order(keys, |(_, key)| key);
        ordered.into_iter().map(|(index, _)| index).collect()
    }

    /// Let the processor fetch entries that are needed soon, all at once; otherwise it waits for each of them.
    pub fn fetch(&self, indexes: &[u32]) {
        let mut read = 0;
        for index in indexes {
            let slot = &self.slots[*index as usize];
            let start = slot.start as usize;
            let end = start + slot.key_bytes as usize + slot.data_bytes as usize;
            let bytes = &self.arena.chunks[slot.chunk as usize][start..end];
            for line in bytes.chunks(CACHE_LINE_BYTES).take(LINES_MAX) {
                read ^= line[0];
            }
        }
        black_box(read);
    }

    /// Return an entry by its index.
    pub fn at(&self, index: u32) -> Entry<'_> {
        self.entry(&self.slots[index as usize])
    }
}
