//! Commits that wait in memory for the next flush: `sowline_materializer.store.unflushed`.

use hashbrown::HashTable;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::kinds::{RECORD, of_kind};
use crate::sorting::{hash_of, in_order};

/// Approximate bytes in memory of a pending entry with its key, in addition to its data.
const ENTRY_BYTES: usize = 200;

/// The bytes under a key; None for an entry that is removed.
pub type EntryBytes = (Py<PyBytes>, Option<Py<PyBytes>>);

/// The entries of one commit, each key once, as the values of a mapping that can only be listed.
#[pyclass(frozen, module = "sowline_native")]
pub struct Entries {
    pub entries: Vec<EntryBytes>,
}

#[pymethods]
impl Entries {
    fn __len__(&self) -> usize {
        self.entries.len()
    }

    /// Return pairs of a key and its data, or None.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.entries.iter().map(|(key, data)| (key, data)))
    }
}

/// The entries of all commits since the last flush.
#[pyclass(module = "sowline_native")]
pub struct Unflushed {
    table: HashTable<EntryBytes>,
    bytes: usize,
}

#[pymethods]
impl Unflushed {
    #[new]
    fn new() -> Self {
        Unflushed {
            table: HashTable::new(),
            bytes: 0,
        }
    }

    /// About how much memory the entries take.
    #[getter]
    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Add the entries of a commit: `Entries`, or a dict.
    fn update(&mut self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(entries) = entries.cast::<Entries>() {
            for (key, data) in &entries.get().entries {
                let data = data.as_ref().map(|data| data.clone_ref(py));
                self.put(py, key.clone_ref(py), data);
            }
            return Ok(());
        }
        for (key, data) in entries.cast::<PyDict>()? {
            self.put(py, key.cast_into::<PyBytes>()?.unbind(), data.extract()?);
        }
        Ok(())
    }

    /// Return the data under a key, None if it was removed, or `default` if it has no entry here.
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
        default: Bound<'py, PyAny>,
    ) -> Bound<'py, PyAny> {
        let key = key.as_bytes();
        match self
            .table
            .find(hash_of(key), |(one, _)| one.as_bytes(py) == key)
        {
            None => default,
            Some((_, None)) => py.None().into_bound(py),
            Some((_, Some(data))) => data.bind(py).clone().into_any(),
        }
    }

    /// Return pairs of a key and its data, or None, in any order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let found = PyList::empty(py);
        for (key, data) in &self.table {
            found.append((key, data))?;
        }
        Ok(found)
    }

    /// Return the keys in order, each behind its kind, and their data.
    fn sorted<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let (keys, data) = (PyList::empty(py), PyList::empty(py));
        for (key, one) in in_order(self.table.iter(), |entry| entry.0.as_bytes(py)) {
            keys.append(of_kind(py, RECORD, key.as_bytes(py))?)?;
            data.append(one)?;
        }
        Ok((keys, data))
    }

    /// Forget all entries.
    fn clear(&mut self) {
        self.table.clear();
        self.bytes = 0;
    }
}

impl Unflushed {
    fn put(&mut self, py: Python<'_>, key: Py<PyBytes>, data: Option<Py<PyBytes>>) {
        self.bytes += ENTRY_BYTES + data.as_ref().map_or(0, |data| data.as_bytes(py).len());
        let name = key.as_bytes(py);
        let found = self.table.entry(
            hash_of(name),
            |(one, _)| one.as_bytes(py) == name,
            |(one, _)| hash_of(one.as_bytes(py)),
        );
        match found {
            hashbrown::hash_table::Entry::Occupied(mut there) => there.get_mut().1 = data,
            hashbrown::hash_table::Entry::Vacant(free) => {
                let key = key.clone_ref(py);
                free.insert((key, data));
            }
        }
    }
}
