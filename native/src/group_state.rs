//! The state of an aggregate in a group: `sowline.language.groups.sums` and `ranks`.
//!
//! One that gets a value that is not plain becomes Python's, and stays so.

use std::collections::BTreeMap;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::group_input::{Reader, Scalar};
use crate::number::push;

/// A state: its class by name, and the number of its argument.
#[derive(FromPyObject)]
pub struct StateRule {
    kind: String,
    pub argument: usize,
}

/// What the groups are made by: `sowline_views.core.native_groups`.
#[derive(FromPyObject)]
pub struct Rule {
    pub states: Vec<StateRule>,
    /// Reads the records; None if only Python can.
    pub reader: Option<Reader>,
    /// Returns Python's state with some values, for the number of a state.
    adopted: Py<PyAny>,
    /// Returns the text of a group, for a key text, the number of records, and what the states export.
    pub exported: Py<PyAny>,
}

/// A value of MIN and MAX, in their order: `sowline.language.groups.ranks.rank`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ranked {
    Integer(i64),
    Text(String),
}

/// A state of a group: `sowline.language.groups.sums` and `ranks`.
pub enum State {
    Count(i64),
    Sums { count: i64, integers: i128 },
    Ordered(BTreeMap<Ranked, u64>),
    Python(Py<PyAny>),
}

impl State {
    /// Return the state of a number, without values.
    pub fn new(py: Python<'_>, rule: &Rule, number: usize) -> PyResult<Self> {
        let kind = rule.states.get(number).map_or("", |state| &state.kind);
        Ok(match kind {
            "Count" => State::Count(0),
            "Sums" => State::Sums {
                count: 0,
                integers: 0,
            },
            "OrderedValues" => State::Ordered(BTreeMap::new()),
            _ => {
                let values = PyList::empty(py);
                State::Python(rule.adopted.bind(py).call1((number, values))?.unbind())
            }
        })
    }

    /// Add a value, or remove it.
    pub fn take(
        &mut self,
        py: Python<'_>,
        rule: &Rule,
        number: usize,
        value: &Scalar,
        times: i64,
    ) -> PyResult<()> {
        match (&mut *self, value) {
            (State::Python(state), value) => {
                let name = if times > 0 { "add" } else { "remove" };
                state.bind(py).call_method1(name, (value.as_python(py)?,))?;
            }
            (_, Scalar::Null) => {}
            (State::Count(count), _) => *count += times,
            (State::Sums { count, integers }, Scalar::Integer(number)) => {
                *count += times;
                *integers += i128::from(*number) * i128::from(times);
            }
            (State::Ordered(counts), Scalar::Integer(number)) => {
                counted(counts, Ranked::Integer(*number), times)?;
            }
            (State::Ordered(counts), Scalar::Text(text)) => {
                counted(counts, Ranked::Text(text.clone()), times)?;
            }
            _ => {
                let adopted = rule.adopted.bind(py).call1((number, self.values(py)?))?;
                *self = State::Python(adopted.unbind());
                return self.take(py, rule, number, value, times);
            }
        }
        Ok(())
    }

    /// Append what it exports; return whether it could.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        match self {
            State::Count(count) => push(*count, out),
            State::Sums { count, integers } => {
                out.push(b'[');
                push(*count, out);
                out.extend_from_slice(b",0,");
                push(*integers, out);
                out.extend_from_slice(b",0,0,0,0]");
            }
            State::Ordered(counts) => {
                out.push(b'[');
                if let (Some((first, _)), Some((last, _))) =
                    (counts.first_key_value(), counts.last_key_value())
                {
                    first.write(out);
                    out.push(b',');
                    last.write(out);
                }
                out.push(b']');
            }
            State::Python(_) => return false,
        }
        true
    }

    /// Return what it exports as a Python object.
    pub fn exported<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            State::Count(count) => Ok(count.into_pyobject(py)?.into_any()),
            State::Sums { count, integers } => Ok((*count, 0, *integers, 0, 0, 0, 0)
                .into_pyobject(py)?
                .into_any()),
            State::Ordered(counts) => {
                let ends = [counts.first_key_value(), counts.last_key_value()];
                let ends = ends
                    .into_iter()
                    .flatten()
                    .map(|(value, _)| value.as_python(py));
                Ok(PyList::new(py, ends.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            State::Python(state) => state.bind(py).call_method0("exported"),
        }
    }

    /// Return its values as pairs, for `adopted`: of the count and the sum, or of each value and its count.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values = PyList::empty(py);
        match self {
            State::Sums { count, integers } => values.append((*count, *integers))?,
            State::Ordered(counts) => {
                for (value, count) in counts {
                    values.append((value.as_python(py)?, *count))?;
                }
            }
            State::Count(_) | State::Python(_) => {}
        }
        Ok(values)
    }

    /// Return a copy.
    pub fn copied(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(match self {
            State::Count(count) => State::Count(*count),
            State::Sums { count, integers } => State::Sums {
                count: *count,
                integers: *integers,
            },
            State::Ordered(counts) => State::Ordered(counts.clone()),
            State::Python(state) => {
                let copy = py.import("copy")?.getattr("deepcopy")?;
                State::Python(copy.call1((state,))?.unbind())
            }
        })
    }
}

impl Ranked {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Ranked::Integer(number) => push(*number, out),
            Ranked::Text(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
        }
    }

    fn as_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Ranked::Integer(number) => number.into_pyobject(py)?.into_any(),
            Ranked::Text(text) => PyString::new(py, text).into_any(),
        })
    }
}

/// Count a value once more, or once less.
fn counted(counts: &mut BTreeMap<Ranked, u64>, value: Ranked, times: i64) -> PyResult<()> {
    if times > 0 {
        *counts.entry(value).or_insert(0) += 1;
        return Ok(());
    }
    match counts.get_mut(&value) {
        None => return Err(PyKeyError::new_err("a value is removed that was not added")),
        Some(count) if *count > 1 => *count -= 1,
        Some(_) => drop(counts.remove(&value)),
    }
    Ok(())
}
