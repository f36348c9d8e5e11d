//! What a store has under a key, as it is kept in memory.

use crate::key::SowKey;

/// About how much memory a slot takes without its bytes: itself, its entry in the table of numbers, and what is free
/// in both, and between pieces of memory of many sizes.
const SLOT_BYTES: usize = 44;

/// What the allocator adds to a piece of memory, and of what the sum is a multiple.
const ADDED_BYTES: usize = 8;
const STEP_BYTES: usize = 16;

const UNCHANGED: u32 = u32::MAX;
const NUMBER_BYTES: usize = size_of::<u64>();
const LENGTH_BYTES: usize = size_of::<u32>();
const HASH_BYTES: usize = size_of::<u32>();

/// How a slot holds what the store has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The store has nothing.
    Missing,
    Plain,
    /// Plain, because it takes no less space packed.
    Incompressible,
    /// Packed with the dictionary of this number.
    Packed(u8),
}

/// What the store has under a key.
pub struct Slot {
    /// The key, the record's part of the store's checksum, and the record.
    ///
    /// A key that is the digits of a number is here as that number; any other one is behind its length.
    bytes: Box<[u8]>,
    change: u32,
    is_number: bool,
    form: Form,
    /// Whether it was asked for since the hand has passed it.
    pub is_used: bool,
}

impl Slot {
    /// Return a slot of a record with this part of the checksum, which is held in a form.
    pub fn new(key: SowKey<'_>, hash: u32, form: Form, held: &[u8]) -> Self {
        let hash = hash.to_le_bytes();
        let (bytes, is_number) = match key {
            SowKey::Hash(number) => ([&number.to_le_bytes()[..], &hash, held].concat(), true),
            SowKey::Own(key) => {
                let length = (key.len() as u32).to_le_bytes();
                let bytes = [&length[..], key, &hash, held].concat();
                (bytes, false)
            }
        };
        Slot {
            bytes: bytes.into(),
            change: UNCHANGED,
            is_number,
            form,
            is_used: false,
        }
    }

    /// Return the key, and what is behind it.
    fn split(&self) -> (SowKey<'_>, &[u8]) {
        if self.is_number {
            let (number, behind) = self.bytes.split_at(NUMBER_BYTES);
            let number = number.try_into().expect("a number is here");
            return (SowKey::Hash(u64::from_le_bytes(number)), behind);
        }
        let (length, behind) = self.bytes.split_at(LENGTH_BYTES);
        let length = u32::from_le_bytes(length.try_into().expect("a length is here"));
        let (key, behind) = behind.split_at(length as usize);
        (SowKey::Own(key), behind)
    }

    pub fn key(&self) -> SowKey<'_> {
        self.split().0
    }

    /// Return the record's part of the store's checksum.
    pub fn hash(&self) -> u32 {
        let hash = self.split().1[..HASH_BYTES].try_into();
        u32::from_le_bytes(hash.expect("a hash is here"))
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// Return the record's bytes in the form that it has here.
    pub fn held(&self) -> &[u8] {
        &self.split().1[HASH_BYTES..]
    }

    /// Hold the same record in another form.
    pub fn set_held(&mut self, form: Form, held: &[u8]) {
        let kept = self.bytes.len() - self.held().len();
        self.bytes = [&self.bytes[..kept], held].concat().into();
        self.form = form;
    }

    /// Let the record stay as it is, because it takes no less space packed.
    pub fn set_incompressible(&mut self) {
        self.form = Form::Incompressible;
    }

    /// Return the number of the batch's change.
    pub fn change(&self) -> Option<usize> {
        (self.change != UNCHANGED).then_some(self.change as usize)
    }

    /// Set the number of the batch's change; None for none.
    pub fn set_change(&mut self, change: Option<usize>) {
        self.change = change.map_or(UNCHANGED, |change| change as u32);
    }

    /// Return about how much memory it takes.
    pub fn size(&self) -> usize {
        SLOT_BYTES + (self.bytes.len() + ADDED_BYTES).next_multiple_of(STEP_BYTES)
    }
}
