//! The records of a partition, and the plain commands of a batch applied to them: `sowline_materializer.core`.

use std::collections::HashSet;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxBuildHasher;

use crate::change::Change;
use crate::checksum::{Checksum, Committed};
use crate::command::{Command, command};
use crate::entry::{self, NEVER};
use crate::json::fields;
use crate::key::{DomainHash, domain_hash, partition_of, sow_key, text_in};
use crate::log_record::{LOG_APPEND_TIME, LogRecord, LogRecords, TIME_MAX};
use crate::merge::merge;
use crate::number::push;
use crate::numbers::{self, After};
use crate::reading::{StoredEntries, stored};
use crate::slots::{Slot, Slots};
use crate::sorting::in_order;
use crate::unflushed::Entries;

/// About how much memory a record takes in addition to its bytes.
const SLOT_BYTES: usize = 250;

/// For how many log records at most the records are read from the store at once.
const AHEAD_MAX: usize = 256;

/// Entries, due times, and the checksum after them.
type Written<'py> = (Entries, Bound<'py, PyDict>, (i64, u64));

/// The state that moves from log record to log record; `sowline` keeps it in its `BatchState`. `time` is log time.
#[derive(Clone, Copy)]
struct State {
    position: PositionTuple,
    last_change: PositionTuple,
    time: i64,
    live_records: i64,
}

/// A position: era, offset, and the number of the change within its log record.
pub type PositionTuple = (u32, i64, u32);

/// `State` as Python passes it.
type StateTuple = (PositionTuple, PositionTuple, i64, i64);

/// `Limits` as Python passes them.
type LimitsTuple = (usize, i64, i64, i64, i64);

/// The limits of a topic; -1 for none.
#[derive(Clone, Copy)]
struct Limits {
    record_bytes_max: usize,
    repeat_window: i64,
    numbers_since: i64,
    expiration: i64,
    records_max: i64,
}

/// Space that is used for one record after the other.
#[derive(Default)]
struct Buffers {
    body: Vec<u8>,
    numbers: Vec<u8>,
    about: Vec<u8>,
    stored: Vec<u8>,
}

/// What became of a log record.
enum Outcome {
    Applied(Change),
    Repeat,
    /// Nothing was touched: Python applies it.
    Left,
}

/// The records of one partition, as stored bytes, with the changes of the batch that is applied.
///
/// `get_many` reads the bytes of records from the store. Records are kept in two halves of `cache_bytes_max` in all: when
/// one is full, the other is dropped.
#[pyclass(module = "sowline_native")]
pub struct Core {
    partition: u32,
    partitions: u32,
    domain: DomainHash,
    key_field: Vec<u8>,
    get_many: Py<PyAny>,
    position_type: Py<PyAny>,
    young: Slots,
    old: Slots,
    young_bytes: usize,
    /// The numbers of the young slots that the batch has changed.
    dirty: Vec<usize>,
    /// For how many log records the records are read at once: few while most of them are here.
    ahead: usize,
    buffers: Buffers,
}

#[pymethods]
impl Core {
    #[new]
    fn new(
        partition: u32,
        partitions: u32,
        domain: &[u8],
        key_field: &str,
        get_many: Py<PyAny>,
        position_type: Py<PyAny>,
    ) -> Self {
        Core {
            partition,
            partitions,
            domain: domain_hash(domain),
            key_field: key_field.as_bytes().to_vec(),
            get_many,
            position_type,
            young: Slots::default(),
            old: Slots::default(),
            young_bytes: 0,
            dirty: Vec::new(),
            ahead: 1,
            buffers: Buffers::default(),
        }
    }

    /// Forget the changes of a batch that is not committed.
    fn begin(&mut self, py: Python<'_>) {
        for number in self.dirty.drain(..) {
            self.young.remove(py, number);
        }
    }

