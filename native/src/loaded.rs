//! Entries of a load on their way to the store: `sowline_materializer.store.bulk_load.LoadedEntries`.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::checksum::Checksum;
use crate::kinds::{EXPIRY, RECORD, of_kind};
use crate::pending::Pending;

/// How many entries are written until another thread may have Python's lock.
const PORTION: usize = 256;

/// Entries in the order of their keys.
#[pyclass(frozen, module = "sowline_native")]
pub struct LoadedEntries {
    pub pending: Pending,
    /// The indexes of the entries that were changed, in the order of their keys.
    pub changed: Vec<u32>,
    /// Entries of the index of due times in their order; false if one is removed.
    expiries: Vec<(Vec<u8>, bool)>,
}

impl LoadedEntries {
    /// Take over what was loaded, and change the checksum of the store by it.
    pub fn of(pending: Pending, checksum: &mut Checksum) -> Self {
        let changed = pending.changed();
        let mut expiries = Vec::new();
        for index in &changed {
            let entry = pending.at(*index);
            let (was, now) = entry.change();
            let Ok(()) = checksum.replace(entry.key, was, now, |index, is_there| {
                expiries.push((index, is_there));
                Ok::<(), Infallible>(())
            });
        }
        expiries.sort_unstable();
        LoadedEntries {
            pending,
            changed,
            expiries,
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u8, &[u8], Option<&[u8]>)> {
        let expiries = self.expiries.iter();
        let expiries =
            expiries.map(|(due, is_there)| (EXPIRY, &due[..], is_there.then_some(&b""[..])));
        let records = self.changed.iter().map(|index| self.pending.at(*index));
        expiries.chain(records.map(|entry| (RECORD, entry.key, entry.data)))
    }
}

#[pymethods]
impl LoadedEntries {
    fn __len__(&self) -> usize {
        self.expiries.len() + self.changed.len()
    }

    /// Write all of them to a file.
    fn write_to(&self, py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<()> {
        for (nth, (kind, key, data)) in self.entries().enumerate() {
            if nth % PORTION == 0 {
                py.detach(|| ());
            }
            let key = of_kind(py, kind, key)?;
            match data {
                None => file.del_item(key)?,
                Some(data) => file.set_item(key, PyBytes::new(py, data))?,
            }
        }
        Ok(())
    }
}
