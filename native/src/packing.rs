//! Records in less space: what they have in common with others is an offset in a dictionary.
//!
//! Records of a partition are small, so each alone has little that repeats, and much that all of them have: names of
//! fields, and values that many share.

use crate::slot::Form;

/// The shortest piece that is found in a dictionary. An offset and a length take three bytes.
const PIECE_BYTES_MIN: usize = 4;

/// The longest text of a dictionary.
pub const DICTIONARY_BYTES_MAX: usize = 16 << 10;

/// What half of a token counts to. Behind a token with this, the rest of the number follows.
const COUNTED_MAX: usize = 15;

/// Texts that records have pieces of.
pub struct Dictionary {
    text: Vec<u8>,
    /// Where in the text pieces with the same hash begin. Most have one; the last one is kept.
    offsets: Vec<u16>,
}

impl Dictionary {
    /// Return the dictionary of a text of up to `DICTIONARY_BYTES_MAX` bytes.
    pub fn new(text: Vec<u8>) -> Self {
        let mut dictionary = Dictionary {
            offsets: vec![0; text.len().max(1)],
            text,
        };
        for (offset, piece) in dictionary.text.windows(PIECE_BYTES_MIN).enumerate() {
            let hash = hash_of(piece, dictionary.offsets.len());
            dictionary.offsets[hash] = offset as u16;
        }
        dictionary
    }

    /// Return how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.offsets.len() * size_of::<u16>()
    }

    /// Append a record in less space: pieces, each behind some bytes of the record itself.
    pub fn pack(&self, record: &[u8], packed: &mut Vec<u8>) {
        let (mut done, mut at) = (0, 0);
        while let Some(piece) = record.get(at..at + PIECE_BYTES_MIN) {
            let offset = usize::from(self.offsets[hash_of(piece, self.offsets.len())]);
            let same = common(&record[at..], &self.text[offset..]);
            if same < PIECE_BYTES_MIN {
                at += 1;
                continue;
            }
            let (before, text) = (&record[done..at], &self.text[..offset]);
            let pairs = before.iter().rev().zip(text.iter().rev());
            let earlier = pairs.take_while(|(one, other)| one == other).count();
            push_counts(
                at - earlier - done,
                same + earlier - PIECE_BYTES_MIN,
                packed,
            );
            packed.extend_from_slice(&record[done..at - earlier]);
            packed.extend_from_slice(&((offset - earlier) as u16).to_le_bytes());
            at += same;
            done = at;
        }
        if done < record.len() {
            push_counts(record.len() - done, 0, packed);
            packed.extend_from_slice(&record[done..]);
        }
    }

    /// Append the record that was packed, or so many bytes of it at least.
    pub fn unpack(&self, packed: &[u8], bytes_min: usize, record: &mut Vec<u8>) {
        let mut rest = packed;
        while record.len() < bytes_min
            && let Some((&token, behind)) = rest.split_first()
        {
            rest = behind;
            let own = count(usize::from(token >> 4), &mut rest);
            let piece = PIECE_BYTES_MIN + count(usize::from(token & 15), &mut rest);
            let (bytes, behind) = rest.split_at(own);
            record.extend_from_slice(bytes);
            let Some((offset, behind)) = behind.split_first_chunk() else {
                break;
            };
            let offset = usize::from(u16::from_le_bytes(*offset));
            record.extend_from_slice(&self.text[offset..offset + piece]);
            rest = behind;
        }
    }
}

/// Dictionaries by number: the newest one packs, and older ones stay while something is packed with them.
#[derive(Default)]
pub struct Dictionaries {
    all: Vec<Numbered>,
    newest: usize,
    /// How many records were packed with the newest one.
    packed: usize,
}

struct Numbered {
    dictionary: Dictionary,
    /// How much is packed with it now.
    uses: usize,
}

impl Dictionaries {
    /// How many there may be at once.
    const NUMBER_MAX: usize = 4;

    /// Return how many records the newest one has packed; None if there is none.
    pub fn packed(&self) -> Option<usize> {
        (!self.all.is_empty()).then_some(self.packed)
    }

    /// Make a newest one, if one more may be; return how much more memory all take.
    pub fn renew(&mut self, text: Vec<u8>) -> isize {
        self.packed = 0;
        let free = self.all.iter().position(|one| one.uses == 0);
        if free.is_none() && self.all.len() == Self::NUMBER_MAX {
            return 0;
        }
        let one = Numbered {
            dictionary: Dictionary::new(text),
            uses: 0,
        };
        let mut more = one.dictionary.bytes() as isize;
        self.newest = free.unwrap_or(self.all.len());
        match free {
            Some(free) => {
                more -= self.all[free].dictionary.bytes() as isize;
                self.all[free] = one;
            }
            None => self.all.push(one),
        }
        more
    }

    /// Drop the dictionaries that nothing is packed with, but the newest; return how much memory they took.
    pub fn drop_unused(&mut self) -> usize {
        let mut freed = 0;
        for (number, one) in self.all.iter_mut().enumerate() {
            if one.uses == 0 && number != self.newest && !one.dictionary.text.is_empty() {
                let empty = Dictionary::new(Vec::new());
                freed += one.dictionary.bytes() - empty.bytes();
                one.dictionary = empty;
            }
        }
        freed
    }

    /// Append a record in less space; return the number of the dictionary that it needs.
    pub fn pack(&mut self, record: &[u8], packed: &mut Vec<u8>) -> u8 {
        self.packed += 1;
        self.all[self.newest].dictionary.pack(record, packed);
        self.newest as u8
    }

    /// Append the record that was packed with the dictionary of this number, or so many bytes of it at least.
    pub fn unpack(&self, number: u8, packed: &[u8], bytes_min: usize, record: &mut Vec<u8>) {
        let dictionary = &self.all[usize::from(number)].dictionary;
        dictionary.unpack(packed, bytes_min, record);
    }

    /// Note that a record has another form than it had.
    pub fn replace(&mut self, was: Form, is: Form) {
        if let Form::Packed(number) = was {
            self.all[usize::from(number)].uses -= 1;
        }
        if let Form::Packed(number) = is {
            self.all[usize::from(number)].uses += 1;
        }
    }
}

fn hash_of(piece: &[u8], offsets: usize) -> usize {
    let piece = u32::from_le_bytes(piece.try_into().expect("a piece has four bytes"));
    ((u64::from(piece.wrapping_mul(0x9E37_79B1)) * offsets as u64) >> 32) as usize
}

/// Return how many bytes both begin with.
fn common(one: &[u8], other: &[u8]) -> usize {
    let mut same = 0;
    for (word, that) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*that);
        if differing != 0 {
            return same + differing.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(byte, that)| byte == that).count()
}

/// Append a token, and what it does not hold of two numbers.
fn push_counts(own: usize, piece: usize, packed: &mut Vec<u8>) {
    packed.push((own.min(COUNTED_MAX) << 4 | piece.min(COUNTED_MAX)) as u8);
    for number in [own, piece] {
        if let Some(mut more) = number.checked_sub(COUNTED_MAX) {
            while more >= 255 {
                packed.push(255);
                more -= 255;
            }
            packed.push(more as u8);
        }
    }
}

/// Return the number that half of a token begins; the rest of it is taken from `rest`.
fn count(half: usize, rest: &mut &[u8]) -> usize {
    let mut number = half;
    if half == COUNTED_MAX {
        while let Some((&more, behind)) = rest.split_first() {
            *rest = behind;
            number += usize::from(more);
            if more < 255 {
                break;
            }
        }
    }
    number
}
