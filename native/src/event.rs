//! Plain changes as a changes topic holds them: `sowline.changes.event.read_event` for publishes.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::entry::NEVER;
use crate::log_record::TIME_MAX;
use crate::position::Position;

/// The longest integer that is read here, in digits: it is within 64 bits.
const DIGITS_MAX: usize = 18;

/// The header `sow` of a plain change: a publish or a delta publish that only has fields of such a change.
#[derive(Debug, PartialEq, Eq)]
pub struct About<'a> {
    pub position: Position,
    pub after: Position,
    pub is_delta: bool,
    pub time: i64,
    /// The log time, if `time` is a later one that the producer gave.
    pub log_time: Option<i64>,
    /// When the record is due, in ms of log time, or `NEVER`.
    pub expires: i64,
    pub correlation: Option<&'a [u8]>,
    /// The publishers' numbers as a JSON object; empty if there are none.
    pub numbers: &'a [u8],
    /// The schema that the message named, in a topic whose message type has schemas.
    pub schema_id: Option<i64>,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, expected: &[u8]) -> Option<()> {
        self.text[self.at..]
            .starts_with(expected)
            .then(|| self.at += expected.len())
    }

    fn whole(&mut self) -> Option<i64> {
        let start = self.at;
        let mut value = 0;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            if self.at - start == DIGITS_MAX {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            self.at += 1;
        }
        // JSON has no leading zeros.
        let is_number = self.at > start && (self.text[start] != b'0' || self.at - start == 1);
        is_number.then_some(value)
    }

    fn small(&mut self) -> Option<u32> {
        self.whole().and_then(|value| u32::try_from(value).ok())
    }

    /// Read `offset` or `offset.index`; the offset before the first record is -1. No owner writes the index 0.
    fn number(&mut self) -> Option<(i64, u32)> {
        if self.take(b"-1").is_some() {
            return Some((-1, 0));
        }
        let offset = self.whole()?;
        let nth = match self.take(b".") {
            None => 0,
            Some(()) => self.small().filter(|nth| *nth > 0)?,
        };
        Some((offset, nth))
    }

    /// Read a text of printable ASCII without escapes, with its quotes.
    fn text(&mut self) -> Option<&'a [u8]> {
        self.take(b"\"")?;
        let start = self.at;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => return None,
                b' '..=b'~' => self.at += 1,
                _ => return None,
            }
        }
        self.at += 1;
        Some(&self.text[start..self.at - 1])
    }

    /// Read publishers' numbers, `{"name":[n,m,time],…}`, and return their text.
    fn numbers(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.take(b"{")?;
        let mut names: Vec<&[u8]> = Vec::with_capacity(2);
        loop {
            let name = self.text()?;
            // Of a repeated name Python takes the last value.
            if names.contains(&name) {
                return None;
            }
            names.push(name);
            self.take(b":[")?;
            self.whole()?;
            self.take(b",")?;
            self.whole()?;
            self.take(b",")?;
            self.whole()?;
            self.take(b"]")?;
            if self.take(b",").is_none() {
                self.take(b"}")?;
                return Some(&self.text[start..self.at]);
            }
        }
    }
}

impl About<'_> {
    /// The log time of the partition after the change; 0 if the change does not tell: `Change.partition_time`.
    pub fn partition_time(&self) -> i64 {
        let time = self.log_time.unwrap_or(self.time);
        if (0..=TIME_MAX).contains(&time) {
            time
        } else {
            0
        }
    }

    /// `Change.replay_time`.
    pub fn replay_time(&self) -> i64 {
        match self.partition_time() {
            0 => self.time.min(TIME_MAX),
            time => time,
        }
    }
}

