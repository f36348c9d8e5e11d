//! The scanner, as tests see it.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::json::fields;

/// A field of an object: its name and its value, both as text.
type FieldTexts<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Return the fields of the object that a text is; None if it is none, or one that only Python judges. For tests.
#[pyfunction]
pub fn scan<'py>(py: Python<'py>, text: &[u8]) -> Option<Vec<FieldTexts<'py>>> {
    std::str::from_utf8(text).ok()?;
    let mut found = Vec::new();
    fields(text, &mut found)?;
    let texts = found
        .iter()
        .map(|field| (PyBytes::new(py, field.name), PyBytes::new(py, field.value)));
    Some(texts.collect())
}
