//! What a walk through a store sums up: `sowline_materializer.store.integrity`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::checksum::{entry_hash, expiry_hash};
use crate::kinds::{EXPIRY, RECORD};

/// The kind of a stored record that is deleted: the first byte of its data.
const DELETED: u8 = 0;

/// Return the sum of the hashes of entries, and those of deleted records. Entries are pairs of a key with its kind, and
/// data.
#[pyfunction]
pub fn survey<'py>(portion: &Bound<'py, PyList>) -> PyResult<(u64, Bound<'py, PyList>)> {
    let (mut sum, deleted) = (0_u64, PyList::empty(portion.py()));
    for pair in portion {
        let pair = pair.cast_into::<PyTuple>()?;
        let key = pair.get_item(0)?.cast_into::<PyBytes>()?;
        let data = pair.get_item(1)?.cast_into::<PyBytes>()?;
        let hash = match key.as_bytes().split_first() {
            Some((&RECORD, key)) => {
                if data.as_bytes().first() == Some(&DELETED) {
                    deleted.append(&pair)?;
                }
                u64::from(entry_hash(key, data.as_bytes()))
            }
            Some((&EXPIRY, index)) => expiry_hash(index),
            _ => {
                return Err(PyValueError::new_err(
                    "expected a key of a record or a due time",
                ));
            }
        };
        sum = sum.wrapping_add(hash);
    }
    Ok((sum, deleted))
}
