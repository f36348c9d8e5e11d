//! Where the messages of a load come from: columns that Python passes, or a batch of the native reader.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet};

use crate::event::about_of;
use crate::kafka_reader::KafkaBatch;

/// A message of a changes topic, as bytes.
pub struct Message<'a> {
    pub offset: i64,
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub about: &'a [u8],
}

/// The messages of a load: a batch; or Kafka keys, values, headers and offsets, with an item for each message.
#[derive(FromPyObject)]
pub enum Source<'py> {
    Batch(Bound<'py, KafkaBatch>),
    Columns(Columns<'py>),
}

type Columns<'py> = (
    Bound<'py, PyList>,
    Bound<'py, PyList>,
    Bound<'py, PyList>,
    Vec<i64>,
);

impl Source<'_> {
    pub fn len(&self) -> usize {
        match self {
            Source::Batch(batch) => batch.get().len(),
            Source::Columns((_, _, _, offsets)) => offsets.len(),
        }
    }
}

/// The keys that only Python can load.
pub struct LeftKeys<'a, 'py> {
    pub ranks: &'a Bound<'py, PyDict>,
    pub stale_keys: &'a Bound<'py, PySet>,
}

impl LeftKeys<'_, '_> {
    fn is_empty(&self) -> bool {
        self.ranks.is_empty() && self.stale_keys.is_empty()
    }

    fn have(&self, key: &Bound<'_, PyBytes>) -> PyResult<bool> {
        let has_rank = !self.ranks.is_empty() && self.ranks.contains(key)?;
        Ok(has_rank || (!self.stale_keys.is_empty() && self.stale_keys.contains(key)?))
    }
}

/// A message with the objects that hold its bytes.
pub struct Held<'py> {
    offset: i64,
    key: Bound<'py, PyBytes>,
    value: Bound<'py, PyBytes>,
    about: Bound<'py, PyBytes>,
}

impl Held<'_> {
    pub fn bytes(&self) -> Message<'_> {
        Message {
            offset: self.offset,
            key: self.key.as_bytes(),
            value: self.value.as_bytes(),
            about: self.about.as_bytes(),
        }
    }
}

/// Return some of the messages in columns, up to the first that only Python can load.
pub fn held<'py>(
    (keys, values, headers, offsets): &Columns<'py>,
    range: Range<usize>,
    left: &LeftKeys<'_, 'py>,
) -> PyResult<Vec<Held<'py>>> {
    let mut held = Vec::with_capacity(range.len());
    for at in range {
        let (Ok(key), Ok(value)) = (
            keys.get_item(at)?.cast_into::<PyBytes>(),
            values.get_item(at)?.cast_into::<PyBytes>(),
        ) else {
            break;
        };
        if left.have(&key)? {
            break;
        }
        let Some(about) = about_of(&headers.get_item(at)?)? else {
            break;
        };
        held.push(Held {
            offset: offsets[at],
            key,
            value,
            about,
        });
    }
    Ok(held)
}

/// Return the end of the messages of a batch up to the first whose key only Python can load.
pub fn end_in(
    py: Python<'_>,
    batch: &KafkaBatch,
    range: Range<usize>,
    left: &LeftKeys<'_, '_>,
) -> PyResult<usize> {
    if left.is_empty() {
        return Ok(range.end);
    }
    for at in range.clone() {
        let Some(key) = batch.key(at) else {
            return Ok(at);
        };
        if left.have(&PyBytes::new(py, key))? {
            return Ok(at);
        }
    }
    Ok(range.end)
}
