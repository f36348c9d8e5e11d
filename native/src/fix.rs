//! FIX and NVFIX messages of texts alone, as canonical JSON: `sowline.codecs.fix`.

use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustc_hash::FxBuildHasher;

use crate::canonical::push_fields;
use crate::escapes::{is_as_written, is_plain, write_text};
use crate::json::{self, FIELDS_MAX, Kind};

const TAG_DIGITS_MAX: usize = 9;

const LENGTH_DIGITS_MAX: usize = 9;

/// The rank of a field of the body: `sowline.codecs.fix.document.BODY`.
const BODY: i32 = 1;

const BEGIN_STRING: &str = "8";
const BODY_LENGTH: &str = "9";
const CHECK_SUM: &str = "10";
const MSG_TYPE: &str = "35";

type ByName<T> = HashMap<Vec<u8>, T, FxBuildHasher>;

/// A tag and its value.
type Pair<'a> = (&'a str, &'a str);

/// Reads messages under the options of a topic. Names and tags are UTF-8.
#[pyclass(frozen, module = "sowline_native")]
pub struct FixReader {
    /// Whether they are of type `fix`: with tags, and perhaps framed.
    is_fix: bool,
    separator: char,
    /// The separator in a text of JSON.
    written_separator: Vec<u8>,
    /// Whether it needs no escape there.
    is_plain_separator: bool,
    /// By tag.
    names: ByName<Vec<u8>>,
    /// The names of `names`.
    named: HashSet<Vec<u8>, FxBuildHasher>,
    /// By name, where the fields of a framed message are; those of its body are not here.
    ranks: ByName<i32>,
    /// The names of fields that are no texts of their own, such as counts of groups: Python reads their messages.
    left: HashSet<Vec<u8>, FxBuildHasher>,
}

#[pymethods]
impl FixReader {
    #[new]
    pub fn new(
        is_fix: bool,
        separator: char,
        names: ByName<Vec<u8>>,
        ranks: ByName<i32>,
        left: HashSet<Vec<u8>, FxBuildHasher>,
    ) -> Self {
        let mut quoted = Vec::new();
        write_text(separator.encode_utf8(&mut [0; 4]).as_bytes(), &mut quoted);
        FixReader {
            is_fix,
            separator,
            is_plain_separator: quoted.len() == "'|'".len(),
            written_separator: quoted[1..quoted.len() - 1].to_vec(),
            named: names.values().cloned().collect(),
            names,
            ranks,
            left,
        }
    }

    /// Return the canonical JSON of a message; None if only Python can read or refuse it. For tests.
    #[pyo3(name = "read")]
    fn read_bytes<'py>(&self, py: Python<'py>, message: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        self.read(message, &mut out)?;
        Some(PyBytes::new(py, &out))
    }

    /// Return the canonical JSON of a record that was merged; None if only Python can. For tests.
    #[pyo3(name = "completed")]
    fn completed_bytes<'py>(&self, py: Python<'py>, body: &[u8]) -> Option<Bound<'py, PyBytes>> {
        std::str::from_utf8(body).ok()?;
        let mut body = body.to_vec();
        self.complete(&mut body)?;
        Some(PyBytes::new(py, &body))
    }
}

impl FixReader {
    /// Append the canonical JSON of a message; None if only Python can read or refuse it.
    pub fn read(&self, message: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let text = std::str::from_utf8(message).ok()?;
        let mut fields: Vec<Pair<'_>> = Vec::with_capacity(32);
        let inside = text.strip_suffix(self.separator).unwrap_or(text);
        for part in inside.split(self.separator) {
            if fields.len() == FIELDS_MAX {
                return None;
            }
            fields.push(part.split_once('=')?);
        }
        let is_framed = self.is_fix && self.unframe(message, &mut fields)?;
        let mut named = Vec::with_capacity(fields.len());
        for (tag, value) in fields {
            let name = self.name_of(tag)?;
            // The values of a name that comes again are an array.
            if named.iter().any(|(known, _)| *known == name) {
                return None;
            }
            named.push((name, value));
        }
        if is_framed {
            named.sort_by_key(|(name, _)| self.rank(name));
        }
        for (number, (name, value)) in named.iter().enumerate() {
            out.extend_from_slice(if number == 0 { b"{\"" } else { b",\"" });
            out.extend_from_slice(name);
            out.extend_from_slice(b"\":");
            write_text(value.as_bytes(), out);
        }
        out.push(b'}');
        Some(())
    }

