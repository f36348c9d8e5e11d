//! The groups of a view in a source partition: `sowline.language.groups.engine.GroupStates`.
//!
//! A state that gets a value that is not plain becomes Python's, and stays so.

use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use rustc_hash::FxHashMap;

use crate::escapes::write_text;
use crate::group_input::{Input, Reading, Row, Scalar};
use crate::group_state::{Rule, State};
use crate::number::push;

struct Group {
    records: u64,
    states: Vec<State>,
    /// The exported state, if it was made since the last change.
    text: Option<Py<PyBytes>>,
}

/// The key of a group, and its state after a change; None if it has no records any more.
type Changed = (Py<PyBytes>, Option<Py<PyBytes>>);

/// The groups of one source partition.
#[pyclass(module = "sowline_native")]
pub struct Groups {
    rule: Arc<Rule>,
    groups: FxHashMap<Vec<u8>, Group>,
}

#[pymethods]
impl Groups {
    #[new]
    fn new(rule: Rule) -> Self {
        Groups {
            rule: Arc::new(rule),
            groups: FxHashMap::default(),
        }
    }

    /// Replace a record by another one, each None if there is none; return the changed states of groups.
    ///
    /// Returns None, without any effect, if only Python can read one of them.
    fn change(
        &mut self,
        py: Python<'_>,
        before: Option<Row<'_>>,
        now: Option<Row<'_>>,
    ) -> PyResult<Option<Vec<Changed>>> {
        let rule = Arc::clone(&self.rule);
        let Some(reader) = &rule.reader else {
            return Ok(None);
        };
        let mut inputs = [None, None];
        for (row, input) in [before, now].iter().zip(&mut inputs) {
            match row
                .as_ref()
                .map_or(Reading::NotCounted, |row| reader.read(row))
            {
                Reading::Input(found) => *input = Some(found),
                Reading::NotCounted => {}
                Reading::Left => return Ok(None),
            }
        }
        let [left, entered] = inputs;
        self.replace(py, left, entered).map(Some)
    }

    /// Replace the inputs of a record by those of another one; return the changed states of groups.
    fn replace(
        &mut self,
        py: Python<'_>,
        left: Option<Input>,
        entered: Option<Input>,
    ) -> PyResult<Vec<Changed>> {
        let mut changed = Vec::with_capacity(2);
        match (left, entered) {
            (Some(left), Some(entered)) if left.key == entered.key => {
                self.change_group(
                    py,
                    entered.key,
                    Some(left.arguments),
                    Some(entered.arguments),
                    &mut changed,
                )?;
            }
            (left, entered) => {
                if let Some(left) = left {
                    self.change_group(py, left.key, Some(left.arguments), None, &mut changed)?;
                }
                if let Some(entered) = entered {
                    self.change_group(
                        py,
                        entered.key,
                        None,
                        Some(entered.arguments),
                        &mut changed,
                    )?;
                }
            }
        }
        Ok(changed)
    }

    /// Return the join keys of a record of the source; None if only Python can make them.
    fn keys<'py>(&self, py: Python<'py>, body: &[u8]) -> PyResult<Option<Bound<'py, PyList>>> {
        let keys = self
            .rule
            .reader
            .as_ref()
            .and_then(|reader| reader.keys(body));
        keys.map(|keys| PyList::new(py, keys.iter().map(|key| PyBytes::new(py, key))))
            .transpose()
    }

    /// Return the keys and the states of all groups.
    fn records(&mut self, py: Python<'_>) -> PyResult<Vec<Changed>> {
        let rule = Arc::clone(&self.rule);
        self.groups
            .iter_mut()
            .map(|(key, group)| {
                let text = group.text(py, key, &rule)?;
                Ok((PyBytes::new(py, key).unbind(), Some(text)))
            })
            .collect()
    }

    /// Return a copy, for tests.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut groups = FxHashMap::default();
        for (key, group) in &self.groups {
            let states = group.states.iter().map(|state| state.copied(py));
            let copy = Group {
                records: group.records,
                states: states.collect::<PyResult<_>>()?,
                text: None,
            };
            groups.insert(key.clone(), copy);
        }
        Ok(Groups {
            rule: Arc::clone(&self.rule),
            groups,
        })
    }
}

