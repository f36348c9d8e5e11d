//! A change that a plain command makes, ready to be written: `sowline.changes.change.Change`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::command::{CopyOf, Operation};
use crate::entry::NEVER;
use crate::escapes::write_text;
use crate::number::push;
use crate::position::Position;

/// A change of one record by a plain command, or of a group by a partial state. It has those members of `sowline.changes.change.Change` that the service reads.
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
    /// The states of a group of a view, by source partition.
    pub states: Option<Py<PyBytes>>,
    /// The headers of a write, if the record is a document.
    pub document: Option<DocumentHeaders>,
    pub at: Position,
    pub operation: Operation,
    /// The trace context that it carries on.
    pub trace: Option<Py<PyBytes>>,
    pub position_type: Py<PyAny>,
}

/// The headers of a write to a document.
pub struct DocumentHeaders {
    /// The content of the header `sow.document`.
    pub accounts: Py<PyBytes>,
    /// The content of the header `sow.text`, if the write was a delta.
    pub text: Option<Py<PyBytes>>,
}

impl DocumentHeaders {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        DocumentHeaders {
            accounts: self.accounts.clone_ref(py),
            text: self.text.as_ref().map(|text| text.clone_ref(py)),
        }
    }
}

#[pymethods]
impl Change {
    /// The position of the change.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.position_type
            .bind(py)
            .call1((self.at.era, self.at.offset, self.at.nth))
    }

    /// The Kafka value: the body; empty for a hidden group and a deleted document.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.body {
            Some(body) => Some(body.bind(py).clone()),
            None => {
                let is_kept = self.states.is_some() || self.document.is_some();
                is_kept.then(|| PyBytes::new(py, b""))
            }
        }
    }

    /// The command.
    #[getter]
    fn op<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::intern(py, self.operation.name())
    }

    /// Return the change with a trace context.
    fn traced(&self, py: Python<'_>, traceparent: &str) -> Self {
        let share = |bytes: &Option<Py<PyBytes>>| bytes.as_ref().map(|bytes| bytes.clone_ref(py));
        Change {
            sow_key: self.sow_key.clone_ref(py),
            body: share(&self.body),
            previous: share(&self.previous),
            about: self.about.clone_ref(py),
            delta: share(&self.delta),
            states: share(&self.states),
            document: self.document.as_ref().map(|one| one.clone_ref(py)),
            at: self.at,
            operation: self.operation,
            trace: Some(PyBytes::new(py, traceparent.as_bytes()).unbind()),
            position_type: self.position_type.clone_ref(py),
        }
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
        if let Some(document) = &self.document {
            headers.append((intern!(py, "sow.document"), &document.accounts))?;
            if let Some(text) = &document.text {
                headers.append((intern!(py, "sow.text"), text))?;
            }
        }
        if let Some(states) = &self.states {
            headers.append((intern!(py, "sow.states"), states))?;
        }
        if let Some(trace) = &self.trace {
            headers.append((intern!(py, "traceparent"), trace))?;
        }
        Ok(headers)
    }
}

/// What the header of a change says.
pub struct About<'a> {
    pub operation: Operation,
    pub at: Position,
    pub after: Position,
    pub time: i64,
    pub log_time: i64,
    pub expires: i64,
    pub correlation: Option<&'a [u8]>,
    pub numbers: &'a [u8],
    /// The schema that the message names.
    pub schema_id: Option<u64>,
    pub origin: Option<CopyOf<'a>>,
    /// What a write to a document adds.
    pub document: Option<OfDocument<'a>>,
    /// The paths of removed fields as a JSON array; empty if there are none.
    pub removed: &'a [u8],
    pub of_view: OfView<'a>,
}

/// What only the changes of a view have. The texts are JSON; empty if there is none.
#[derive(Clone, Copy)]
pub struct OfView<'a> {
    /// Whether it is the last change of its log record.
    pub is_last: bool,
    /// Whether the group leaves the view.
    pub is_deleted: bool,
    pub key_text: &'a [u8],
    pub taken: &'a [u8],
    pub reflects: &'a [u8],
}

/// What the changes of any other topic have of that.
pub const NO_VIEW: OfView<'_> = OfView {
    is_last: true,
    is_deleted: false,
    key_text: b"",
    taken: b"",
    reflects: b"",
};

/// What a write to a document adds to the header of a change.
#[derive(Clone, Copy)]
pub struct OfDocument<'a> {
    pub key_text: &'a [u8],
    pub is_changed: bool,
}

impl About<'_> {
    /// Write the content of the header `sow` to `out`, which is empty: `sowline.changes.change.Change.headers`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (at, after, of_view) = (self.at, self.after, &self.of_view);
        out.extend_from_slice(b"{\"position\":\"");
        at.write(out);
        out.extend_from_slice(b"\",\"after\":\"");
        if after.era != at.era {
            push(after.era, out);
            out.push(b'/');
        }
        after.write(out);
        out.extend_from_slice(b"\",\"op\":\"");
        out.extend_from_slice(self.operation.name().as_bytes());
        out.extend_from_slice(b"\",\"time\":");
        push(self.time, out);
        if at.era != 0 {
            out.extend_from_slice(b",\"era\":");
            push(at.era, out);
        }
        if !of_view.is_last {
            out.extend_from_slice(b",\"last\":false");
        }
        let left = of_view.is_deleted.then_some("deleted");
        if let Some(reason) = self.operation.reason().or(left) {
            out.extend_from_slice(b",\"reason\":\"");
            out.extend_from_slice(reason.as_bytes());
            out.push(b'"');
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
        if let Some(document) = &self.document {
            if !document.is_changed {
                out.extend_from_slice(b",\"outcome\":\"noop\"");
            }
            out.extend_from_slice(b",\"key_text\":");
            write_text(document.key_text, out);
        }
        for (name, text) in [
            (&b",\"key_text\":"[..], of_view.key_text),
            (b",\"taken\":", of_view.taken),
        ] {
            if !text.is_empty() {
                out.extend_from_slice(name);
                out.extend_from_slice(text);
            }
        }
        if let Some(origin) = self.origin {
            out.extend_from_slice(b",\"origin\":\"");
            push(origin.partition, out);
            out.push(b'@');
            push(origin.offset, out);
            out.push(b'"');
        }
        if !of_view.reflects.is_empty() {
            out.extend_from_slice(b",\"reflects\":");
            out.extend_from_slice(of_view.reflects);
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
        values.append(change.value(py))?;
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
