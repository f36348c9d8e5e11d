//! The names of objects, which most objects of a topic share: they are compared, and not read again.

use rustc_hash::FxHashMap;

use crate::json::{Scanner, Value, padded};

/// The numbers that a caller gives to some names: 0, 1, …
pub type Numbers = FxHashMap<Vec<u8>, usize>;

/// The names of the object that came last.
///
/// Most objects of a topic have the same names in the same order: then these are not read again, but compared.
pub struct Layout<'n> {
    numbers: &'n Numbers,
    heads: Vec<Head>,
}

/// What stood before a value, from the end of the value before, and the number of its name.
#[derive(Default)]
struct Head {
    text: Vec<u8>,
    /// The first 16 bytes of the text, padded with zeros.
    word: u128,
    /// One bits where `word` is no padding.
    mask: u128,
    number: Option<usize>,
}

impl Head {
    fn set(&mut self, text: &[u8], number: Option<usize>) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.word = padded(text);
        self.mask = u128::MAX >> (128 - 8 * text.len().min(16));
        self.number = number;
    }

    /// Return whether `text` begins with this head, which is not empty.
    fn begins(&self, text: &[u8]) -> bool {
        match text.first_chunk() {
            // Most names are short.
            Some(bytes) if self.text.len() <= bytes.len() => {
                (u128::from_le_bytes(*bytes) ^ self.word) & self.mask == 0
            }
            _ => text.starts_with(&self.text),
        }
    }
}

impl<'n> Layout<'n> {
    pub fn new(numbers: &'n Numbers) -> Self {
        Layout {
            numbers,
            heads: Vec::new(),
        }
    }

    /// Put the fields with a number into `found`, of a repeated name the last. Returns None as `members` does.
    pub fn find<'a>(&mut self, text: &'a [u8], found: &mut [Option<Value<'a>>]) -> Option<()> {
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        scanner.take(b'{')?;
        for index in 0.. {
            if index == self.heads.len() {
                self.heads.push(Head::default());
            }
            let head = &mut self.heads[index];
            if !head.text.is_empty() && head.begins(&text[scanner.at..]) {
                scanner.at += head.text.len();
            } else {
                let start = scanner.at;
                let Some(name) = scanner.name(index == 0)? else {
                    break;
                };
                head.set(&text[start..scanner.at], self.numbers.get(name).copied());
            }
            let value = scanner.spaced_value()?;
            if let Some(number) = head.number {
                found[number] = Some(value);
            }
        }
        (scanner.at == text.len()).then_some(())
    }
}
