//! MessagePack messages as canonical JSON: `sowline.codecs.msgpack`.

use std::io::Write;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::escapes::{is_plain, write_text};
use crate::json::{DEPTH_MAX, FIELDS_MAX};

/// Doubles that `orjson` and Rust write in the same way, apart from zero.
const PLAIN_DOUBLES: std::ops::Range<f64> = 1e-4..1e16;

/// Reads messages.
#[pyclass(frozen, module = "sowline_native")]
pub struct MessagePackReader;

#[pymethods]
impl MessagePackReader {
    #[new]
    fn new() -> Self {
        MessagePackReader
    }

    /// Return the canonical JSON of a message; None if only Python can read or refuse it. For tests.
    #[pyo3(name = "read")]
    fn read_bytes<'py>(&self, py: Python<'py>, message: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        self.read(message, &mut out)?;
        Some(PyBytes::new(py, &out))
    }
}

impl MessagePackReader {
    /// Append the canonical JSON of a message; None if only Python can read or refuse it.
    pub fn read(&self, message: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut parts = Parts { rest: message, out };
        let is_map = matches!(message.first()?, 0x80..=0x8F | 0xDE | 0xDF);
        (is_map && parts.value(DEPTH_MAX).is_some() && parts.rest.is_empty()).then_some(())
    }
}

/// Whether a delta is merged field by field: `merged_values`. Python judges objects that may be values.
pub fn is_plain_merge(body: &[u8], delta: &[u8]) -> bool {
    let has_names = |text: &[u8]| text.contains(&b'$');
    let is_flat = delta.iter().filter(|byte| **byte == b'{').count() == 1;
    is_flat || !(has_names(delta) || has_names(body))
}

/// The part of a message that was not read yet, and its JSON so far.
struct Parts<'a, 'o> {
    rest: &'a [u8],
    out: &'o mut Vec<u8>,
}

impl<'a> Parts<'a, '_> {
    fn value(&mut self, depth: u32) -> Option<()> {
        let [mark] = self.taken()?;
        match mark {
            0..=0x7F => self.integer(mark),
            0xE0..=0xFF => self.integer(mark as i8),
            0x80..=0x8F => self.map(usize::from(mark & 0xF), depth)?,
            0x90..=0x9F => self.array(usize::from(mark & 0xF), depth)?,
            0xA0..=0xBF | 0xD9..=0xDB => write_text(self.text(mark)?, self.out),
            0xC0 => self.out.extend_from_slice(b"null"),
            0xC2 => self.out.extend_from_slice(b"false"),
            0xC3 => self.out.extend_from_slice(b"true"),
            0xCA => {
                let number = f32::from_be_bytes(self.taken()?);
                self.double(f64::from(number))?;
            }
            0xCB => {
                let number = f64::from_be_bytes(self.taken()?);
                self.double(number)?;
            }
            0xCC..=0xCF => {
                let number = self.size(1 << (mark - 0xCC))?;
                self.integer(number);
            }
            0xD0 => {
                let number = i8::from_be_bytes(self.taken()?);
                self.integer(number);
            }
            0xD1 => {
                let number = i16::from_be_bytes(self.taken()?);
                self.integer(number);
            }
            0xD2 => {
                let number = i32::from_be_bytes(self.taken()?);
                self.integer(number);
            }
            0xD3 => {
                let number = i64::from_be_bytes(self.taken()?);
                self.integer(number);
            }
            0xDC | 0xDD => {
                let length = self.size(2 << (mark - 0xDC))?;
                self.array(usize::try_from(length).ok()?, depth)?;
            }
            0xDE | 0xDF => {
                let length = self.size(2 << (mark - 0xDE))?;
                self.map(usize::try_from(length).ok()?, depth)?;
            }
            // Bytes and extensions are values that JSON lacks.
            _ => return None,
        }
        Some(())
    }

    /// Return the next bytes.
    fn taken<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// Return the number that the next bytes are, of which there are at most eight.
    fn size(&mut self, bytes: usize) -> Option<u64> {
        let (number, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(
            number
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    /// Return the text with a mark that was taken.
    fn text(&mut self, mark: u8) -> Option<&'a [u8]> {
        let length = match mark {
            0xA0..=0xBF => u64::from(mark & 0x1F),
            0xD9..=0xDB => self.size(1 << (mark - 0xD9))?,
            _ => return None,
        };
        let (text, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        std::str::from_utf8(text).ok().map(str::as_bytes)
    }

    fn integer(&mut self, number: impl itoa::Integer) {
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(number).as_bytes());
    }

    fn double(&mut self, number: f64) -> Option<()> {
        if number != 0.0 && !PLAIN_DOUBLES.contains(&number.abs()) {
            return None;
        }
        write!(self.out, "{number:?}").ok()
    }

    fn array(&mut self, length: usize, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.out.push(b'[');
        for number in 0..length {
            if number > 0 {
                self.out.push(b',');
            }
            self.value(depth)?;
        }
        self.out.push(b']');
        Some(())
    }

    /// Write a map. Python reads one in which a name comes again, has an escape, or may be that of a value.
    fn map(&mut self, length: usize, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if length > FIELDS_MAX {
            return None;
        }
        let mut names: Vec<&[u8]> = Vec::with_capacity(length);
        self.out.push(b'{');
        for number in 0..length {
            if number > 0 {
                self.out.push(b',');
            }
            let [mark] = self.taken()?;
            let name = self.text(mark)?;
            if names.contains(&name) || !is_plain(name) || name.starts_with(b"$") {
                return None;
            }
            names.push(name);
            write_text(name, self.out);
            self.out.push(b':');
            self.value(depth)?;
        }
        self.out.push(b'}');
        Some(())
    }
}
