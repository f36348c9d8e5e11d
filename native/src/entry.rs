//! A record's bytes in the store: `sowline_materializer.core.record`.

use crate::number::{push, whole};
use crate::position::Position;

/// Bytes of the fixed header: kind, era, offset, index, time, due time, bytes of the key text and of the rare fields.
const HEADER_BYTES: usize = 39;
const LIVE: u8 = 1;
pub const NEVER: i64 = -1;

/// What a schema id follows: the position of a document's writes.
const NO_WRITES: &[u8] = b",null,";

/// A stored record, in parts.
pub struct Entry<'a> {
    pub key_text: &'a [u8],
    /// The position of the last change.
    pub position: Position,
    /// The time of the last change.
    pub time: i64,
    /// When the record is due; `NEVER` if it is not.
    pub due: i64,
    /// The publishers' numbers as a JSON object; empty if there are none.
    pub numbers: &'a [u8],
    /// The metadata of a document's writes as a JSON object; empty if it is no document.
    pub writes: &'a [u8],
    /// The body; None if the record is deleted.
    pub body: Option<&'a [u8]>,
}

/// A stored group of a view, in parts.
pub struct Group<'a> {
    /// The states by source partition as a JSON object.
    pub states: &'a [u8],
    /// The body; None if the group is hidden.
    pub body: Option<&'a [u8]>,
}

/// What stands before the states of a group among the rare fields.
const BEFORE_STATES: &[u8] = b"[null,null,null,null,";

/// Return the parts of a record's bytes; None if only Python can read them.
pub fn read(data: &[u8]) -> Option<Entry<'_>> {
    let (key_text, rare, body) = parts(data)?;
    let (numbers, writes) = if rare.is_empty() {
        (rare, rare)
    } else {
        rare_of(rare)?
    };
    Some(Entry {
        key_text,
        position: position(data)?,
        time: i64::from_le_bytes(data.get(17..25)?.try_into().ok()?),
        due: due(data)?,
        numbers,
        writes,
        body,
    })
}

/// Return the parts of a group's bytes; None if only Python can read them.
pub fn read_group(data: &[u8]) -> Option<Group<'_>> {
    let (_, rare, body) = parts(data)?;
    let states = rare.strip_prefix(BEFORE_STATES)?.strip_suffix(b"]")?;
    Some(Group { states, body })
}

/// A key text, the rare fields as JSON, and the body.
type Parts<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>);

/// Return the parts of a record's bytes, with the rare fields as they are.
fn parts(data: &[u8]) -> Option<Parts<'_>> {
    let header = data.get(..HEADER_BYTES)?;
    let text_bytes = usize::from(u16::from_le_bytes(header[33..35].try_into().ok()?));
    let rare_bytes = u32::from_le_bytes(header[35..39].try_into().ok()?) as usize;
    let (key_text, rest) = data[HEADER_BYTES..].split_at_checked(text_bytes)?;
    let (rare, body) = rest.split_at_checked(rare_bytes)?;
    match header[0] {
        LIVE => Some((key_text, rare, Some(body))),
        0 => Some((key_text, rare, None)),
        _ => None,
    }
}

/// Return the first and the third of the rare fields: `[numbers or null,correlation or null]`, and the metadata of a
/// document's writes if there are any. A schema id may follow; None if there is more.
fn rare_of(rare: &[u8]) -> Option<(&[u8], &[u8])> {
    let list = rare.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let (numbers, rest) = match list.strip_prefix(b"null,") {
        Some(rest) => (&list[..0], rest),
        None => {
            let end = 2 + list.windows(2).position(|two| two == b"]}")?;
            (&list[..end], list[end..].strip_prefix(b",")?)
        }
    };
    let rest = behind_correlation(rest)?;
    if rest.is_empty() {
        return Some((numbers, rest));
    }
    if let Some(id) = rest.strip_prefix(NO_WRITES) {
        return whole(id).map(|_| (numbers, &rest[..0]));
    }
    let writes = rest.strip_prefix(b",")?;
    (writes.starts_with(b"{") && writes.ends_with(b"}")).then_some((numbers, writes))
}

/// Return what follows a correlation without escapes, or null.
fn behind_correlation(list: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = list.strip_prefix(b"null") {
        return Some(rest);
    }
    let text = list.strip_prefix(b"\"")?;
    let end = text.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    text[end..].strip_prefix(b"\"")
}

/// Where the due time ends.
pub const DUE_END: usize = 33;

