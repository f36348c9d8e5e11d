//! Deltas of documents that are one object of plain JSON: `sowline.language.emodb.lexer.whole`.

use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PyString};

use crate::json::{Kind, Value, elements, members_behind_brace};
use crate::value::{double, integer, unescaped};

/// Return the content of a delta that is an object of plain JSON, or such a map with `..`; None for any other text.
///
/// An object comes as a dictionary; of a map come its keys and values as a list, in the order of canonical text.
#[pyfunction]
pub fn plain_delta<'py>(text: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
    // Half of a surrogate pair is no UTF-8.
    let all = text.to_str().ok()?;
    let py = text.py();
    let (keeps_rest, behind) = map_or_object(all)?;
    if !keeps_rest {
        return object(py, behind.as_bytes());
    }
    let mut entries: Vec<(&str, Bound<'py, PyAny>)> = Vec::with_capacity(4);
    members_behind_brace(behind.as_bytes(), |name, value| {
        entries.push((str::from_utf8(name).ok()?, made(py, value)?));
        Some(())
    })?;
    entries.sort_by(|one, other| {
        (!one.0.starts_with('~'))
            .cmp(&!other.0.starts_with('~'))
            .then_with(|| text_order(one.0.as_bytes(), other.0.as_bytes()))
    });
    if entries.is_empty() || entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    Some(PyList::new(py, entries).ok()?.into_any())
}

/// Return whether a text is a map with `..`, and what follows these or the opening brace; None for any other text.
pub fn map_or_object(text: &str) -> Option<(bool, &str)> {
    let inside = text.trim_matches(is_blank).strip_prefix('{')?;
    let Some(behind) = inside.trim_start_matches(is_blank).strip_prefix("..") else {
        return Some((false, inside));
    };
    let behind = behind.trim_start_matches(is_blank).strip_prefix(',')?;
    Some((true, behind))
}

/// Compare two texts in UTF-8 by their UTF-16 code units: `sowline.language.emodb.text_order`.
pub fn text_order(one: &[u8], other: &[u8]) -> Ordering {
    match (str::from_utf8(one), str::from_utf8(other)) {
        (Ok(one), Ok(other)) => one.encode_utf16().cmp(other.encode_utf16()),
        _ => one.cmp(other),
    }
}

/// Return whether a character is a blank of the language.
fn is_blank(character: char) -> bool {
    ('\u{1}'..='\u{20}').contains(&character)
}

/// Return an object of which `behind` is what follows the opening brace; None if a key comes twice.
fn object<'py>(py: Python<'py>, behind: &[u8]) -> Option<Bound<'py, PyAny>> {
    let (made_object, mut count) = (PyDict::new(py), 0);
    members_behind_brace(behind, |name, value| {
        count += 1;
        made_object
            .set_item(str::from_utf8(name).ok()?, made(py, value)?)
            .ok()
    })?;
    (made_object.len() == count).then(|| made_object.into_any())
}

/// Return a value of plain JSON as Python's `json` makes it; None if only Python can.
fn made<'py>(py: Python<'py>, value: Value<'_>) -> Option<Bound<'py, PyAny>> {
    let text = value.text();
    Some(match value.kind {
        Kind::Null => py.None().into_bound(py),
        Kind::Boolean => PyBool::new(py, text == b"true").to_owned().into_any(),
        Kind::Integer => integer(value)?.into_pyobject(py).ok()?.into_any(),
        Kind::Fraction => PyFloat::new(py, double(value)?).into_any(),
        Kind::Text => PyString::new(py, str::from_utf8(&text[1..text.len() - 1]).ok()?).into_any(),
        Kind::EscapedText => {
            let spelled = unescaped(&text[1..text.len() - 1])?;
            PyString::new(py, str::from_utf8(&spelled).ok()?).into_any()
        }
        Kind::Object => return object(py, &text[1..]),
        Kind::Array => {
            let made_array = PyList::empty(py);
            elements(text, |element| made_array.append(made(py, element)?).ok())?;
            made_array.into_any()
        }
    })
}
