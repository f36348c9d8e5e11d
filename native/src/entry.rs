//! A record's bytes in the store: `sowline_materializer.core.record`.

use crate::number::push;
use crate::position::Position;

/// Bytes of the fixed header: kind, era, offset, index, time, due time, bytes of the key text and of the rare fields.
const HEADER_BYTES: usize = 39;
const LIVE: u8 = 1;
pub const NEVER: i64 = -1;

/// What a schema id follows: the place of a document's writes.
const NO_WRITES: &[u8] = b",null,";

/// A stored record, in parts.
pub struct Entry<'a> {
    pub key_text: &'a [u8],
    /// The publishers' numbers as a JSON object; empty if there are none.
    pub numbers: &'a [u8],
    /// The body; None if the record is deleted.
    pub body: Option<&'a [u8]>,
}

/// Return the parts of a record's bytes; None if only Python can read them.
pub fn read(data: &[u8]) -> Option<Entry<'_>> {
    let header = data.get(..HEADER_BYTES)?;
    let text_bytes = usize::from(u16::from_le_bytes(header[33..35].try_into().ok()?));
    let rare_bytes = u32::from_le_bytes(header[35..39].try_into().ok()?) as usize;
    let (key_text, rest) = data[HEADER_BYTES..].split_at_checked(text_bytes)?;
    let (rare, body) = rest.split_at_checked(rare_bytes)?;
    let numbers = if rare.is_empty() {
        rare
    } else {
        numbers_of(rare)?
    };
    match header[0] {
        LIVE => Some(Entry {
            key_text,
            numbers,
            body: Some(body),
        }),
        0 => Some(Entry {
            key_text,
            numbers,
            body: None,
        }),
        _ => None,
    }
}

/// Return the first element of the rare fields, `[numbers or null,correlation or null]`, which `null` and a schema id may
/// follow; None if there are others.
fn numbers_of(rare: &[u8]) -> Option<&[u8]> {
    let list = rare.strip_prefix(b"[")?;
    if list.starts_with(b"null,") {
        // A document's third element follows its correlation.
        return is_last(&list[5..]).then_some(&list[..0]);
    }
    let end = 1 + list.windows(2).position(|two| two == b"]}")?;
    let rest = list[end + 1..].strip_prefix(b",")?;
    is_last(rest).then_some(&list[..=end])
}

/// Whether this is the last element before a schema id: a correlation without escapes, or null.
fn is_last(rest: &[u8]) -> bool {
    let Some(element) = rest.strip_suffix(b"]") else {
        return false;
    };
    let digits = element
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit());
    let element = match digits.count() {
        0 => Some(element),
        digits => element[..element.len() - digits].strip_suffix(NO_WRITES),
    };
    let Some(element) = element else {
        return false;
    };
    element == b"null"
        || element
            .strip_prefix(b"\"")
            .and_then(|text| text.strip_suffix(b"\""))
            .is_some_and(|text| !text.iter().any(|byte| matches!(byte, b'"' | b'\\')))
}

/// Return the time of a stored record's last change.
pub fn time(data: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(data.get(17..25)?.try_into().ok()?))
}

/// Return when a stored record is due; `NEVER` if it is not.
pub fn due(data: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(data.get(25..33)?.try_into().ok()?))
}

/// The position of a stored record's last change, and whether the record is live.
pub struct Head {
    pub position: Position,
    pub is_live: bool,
}

/// Return the head of a record's bytes; None if only Python can read them.
pub fn head(data: &[u8]) -> Option<Head> {
    let header = data.get(..HEADER_BYTES)?;
    let era = u32::from_le_bytes(header[1..5].try_into().ok()?);
    let offset = i64::from_le_bytes(header[5..13].try_into().ok()?);
    let nth = u32::from_le_bytes(header[13..17].try_into().ok()?);
    matches!(header[0], 0 | LIVE).then_some(Head {
        position: Position { era, offset, nth },
        is_live: header[0] == LIVE,
    })
}

/// The fields of a record that is written.
pub struct Written<'a> {
    pub era: u32,
    pub offset: i64,
    pub time: i64,
    pub expires: i64,
    pub key_text: &'a [u8],
    pub numbers: &'a [u8],
    pub correlation: Option<&'a [u8]>,
    /// The schema that its message names.
    pub schema_id: Option<u64>,
    /// The body; None if the record is deleted.
    pub body: Option<&'a [u8]>,
}

/// Return how many bytes a record takes.
pub fn bytes_of(record: &Written<'_>) -> usize {
    let mut digits = itoa::Buffer::new();
    let rare = match (record.numbers.len(), record.correlation, record.schema_id) {
        (0, None, None) => 0,
        (numbers, correlation, schema_id) => {
            let numbers = if numbers == 0 { 4 } else { numbers };
            let schema_bytes = schema_id.map_or(0, |id| NO_WRITES.len() + digits.format(id).len());
            3 + numbers + correlation.map_or(4, |text| text.len() + 2) + schema_bytes
        }
    };
    HEADER_BYTES + record.key_text.len() + rare + record.body.map_or(0, <[u8]>::len)
}

/// Append the bytes of a record to `out`.
pub fn write(record: &Written<'_>, out: &mut Vec<u8>) {
    out.reserve(bytes_of(record));
    out.push(record.body.map_or(0, |_| LIVE));
    out.extend_from_slice(&record.era.to_le_bytes());
    out.extend_from_slice(&record.offset.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&record.time.to_le_bytes());
    out.extend_from_slice(&record.expires.to_le_bytes());
    out.extend_from_slice(&(record.key_text.len() as u16).to_le_bytes());
    let rare_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(record.key_text);
    let start = out.len();
    if !record.numbers.is_empty() || record.correlation.is_some() || record.schema_id.is_some() {
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
        if let Some(id) = record.schema_id {
            out.extend_from_slice(NO_WRITES);
            push(id, out);
        }
        out.push(b']');
    }
    let rare_bytes = (out.len() - start) as u32;
    out[rare_at..rare_at + 4].copy_from_slice(&rare_bytes.to_le_bytes());
    out.extend_from_slice(record.body.unwrap_or_default());
}
