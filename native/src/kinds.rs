//! The kinds of a store's entries, as the first byte of their keys: `sowline_materializer.store.interface`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub const RECORD: u8 = b'r';
pub const EXPIRY: u8 = b'd';

/// Return a key behind its kind.
pub fn of_kind<'py>(py: Python<'py>, kind: u8, key: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, 1 + key.len(), |bytes| {
        bytes[0] = kind;
        bytes[1..].copy_from_slice(key);
        Ok(())
    })
}
