//! The metadata of a document's writes, as JSON: `sowline.language.emodb.writes.Writes`.

use md5::{Digest, Md5};

use crate::command::Command;
use crate::escapes::write_text;
use crate::number::{push, whole};

/// How many tags a write has at most, and how many characters a tag.
const TAGS_MAX: usize = 16;
const TAG_CHARS_MAX: usize = 100;

const ID_BYTES: usize = 16;

type Id = [u8; ID_BYTES];

/// The metadata of the writes before.
pub struct Writes<'a> {
    version: u64,
    signature: Id,
    first: i64,
    mutated: i64,
    /// The tags of the last write, as a JSON array; empty if there are none.
    tags: &'a [u8],
    /// All of it.
    text: &'a [u8],
}

impl<'a> Writes<'a> {
    /// Read the metadata; None if only Python can, such as that of a document with fields that its template hides.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let rest = text.strip_prefix(b"{\"version\":")?;
        let (version, rest) = number(rest, b",\"signature\":\"")?;
        let (signature, rest) = id(rest)?;
        let (first, rest) = number(rest.strip_prefix(b"\",\"first\":")?, b",\"last\":")?;
        let (_, rest) = number(rest, b",\"mutated\":")?;
        let (mutated, rest) = number(rest, b",")?;
        let (tags, rest) = match rest.strip_prefix(b"\"tags\":") {
            None => (&rest[..0], rest),
            Some(list) => {
                let end = list.windows(2).position(|two| two == b"],")? + 1;
                (&list[..end], &list[end + 1..])
            }
        };
        let (_, rest) = id(rest.strip_prefix(b"\"change_id\":\"")?)?;
        matches!(rest, b"\"}" | b"\",\"redundant\":true}").then_some(Writes {
            version,
            signature,
            first: i64::try_from(first).ok()?,
            mutated: i64::try_from(mutated).ok()?,
            tags,
            text,
        })
    }
}

/// Return the whole number in front of `end`, and what follows it.
fn number<'a>(text: &'a [u8], end: &[u8]) -> Option<(u64, &'a [u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some((whole(&text[..digits])?, text[digits..].strip_prefix(end)?))
}

/// Return the bytes that 32 hexadecimal digits spell, and what follows them.
fn id(text: &[u8]) -> Option<(Id, &[u8])> {
    let (digits, rest) = text.split_at_checked(2 * ID_BYTES)?;
    Some((spelled(digits.iter().copied())?, rest))
}

fn spelled(mut digits: impl Iterator<Item = u8>) -> Option<Id> {
    let mut digit = || char::from(digits.next()?).to_digit(16);
    let mut bytes = Id::default();
    for byte in &mut bytes {
        *byte = (digit()? * 16 + digit()?) as u8;
    }
    Some(bytes)
}

/// A write of a document: its id, its time and its tags.
pub struct Write {
    id: Id,
    time: i64,
    /// As a JSON array; empty if there are none.
    tags: Vec<u8>,
}

impl Write {
    /// Return the write that a command makes; None if only Python can read its id or its tags.
    pub fn of(command: &Command<'_>, partition: u32, offset: i64, time: i64) -> Option<Self> {
        let id = match (command.change_id, command.origin) {
            (Some(text), _) => uuid(text)?,
            (None, None) => id_at(partition, u64::try_from(offset).ok()?),
            (None, Some(copy)) => id_at(u32::try_from(copy.partition).ok()?, copy.offset),
        };
        let tags = tags(command.tags.unwrap_or_default())?;
        Some(Write { id, time, tags })
    }

    /// Write the metadata after it to `out`; `is_changed` says that it changes the content.
    pub fn write(&self, before: Option<&Writes<'_>>, is_changed: bool, out: &mut Vec<u8>) {
        let signature = before.map_or(Id::default(), |writes| writes.signature);
        let signed = Md5::new_with_prefix(signature).chain_update(self.id);
        let mutated = before
            .filter(|_| !is_changed)
            .map_or(self.time, |writes| writes.mutated);
        out.clear();
        out.extend_from_slice(b"{\"version\":");
        push(before.map_or(0, |writes| writes.version) + 1, out);
        out.extend_from_slice(b",\"signature\":\"");
        push_id(&signed.finalize(), out);
        out.extend_from_slice(b"\",\"first\":");
        push(before.map_or(self.time, |writes| writes.first), out);
        out.extend_from_slice(b",\"last\":");
        push(self.time, out);
        out.extend_from_slice(b",\"mutated\":");
        push(mutated, out);
        if !self.tags.is_empty() {
            out.extend_from_slice(b",\"tags\":");
            out.extend_from_slice(&self.tags);
        }
        out.extend_from_slice(b",\"change_id\":\"");
        push_id(&self.id, out);
        out.push(b'"');
        if !is_changed && before.is_some_and(|writes| writes.tags == self.tags) {
            out.extend_from_slice(b",\"redundant\":true");
        }
        out.push(b'}');
    }
}

/// Write the header of a change with the metadata after it and before it: `sowline.changes.change.Accounts`.
pub fn write_accounts(now: &[u8], before: Option<&Writes<'_>>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(b"{\"now\":");
    out.extend_from_slice(now);
    if let Some(writes) = before {
        out.extend_from_slice(b",\"before\":");
        out.extend_from_slice(writes.text);
    }
    out.push(b'}');
}

fn push_id(id: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in id {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Return the id of a write without a name, made from its position on the log.
fn id_at(partition: u32, offset: u64) -> Id {
    let number = (u128::from(partition) << 96) | u128::from(offset);
    number.to_be_bytes()
}

/// Return the bytes of a UUID in its usual form; None of any other text.
fn uuid(text: &[u8]) -> Option<Id> {
    let is_hyphen = |at: &usize| matches!(at, 8 | 13 | 18 | 23);
    let has_hyphens = (0..text.len()).filter(is_hyphen).all(|at| text[at] == b'-');
    if text.len() != 36 || !has_hyphens {
        return None;
    }
    let digits = (0..text.len()).filter(|at| !is_hyphen(at));
    spelled(digits.map(|at| text[at]))
}

/// Return the tags in a list with commas, as a JSON array in order; empty if there are none.
fn tags(list: &[u8]) -> Option<Vec<u8>> {
    let tags = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut tags: Vec<&[u8]> = tags.filter(|tag| !tag.is_empty()).collect();
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > TAGS_MAX || tags.iter().any(|tag| tag.len() > TAG_CHARS_MAX) {
        return None;
    }
    let mut out = Vec::new();
    for tag in &tags {
        out.push(if out.is_empty() { b'[' } else { b',' });
        write_text(tag, &mut out);
    }
    if !out.is_empty() {
        out.push(b']');
    }
    Some(out)
}
