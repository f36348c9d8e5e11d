//! The records of a partition that are kept in memory, by SOW key.
//!
//! While there is memory, records are kept as they are. When little is left, those that are written are packed. A hand
//! goes round where more is needed: it packs plain records, and removes others that were not asked for since it came by.

use std::borrow::Cow;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::checksum::{Committed, entry_hash};
use crate::entry::{self, DUE_END, NEVER};
use crate::key::SowKey;
use crate::packing::{DICTIONARY_BYTES_MAX, Dictionaries};
use crate::slot::{Form, Slot};
use crate::sorting;

/// Records that are written are packed when less than this part of the memory is left.
const LEFT_SHARE: usize = 8;

/// The part of the memory that the text of a dictionary may take.
const DICTIONARY_SHARE: usize = 32;

/// Of how many records a dictionary is made at most.
const SAMPLES_MAX: usize = 64;

/// Slots by number, and their numbers by key. A number stays until the slot is removed.
///
/// What is kept is whole keys and records in one piece of memory each: a Python object for each took twice the space.
#[derive(Default)]
pub struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    numbers: HashTable<u32>,
    dictionaries: Dictionaries,
    /// How many entries of the store they have: records, and the due times of those.
    entries: i64,
    /// About how much memory they take.
    bytes: usize,
    /// The number of the slot that is next to be judged.
    hand: usize,
    /// A record that was packed last.
    packed: Vec<u8>,
}

impl Slots {
    /// Return how many entries of the store they have: records, and the due times of those.
    pub fn entries(&self) -> i64 {
        self.entries
    }

    /// Return the number of a key's slot.
    pub fn number(&self, key: SowKey<'_>) -> Option<usize> {
        let key = key.named();
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
    pub fn key(&self, number: usize) -> SowKey<'_> {
        self.at(number).key()
    }

