//! Entries of a load on their way to the store: `sowline_materializer.store.bulk_load.LoadedEntries`.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::checksum::Checksum;
use crate::kinds::{EXPIRY, RECORD, of_kind};
use crate::pending::Pending;

/// How many entries are fetched from memory at once.
const PORTION: usize = 32;

/// How many portions are written until another thread may have Python's lock. To pass the lock on takes as long as to
/// write some entries, and the other thread may want it for as many.
const PORTIONS_LOCKED: usize = 16;

/// Entries in the order of their keys.
#[pyclass(frozen, module = "sowline_native")]
pub struct LoadedEntries {
    pending: Pending,
    /// The indexes of the entries that were changed, in the order of their keys.
    records: Vec<u32>,
    /// Entries of the index of due times in their order; false if one is removed.
    expiries: Vec<(Vec<u8>, bool)>,
}

impl LoadedEntries {
    /// Take over what was loaded, and change the checksum of the store by it.
    pub fn of(pending: Pending, checksum: &mut Checksum) -> Self {
        let mut expiries = Vec::new();
        for entry in pending.changed() {
            let (was, now) = entry.change();
            let Ok(()) = checksum.replace(entry.key, was, now, |index, is_there| {
                expiries.push((index, is_there));
                Ok::<(), Infallible>(())
            });
        }
        expiries.sort_unstable();
        LoadedEntries {
            records: pending.in_order(),
            expiries,
            pending,
        }
    }
}

fn write(
    py: Python<'_>,
    file: &Bound<'_, PyAny>,
    kind: u8,
    key: &[u8],
    data: Option<&[u8]>,
) -> PyResult<()> {
    let key = of_kind(py, kind, key)?;
    match data {
        None => file.del_item(key),
        Some(data) => file.set_item(key, PyBytes::new(py, data)),
    }
}

#[pymethods]
impl LoadedEntries {
    fn __len__(&self) -> usize {
        self.expiries.len() + self.records.len()
    }

    /// Write all of them to a file.
    fn write_to(&self, py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<()> {
        for (due, is_there) in &self.expiries {
            write(py, file, EXPIRY, due, is_there.then_some(b""))?;
        }
        for (nth, portion) in self.records.chunks(PORTION).enumerate() {
            if nth % PORTIONS_LOCKED == 0 {
                py.detach(|| ());
            }
            self.pending.fetch(portion);
            for index in portion {
                let entry = self.pending.at(*index);
                write(py, file, RECORD, entry.key, entry.data)?;
            }
        }
        Ok(())
    }
}
