//! Partial states, merged into the groups of a view: `sowline_materializer.core.views`.

use std::borrow::Cow;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::change::{About, Change, OfView};
use crate::command::Operation;
use crate::difference::Difference;
use crate::entry::{self, NEVER};
use crate::escapes::write_text;
use crate::group_body::Template;
use crate::json::{Kind, Value, exact_elements, exact_members};
use crate::number::{push, whole};
use crate::position::Position;
use crate::records::Records;
use crate::value::unescaped;

/// The longest key text of a group, in bytes; Python takes longer ones.
const KEY_BYTES_MAX: usize = 255;

/// How the bodies of a view are made: `sowline_materializer.core.views.ViewFold`.
#[derive(FromPyObject)]
pub struct View {
    /// What most groups are written with, if the view is plain enough.
    template: Option<Template>,
    /// Returns the body of a group with some states, or None; raises if Python has to apply the message.
    body_of: Py<PyAny>,
    /// The paths of the key fields, if changes carry deltas.
    delta_keys: Option<Vec<Vec<String>>>,
}

/// Partial states of a source partition: those that are newer than `reached` count.
#[derive(FromPyObject)]
pub struct Given {
    source: u32,
    reached: Position,
    record_bytes_max: usize,
}

/// A state of a group in a source partition.
struct Held<'a> {
    source: u32,
    position: &'a [u8],
    state: &'a [u8],
}

/// A group with a new state, before it is written.
pub struct Merged {
    slot: usize,
    key_text: Vec<u8>,
    previous: Option<Py<PyBytes>>,
    is_new: bool,
    /// The states as a JSON object; empty without any.
    states: Vec<u8>,
    body: Option<Py<PyBytes>>,
    /// What an update has changed, if changes carry deltas.
    difference: Option<Difference>,
}

/// The state of a batch that moves with the changes: `sowline_materializer.core.batch_state.BatchState`.
#[derive(FromPyObject)]
pub struct State {
    position: Position,
    last_change: Position,
    time: i64,
    log_time: i64,
    offset: i64,
    index: u32,
}

/// What only the last change of a message has, as JSON; empty for none.
#[derive(FromPyObject)]
pub struct Reflection {
    reflects: Vec<u8>,
    taken: Vec<u8>,
}

impl View {
    /// Merge partial states, a JSON array, into their groups; None if only Python can merge them.
    pub fn merge(
        &self,
        py: Python<'_>,
        text: &[u8],
        given: &Given,
        records: &mut Records,
    ) -> PyResult<Option<Vec<Merged>>> {
        let Some(partials) = std::str::from_utf8(text).ok().and_then(|_| read(text)) else {
            return Ok(None);
        };
        let newer: Vec<_> = partials
            .into_iter()
            .filter(|one| one.at > given.reached)
            .collect();
        let slots = records.slots(py, newer.iter().map(|one| &*one.key))?;
        let mut merged = Vec::with_capacity(newer.len());
        for (one, slot) in newer.into_iter().zip(slots) {
            let data = records.data(py, slot);
            let group = match data.as_deref() {
                None => None,
                Some(data) => match entry::read_group(data) {
                    Some(group) => Some(group),
                    None => return Ok(None),
                },
            };
            match self.merge_one(py, one, slot, group, given)? {
                Outcome::Merged(one) => merged.push(one),
                Outcome::Old => {}
                Outcome::Left => return Ok(None),
            }
        }
        Ok(Some(merged))
    }

