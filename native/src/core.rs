//! The records of a partition, and the plain commands of a batch applied to them: `materializer.core`.

use crc32fast::Hasher;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxHashMap;

use crate::change::Change;
use crate::command::{Command, command};
use crate::entry::{self, NEVER};
use crate::json::{Field, Kind, fields};
use crate::key::{DomainHash, domain_hash, partition_of, sow_key};
use crate::log_record::LogRecord;
use crate::merge::merge;
use crate::number::push;
use crate::numbers::{self, After};

/// About how much memory a record takes in addition to its bytes.
const SLOT_BYTES: usize = 250;

/// The longest key text, in bytes; Python reads or refuses longer ones.
const KEY_BYTES_MAX: usize = 1024;

/// The longest integer that is a key here, in characters: it is within 64 bits.
const INTEGER_BYTES_MAX: usize = 18;

/// Bytes by key, due times, and the checksum after them.
type Written<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>, (i64, u64));

/// A record as it is now, and what the last commit holds of it.
struct Slot {
    key: Py<PyBytes>,
    data: Option<Py<PyBytes>>,
    committed: Option<Committed>,
    is_dirty: bool,
}

/// What the checksum and the index of due times hold of a record.
#[derive(Clone, Copy)]
struct Committed {
    hash: u32,
    due: i64,
}

/// The state that moves from log record to log record; `sowline` keeps it in its `BatchState`.
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
/// `get` reads a record's bytes from the store. Records are kept in two halves of `cache_bytes_max` in all: when one is
/// full, the other is dropped.
#[pyclass(module = "sowline_native")]
pub struct Core {
    partition: u32,
    partitions: u32,
    domain: DomainHash,
    key_field: Vec<u8>,
    get: Py<PyAny>,
    position_type: Py<PyAny>,
    young: FxHashMap<Box<[u8]>, Slot>,
    old: FxHashMap<Box<[u8]>, Slot>,
    young_bytes: usize,
    dirty: Vec<Box<[u8]>>,
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
        get: Py<PyAny>,
        position_type: Py<PyAny>,
    ) -> Self {
        Core {
            partition,
            partitions,
            domain: domain_hash(domain),
            key_field: key_field.as_bytes().to_vec(),
            get,
            position_type,
            young: FxHashMap::default(),
            old: FxHashMap::default(),
            young_bytes: 0,
            dirty: Vec::new(),
            buffers: Buffers::default(),
        }
    }

    /// Forget the changes of a batch that is not committed.
    fn begin(&mut self) {
        for key in self.dirty.drain(..) {
            self.young.remove(&key);
        }
    }

    /// Apply log records from `start` on, up to the first that only Python can apply; return its index and the state.
    ///
    /// Changes are appended to `changes`, the offsets of repeated commands to `repeats`.
    #[expect(
        clippy::too_many_arguments,
        reason = "Python calls it once for a batch, with its state and outputs"
    )]
    fn apply<'py>(
        &mut self,
        py: Python<'py>,
        records: &Bound<'py, PyList>,
        start: usize,
        state: StateTuple,
        limits: LimitsTuple,
        changes: &Bound<'py, PyList>,
        repeats: &Bound<'py, PyList>,
    ) -> PyResult<(usize, StateTuple)> {
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
        let mut at = start;
        while at < records.len() {
            let record = records.get_item(at)?;
            match self.apply_one(py, &record, &mut state, &limits, &mut buffers)? {
                Outcome::Applied(change) => changes.append(Bound::new(py, change)?)?,
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
        ))
    }

    /// Return a record's bytes, or None.
    fn get<'py>(
        &mut self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let slot = self.slot(py, key.as_bytes())?;
        Ok(slot.data.as_ref().map(|data| data.bind(py).clone()))
    }

    /// Change a record that was read before; None removes it.
    fn put(&mut self, py: Python<'_>, key: &[u8], data: Option<Py<PyBytes>>) -> PyResult<()> {
        if !self.young.contains_key(key) {
            return Err(PyKeyError::new_err("a record is read before it is written"));
        }
        self.write(py, key, data);
        Ok(())
    }

    /// Return the records that the batch has changed, in order: their bytes, or None for a removed one.
    fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut keys: Vec<_> = self.dirty.iter().collect();
        keys.sort_unstable();
        let changed = PyList::empty(py);
        for key in keys {
            let slot = &self.young[key];
            changed.append((&slot.key, &slot.data))?;
        }
        Ok(changed)
    }

    /// Return the writes of the batch, and keep its records: bytes by key, due times, the checksum after them, and the
    /// bytes of all records. `checksum` is the store's number of entries and sum of hashes before.
    fn written<'py>(
        &mut self,
        py: Python<'py>,
        checksum: (i64, u64),
        cache_bytes_max: usize,
    ) -> PyResult<Written<'py>> {
        let (entries, expiries) = (PyDict::new(py), PyDict::new(py));
        let (mut count, mut total) = checksum;
        for key in self.dirty.drain(..) {
            let slot = self
                .young
                .get_mut(&key)
                .expect("a record that was changed is kept");
            let now = slot
                .data
                .as_ref()
                .map(|data| committed(&key, data.bind(py).as_bytes()));
            if let Some(before) = slot.committed {
                count -= 1;
                total = total.wrapping_sub(u64::from(before.hash));
            }
            if let Some(now) = now {
                count += 1;
                total = total.wrapping_add(u64::from(now.hash));
            }
            entries.set_item(&slot.key, &slot.data)?;
            let (was, is) = (
                slot.committed.map_or(NEVER, |it| it.due),
                now.map_or(NEVER, |it| it.due),
            );
            if was != is {
                for (due, is_there) in [(was, false), (is, true)] {
                    if due == NEVER {
                        continue;
                    }
                    let index = [&due.to_be_bytes(), &*key].concat();
                    let hash = expiry_hash(&index);
                    count += if is_there { 1 } else { -1 };
                    total = if is_there {
                        total.wrapping_add(hash)
                    } else {
                        total.wrapping_sub(hash)
                    };
                    expiries.set_item(PyBytes::new(py, &index), is_there)?;
                }
            }
            slot.committed = now;
            slot.is_dirty = false;
        }
        if self.young_bytes > cache_bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            if self.young_bytes > cache_bytes_max {
                self.old.clear();
            }
            self.young_bytes = 0;
        }
        Ok((entries, expiries, (count, total)))
    }
}

