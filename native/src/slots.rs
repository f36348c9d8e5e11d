//! The records of a partition that are kept in memory, by SOW key.

use hashbrown::HashTable;

use crate::checksum::Committed;
use crate::entry::{self, NEVER};
use crate::sorting::hash_of;

/// About how much memory a record takes in addition to its key and its bytes.
const SLOT_BYTES: usize = 64;

const UNCHANGED: u32 = u32::MAX;

/// What the store has under a key.
struct Slot {
    /// The key, and the record's bytes behind it.
    bytes: Box<[u8]>,
    key_bytes: u32,
    /// Part of the store's checksum.
    hash: u32,
    /// The number of the batch's change, or `UNCHANGED`.
    change: u32,
    is_there: bool,
    /// Whether it was asked for since the hand has passed it.
    is_used: bool,
}

impl Slot {
    fn new(key: &[u8], data: Option<&[u8]>) -> Self {
        Slot {
            bytes: [key, data.unwrap_or_default()].concat().into(),
            key_bytes: key.len() as u32,
            hash: data.map_or(0, |data| Committed::of(key, data).hash),
            change: UNCHANGED,
            is_there: data.is_some(),
            is_used: false,
        }
    }

    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes as usize]
    }

    fn data(&self) -> Option<&[u8]> {
        self.is_there
            .then(|| &self.bytes[self.key_bytes as usize..])
    }

    fn size(&self) -> usize {
        SLOT_BYTES + self.bytes.len()
    }
}

/// Slots by number, and their numbers by key. A number stays until the slot is removed.
///
/// What is kept is whole keys and records in one piece of memory each: a Python object for each took twice the space.
#[derive(Default)]
pub struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    numbers: HashTable<u32>,
    /// About how much memory they take.
    bytes: usize,
    /// The number of the slot that is next to be judged.
    hand: usize,
}

impl Slots {
    /// Return the number of a key's slot.
    pub fn number(&self, key: &[u8]) -> Option<usize> {
        let is_it = |number: &u32| self.at(*number as usize).key() == key;
        let found = self.numbers.find(hash_of(key), is_it)?;
        Some(*found as usize)
    }

    fn at(&self, number: usize) -> &Slot {
        self.slots[number].as_ref().expect("its number is known")
    }

    fn at_mut(&mut self, number: usize) -> &mut Slot {
        self.slots[number].as_mut().expect("its number is known")
    }

    /// Keep a slot longer than those that are not asked for.
    pub fn use_again(&mut self, number: usize) {
        self.at_mut(number).is_used = true;
    }

    /// Return the key of a slot.
    pub fn key(&self, number: usize) -> &[u8] {
        self.at(number).key()
    }

    /// Return the bytes that the store has; None if it has no record.
    pub fn data(&self, number: usize) -> Option<&[u8]> {
        self.at(number).data()
    }

    /// Return what the checksum and the index of due times hold of a slot.
    pub fn committed(&self, number: usize) -> Option<Committed> {
        let slot = self.at(number);
        slot.data().map(|data| Committed {
            hash: slot.hash,
            due: entry::due(data).unwrap_or(NEVER),
        })
    }

    /// Return the number of the change of a slot.
    pub fn change(&self, number: usize) -> Option<usize> {
        let change = self.at(number).change;
        (change != UNCHANGED).then_some(change as usize)
    }

    /// Set the number of the change of a slot; None for none.
    pub fn set_change(&mut self, number: usize, change: Option<usize>) {
        self.at_mut(number).change = change.map_or(UNCHANGED, |change| change as u32);
    }

    /// Add a slot under a key that has none; return its number.
    pub fn add(&mut self, key: &[u8], data: Option<&[u8]>) -> usize {
        let slot = Slot::new(key, data);
        self.bytes += slot.size();
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[number as usize] = Some(slot);
        let slots = &self.slots;
        let rehash = |number: &u32| {
            let slot = slots[*number as usize].as_ref().expect("it is listed");
            hash_of(slot.key())
        };
        self.numbers.insert_unique(hash_of(key), number, rehash);
        number as usize
    }

    /// Let a slot have what the store has now; the slot is unchanged then. Returns that as the checksum holds it.
    pub fn commit(&mut self, number: usize, data: Option<&[u8]>) -> Option<Committed> {
        let slot = self.at_mut(number);
        let before = slot.size();
        let is_used = slot.is_used;
        *slot = Slot::new(slot.key(), data);
        slot.is_used = is_used;
        let after = slot.size();
        self.bytes = self.bytes + after - before;
        self.committed(number)
    }

    /// Remove slots until they take no more memory than this, those first that were asked for least recently.
    ///
    /// Slots with changes may not be there.
    pub fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && !self.numbers.is_empty() {
            let number = self.hand;
            self.hand = (number + 1) % self.slots.len();
            match &mut self.slots[number] {
                None => {}
                Some(slot) if slot.is_used => slot.is_used = false,
                Some(_) => self.remove(number),
            }
        }
    }

    fn remove(&mut self, number: usize) {
        let slot = self.slots[number].take().expect("its number is known");
        self.bytes -= slot.size();
        let is_it = |one: &u32| *one as usize == number;
        if let Ok(found) = self.numbers.find_entry(hash_of(slot.key()), is_it) {
            found.remove();
        }
        self.free.push(number as u32);
    }
}