    fn merge_one(
        &self,
        py: Python<'_>,
        one: Partial<'_>,
        slot: usize,
        group: Option<entry::Group<'_>>,
        given: &Given,
    ) -> PyResult<Outcome> {
        let Some(mut states) = group
            .as_ref()
            .map_or(Some(Vec::new()), |it| held(it.states))
        else {
            return Ok(Outcome::Left);
        };
        let mine = states.iter().position(|held| held.source == given.source);
        if let Some(at) = mine {
            match Position::parse(states[at].position) {
                None => return Ok(Outcome::Left),
                Some(held) if held >= one.at => return Ok(Outcome::Old),
                Some(_) => {}
            }
        }
        let now = (one.state != b"null").then_some(Held {
            source: given.source,
            position: one.position,
            state: one.state,
        });
        match (mine, now) {
            (None, None) => return Ok(Outcome::Old),
            (None, Some(now)) => states.push(now),
            (Some(at), Some(now)) => states[at] = now,
            (Some(at), None) => drop(states.remove(at)),
        }
        let body = match self.body(py, &states)? {
            Body::Of(body) => body,
            Body::Left => return Ok(Outcome::Left),
        };
        if body
            .as_ref()
            .is_some_and(|body| body.as_bytes(py).len() > given.record_bytes_max)
        {
            return Ok(Outcome::Left);
        }
        states.sort_by_key(|held| held.source);
        let previous = group.as_ref().and_then(|group| group.body);
        let mut difference = None;
        if let (Some(keys), Some(previous), Some(body)) = (&self.delta_keys, previous, &body) {
            let found: &mut Difference = difference.insert(Difference::default());
            if std::str::from_utf8(previous).is_err()
                || found.find(previous, body.as_bytes(py), keys).is_none()
            {
                return Ok(Outcome::Left);
            }
        }
        Ok(Outcome::Merged(Merged {
            slot,
            key_text: one.key.into_owned(),
            previous: previous.map(|body| PyBytes::new(py, body).unbind()),
            is_new: group.is_none(),
            states: written(&states),
            body,
            difference,
        }))
    }

    /// Return the body of a group with these states: `ViewFold._body`.
    fn body(&self, py: Python<'_>, states: &[Held<'_>]) -> PyResult<Body> {
        if states.is_empty() {
            return Ok(Body::Of(None));
        }
        if let Some(template) = &self.template {
            let mut body = Vec::with_capacity(256);
            let texts = states.iter().map(|held| held.state);
            if template.write(texts, &mut body).is_some() {
                return Ok(Body::Of(Some(PyBytes::new(py, &body).unbind())));
            }
        }
        let texts = PyList::new(py, states.iter().map(|held| PyBytes::new(py, held.state)))?;
        match self.body_of.bind(py).call1((texts,)) {
            Ok(body) => Ok(Body::Of(body.extract()?)),
            // Python meets the same error again, and makes a dead letter of it.
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(Body::Left),
            Err(error) => Err(error),
        }
    }
}

enum Outcome {
    Merged(Merged),
    /// The group has a newer state, or none to lose.
    Old,
    /// Python has to apply the message.
    Left,
}

enum Body {
    Of(Option<Py<PyBytes>>),
    Left,
}

/// A partial state of a message.
struct Partial<'a> {
    at: Position,
    position: &'a [u8],
    key: Cow<'a, [u8]>,
    state: &'a [u8],
}

/// Return the states in the array of a message.
fn read(text: &[u8]) -> Option<Vec<Partial<'_>>> {
    let mut found = Vec::with_capacity(32);
    exact_elements(text, |value| {
        let [position, key, state] = array(value)?;
        let position = plain(position)?;
        found.push(Partial {
            at: Position::parse(position)?,
            position,
            key: spelled(key).filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))?,
            state: state.text(),
        });
        Some(())
    })?;
    Some(found)
}

/// Return the states in the JSON object of a stored group.
fn held(text: &[u8]) -> Option<Vec<Held<'_>>> {
    let mut found = Vec::with_capacity(4);
    exact_members(text, |name, value| {
        let [position, state] = array(value)?;
        found.push(Held {
            source: u32::try_from(whole(name)?).ok()?,
            position: plain(position)?,
            state: state.text(),
        });
        Some(())
    })?;
    Some(found)
}

