//! The records of a partition as stored bytes, with the changes of the batch that is applied: `sowline_materializer.store.overlay`.

use std::borrow::Cow;
use std::collections::HashSet;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use rustc_hash::FxBuildHasher;

use crate::checksum::{Checksum, Committed};
use crate::format::Format;
use crate::json::{Field, fields};
use crate::key::{KeyRule, SowKey};
use crate::log_record::LogRecord;
use crate::reading::{StoredEntries, stored};
use crate::slots::{Slot, Slots};
use crate::sorting::in_order;
use crate::unflushed::Entries;

/// About how much memory a record takes in addition to its bytes.
const SLOT_BYTES: usize = 250;

/// For how many log records at most the records are read from the store at once.
const AHEAD_MAX: usize = 256;

/// Entries, due times, and the checksum after them.
pub type Written<'py> = (Entries, Bound<'py, PyDict>, (i64, u64));

/// Records, by SOW key. `get_many` reads the bytes of others from the store.
///
/// They are kept in two halves of `cache_bytes_max` in all: when one is full, the other is dropped.
pub struct Records {
    key_rule: KeyRule,
    /// Reads the messages of the topic; None for JSON.
    pub format: Option<Format>,
    get_many: Py<PyAny>,
    young: Slots,
    old: Slots,
    young_bytes: usize,
    /// The numbers of the young slots that the batch has changed.
    dirty: Vec<usize>,
    /// For how many log records the records are read at once: few while most of them are here.
    ahead: usize,
}

impl Records {
    pub fn new(key_rule: KeyRule, format: Option<Format>, get_many: Py<PyAny>) -> Self {
        Records {
            key_rule,
            format,
            get_many,
            young: Slots::default(),
            old: Slots::default(),
            young_bytes: 0,
            dirty: Vec::new(),
            ahead: 1,
        }
    }