/// Return the content of a header `sow`; None if only Python can read it.
pub fn about(text: &[u8]) -> Option<About<'_>> {
    let mut reader = Reader { text, at: 0 };
    reader.take(b"{\"position\":\"")?;
    let (offset, nth) = reader.number()?;
    reader.take(b"\",\"after\":\"")?;
    let (mut after_era, mut after) = (None, reader.number()?);
    if reader.take(b"/").is_some() {
        if after.1 != 0 {
            return None;
        }
        after_era = Some(u32::try_from(after.0).ok()?);
        after = reader.number()?;
    }
    reader.take(b"\",\"op\":\"")?;
    let is_delta = reader.take(b"delta_").is_some();
    reader.take(b"publish\",\"time\":")?;
    let time = reader.whole()?;
    let mut found = About {
        position: Position {
            era: 0,
            offset,
            nth,
        },
        after: Position {
            era: 0,
            offset: after.0,
            nth: after.1,
        },
        is_delta,
        time,
        log_time: None,
        expires: NEVER,
        correlation: None,
        numbers: b"",
        schema_id: None,
    };
    if reader.take(b",\"era\":").is_some() {
        found.position.era = reader.small()?;
    }
    found.after.era = after_era.unwrap_or(found.position.era);
    if reader.take(b",\"expires\":").is_some() {
        found.expires = reader.whole()?;
    }
    if reader.take(b",\"correlation\":").is_some() {
        found.correlation = Some(reader.text()?);
    }
    if reader.take(b",\"numbers\":").is_some() {
        found.numbers = reader.numbers()?;
    }
    if reader.take(b",\"schema_id\":").is_some() {
        found.schema_id = Some(reader.whole()?);
    }
    if reader.take(b",\"log_time\":").is_some() {
        found.log_time = Some(reader.whole()?);
    }
    reader.take(b"}")?;
    (reader.at == text.len()).then_some(found)
}

/// A header of a Kafka message that a plain change may have.
pub enum Header {
    About,
    Previous,
}

impl Header {
    /// Return the header of this name; None if a plain change has no such header.
    pub fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"sow" => Some(Header::About),
            b"sow.previous" => Some(Header::Previous),
            _ => None,
        }
    }
}

/// Return the header `sow` of a message of a changes topic; None if the message has headers that a plain change lacks.
pub fn about_of<'py>(headers: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Ok(list) = headers.cast::<PyList>() else {
        return Ok(None);
    };
    let mut found = None;
    for pair in list {
        let Ok(pair) = pair.cast_into::<PyTuple>() else {
            return Ok(None);
        };
        let Ok(name) = pair
            .get_borrowed_item(0)?
            .cast::<PyString>()
            .map(|name| name.to_owned())
        else {
            return Ok(None);
        };
        match Header::of(name.to_str()?.as_bytes()) {
            Some(Header::About) => match pair.get_borrowed_item(1)?.cast::<PyBytes>() {
                Ok(about) => found = Some(about.to_owned()),
                Err(_) => return Ok(None),
            },
            Some(Header::Previous) => {}
            None => return Ok(None),
        }
    }
    Ok(found)
}

/// `About` as Python gets it.
#[pyclass(frozen, get_all, module = "sowline_native")]
pub struct PlainAbout {
    position: Position,
    after: Position,
    is_delta: bool,
    time: i64,
    expires: Option<i64>,
    correlation: Option<Py<PyBytes>>,
    numbers: Option<Py<PyBytes>>,
}

/// Return what the headers of a plain change hold, or None if only Python can read them. For tests.
#[pyfunction]
pub fn read_about(headers: &Bound<'_, PyAny>) -> PyResult<Option<PlainAbout>> {
    let py = headers.py();
    let Some(text) = about_of(headers)? else {
        return Ok(None);
    };
    let copied = |text| PyBytes::new(py, text).unbind();
    Ok(about(text.as_bytes()).map(|found| PlainAbout {
        position: found.position,
        after: found.after,
        is_delta: found.is_delta,
        time: found.time,
        expires: (found.expires != NEVER).then_some(found.expires),
        correlation: found.correlation.map(copied),
        numbers: (!found.numbers.is_empty()).then(|| copied(found.numbers)),
    }))
}