/// Return when a stored record is due; `NEVER` if it is not.
pub fn due(data: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(data.get(25..DUE_END)?.try_into().ok()?))
}

/// The position of a stored record's last change, and whether the record is live.
pub struct Head {
    pub position: Position,
    pub is_live: bool,
}

/// Return the head of a record's bytes; None if only Python can read them.
pub fn head(data: &[u8]) -> Option<Head> {
    let header = data.get(..HEADER_BYTES)?;
    let position = position(header)?;
    matches!(header[0], 0 | LIVE).then_some(Head {
        position,
        is_live: header[0] == LIVE,
    })
}

fn position(header: &[u8]) -> Option<Position> {
    Some(Position {
        era: u32::from_le_bytes(header.get(1..5)?.try_into().ok()?),
        offset: i64::from_le_bytes(header.get(5..13)?.try_into().ok()?),
        nth: u32::from_le_bytes(header.get(13..17)?.try_into().ok()?),
    })
}

/// The fields of a record that is written.
pub struct Written<'a> {
    pub at: Position,
    pub time: i64,
    pub expires: i64,
    pub key_text: &'a [u8],
    pub numbers: &'a [u8],
    pub correlation: Option<&'a [u8]>,
    /// The schema that its message names.
    pub schema_id: Option<u64>,
    /// The states of a group by source partition as a JSON object; empty in any other record.
    pub states: &'a [u8],
    /// The metadata of a document's writes; empty if it is no document.
    pub writes: &'a [u8],
    /// The body; None if the record is deleted.
    pub body: Option<&'a [u8]>,
}

impl Written<'_> {
    fn has_rare_fields(&self) -> bool {
        !self.numbers.is_empty()
            || self.correlation.is_some()
            || !self.writes.is_empty()
            || self.schema_id.is_some()
    }
}

/// Return how many bytes a record takes.
pub fn bytes_of(record: &Written<'_>) -> usize {
    let rare = if !record.states.is_empty() {
        BEFORE_STATES.len() + record.states.len() + 1
    } else if record.has_rare_fields() {
        let numbers = match record.numbers.len() {
            0 => 4,
            bytes => bytes,
        };
        let writes = match record.writes.len() {
            0 => 0,
            bytes => bytes + 1,
        };
        let mut digits = itoa::Buffer::new();
        let schema_id = record
            .schema_id
            .map_or(0, |id| NO_WRITES.len() + digits.format(id).len());
        3 + numbers + record.correlation.map_or(4, |text| text.len() + 2) + writes + schema_id
    } else {
        0
    };
    HEADER_BYTES + record.key_text.len() + rare + record.body.map_or(0, <[u8]>::len)
}

/// Append the bytes of a record to `out`.
pub fn write(record: &Written<'_>, out: &mut Vec<u8>) {
    out.reserve(bytes_of(record));
    out.push(record.body.map_or(0, |_| LIVE));
    out.extend_from_slice(&record.at.era.to_le_bytes());
    out.extend_from_slice(&record.at.offset.to_le_bytes());
    out.extend_from_slice(&record.at.nth.to_le_bytes());
    out.extend_from_slice(&record.time.to_le_bytes());
    out.extend_from_slice(&record.expires.to_le_bytes());
    out.extend_from_slice(&(record.key_text.len() as u16).to_le_bytes());
    let rare_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(record.key_text);
    let start = out.len();
    if !record.states.is_empty() {
        out.extend_from_slice(BEFORE_STATES);
        out.extend_from_slice(record.states);
        out.push(b']');
    } else if record.has_rare_fields() {
        out.push(b'[');
        out.extend_from_slice(if record.numbers.is_empty() {
            b"null"
        } else {
            record.numbers
        });
        out.push(b',');
        match record.correlation {
            None => out.extend_from_slice(b"null"),
            Some(text) => {
                out.push(b'"');
                out.extend_from_slice(text);
                out.push(b'"');
            }
        }
        if !record.writes.is_empty() {
            out.push(b',');
            out.extend_from_slice(record.writes);
        } else if let Some(id) = record.schema_id {
            out.extend_from_slice(NO_WRITES);
            push(id, out);
        }
        out.push(b']');
    }
    let rare_bytes = (out.len() - start) as u32;
    out[rare_at..rare_at + 4].copy_from_slice(&rare_bytes.to_le_bytes());
    out.extend_from_slice(record.body.unwrap_or_default());
}
