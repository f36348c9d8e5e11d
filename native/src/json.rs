//! A scanner of JSON that keeps every value as its text.
//!
//! It accepts less than `orjson`, and never more: what it does not accept, Python judges. Texts are valid UTF-8.

pub use crate::json_parts::{
    FIELDS_MAX, elements, exact_elements, exact_members, fields, leaves, member, member_value,
    members, members_behind_brace,
};

/// How many levels of arrays and objects the scanner follows.
pub const DEPTH_MAX: u32 = 100;

/// The longest number, in characters: with an exponent of two digits, it is within a double.
const NUMBER_BYTES_MAX: usize = 200;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    /// A text without escapes.
    Text,
    EscapedText,
    Integer,
    Fraction,
    Boolean,
    Null,
}

/// A field of an object: its name without quotes, and its value, both as text.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub kind: Kind,
}

/// A value as its text, and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// The text from the value on: its first 16 bytes can be read at once, most often.
    ahead: &'a [u8],
    length: usize,
    pub kind: Kind,
}

impl<'a> Value<'a> {
    /// Return a text with its quotes as a value.
    pub fn of(quoted: &'a [u8]) -> Self {
        Value {
            ahead: quoted,
            length: quoted.len(),
            kind: Kind::Text,
        }
    }

    pub fn text(&self) -> &'a [u8] {
        &self.ahead[..self.length]
    }

    /// Return the first 16 bytes of the text, padded with zeros, the first as the lowest; None if it is longer.
    pub fn word(&self) -> Option<u128> {
        let word = match self.ahead.first_chunk() {
            Some(bytes) => u128::from_le_bytes(*bytes),
            None => padded(self.ahead),
        };
        Some(word & (u128::MAX >> 128_usize.checked_sub(8 * self.length)?))
    }
}

/// Return the first 16 bytes, padded with zeros, the first as the lowest.
pub fn padded(text: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let length = text.len().min(bytes.len());
    bytes[..length].copy_from_slice(&text[..length]);
    u128::from_le_bytes(bytes)
}

/// Reads a text from its begin on; `at` is the next byte.
pub struct Scanner<'a> {
    pub text: &'a [u8],
    pub at: usize,
    number_bytes_max: usize,
}

/// The longest number of an exact sum, in characters; Python reads or refuses longer ones.
const EXACT_BYTES_MAX: usize = 1000;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Return the high bit of each byte of `word` that is zero (and perhaps of bytes above the first one).
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
}

/// How many bytes are compared at once in a long text.
const BLOCK: usize = 64;