    /// Return the bytes that the store has; None if it has no record.
    pub fn data(&self, number: usize) -> Option<Cow<'_, [u8]>> {
        self.data_of(self.at(number))
    }

    fn data_of<'a>(&self, slot: &'a Slot) -> Option<Cow<'a, [u8]>> {
        match slot.form() {
            Form::Missing => None,
            Form::Packed(_) => Some(Cow::Owned(self.unpacked(slot, usize::MAX))),
            _ => Some(Cow::Borrowed(slot.held())),
        }
    }

    /// Return a packed record, or so many bytes of it at least.
    fn unpacked(&self, slot: &Slot, bytes_min: usize) -> Vec<u8> {
        let mut record = Vec::with_capacity(4 * slot.held().len());
        if let Form::Packed(dictionary) = slot.form() {
            let held = slot.held();
            self.dictionaries
                .unpack(dictionary, held, bytes_min, &mut record);
        }
        record
    }

    /// Return what the checksum and the index of due times hold of a slot.
    fn committed(&self, slot: &Slot) -> Option<Committed> {
        let due = match slot.form() {
            Form::Missing => return None,
            Form::Packed(_) => entry::due(&self.unpacked(slot, DUE_END)),
            _ => entry::due(slot.held()),
        };
        Some(Committed {
            hash: slot.hash(),
            due: due.unwrap_or(NEVER),
        })
    }

    /// Return the number of the change of a slot.
    pub fn change(&self, number: usize) -> Option<usize> {
        self.at(number).change()
    }

    /// Set the number of the change of a slot; None for none.
    pub fn set_change(&mut self, number: usize, change: Option<usize>) {
        self.at_mut(number).set_change(change);
    }

    /// Add a slot under a key that has none; return its number.
    pub fn add(&mut self, key: SowKey<'_>, data: Option<&[u8]>) -> usize {
        let key = key.named();
        let form = data.map_or(Form::Missing, |_| Form::Plain);
        let slot = Slot::new(key, hash_in(key, data), form, data.unwrap_or_default());
        self.bytes += slot.size();
        self.entries += entries_of(self.committed(&slot));
        let number = self.free.pop().unwrap_or_else(|| {
            // Twice the space at once, as a vector grows by itself, would be half empty.
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(64 + self.slots.len() / 8);
            }
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

    /// Let a slot have what the store has now; the slot is unchanged then. Returns what the checksum holds of it, before
    /// and now.
    pub fn commit(
        &mut self,
        number: usize,
        data: Option<&[u8]>,
        bytes_max: usize,
    ) -> (Option<Committed>, Option<Committed>) {
        let was = self.committed(self.at(number));
        let form = match data {
            None => Form::Missing,
            Some(data) if self.bytes > bytes_max - bytes_max / LEFT_SHARE => {
                self.pack(data, number, bytes_max)
            }
            Some(_) => Form::Plain,
        };
        let held = match form {
            Form::Packed(_) => &self.packed,
            _ => data.unwrap_or_default(),
        };
        let slot = self.slots[number].as_mut().expect("its number is known");
        let hash = hash_in(slot.key(), data);
        let (before, old_form, is_used) = (slot.size(), slot.form(), slot.is_used);
        *slot = Slot::new(slot.key(), hash, form, held);
        slot.is_used = is_used;
        self.bytes = self.bytes + slot.size() - before;
        self.dictionaries.replace(old_form, form);
        let now = data.map(|data| Committed {
            hash,
            due: entry::due(data).unwrap_or(NEVER),
        });
        self.entries += entries_of(now) - entries_of(was);
        (was, now)
    }

    /// Pack and remove slots until they take no more memory than this, those first that were asked for least recently.
    ///
    /// Slots with changes may not be there.
    pub fn shrink(&mut self, bytes_max: usize) {
        // Old dictionaries may be larger than the memory is now that more partitions share it.
        if self.bytes > bytes_max {
            self.bytes -= self.dictionaries.drop_unused();
        }
        while self.bytes > bytes_max && !self.numbers.is_empty() {
            let number = self.hand;
            self.hand = (number + 1) % self.slots.len();
            match &mut self.slots[number] {
                None => {}
                Some(slot) if slot.form() == Form::Plain => self.pack_slot(number, bytes_max),
                Some(slot) if slot.is_used => slot.is_used = false,
                Some(_) => self.remove(number),
            }
        }
    }

    /// Hold the record of a plain slot in less space, if it takes less.
    fn pack_slot(&mut self, number: usize, bytes_max: usize) {
        let mut slot = self.slots[number].take().expect("its number is known");
        let form = self.pack(slot.held(), number, bytes_max);
        match form {
            Form::Packed(_) => {
                self.bytes -= slot.size();
                slot.set_held(form, &self.packed);
                self.bytes += slot.size();
                self.dictionaries.replace(Form::Plain, form);
            }
            _ => slot.set_incompressible(),
        }
        self.slots[number] = Some(slot);
    }

    /// Pack a record into `packed`; return its form, `Incompressible` if it takes no less space.
    ///
    /// A new dictionary is made of the records from slot `first` on.
    fn pack(&mut self, record: &[u8], first: usize, bytes_max: usize) -> Form {
        // Records change: a dictionary packs about as many as there are.
        let is_current = |packed| packed < self.numbers.len();
        if !self.dictionaries.packed().is_some_and(is_current) {
            let text_max = DICTIONARY_BYTES_MAX.min(bytes_max / DICTIONARY_SHARE);
            let more = self.dictionaries.renew(self.sampled(first, text_max));
            self.bytes = self.bytes.wrapping_add_signed(more);
        }
        self.packed.clear();
        let dictionary = self.dictionaries.pack(record, &mut self.packed);
        if self.packed.len() < record.len() {
            Form::Packed(dictionary)
        } else {
            Form::Incompressible
        }
    }

    /// Return some of the records behind each other, from a slot on.
    fn sampled(&self, first: usize, bytes_max: usize) -> Vec<u8> {
        let (mut text, count) = (Vec::new(), self.slots.len());
        for number in (first..first + count).step_by(count.div_ceil(SAMPLES_MAX)) {
            if let Some(slot) = &self.slots[number % count]
                && let Some(data) = self.data_of(slot)
            {
                text.extend_from_slice(&data);
            }
            if text.len() >= bytes_max {
                break;
            }
        }
        text.truncate(bytes_max);
        text
    }

    fn remove(&mut self, number: usize) {
        let slot = self.slots[number].take().expect("its number is known");
        self.bytes -= slot.size();
        self.entries -= entries_of(self.committed(&slot));
        self.dictionaries.replace(slot.form(), Form::Missing);
        let is_it = |one: &u32| *one as usize == number;
        if let Ok(found) = self.numbers.find_entry(hash_of(slot.key()), is_it) {
            found.remove();
        }
        self.free.push(number as u32);
    }
}

/// Return how many entries the store has of a record.
fn entries_of(committed: Option<Committed>) -> i64 {
    committed.map_or(0, |it| 1 + i64::from(it.due != NEVER))
}

/// Return the part of the store's checksum that an entry has.
fn hash_in(key: SowKey<'_>, data: Option<&[u8]>) -> u32 {
    let mut digits = itoa::Buffer::new();
    data.map_or(0, |data| entry_hash(key.bytes(&mut digits), data))
}

fn hash_of(key: SowKey<'_>) -> u64 {
    match key {
        SowKey::Hash(number) => FxBuildHasher.hash_one(number),
        SowKey::Own(key) => sorting::hash_of(key),
    }
}
