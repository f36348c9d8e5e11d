//! Whether the changes of a load include every record: `sowline.changes.wholeness.Wholeness`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::position::Position;

/// The expected next offset after a gap in the offsets.
const BROKEN_OFF: i64 = -2;

/// What a load knows of its wholeness: the newest position, the next offset without a gap, and whether it is refilling.
pub type WholenessTuple<P> = (P, i64, bool);

/// What plain changes show about the wholeness of a load; `P` is a position.
#[derive(Clone, Copy)]
pub struct Wholeness<P> {
    newest: P,
    due: i64,
    is_refilling: bool,
}

impl<P> From<WholenessTuple<P>> for Wholeness<P> {
    fn from((newest, due, is_refilling): WholenessTuple<P>) -> Self {
        Wholeness {
            newest,
            due,
            is_refilling,
        }
    }
}

impl<P> From<Wholeness<P>> for WholenessTuple<P> {
    fn from(it: Wholeness<P>) -> Self {
        (it.newest, it.due, it.is_refilling)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Wholeness<Position> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let tuple: WholenessTuple<Position> = given.extract()?;
        Ok(tuple.into())
    }
}

impl<'py, P: IntoPyObject<'py>> IntoPyObject<'py> for Wholeness<P> {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        WholenessTuple::from(self).into_pyobject(py)
    }
}

impl<P: Copy + Ord> Wholeness<P> {
    /// Note the next change, which is not written again.
    pub fn saw_change(&mut self, offset: i64, position: P, after: P) {
        let follows = offset == self.due;
        self.due = if follows { offset + 1 } else { BROKEN_OFF };
        if position > self.newest {
            self.is_refilling |= follows && after > self.newest;
            self.newest = position;
        }
    }
}
