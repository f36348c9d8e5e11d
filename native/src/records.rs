//! The records of a partition as stored bytes, with the changes of the batch that is applied: `sowline_materializer.store.overlay`.

use std::borrow::Cow;
use std::collections::HashSet;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use rustc_hash::FxBuildHasher;

use crate::checksum::Checksum;
use crate::format::Format;
use crate::json::{Field, fields};
use crate::key::{KeyRule, SowKey};
use crate::log_record::LogRecord;
use crate::reading::{StoredEntries, stored};
use crate::slots::Slots;
use crate::sorting::in_order;
use crate::unflushed::Entries;

/// For how many log records at most the records are read from the store at once.
const AHEAD_MAX: usize = 256;

/// Entries, due times, and the checksum after them.
pub type Written<'py> = (Entries, Bound<'py, PyDict>, (i64, u64));

/// Records, by SOW key. `get_many` reads the bytes of others from the store.
pub struct Records {
    key_rule: KeyRule,
    /// Reads the messages of the topic; None for JSON.
    pub format: Option<Format>,
    get_many: Py<PyAny>,
    slots: Slots,
    changes: Vec<Pending>,
    /// For how many log records the records are read at once: few while most of them are here.
    ahead: usize,
    /// Whether all that the store has is here, so that it has nothing under any other key.
    has_all: bool,
}

/// A record that the batch has changed.
struct Pending {
    slot: usize,
    /// None if it is removed.
    data: Option<Py<PyBytes>>,
}

impl Records {
    pub fn new(key_rule: KeyRule, format: Option<Format>, get_many: Py<PyAny>) -> Self {
        Records {
            key_rule,
            format,
            get_many,
            slots: Slots::default(),
            changes: Vec::new(),
            ahead: 1,
            has_all: false,
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
    pub fn begin(&mut self) {
        for change in self.changes.drain(..) {
            self.slots.set_change(change.slot, None);
        }
    }

    /// Return a record's bytes, or None.
    pub fn get<'py>(
        &mut self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let slot = match self.slot(SowKey::Own(key.as_bytes())) {
            Some(slot) => slot,
            None => {
                let stored = self.stored(py, vec![key.clone()])?;
                self.add_stored(stored)
            }
        };
        Ok(match self.change(slot) {
            Some(change) => change.data.as_ref().map(|data| data.bind(py).clone()),
            None => self.slots.data(slot).map(|data| PyBytes::new(py, &data)),
        })
    }

    /// Change a record that was read before; None removes it.
    pub fn put(&mut self, key: &[u8], data: Option<Py<PyBytes>>) -> PyResult<()> {
        let Some(slot) = self.slot(SowKey::Own(key)) else {
            return Err(PyKeyError::new_err("a record is read before it is written"));
        };
        self.write(slot, data);
        Ok(())
    }

    /// Return the records that the batch has changed, in order: their bytes, or None for a removed one.
    pub fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let changed = PyList::empty(py);
        let keyed = self
            .changes
            .iter()
            .map(|change| (self.key(py, change.slot), &change.data));
        for entry in in_order(keyed, |(key, _)| key.as_bytes()) {
            changed.append(entry)?;
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
        let mut entries = Vec::with_capacity(self.changes.len());
        let mut checksum = Checksum {
            entries: checksum.0,
            sum: checksum.1,
        };
        for Pending { slot, data } in self.changes.drain(..) {
            let bytes = data.as_ref().map(|data| data.as_bytes(py));
            let (was, now) = self.slots.commit(slot, bytes, cache_bytes_max);
            let mut digits = itoa::Buffer::new();
            let key = self.slots.key(slot).bytes(&mut digits);
            checksum.replace(key, was, now, |index, is_there| {
                expiries.set_item(PyBytes::new(py, &index), is_there)
            })?;
            entries.push((PyBytes::new(py, key).unbind(), data));
        }
        self.slots.shrink(cache_bytes_max);
        self.has_all = self.slots.entries() == checksum.entries;
        Ok((
            Entries { entries },
            expiries,
            (checksum.entries, checksum.sum),
        ))
    }

    /// Return the slots of some keys. Those that are not here are read from the store at once.
    pub fn slots<'a>(
        &mut self,
        py: Python<'_>,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> PyResult<Vec<usize>> {
        let mut missing = Vec::new();
        let mut seen = HashSet::with_hasher(FxBuildHasher);
        for key in keys.clone() {
            if self.slot(SowKey::Own(key)).is_none() && seen.insert(key) {
                missing.push(PyBytes::new(py, key));
            }
        }
        if !missing.is_empty() {
            let stored = self.stored(py, missing)?;
            self.add_stored(stored);
        }
        Ok(keys
            .map(|key| self.slot(SowKey::Own(key)).expect("it was read"))
            .collect())
    }