    /// Return the key text and the SOW key of a log record, and collect the fields of its body; None if only Python can
    /// find the key. Without a body, the Kafka key names the record.
    pub fn key_of<'a: 'b, 'b>(
        &self,
        body: &'b [u8],
        kafka_key: &'a [u8],
        given: &mut Vec<Field<'b>>,
    ) -> Option<(Cow<'b, [u8]>, SowKey<'a>)> {
        if body.is_empty() {
            return self.key_rule.named(kafka_key);
        }
        fields(body, given)?;
        self.key_rule.key_of(given, kafka_key)
    }

    /// Forget the changes of a batch that is not committed.
    pub fn begin(&mut self, py: Python<'_>) {
        for number in self.dirty.drain(..) {
            self.young.remove(py, number);
        }
    }

    /// Return a record's bytes, or None.
    pub fn get<'py>(
        &mut self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let number = match self.slot(py, key.as_bytes()) {
            Some(number) => number,
            None => {
                let stored = stored(py, &self.get_many, [key.clone()])?;
                self.add_stored(py, stored)
            }
        };
        let data = self.young.at(number).data.as_ref();
        Ok(data.map(|data| data.bind(py).clone()))
    }

    /// Change a record that was read before; None removes it.
    pub fn put(&mut self, py: Python<'_>, key: &[u8], data: Option<Py<PyBytes>>) -> PyResult<()> {
        let Some(number) = self.young.number(py, key) else {
            return Err(PyKeyError::new_err("a record is read before it is written"));
        };
        self.write(py, number, data);
        Ok(())
    }

    /// Return the records that the batch has changed, in order: their bytes, or None for a removed one.
    pub fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let changed = PyList::empty(py);
        let slots = self.dirty.iter().map(|at| self.young.at(*at));
        for slot in in_order(slots, |slot| slot.key.as_bytes(py)) {
            changed.append((&slot.key, &slot.data))?;
        }
        Ok(changed)
    }

    /// Return the writes of the batch, and keep its records: entries, due times, and the checksum after them.
    ///
    /// `checksum` is the store's number of entries and sum of hashes before.
    pub fn written<'py>(
        &mut self,
        py: Python<'py>,
        checksum: (i64, u64),
        cache_bytes_max: usize,
    ) -> PyResult<Written<'py>> {
        let expiries = PyDict::new(py);
        let mut entries = Vec::with_capacity(self.dirty.len());
        let mut checksum = Checksum {
            entries: checksum.0,
            sum: checksum.1,
        };
        for number in self.dirty.drain(..) {
            let slot = self.young.at_mut(number);
            let key = slot.key.as_bytes(py);
            let data = slot.data.as_ref();
            let now = data.map(|data| Committed::of(key, data.as_bytes(py)));
            checksum.replace(key, slot.committed, now, |index, is_there| {
                expiries.set_item(PyBytes::new(py, &index), is_there)
            })?;
            let data = data.map(|data| data.clone_ref(py));
            entries.push((slot.key.clone_ref(py), data));
            slot.committed = now;
            slot.is_dirty = false;
        }
        if self.young_bytes > cache_bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            if self.young_bytes > cache_bytes_max {
                self.old = Slots::default();
            }
            self.young_bytes = 0;
        }
        Ok((
            Entries { entries },
            expiries,
            (checksum.entries, checksum.sum),
        ))
    }

    /// Return the number of a key's young slot; None if the record is not here.
    pub fn slot(&mut self, py: Python<'_>, key: &[u8]) -> Option<usize> {
        if let Some(number) = self.young.number(py, key) {
            return Some(number);
        }
        let slot = self.old.number(py, key)?;
        let slot = self.old.remove(py, slot);
        Some(self.add(py, slot))
    }

    /// Return the slot of a number.
    pub fn at(&self, number: usize) -> &Slot {
        self.young.at(number)
    }

    fn add(&mut self, py: Python<'_>, slot: Slot) -> usize {
        self.young_bytes += SLOT_BYTES + size_of(py, slot.data.as_ref());
        self.young.add(py, slot)
    }

    /// Add records as the store has them, which are not here; return the number of the first one's slot.
    fn add_stored(&mut self, py: Python<'_>, stored: StoredEntries<'_>) -> usize {
        let mut first = None;
        for (key, data) in stored {
            let committed = data
                .as_ref()
                .map(|data| Committed::of(key.as_bytes(), data.as_bytes()));
            let slot = Slot {
                committed,
                data: data.map(Bound::unbind),
                key: key.unbind(),
                is_dirty: false,
            };
            let number = self.add(py, slot);
            first.get_or_insert(number);
        }
        first.expect("there is one at least")
    }

    /// Read the record of a log record that is not here, and with it those of the next log records; return its slot.
    ///
    /// The store reads many at once in less time than one by one.
    pub fn read(&mut self, py: Python<'_>, key: SowKey<'_>, next: &[LogRecord]) -> PyResult<usize> {
        let next = &next[..next.len().min(self.ahead)];
        let mut seen = HashSet::with_hasher(FxBuildHasher);
        let mut keys = Vec::new();
        let mut digits = itoa::Buffer::new();
        let others = next.iter().filter_map(|record| {
            let (mut json, mut given) = (Vec::new(), Vec::with_capacity(16));
            let body = Format::json_of(self.format.as_ref(), record.body(py), &mut json)?;
            let (_, key) = self.key_of(body, record.kafka_key(py), &mut given)?;
            Some(key)
        });
        for key in std::iter::once(key).chain(others) {
            let name = key.bytes(&mut digits);
            let is_here = || self.young.number(py, name).or(self.old.number(py, name));
            if seen.insert(key) && is_here().is_none() {
                keys.push(PyBytes::new(py, name));
            }
        }
        self.ahead = if keys.len() > next.len() / 4 {
            (2 * self.ahead).min(AHEAD_MAX)
        } else {
            (self.ahead / 2).max(1)
        };
        let stored = stored(py, &self.get_many, keys)?;
        Ok(self.add_stored(py, stored))
    }

    /// Change the record in a slot; None removes it.
    pub fn write(&mut self, py: Python<'_>, number: usize, data: Option<Py<PyBytes>>) {
        let slot = self.young.at_mut(number);
        let (before, after) = (size_of(py, slot.data.as_ref()), size_of(py, data.as_ref()));
        self.young_bytes = (self.young_bytes + after).saturating_sub(before);
        slot.data = data;
        if !slot.is_dirty {
            slot.is_dirty = true;
            self.dirty.push(number);
        }
    }
}

fn size_of(py: Python<'_>, data: Option<&Py<PyBytes>>) -> usize {
    data.map_or(0, |data| data.as_bytes(py).len())
}
