//! Entries that are read from a store: `sowline_materializer.store.interface.Store.get_many`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// Keys with the data that the store has under them, or None.
pub type StoredEntries<'py> = Vec<(Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>)>;

/// Read entries from a store with its `get_many`.
pub fn stored<'py>(
    py: Python<'py>,
    get_many: &Py<PyAny>,
    keys: impl IntoIterator<Item = Bound<'py, PyBytes>>,
) -> PyResult<StoredEntries<'py>> {
    let keys: Vec<_> = keys.into_iter().collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let found = get_many.bind(py).call1((PyList::new(py, &keys)?,))?;
    let found: Vec<Option<Bound<'py, PyBytes>>> = found.extract()?;
    Ok(keys.into_iter().zip(found).collect())
}
