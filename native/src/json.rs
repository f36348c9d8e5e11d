//! A scanner of JSON that keeps every value as its text.
//!
//! It accepts less than `orjson`, and never more: what it does not accept, Python judges. Texts are valid UTF-8.

/// How many levels of arrays and objects the scanner follows.
pub const DEPTH_MAX: u32 = 100;

/// How many fields of an object it remembers: names are compared with each other.
const FIELDS_MAX: usize = 64;

/// The longest number, in characters: with an exponent of two digits, it is within a double.
const NUMBER_BYTES_MAX: usize = 200;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    Text,
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

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Return the high bit of each byte of `word` that is zero (and perhaps of bytes above the first one).
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    /// Move behind the text whose opening quote was taken; return whether it has escapes.
    fn string(&mut self) -> Option<bool> {
        let mut has_escapes = false;
        loop {
            // Eight bytes at a time, up to the first that is a quote, a backslash or a control character.
            while let Some(chunk) = self.text.get(self.at..self.at + 8) {
                let word = u64::from_le_bytes(chunk.try_into().ok()?);
                let controls = word.wrapping_sub(LOW_BITS * 0x20) & !word & HIGH_BITS;
                let stops = zero_bytes(word ^ (LOW_BITS * u64::from(b'"')))
                    | zero_bytes(word ^ (LOW_BITS * u64::from(b'\\')))
                    | controls;
                if stops != 0 {
                    self.at += (stops.trailing_zeros() / 8) as usize;
                    break;
                }
                self.at += 8;
            }
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(has_escapes);
                }
                b'\\' => {
                    has_escapes = true;
                    self.escape()?;
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.text.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => match self.unit()? {
                // Half of a surrogate pair is no character.
                0xD800..0xDC00 if !matches!(self.unit(), Some(0xDC00..0xE000)) => return None,
                0xDC00..0xE000 => return None,
                _ => {}
            },
            _ => return None,
        }
        Some(())
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
        (self.at - start <= NUMBER_BYTES_MAX).then_some(kind)
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
                self.string()?;
                Some(Kind::Text)
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

/// Collect the fields of the object that `text` is; of a repeated name the last value counts, in the first position.
///
/// Returns None if it is not one, or one that only Python judges: then `fields` has no meaning.
pub fn fields<'a>(text: &'a [u8], fields: &mut Vec<Field<'a>>) -> Option<()> {
    fields.clear();
    let mut scanner = Scanner { text, at: 0 };
    scanner.skip_space();
    scanner.take(b'{')?;
    scanner.skip_space();
    if scanner.take(b'}').is_none() {
        loop {
            scanner.skip_space();
            scanner.take(b'"')?;
            let start = scanner.at;
            // Python compares names without their escapes.
            if scanner.string()? {
                return None;
            }
            let name = &text[start..scanner.at - 1];
            scanner.skip_space();
            scanner.take(b':')?;
            scanner.skip_space();
            let start = scanner.at;
            let kind = scanner.value(DEPTH_MAX)?;
            let field = Field {
                name,
                value: &text[start..scanner.at],
                kind,
            };
            match fields.iter().position(|known| known.name == name) {
                Some(known) => fields[known] = field,
                None if fields.len() == FIELDS_MAX => return None,
                None => fields.push(field),
            }
            scanner.skip_space();
            if scanner.take(b',').is_none() {
                scanner.take(b'}')?;
                break;
            }
        }
    }
    scanner.skip_space();
    (scanner.at == text.len()).then_some(())
}