    /// Make a body canonical that a delta was merged into: `NvfixCodec.completed`. None if only Python can.
    pub fn complete(&self, body: &mut Vec<u8>) -> Option<()> {
        let mut held = Vec::with_capacity(32);
        json::fields(body, &mut held)?;
        for field in &held {
            let inside = field.value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            let is_as_read = match field.kind {
                Kind::Text => !(self.is_plain_separator && self.has_separator(inside)),
                Kind::EscapedText => is_as_written(inside) && !self.has_separator(inside),
                _ => false,
            };
            if !is_as_read || !self.is_name(field.name) || self.left.contains(field.name) {
                return None;
            }
        }
        let has_rank = |rank| held.iter().any(|field| self.rank(field.name) == rank);
        if held.is_empty() {
            return None;
        }
        // BeginString has the lowest rank, and makes a frame, which has a MsgType.
        if !self.is_fix || !has_rank(BODY - 3) {
            return Some(());
        }
        if !has_rank(BODY - 2) {
            return None;
        }
        if !held.is_sorted_by_key(|field| self.rank(field.name)) {
            held.sort_by_key(|field| self.rank(field.name));
            let mut arranged = Vec::with_capacity(body.len());
            push_fields(&held, &mut arranged);
            *body = arranged;
        }
        Some(())
    }

    /// Return the name of a field; None if only Python reads or refuses it.
    fn name_of<'a>(&'a self, tag: &'a str) -> Option<&'a [u8]> {
        let is_known = if self.is_fix {
            is_tag(tag)
        } else {
            !tag.is_empty()
        };
        let name = self.names.get(tag.as_bytes());
        let name = name.map_or(tag.as_bytes(), Vec::as_slice);
        (is_known && is_plain(name) && !self.left.contains(name)).then_some(name)
    }

    /// Return whether a field of a record has its present name.
    fn is_name(&self, name: &[u8]) -> bool {
        if !self.is_fix {
            return !name.is_empty() && !name.contains(&b'=') && !self.has_separator(name);
        }
        // A record may be from before the tag had a name.
        let is_tag = str::from_utf8(name).is_ok_and(is_tag) && !self.names.contains_key(name);
        is_tag || self.named.contains(name)
    }

    fn rank(&self, name: &[u8]) -> i32 {
        self.ranks.get(name).copied().unwrap_or(BODY)
    }

    fn has_separator(&self, inside: &[u8]) -> bool {
        inside
            .windows(self.written_separator.len())
            .any(|part| part == self.written_separator)
    }

    /// Take BodyLength and CheckSum out of the fields of a message, and return whether it had them: `FixSession`.
    ///
    /// Python refuses them elsewhere, and wrong ones.
    fn unframe(&self, message: &[u8], fields: &mut Vec<Pair<'_>>) -> Option<bool> {
        let frame = [BEGIN_STRING, BODY_LENGTH, CHECK_SUM];
        match &fields[..] {
            [
                (BEGIN_STRING, begin),
                (BODY_LENGTH, length),
                (MSG_TYPE, _),
                ..,
                (CHECK_SUM, sum),
            ] => {
                let start = "8=".len() + begin.len() + "|9=".len() + length.len() + "|".len();
                let last = usize::from(self.ends(message));
                let end = message.len().checked_sub(last + "10=123".len())?;
                let size = end.checked_sub(start)?;
                let total = message
                    .get(..end)?
                    .iter()
                    .fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
                if number(length)? != size || **sum != *format!("{total:03}") {
                    return None;
                }
            }
            _ => {
                let is_framed = fields.iter().any(|(tag, _)| frame.contains(tag));
                return (!is_framed).then_some(false);
            }
        }
        fields.pop();
        fields.remove(1);
        Some(true)
    }

    fn ends(&self, message: &[u8]) -> bool {
        message.ends_with(self.separator.encode_utf8(&mut [0; 4]).as_bytes())
    }
}

fn is_tag(tag: &str) -> bool {
    let is_short = (1..=TAG_DIGITS_MAX).contains(&tag.len());
    is_short && !tag.starts_with('0') && tag.bytes().all(|byte| byte.is_ascii_digit())
}

/// Return the number of a BodyLength.
fn number(text: &str) -> Option<usize> {
    let is_number = (1..=LENGTH_DIGITS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}
