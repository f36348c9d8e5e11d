//! The records of a partition that are kept in memory, by SOW key.

use hashbrown::HashTable;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::checksum::Committed;
use crate::sorting::hash_of;

/// A record as it is now, and what the last commit holds of it.
pub struct Slot {
    pub key: Py<PyBytes>,
    pub data: Option<Py<PyBytes>>,
    pub committed: Option<Committed>,
    pub is_dirty: bool,
}

/// Slots by number, and their numbers by key. A number stays until the slot is removed.
#[derive(Default)]
pub struct Slots {
    slots: Vec<Option<Slot>>,
    numbers: HashTable<u32>,
}

impl Slots {
    /// Return the number of a key's slot.
    pub fn number(&self, py: Python<'_>, key: &[u8]) -> Option<usize> {
        let is_it = |number: &u32| self.at(*number as usize).key.as_bytes(py) == key;
        let found = self.numbers.find(hash_of(key), is_it)?;
        Some(*found as usize)
    }

    /// Return a slot.
    pub fn at(&self, number: usize) -> &Slot {
        self.slots[number].as_ref().expect("its number is known")
    }

    /// Return a slot, to change it.
    pub fn at_mut(&mut self, number: usize) -> &mut Slot {
        self.slots[number].as_mut().expect("its number is known")
    }

    /// Add a slot under a key that has none; return its number.
    pub fn add(&mut self, py: Python<'_>, slot: Slot) -> usize {
        let (number, hash) = (self.slots.len(), hash_of(slot.key.as_bytes(py)));
        self.slots.push(Some(slot));
        let slots = &self.slots;
        let rehash = |number: &u32| {
            let slot = slots[*number as usize].as_ref().expect("it is listed");
            hash_of(slot.key.as_bytes(py))
        };
        self.numbers.insert_unique(hash, number as u32, rehash);
        number
    }

    /// Remove a slot.
    pub fn remove(&mut self, py: Python<'_>, number: usize) -> Slot {
        let slot = self.slots[number].take().expect("its number is known");
        let hash = hash_of(slot.key.as_bytes(py));
        if let Ok(found) = self.numbers.find_entry(hash, |one| *one as usize == number) {
            found.remove();
        }
        slot
    }
}