fn committed(key: &[u8], data: &[u8]) -> Committed {
    let mut hash = Hasher::new();
    hash.update(key);
    hash.update(data);
    Committed {
        hash: hash.finalize(),
        due: entry::due(data).unwrap_or(NEVER),
    }
}

fn expiry_hash(index: &[u8]) -> u64 {
    let mut hash = Hasher::new_with_initial(1);
    hash.update(index);
    u64::from(hash.finalize())
}

impl Core {
    /// Return the slot of a key; read the record if it is not here.
    fn slot<'a>(&'a mut self, py: Python<'_>, key: &[u8]) -> PyResult<&'a Slot> {
        if !self.young.contains_key(key) {
            let slot = match self.old.remove(key) {
                Some(slot) => slot,
                None => self.read(py, key)?,
            };
            self.young_bytes += SLOT_BYTES
                + slot
                    .data
                    .as_ref()
                    .map_or(0, |data| data.bind(py).as_bytes().len());
            self.young.insert(key.into(), slot);
        }
        Ok(&self.young[key])
    }

    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Slot> {
        let name = PyBytes::new(py, key);
        let data: Option<Bound<'_, PyBytes>> = self.get.bind(py).call1((&name,))?.extract()?;
        Ok(Slot {
            committed: data.as_ref().map(|data| committed(key, data.as_bytes())),
            data: data.map(Bound::unbind),
            key: name.unbind(),
            is_dirty: false,
        })
    }

    fn write(&mut self, py: Python<'_>, key: &[u8], data: Option<Py<PyBytes>>) {
        let size = |data: &Option<Py<PyBytes>>| {
            data.as_ref()
                .map_or(0, |data| data.bind(py).as_bytes().len())
        };
        let slot = self
            .young
            .get_mut(key)
            .expect("a record is read before it is written");
        self.young_bytes = (self.young_bytes + size(&data)).saturating_sub(size(&slot.data));
        slot.data = data;
        if !slot.is_dirty {
            slot.is_dirty = true;
            self.dirty.push(key.into());
        }
    }

    fn apply_one(
        &mut self,
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        state: &mut State,
        limits: &Limits,
        buffers: &mut Buffers,
    ) -> PyResult<Outcome> {
        // Another kind of log record has no fields that are read without Python.
        let Ok(record) = record.cast::<LogRecord>() else {
            return Ok(Outcome::Left);
        };
        let record = record.get();
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
        let Some(key_text) = fields(body, &mut given).and_then(|()| self.key_text(&given)) else {
            return Ok(Outcome::Left);
        };
        let mut digits = itoa::Buffer::new();
        let key = digits.format(sow_key(&self.domain, key_text)).as_bytes();
        let (partition, partitions) = (self.partition, self.partitions);
        let slot = self.slot(py, key)?;
        let data = slot.data.as_ref().map(|data| data.bind(py).clone());
        let sow_key = slot.key.clone_ref(py);
        let time = record_time.max(state.time);
        let held = match &data {
            Some(data) => match entry::read(data.as_bytes()) {
                Some(held) if held.key_text == key_text => Some(held),
                _ => return Ok(Outcome::Left),
            },
            None if partition_of(key_text, partitions) != partition => return Ok(Outcome::Left),
            None => None,
        };
        let since = limits.numbers_since.max(time - limits.repeat_window);
        let Buffers {
            body: merged,
            numbers,
            about: header,
            stored,
        } = buffers;
        numbers.clear();
        let known = held.as_ref().map_or(&b""[..], |held| held.numbers);
        match numbers::after(known, command.publisher, time, since, numbers) {
            None => return Ok(Outcome::Left),
            Some(After::Repeat) => {
                state.position = (state.position.0, offset, 0);
                state.time = time;
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
        about(&written, &command, state.last_change, header);
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
        self.write(py, key, Some(PyBytes::new(py, stored).unbind()));
        state.position = (era, offset, 0);
        state.last_change = state.position;
        state.time = time;
        state.live_records += i64::from(is_new);
        Ok(Outcome::Applied(change))
    }

    /// Return the key text in the fields of a body; None if only Python can find or refuse it.
    fn key_text<'a>(&self, given: &[Field<'a>]) -> Option<&'a [u8]> {
        let field = given.iter().find(|field| field.name == self.key_field)?;
        let text = match field.kind {
            Kind::Text => &field.value[1..field.value.len() - 1],
            Kind::Integer if field.value.len() <= INTEGER_BYTES_MAX && field.value != b"-0" => {
                field.value
            }
            Kind::Boolean => field.value,
            _ => return None,
        };
        (!text.is_empty() && text.len() <= KEY_BYTES_MAX).then_some(text)
    }
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

/// Write the content of the header `sow` to `out`, which is empty: `sowline.protocol.change.Change.headers`.
fn about(
    record: &entry::Written<'_>,
    command: &Command<'_>,
    after: (u32, i64, u32),
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