/// Return the JSON object of a stored group; empty without states: `sowline.changes.partials.encode_held`.
fn written(states: &[Held<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for held in states {
        out.extend_from_slice(if out.is_empty() { b"{\"" } else { b",\"" });
        push(held.source, &mut out);
        out.extend_from_slice(b"\":[\"");
        out.extend_from_slice(held.position);
        out.extend_from_slice(b"\",");
        out.extend_from_slice(held.state);
        out.push(b']');
    }
    if !out.is_empty() {
        out.push(b'}');
    }
    out
}

/// Return the elements of an array of so many.
fn array<const N: usize>(value: Value<'_>) -> Option<[Value<'_>; N]> {
    let (mut found, mut count) = ([value; N], 0);
    exact_elements(value.text(), |element| {
        *found.get_mut(count)? = element;
        count += 1;
        Some(())
    })?;
    (count == N).then_some(found)
}

/// Return a text without escapes, without its quotes.
fn plain(value: Value<'_>) -> Option<&[u8]> {
    (value.kind == Kind::Text).then(|| &value.text()[1..value.text().len() - 1])
}

/// Return what a text spells.
pub fn spelled(value: Value<'_>) -> Option<Cow<'_, [u8]>> {
    match value.kind {
        Kind::Text => plain(value).map(Cow::Borrowed),
        Kind::EscapedText => {
            let text = value.text();
            unescaped(&text[1..text.len() - 1]).map(Cow::Owned)
        }
        _ => None,
    }
}

/// Write the groups of a message, and append their changes to `changes`; return how many more are live.
///
/// `ViewFold._write`.
pub fn write<'py>(
    py: Python<'py>,
    state: &State,
    merged: Vec<Merged>,
    reflection: &Reflection,
    records: &mut Records,
    position_type: &Py<PyAny>,
    changes: &Bound<'py, PyList>,
) -> PyResult<i64> {
    let (mut more, mut after) = (0, state.last_change);
    let (mut header, mut stored) = (Vec::new(), Vec::new());
    let count = merged.len();
    for (number, one) in merged.into_iter().enumerate() {
        let last = (number + 1 == count).then_some(reflection);
        let at = Position {
            era: state.position.era,
            offset: state.offset,
            nth: state.index + number as u32,
        };
        more += i64::from(!one.states.is_empty()) - i64::from(!one.is_new);
        one.write_header(state, at, after, last, &mut header);
        let data = one.write_entry(py, state, at, &mut stored);
        let change = Change {
            sow_key: records.key(py, one.slot).unbind(),
            body: one.body,
            previous: one.previous,
            about: PyBytes::new(py, &header).unbind(),
            delta: one
                .difference
                .map(|difference| PyBytes::new(py, &difference.body).unbind()),
            document: None,
            states: (!one.states.is_empty()).then(|| PyBytes::new(py, &one.states).unbind()),
            at,
            operation: Operation::Partials,
            trace: None,
            position_type: position_type.clone_ref(py),
        };
        records.write(one.slot, data);
        changes.append(Bound::new(py, change)?)?;
        after = at;
    }
    Ok(more)
}

impl Merged {
    /// Write the header of its change; the `last` one of a message has its reflection.
    fn write_header(
        &self,
        state: &State,
        at: Position,
        after: Position,
        last: Option<&Reflection>,
        out: &mut Vec<u8>,
    ) {
        let mut key_text = Vec::new();
        if self.body.is_none() {
            write_text(&self.key_text, &mut key_text);
        }
        out.clear();
        About {
            operation: Operation::Partials,
            at,
            after,
            time: state.time,
            log_time: state.log_time,
            expires: NEVER,
            correlation: None,
            document: None,
            schema_id: None,
            numbers: b"",
            origin: None,
            removed: self.difference.as_ref().map_or(b"", |it| &it.removed),
            of_view: OfView {
                is_last: last.is_some(),
                is_deleted: self.body.is_none() && self.previous.is_some(),
                key_text: &key_text,
                taken: last.map_or(b"", |it| &it.taken),
                reflects: last.map_or(b"", |it| &it.reflects),
            },
        }
        .write(out);
    }

    /// Return its entry in the store; None if it has no states any more. `out` is space for it.
    fn write_entry(
        &self,
        py: Python<'_>,
        state: &State,
        at: Position,
        out: &mut Vec<u8>,
    ) -> Option<Py<PyBytes>> {
        if self.states.is_empty() {
            return None;
        }
        out.clear();
        let written = entry::Written {
            at,
            time: state.time,
            expires: NEVER,
            key_text: &self.key_text,
            numbers: b"",
            correlation: None,
            schema_id: None,
            writes: b"",
            states: &self.states,
            body: self.body.as_ref().map(|body| body.as_bytes(py)),
        };
        entry::write(&written, out);
        Some(PyBytes::new(py, out).unbind())
    }
}