impl Groups {
    /// Take a record out of a group, in, or both; append the group to `changed` if its state is another one.
    fn change_group(
        &mut self,
        py: Python<'_>,
        key: Vec<u8>,
        old: Option<Vec<Scalar>>,
        new: Option<Vec<Scalar>>,
        changed: &mut Vec<Changed>,
    ) -> PyResult<()> {
        let rule = Arc::clone(&self.rule);
        let mut group = match self.groups.remove(&key) {
            Some(group) => group,
            None if old.is_none() => Group::new(py, &rule)?,
            None => {
                return Err(PyKeyError::new_err(
                    "a record leaves a group in which none is",
                ));
            }
        };
        let previous = match group.records {
            0 => None,
            _ => Some(group.text(py, &key, &rule)?),
        };
        group.change(py, &rule, old.as_deref(), new.as_deref())?;
        let now = match group.records {
            0 => None,
            _ => Some(group.text(py, &key, &rule)?),
        };
        let is_same = match (&previous, &now) {
            (Some(previous), Some(now)) => {
                previous.is(now) || previous.as_bytes(py) == now.as_bytes(py)
            }
            (previous, now) => previous.is_none() && now.is_none(),
        };
        if !is_same {
            changed.push((PyBytes::new(py, &key).unbind(), now));
        }
        if group.records > 0 {
            self.groups.insert(key, group);
        }
        Ok(())
    }
}

impl Group {
    fn new(py: Python<'_>, rule: &Rule) -> PyResult<Self> {
        let states = (0..rule.states.len()).map(|number| State::new(py, rule, number));
        Ok(Group {
            records: 0,
            states: states.collect::<PyResult<_>>()?,
            text: None,
        })
    }

    fn change(
        &mut self,
        py: Python<'_>,
        rule: &Rule,
        old: Option<&[Scalar]>,
        new: Option<&[Scalar]>,
    ) -> PyResult<()> {
        if old.is_none() || new.is_none() {
            self.text = None;
        }
        self.records = match (old, new) {
            (None, Some(_)) => self.records + 1,
            (Some(_), None) => self.records.saturating_sub(1),
            _ => self.records,
        };
        for (number, (state, by)) in self.states.iter_mut().zip(&rule.states).enumerate() {
            let argument = |from: Option<&[Scalar]>| {
                from.and_then(|all| all.get(by.argument).map(|it| it.copied(py)))
            };
            let (old, new) = (argument(old), argument(new));
            if let (Some(old), Some(new)) = (&old, &new)
                && old.is_same(py, new)?
            {
                continue;
            }
            self.text = None;
            for (value, times) in [(old, -1), (new, 1)] {
                if let Some(value) = value {
                    state.take(py, rule, number, &value, times)?;
                }
            }
        }
        Ok(())
    }

    /// Return the exported state: `GroupState.exported`.
    fn text(&mut self, py: Python<'_>, key: &[u8], rule: &Rule) -> PyResult<Py<PyBytes>> {
        if let Some(text) = &self.text {
            return Ok(text.clone_ref(py));
        }
        let mut out = Vec::with_capacity(128);
        out.push(b'[');
        write_text(key, &mut out);
        out.push(b',');
        push(self.records, &mut out);
        out.extend_from_slice(b",[");
        let start = out.len();
        let mut is_plain = true;
        for state in &self.states {
            if out.len() > start {
                out.push(b',');
            }
            is_plain &= state.write(&mut out);
        }
        // Python writes such a state otherwise.
        is_plain &= !out[start..].windows(4).any(|four| four == b"null");
        out.extend_from_slice(b"],null]");
        let text = if is_plain {
            PyBytes::new(py, &out).unbind()
        } else {
            let states = self.states.iter().map(|state| state.exported(py));
            let states = PyList::new(py, states.collect::<PyResult<Vec<_>>>()?)?;
            rule.exported
                .bind(py)
                .call1((PyBytes::new(py, key), self.records, states))?
                .extract()?
        };
        self.text = Some(text.clone_ref(py));
        Ok(text)
    }
}