    /// Apply log records from `start` on, up to the first that only Python can apply; return its index, the state, and
    /// how many changes are of delta publishes.
    ///
    /// Changes are appended to `changes`, the offsets of repeated commands to `repeats`.
    #[expect(
        clippy::too_many_arguments,
        reason = "Python calls it once for a batch, with its state and outputs"
    )]
    fn apply<'py>(
        &mut self,
        py: Python<'py>,
        records: &LogRecords,
        start: usize,
        state: StateTuple,
        limits: LimitsTuple,
        changes: &Bound<'py, PyList>,
        repeats: &Bound<'py, PyList>,
    ) -> PyResult<(usize, StateTuple, usize)> {
        let (position, last_change, time, live_records) = state;
        let mut state = State {
            position,
            last_change,
            time,
            live_records,
        };
        let (record_bytes_max, repeat_window, numbers_since, expiration, records_max) = limits;
        let limits = Limits {
            record_bytes_max,
            repeat_window,
            numbers_since,
            expiration,
            records_max,
        };
        let mut buffers = std::mem::take(&mut self.buffers);
        let (mut at, mut deltas) = (start, 0);
        while at < records.records.len() {
            match self.apply_one(
                py,
                &records.records[at..],
                &mut state,
                &limits,
                &mut buffers,
            )? {
                Outcome::Applied(change) => {
                    deltas += usize::from(change.is_delta);
                    changes.append(Bound::new(py, change)?)?;
                }
                Outcome::Repeat => repeats.append(state.position.1)?,
                Outcome::Left => break,
            }
            at += 1;
        }
        self.buffers = buffers;
        Ok((
            at,
            (
                state.position,
                state.last_change,
                state.time,
                state.live_records,
            ),
            deltas,
        ))
    }

    /// Return a record's bytes, or None.
    fn get<'py>(
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
    fn put(&mut self, py: Python<'_>, key: &[u8], data: Option<Py<PyBytes>>) -> PyResult<()> {
        let Some(number) = self.young.number(py, key) else {
            return Err(PyKeyError::new_err("a record is read before it is written"));
        };
        self.write(py, number, data);
        Ok(())
    }

    /// Return the records that the batch has changed, in order: their bytes, or None for a removed one.
    fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
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
    fn written<'py>(
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
}