    /// Return the slot of a key; None if the record is not here.
    pub fn slot(&mut self, key: SowKey<'_>) -> Option<usize> {
        let slot = self.slots.number(key)?;
        self.slots.use_again(slot);
        Some(slot)
    }

    /// Return the key of a slot.
    pub fn key<'py>(&self, py: Python<'py>, slot: usize) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.slots.key(slot).bytes(&mut itoa::Buffer::new()))
    }

    /// Return the bytes of the record in a slot; None if there is none.
    pub fn data<'a>(&'a self, py: Python<'a>, slot: usize) -> Option<Cow<'a, [u8]>> {
        match self.change(slot) {
            Some(change) => change
                .data
                .as_ref()
                .map(|data| Cow::Borrowed(data.as_bytes(py))),
            None => self.slots.data(slot),
        }
    }

    fn change(&self, slot: usize) -> Option<&Pending> {
        self.slots.change(slot).map(|change| &self.changes[change])
    }

    /// Return records that are not here, as the store has them.
    fn stored<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bound<'py, PyBytes>>,
    ) -> PyResult<StoredEntries<'py>> {
        if self.has_all {
            return Ok(keys.into_iter().map(|key| (key, None)).collect());
        }
        stored(py, &self.get_many, keys)
    }

    /// Add records as the store has them, which are not here; return the slot of the first one.
    fn add_stored(&mut self, stored: StoredEntries<'_>) -> usize {
        let slots = stored.iter().map(|(key, data)| {
            let data = data.as_ref().map(|data| data.as_bytes());
            self.slots.add(SowKey::Own(key.as_bytes()), data)
        });
        slots
            .reduce(|first, _| first)
            .expect("there is one at least")
    }

    /// Read the record of a log record that is not here, and with it those of the next log records; return its slot.
    ///
    /// The store reads many at once in less time than one by one.
    pub fn read(&mut self, py: Python<'_>, key: SowKey<'_>, next: &[LogRecord]) -> PyResult<usize> {
        if self.has_all {
            return Ok(self.slots.add(key, None));
        }
        let next = &next[..next.len().min(self.ahead)];
        let mut seen = HashSet::with_hasher(FxBuildHasher);
        let mut keys = Vec::new();
        let mut digits = itoa::Buffer::new();
        let others = next.iter().filter_map(|record| {
            let (mut json, mut given) = (Vec::new(), Vec::with_capacity(16));
            let body = Format::json_of(self.format.as_ref(), record.body(py), &mut json)?;
            let kafka_key = record.kafka_key(py);
            let found = self.key_of(body, kafka_key, &mut given);
            if let Some((_, key)) = found {
                return Some(key);
            }
            // A delta of a document has no key fields: its Kafka key names the document.
            self.key_rule.named(kafka_key).map(|(_, key)| key)
        });
        for key in std::iter::once(key).chain(others) {
            if seen.insert(key) && self.slots.number(key).is_none() {
                keys.push(PyBytes::new(py, key.bytes(&mut digits)));
            }
        }
        self.ahead = if keys.len() > next.len() / 4 {
            (2 * self.ahead).min(AHEAD_MAX)
        } else {
            (self.ahead / 2).max(1)
        };
        let stored = self.stored(py, keys)?;
        Ok(self.add_stored(stored))
    }

    /// Change the record in a slot; None removes it.
    pub fn write(&mut self, slot: usize, data: Option<Py<PyBytes>>) {
        match self.slots.change(slot) {
            Some(change) => self.changes[change].data = data,
            None => {
                self.slots.set_change(slot, Some(self.changes.len()));
                self.changes.push(Pending { slot, data });
            }
        }
    }
}