/// Return whether a block has a quote, a backslash or a control character. The compiler makes vector code of it.
fn has_stop(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(0, |found, byte| {
        // With the second bit flipped, a quote is a space, and what is below a space stays below.
        found | u8::from((byte ^ 0b10) <= b' ') | u8::from(*byte == b'\\')
    }) != 0
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Scanner {
            text,
            at: 0,
            number_bytes_max: NUMBER_BYTES_MAX,
        }
    }

    /// Return a scanner that takes longer numbers: exact sums are integers of up to 700 digits.
    pub fn exact(text: &'a [u8]) -> Self {
        Scanner {
            number_bytes_max: EXACT_BYTES_MAX,
            ..Self::new(text)
        }
    }

    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    pub fn take(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    /// Move behind the text whose opening quote was taken; return whether it has escapes.
    fn string(&mut self) -> Option<bool> {
        let mut has_escapes = false;
        loop {
            self.skip_plain();
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(has_escapes);
                }
                b'\\' => {
                    has_escapes = true;
                    self.escaped()?;
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    /// Move to the first byte that is a quote, a backslash or a control character, or to the last bytes.
    fn skip_plain(&mut self) {
        let start = self.at;
        while let Some(bytes) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*bytes);
            let controls = word.wrapping_sub(LOW_BITS * 0x20) & !word & HIGH_BITS;
            let stops = zero_bytes(word ^ (LOW_BITS * u64::from(b'"')))
                | zero_bytes(word ^ (LOW_BITS * u64::from(b'\\')))
                | controls;
            if stops != 0 {
                self.at += (stops.trailing_zeros() / 8) as usize;
                return;
            }
            self.at += size_of_val(bytes);
            if self.at - start == 2 * size_of_val(bytes) {
                // The text is not short.
                self.skip_blocks();
            }
        }
    }

    /// Move to the first block that has the end of a text or an escape, or to the last bytes.
    fn skip_blocks(&mut self) {
        while let Some(block) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) {
            if has_stop(block) {
                break;
            }
            self.at += BLOCK;
        }
    }

    /// Move behind an escape; return the character that it spells.
    pub fn escaped(&mut self) -> Option<char> {
        let character = match self.text.get(self.at + 1)? {
            b'u' => return self.spelled(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            mark @ (b'"' | b'\\' | b'/') => char::from(*mark),
            _ => return None,
        };
        self.at += 2;
        Some(character)
    }

    /// Move behind `\u` and what belongs to it. Half of a surrogate pair is no character.
    fn spelled(&mut self) -> Option<char> {
        let unit = self.unit()?;
        if !(0xD800..0xDC00).contains(&unit) {
            return char::from_u32(unit);
        }
        let low = self.unit()?;
        let offset = (0xDC00..0xE000).contains(&low).then(|| low - 0xDC00)?;
        char::from_u32(0x10000 + ((unit - 0xD800) << 10) + offset)
    }

    /// Move behind `\u` and its four digits; return what they spell.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 6)?.strip_prefix(b"\\u")?;
        let value = digits.iter().try_fold(0, |value, digit| {
            Some(value * 16 + char::from(*digit).to_digit(16)?)
        })?;
        self.at += 6;
        Some(value)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(bytes) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) {
            let digits = u64::from_le_bytes(*bytes) ^ (LOW_BITS * u64::from(b'0'));
            let others = (digits.wrapping_add(LOW_BITS * (0x80 - 10)) | digits) & HIGH_BITS;
            self.at += (others.trailing_zeros() / 8) as usize;
            if others != 0 {
                return self.at - start;
            }
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Option<Kind> {
        let start = self.at;
        let mut kind = Kind::Integer;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else if self.digits() == 0 {
            return None;
        }
        if self.peek() == Some(b'.') {
            kind = Kind::Fraction;
            self.at += 1;
            if self.digits() == 0 {
                return None;
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            kind = Kind::Fraction;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !(1..=2).contains(&self.digits()) {
                return None;
            }
        }
        (self.at - start <= self.number_bytes_max).then_some(kind)
    }

    fn literal(&mut self, text: &[u8], kind: Kind) -> Option<Kind> {
        self.text[self.at..].starts_with(text).then(|| {
            self.at += text.len();
            kind
        })
    }

    /// Move behind a value; no space before it.
    fn value(&mut self, depth: u32) -> Option<Kind> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                Some(if self.string()? {
                    Kind::EscapedText
                } else {
                    Kind::Text
                })
            }
            b'{' => {
                self.at += 1;
                self.object(depth.checked_sub(1)?)?;
                Some(Kind::Object)
            }
            b'[' => {
                self.at += 1;
                self.array(depth.checked_sub(1)?)?;
                Some(Kind::Array)
            }
            b't' => self.literal(b"true", Kind::Boolean),
            b'f' => self.literal(b"false", Kind::Boolean),
            b'n' => self.literal(b"null", Kind::Null),
            _ => self.number(),
        }
    }

    /// Move behind the next name of an object and its colon; at the end, move behind the object and its space.
    ///
    /// Stands behind the opening brace, or behind a value and its space. A name with escapes is none: Python compares
    /// names without them.
    pub fn name(&mut self, is_first: bool) -> Option<Option<&'a [u8]>> {
        if is_first {
            self.skip_space();
        }
        if self.take(b'}').is_some() {
            self.skip_space();
            return Some(None);
        }
        if !is_first {
            self.take(b',')?;
            self.skip_space();
        }
        self.take(b'"')?;
        let start = self.at;
        if self.string()? {
            return None;
        }
        let name = &self.text[start..self.at - 1];
        self.skip_space();
        self.take(b':')?;
        Some(Some(name))
    }

    /// Move behind a value and the space around it.
    pub fn spaced_value(&mut self) -> Option<Value<'a>> {
        self.skip_space();
        let start = self.at;
        let kind = self.value(DEPTH_MAX)?;
        let value = Value {
            ahead: &self.text[start..],
            length: self.at - start,
            kind,
        };
        self.skip_space();
        Some(value)
    }

    fn object(&mut self, depth: u32) -> Option<()> {
        self.skip_space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.skip_space();
            self.take(b'"')?;
            self.string()?;
            self.skip_space();
            self.take(b':')?;
            self.skip_space();
            self.value(depth)?;
            self.skip_space();
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn array(&mut self, depth: u32) -> Option<()> {
        self.skip_space();
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.skip_space();
            self.value(depth)?;
            self.skip_space();
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }
}