impl Core {
    /// Return the number of a key's young slot; None if the record is not here.
    fn slot(&mut self, py: Python<'_>, key: &[u8]) -> Option<usize> {
        if let Some(number) = self.young.number(py, key) {
            return Some(number);
        }
        let slot = self.old.number(py, key)?;
        let slot = self.old.remove(py, slot);
        Some(self.add(py, slot))
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
    fn read(&mut self, py: Python<'_>, key: u64, next: &[LogRecord]) -> PyResult<usize> {
        let next = &next[..next.len().min(self.ahead)];
        let mut seen = HashSet::with_hasher(FxBuildHasher);
        let (mut keys, mut given) = (Vec::new(), Vec::with_capacity(16));
        let mut digits = itoa::Buffer::new();
        let others = next.iter().filter_map(|record| {
            let body = record.value.as_ref()?.as_bytes(py);
            fields(body, &mut given)?;
            Some(sow_key(&self.domain, text_in(&given, &self.key_field)?))
        });
        for key in std::iter::once(key).chain(others) {
            let name = digits.format(key).as_bytes();
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

    fn write(&mut self, py: Python<'_>, number: usize, data: Option<Py<PyBytes>>) {
        let slot = self.young.at_mut(number);
        let (before, after) = (size_of(py, slot.data.as_ref()), size_of(py, data.as_ref()));
        self.young_bytes = (self.young_bytes + after).saturating_sub(before);
        slot.data = data;
        if !slot.is_dirty {
            slot.is_dirty = true;
            self.dirty.push(number);
        }
    }

    /// Apply the first of the log records.
    fn apply_one(
        &mut self,
        py: Python<'_>,
        records: &[LogRecord],
        state: &mut State,
        limits: &Limits,
        buffers: &mut Buffers,
    ) -> PyResult<Outcome> {
        let (record, next) = records.split_first().expect("there is one to apply");
        let (offset, record_time) = (record.offset, record.time);
        let Some(value) = record.value.as_ref().map(|value| value.bind(py)) else {
            return Ok(Outcome::Left);
        };
        let Some(headers) = headers_of(py, record.headers.as_ref())? else {
            return Ok(Outcome::Left);
        };
        let body = value.as_bytes();
        // Python continues within a log record of which the state holds the first changes.
        if body.len() > limits.record_bytes_max || offset == state.position.1 {
            return Ok(Outcome::Left);
        }
        // Python refuses such a time.
        if !(0..=TIME_MAX).contains(&record_time) {
            return Ok(Outcome::Left);
        }
        let mut named = Vec::with_capacity(headers.len());
        for (name, value) in &headers {
            named.push((name.to_str()?, value.as_ref().map(|value| value.as_bytes())));
        }
        let Some(command) = command(&named) else {
            return Ok(Outcome::Left);
        };
        if std::str::from_utf8(body).is_err() {
            return Ok(Outcome::Left);
        }
        let mut given = Vec::with_capacity(16);
        let Some(key_text) =
            fields(body, &mut given).and_then(|()| text_in(&given, &self.key_field))
        else {
            return Ok(Outcome::Left);
        };
        let mut digits = itoa::Buffer::new();
        let key = sow_key(&self.domain, key_text);
        let (partition, partitions) = (self.partition, self.partitions);
        let number = match self.slot(py, digits.format(key).as_bytes()) {
            Some(number) => number,
            None => self.read(py, key, next)?,
        };
        let slot = self.young.at(number);
        let data = slot.data.as_ref().map(|data| data.bind(py).clone());
        let sow_key = slot.key.clone_ref(py);
        // A producer's time is that of its record only: `BatchState.begin`.
        let time = record_time.max(state.time);
        let log_time = if record.time_type == LOG_APPEND_TIME {
            time
        } else {
            state.time
        };
        let held = match &data {
            Some(data) => match entry::read(data.as_bytes()) {
                Some(held) if held.key_text == key_text => Some(held),
                _ => return Ok(Outcome::Left),
            },
            None if partition_of(key_text, partitions) != partition => return Ok(Outcome::Left),
            None => None,
        };
        let since = limits.numbers_since.max(log_time - limits.repeat_window);
        let Buffers {
            body: merged,
            numbers,
            about: header,
            stored,
        } = buffers;
        numbers.clear();
        let known = held.as_ref().map_or(&b""[..], |held| held.numbers);
        match numbers::after(known, command.publisher, log_time, since, numbers) {
            None => return Ok(Outcome::Left),
            Some(After::Repeat) => {
                state.position = (state.position.0, offset, 0);
                state.time = log_time;
                return Ok(Outcome::Repeat);
            }
            Some(After::Written) => {}
        }
        let previous = held.as_ref().and_then(|held| held.body);
        if previous.is_none() && limits.records_max >= 0 && state.live_records >= limits.records_max
        {
            return Ok(Outcome::Left);
        }
        let body = match previous {
            Some(previous) if command.is_delta => {
                merged.clear();
                // The store holds what was valid once; a text is checked, not trusted.
                if std::str::from_utf8(previous).is_err()
                    || merge(previous, &given, merged).is_none()
                    || merged.len() > limits.record_bytes_max
                {
                    return Ok(Outcome::Left);
                }
                &merged[..]
            }
            _ => body,
        };
        let expires = due_time(&command, time, limits);
        let era = state.position.0;
        let written = entry::Written {
            era,
            offset,
            time,
            expires,
            key_text,
            numbers,
            correlation: command.correlation,
            body,
        };
        stored.clear();
        entry::write(&written, stored);
        header.clear();
        about(&written, &command, state.last_change, log_time, header);
        let is_new = previous.is_none();
        let change = Change {
            sow_key,
            body: if std::ptr::eq(body, value.as_bytes()) {
                value.clone().unbind()
            } else {
                PyBytes::new(py, body).unbind()
            },
            previous: previous.map(|body| PyBytes::new(py, body).unbind()),
            about: PyBytes::new(py, header).unbind(),
            era,
            offset,
            is_delta: command.is_delta,
            position_type: self.position_type.clone_ref(py),
        };
        self.write(py, number, Some(PyBytes::new(py, stored).unbind()));
        state.position = (era, offset, 0);
        state.last_change = state.position;
        state.time = log_time;
        state.live_records += i64::from(is_new);
        Ok(Outcome::Applied(change))
    }
}

fn size_of(py: Python<'_>, data: Option<&Py<PyBytes>>) -> usize {
    data.map_or(0, |data| data.as_bytes(py).len())
}

/// Return when a record is due, in ms of log time, or `NEVER`: `sowline.model.limits.Limits.due`.
fn due_time(command: &Command<'_>, time: i64, limits: &Limits) -> i64 {
    match command.expiration {
        Some(0.0) => NEVER,
        Some(seconds) => time + (seconds * 1000.0).round_ties_even() as i64,
        None if limits.expiration >= 0 => time + limits.expiration,
        None => NEVER,
    }
}

/// Write the content of the header `sow` to `out`, which is empty: `sowline.changes.change.Change.headers`.
fn about(
    record: &entry::Written<'_>,
    command: &Command<'_>,
    after: (u32, i64, u32),
    log_time: i64,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"position\":\"");
    push(record.offset, out);
    out.extend_from_slice(b"\",\"after\":\"");
    let (era, offset, nth) = after;
    if era != record.era {
        push(era, out);
        out.push(b'/');
    }
    push(offset, out);
    if nth != 0 {
        out.push(b'.');
        push(nth, out);
    }
    out.extend_from_slice(b"\",\"op\":\"");
    out.extend_from_slice(if command.is_delta {
        b"delta_publish"
    } else {
        b"publish"
    });
    out.extend_from_slice(b"\",\"time\":");
    push(record.time, out);
    if record.era != 0 {
        out.extend_from_slice(b",\"era\":");
        push(record.era, out);
    }
    if record.expires != NEVER {
        out.extend_from_slice(b",\"expires\":");
        push(record.expires, out);
    }
    if let Some(text) = record.correlation {
        out.extend_from_slice(b",\"correlation\":\"");
        out.extend_from_slice(text);
        out.push(b'"');
    }
    if !record.numbers.is_empty() {
        out.extend_from_slice(b",\"numbers\":");
        out.extend_from_slice(record.numbers);
    }
    if record.time != log_time {
        out.extend_from_slice(b",\"log_time\":");
        push(log_time, out);
    }
    out.push(b'}');
}

/// The headers of a log record: names, and values or None.
type Headers<'py> = Vec<(Bound<'py, PyString>, Option<Bound<'py, PyBytes>>)>;

/// Return the headers of a log record; None if they are anything but pairs of a text and bytes or None.
fn headers_of<'py>(
    py: Python<'py>,
    headers: Option<&Py<PyList>>,
) -> PyResult<Option<Headers<'py>>> {
    let Some(list) = headers.map(|headers| headers.bind(py)) else {
        return Ok(Some(Vec::new()));
    };
    let mut found = Vec::with_capacity(list.len());
    for pair in list {
        let Ok(pair) = pair.cast_into::<PyTuple>() else {
            return Ok(None);
        };
        let (Ok(name), value) = (pair.get_item(0)?.cast_into::<PyString>(), pair.get_item(1)?)
        else {
            return Ok(None);
        };
        let value = if value.is_none() {
            None
        } else {
            let Ok(value) = value.cast_into::<PyBytes>() else {
                return Ok(None);
            };
            Some(value)
        };
        found.push((name, value));
    }
    Ok(Some(found))
}
