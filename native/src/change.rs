//! A change that a plain command makes, ready to be written: `sowline.changes.change.Change`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::command::{CopyOf, Operation};
use crate::entry::NEVER;
use crate::number::push;
use crate::position::Position;

/// A change of one record by a plain command. It has those members of `sowline.changes.change.Change` that the service reads.
#[pyclass(frozen, module = "sowline_native")]
pub struct Change {
    /// The SOW key.
    #[pyo3(get)]
    pub sow_key: Py<PyBytes>,
    /// The new body; None if the record is deleted.
    #[pyo3(get)]
    pub body: Option<Py<PyBytes>>,
    /// The body before; None if the record is new.
    #[pyo3(get)]
    pub previous: Option<Py<PyBytes>>,
    /// The content of the header `sow`.
    pub about: Py<PyBytes>,
    /// The content of the header `sow.delta`, if the topic's changes carry deltas and this one has one.
    pub delta: Option<Py<PyBytes>>,
    pub era: u32,
    pub offset: i64,
    pub operation: Operation,
    pub position_type: Py<PyAny>,
}

#[pymethods]
impl Change {
    /// The position of the change.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.position_type
            .bind(py)
            .call1((self.era, self.offset, 0))
    }

    /// The Kafka value: the body.
    #[getter]
    fn value(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.body.as_ref().map(|body| body.clone_ref(py))
    }

    /// The command.
    #[getter]
    fn op<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::intern(py, self.operation.name())
    }

    /// Return None: if the topic's changes carry deltas, the headers have it already.
    #[pyo3(name = "delta")]
    fn further_delta(&self, _keys: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        None
    }

    /// Return the Kafka headers; `delta` is what `delta` returns.
    #[pyo3(signature = (delta=None))]
    fn headers<'py>(
        &self,
        py: Python<'py>,
        delta: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        debug_assert!(delta.is_none());
        self.header_list(py)
    }
}

impl Change {
    fn header_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let about = PyTuple::new(
            py,
            [intern!(py, "sow").as_any(), self.about.bind(py).as_any()],
        )?;
        let headers = PyList::new(py, [about])?;
        if let Some(previous) = &self.previous {
            headers.append((intern!(py, "sow.previous"), previous))?;
        }
        if let Some(delta) = &self.delta {
            headers.append((intern!(py, "sow.delta"), delta))?;
        }
        Ok(headers)
    }
}

/// What the header of a change says.
pub struct About<'a> {
    pub operation: Operation,
    pub era: u32,
    pub offset: i64,
    pub after: Position,
    pub time: i64,
    pub log_time: i64,
    pub expires: i64,
    pub correlation: Option<&'a [u8]>,
    pub numbers: &'a [u8],
    /// The schema that the message names.
    pub schema_id: Option<u64>,
    pub origin: Option<CopyOf<'a>>,
    /// The paths of removed fields as a JSON array; empty if there are none.
    pub removed: &'a [u8],
}

impl About<'_> {
    /// Write the content of the header `sow` to `out`, which is empty: `sowline.changes.change.Change.headers`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let after = self.after;
        out.extend_from_slice(b"{\"position\":\"");
        push(self.offset, out);
        out.extend_from_slice(b"\",\"after\":\"");
        if after.era != self.era {
            push(after.era, out);
            out.push(b'/');
        }
        push(after.offset, out);
        if after.nth != 0 {
            out.push(b'.');
            push(after.nth, out);
        }
        out.extend_from_slice(b"\",\"op\":\"");
        out.extend_from_slice(self.operation.name().as_bytes());
        out.extend_from_slice(b"\",\"time\":");
        push(self.time, out);
        if self.era != 0 {
            out.extend_from_slice(b",\"era\":");
            push(self.era, out);
        }
        if self.operation == Operation::Delete {
            out.extend_from_slice(b",\"reason\":\"deleted\"");
        }
        if self.expires != NEVER {
            out.extend_from_slice(b",\"expires\":");
            push(self.expires, out);
        }
        if let Some(text) = self.correlation {
            out.extend_from_slice(b",\"correlation\":\"");
            out.extend_from_slice(text);
            out.push(b'"');
        }
        if !self.numbers.is_empty() {
            out.extend_from_slice(b",\"numbers\":");
            out.extend_from_slice(self.numbers);
        }
        if let Some(id) = self.schema_id {
            out.extend_from_slice(b",\"schema_id\":");
            push(id, out);
        }
        if self.time != self.log_time {
            out.extend_from_slice(b",\"log_time\":");
            push(self.log_time, out);
        }
        if self.operation == Operation::Delete {
            out.extend_from_slice(b",\"outcome\":\"deleted 1\"");
        }
        if let Some(origin) = self.origin {
            out.extend_from_slice(b",\"origin\":\"");
            push(origin.partition, out);
            out.push(b'@');
            push(origin.offset, out);
            out.push(b'"');
        }
        if !self.removed.is_empty() {
            out.extend_from_slice(b",\"removed\":");
            out.extend_from_slice(self.removed);
        }
        out.push(b'}');
    }
}

/// Kafka values, keys and headers of events, and the index of the first event that was left.
#[pyclass(frozen, get_all, module = "sowline_native")]
pub struct Messages {
    end: usize,
    values: Py<PyList>,
    keys: Py<PyList>,
    headers: Py<PyList>,
}

/// Return the Kafka messages of events from `start` to `end`, up to the first that is not a `Change` of the native core.
#[pyfunction]
pub fn messages(events: &Bound<'_, PyList>, start: usize, end: usize) -> PyResult<Messages> {
    let py = events.py();
    let (values, keys, headers) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
    let mut at = start;
    while at < end.min(events.len()) {
        let event = events.get_item(at)?;
        let Ok(change) = event.cast::<Change>() else {
            break;
        };
        let change = change.get();
        values.append(&change.body)?;
        keys.append(&change.sow_key)?;
        headers.append(change.header_list(py)?)?;
        at += 1;
    }
    Ok(Messages {
        end: at,
        values: values.unbind(),
        keys: keys.unbind(),
        headers: headers.unbind(),
    })
}
