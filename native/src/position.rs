//! Positions of changes: `sowline.model.position.Position`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::number::{push, whole};

/// A position: era, offset, and the number of the change within its log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position<N = u32> {
    pub era: N,
    pub offset: i64,
    pub nth: N,
}

impl Position {
    /// Return the position of a log record, and of its first change.
    pub fn of_record(era: u32, offset: i64) -> Self {
        Position {
            era,
            offset,
            nth: 0,
        }
    }

    /// Return the position that a text of printable ASCII spells; None if only Python can read or refuse it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let small = |part| u32::try_from(whole(part)?).ok();
        let (era, rest) = match text.iter().position(|byte| *byte == b'/') {
            None => (0, text),
            Some(at) => (small(&text[..at])?, &text[at + 1..]),
        };
        let (offset, nth) = match rest.iter().position(|byte| *byte == b'.') {
            None => (rest, 0),
            Some(at) => (&rest[..at], small(&rest[at + 1..])?),
        };
        let offset = match offset {
            b"-1" => -1,
            digits => i64::try_from(whole(digits)?).ok()?,
        };
        Some(Position { era, offset, nth })
    }
}

impl<N: itoa::Integer + Copy + PartialEq + Default> Position<N> {
    /// Append the text of a position without its era: `sowline.changes.position_text`.
    pub fn write(self, out: &mut Vec<u8>) {
        push(self.offset, out);
        if self.nth != N::default() {
            out.push(b'.');
            push(self.nth, out);
        }
    }

    /// Append the text of a position: `Position.__str__`.
    pub fn write_whole(self, out: &mut Vec<u8>) {
        if self.era != N::default() {
            push(self.era, out);
            out.push(b'/');
        }
        self.write(out);
    }
}

impl From<Position> for Position<i64> {
    fn from(it: Position) -> Self {
        Position {
            era: it.era.into(),
            offset: it.offset,
            nth: it.nth.into(),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Position {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (era, offset, nth) = given.extract()?;
        Ok(Position { era, offset, nth })
    }
}

impl<'py, N: IntoPyObject<'py>> IntoPyObject<'py> for Position<N> {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (self.era, self.offset, self.nth).into_pyobject(py)
    }
}
