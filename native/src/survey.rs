//! The checksum of all that a store holds, and its deleted records: `materializer.store.survey`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::checksum::{Checksum, entry_hash, expiry_hash};
use crate::kinds::{EXPIRY, RECORD};

/// The kind of a stored record that is deleted: the first byte of its data.
const DELETED: u8 = 0;

/// Sums up the entries of a store, a portion at a time.
#[pyclass(module = "sowline_native")]
pub struct Survey {
    checksum: Checksum,
}

#[pymethods]
impl Survey {
    #[new]
    fn new() -> Self {
        Survey {
            checksum: Checksum { entries: 0, sum: 0 },
        }
    }

    /// Add entries, pairs of a key with its kind and data; return the pairs of deleted records.
    fn add<'py>(&mut self, portion: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let deleted = PyList::empty(portion.py());
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
            self.checksum.note(hash, true);
        }
        Ok(deleted)
    }

    /// The number of entries, and the sum of their hashes.
    #[getter]
    fn checksum(&self) -> (i64, u64) {
        (self.checksum.entries, self.checksum.sum)
    }
}
