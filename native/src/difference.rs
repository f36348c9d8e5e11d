//! What a change has changed of a record: `sowline.model.difference` for plain objects.

use crate::canonical::push_name;
use crate::json::{Field, Kind, fields};

/// How many levels of objects are compared here; Python compares deeper ones.
const LEVELS_MAX: u32 = 50;

/// How long the paths of removed fields may be together; Python judges longer ones.
const REMOVED_BYTES_MAX: usize = 1000;

/// The paths of key fields below an object: a key field has no steps left.
type Keys<'a> = Vec<&'a [String]>;

/// The delta between two bodies.
#[derive(Default)]
pub struct Difference {
    /// An object with the key fields and the changed fields.
    pub body: Vec<u8>,
    /// A JSON array of the paths of removed fields; empty if there are none.
    pub removed: Vec<u8>,
    /// Whether any field changed, was added or was removed.
    pub is_changed: bool,
}

impl Difference {
    pub fn clear(&mut self) {
        self.body.clear();
        self.removed.clear();
        self.is_changed = false;
    }

    /// Find the delta between two bodies, after a `clear`. Returns None if only Python can: then it has no meaning.
    pub fn find(&mut self, before: &[u8], now: &[u8], keys: &[Vec<String>]) -> Option<()> {
        let keys = keys.iter().map(Vec::as_slice).collect();
        self.compare(before, now, &keys, &mut Vec::new())?;
        if !self.removed.is_empty() {
            self.removed.push(b']');
        }
        (self.removed.len() <= REMOVED_BYTES_MAX).then_some(())
    }

    /// Append what is to be sent of an object at a path of names.
    fn compare<'a>(
        &mut self,
        before: &'a [u8],
        now: &'a [u8],
        keys: &Keys<'_>,
        names: &mut Vec<&'a [u8]>,
    ) -> Option<()> {
        if names.len() as u32 == LEVELS_MAX {
            return None;
        }
        let (mut held, mut given) = (Vec::with_capacity(16), Vec::with_capacity(16));
        fields(before, &mut held)?;
        fields(now, &mut given)?;
        self.body.push(b'{');
        let mut is_first = true;
        for (at, field) in given.iter().enumerate() {
            // Fields of successive bodies are mostly in the same order.
            let same_index = held.get(at).filter(|one| one.name == field.name);
            let old = same_index.or_else(|| held.iter().find(|one| one.name == field.name));
            let below = below(keys, field.name);
            if below.is_empty() && old.is_some_and(|old| old.value == field.value) {
                continue;
            }
            let start = self.body.len();
            if !is_first {
                self.body.push(b',');
            }
            push_name(field.name, &mut self.body);
            let is_object = field.kind == Kind::Object;
            match old {
                Some(old) if is_object && old.kind == Kind::Object => {
                    let inner = self.body.len();
                    names.push(field.name);
                    self.compare(old.value, field.value, &below, names)?;
                    names.pop();
                    if self.body.len() - inner == b"{}".len() {
                        self.body.truncate(start);
                        continue;
                    }
                }
                _ => {
                    let is_key = !is_object
                        && !below.is_empty()
                        && below.iter().all(|steps| steps.is_empty());
                    let is_same = match old {
                        None => false,
                        Some(old) => is_same(old, field)?,
                    };
                    if is_same && !is_key {
                        self.body.truncate(start);
                        continue;
                    }
                    self.is_changed |= !is_same;
                    self.body.extend_from_slice(field.value);
                }
            }
            is_first = false;
        }
        self.body.push(b'}');
        for old in &held {
            if !given.iter().any(|field| field.name == old.name) {
                names.push(old.name);
                self.remove(names)?;
                names.pop();
            }
        }
        Some(())
    }

    /// Append the path of a removed field; None if its names are not plain.
    fn remove(&mut self, names: &[&[u8]]) -> Option<()> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let begin: &[u8] = if self.removed.is_empty() {
            b"[\""
        } else {
            b",\""
        };
        self.removed.extend_from_slice(begin);
        for name in names {
            if name.is_empty() || !name.iter().all(is_plain) {
                return None;
            }
            self.removed.push(b'/');
            self.removed.extend_from_slice(name);
        }
        self.removed.push(b'"');
        self.is_changed = true;
        (self.removed.len() <= REMOVED_BYTES_MAX).then_some(())
    }
}

/// Return the paths below a field of that name.
fn below<'a>(keys: &Keys<'a>, name: &[u8]) -> Keys<'a> {
    let paths = keys.iter().filter_map(|steps| steps.split_first());
    let found = paths.filter(|(first, _)| first.as_bytes() == name);
    found.map(|(_, rest)| rest).collect()
}

/// Return whether two values are the same; None if only Python can tell.
fn is_same(old: &Field<'_>, new: &Field<'_>) -> Option<bool> {
    if old.value == new.value {
        return Some(true);
    }
    match (old.kind, new.kind) {
        // A text may be spelled in many ways.
        (Kind::EscapedText, Kind::Text | Kind::EscapedText) | (Kind::Text, Kind::EscapedText) => {
            None
        }
        (Kind::Integer, Kind::Integer) => {
            (old.value != b"-0" && new.value != b"-0").then_some(false)
        }
        (Kind::Array, Kind::Array) => {
            (is_compact(old.value) && is_compact(new.value)).then_some(false)
        }
        // An object is sent whole where something else was.
        _ => Some(false),
    }
}

/// Return whether an array has no other spelling: no space, no escapes, no objects, and no zero with a sign.
fn is_compact(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| !matches!(byte, b' ' | b'\n' | b'\t' | b'\r' | b'\\' | b'{');
    text.iter().all(is_plain) && !text.windows(2).any(|two| two == b"-0")
}
