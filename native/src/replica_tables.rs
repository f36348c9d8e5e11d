//! What a replica and the native core pass each other.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet};

use crate::position;

/// A position as Python compares it.
pub type Position = position::Position<i64>;

/// Columns of messages: `sowline_query_service.replica.plain_run.MessageColumns`.
#[derive(FromPyObject)]
pub struct Messages<'py> {
    pub topics: Bound<'py, PyList>,
    pub partitions: Bound<'py, PyList>,
    pub offsets: Bound<'py, PyList>,
    pub keys: Bound<'py, PyList>,
    pub values: Bound<'py, PyList>,
    pub headers: Bound<'py, PyList>,
}

/// The tables of `Rows`.
#[derive(FromPyObject)]
pub struct Tables<'py> {
    pub numbers: Bound<'py, PyDict>,
    pub keys: Bound<'py, PyList>,
    pub bodies: Bound<'py, PyList>,
    pub rare: Bound<'py, PyDict>,
    pub changed: Option<Bound<'py, PySet>>,
    pub free: Bound<'py, PyList>,
    pub rare_type: Bound<'py, PyAny>,
}

/// The row that each change finds, and in that row an era, an offset, and a number within a log record.
#[derive(FromPyObject)]
pub struct Found {
    pub rows: PyBuffer<i64>,
    pub eras: PyBuffer<i64>,
    pub offsets: PyBuffer<i64>,
    pub nths: PyBuffer<i32>,
}

/// The state of a load: ranks of keys, era, position or None, and events since the last entry of the index.
#[derive(FromPyObject)]
pub struct Before<'py> {
    pub ranks: Bound<'py, PyDict>,
    pub era: Bound<'py, PyAny>,
    pub position: Option<Bound<'py, PyAny>>,
    pub since_indexed: usize,
}

/// The state after it: with None, and an empty list, where nothing has changed.
#[pyclass(frozen, get_all, module = "sowline_native")]
pub struct Loaded {
    pub era: Option<i64>,
    pub position: Option<Position>,
    /// Log time, and time of the newest change.
    pub times: Option<(i64, i64)>,
    pub since_indexed: usize,
    /// New entries of the index.
    pub entries: Vec<(Position, i64)>,
}

/// What the columns get, as bytes. `made` are the rows that are new, and `digests` theirs.
#[pyclass(frozen, get_all, module = "sowline_native")]
pub struct WrittenRows {
    pub rows: Py<PyBytes>,
    pub eras: Py<PyBytes>,
    pub offsets: Py<PyBytes>,
    pub nths: Py<PyBytes>,
    pub times: Py<PyBytes>,
    pub made: Py<PyBytes>,
    pub digests: Py<PyBytes>,
}
