//! The plain commands of a batch, applied to the records of a partition: `sowline_materializer.core`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::batch::{Applied, Limits, State, Topic, due_time};
use crate::change::{About, Change};
use crate::command::{Operation, command};
use crate::difference::Difference;
use crate::enrichment::{Enriched, Message};
use crate::entry::{self, NEVER};
use crate::format::Format;
use crate::json::fields;
use crate::key::{KeyRule, partition_of};
use crate::log_record::{LOG_APPEND_TIME, LogRecord, LogRecords, TIME_MAX, headers_of};
use crate::numbers::{self, After};
use crate::position::Position;
use crate::records::{Records, Written};

/// Space that is used for one record after the other.
#[derive(Default)]
struct Buffers {
    body: Vec<u8>,
    numbers: Vec<u8>,
    about: Vec<u8>,
    stored: Vec<u8>,
    difference: Difference,
    enriched: Vec<u8>,
    read: Vec<u8>,
}

/// What became of a log record.
enum Outcome {
    Applied {
        change: Change,
        /// Whether a deleted record is kept for its publishers' numbers.
        is_tombstone: bool,
    },
    Repeat,
    /// Another partition owns it: this one.
    Forwarded(u32),
    /// Nothing was touched: Python applies it.
    Left,
}

/// Applies the plain commands of one partition to its `Records`.
#[pyclass(module = "sowline_native")]
pub struct Core {
    partition: u32,
    partitions: u32,
    position_type: Py<PyAny>,
    records: Records,
    /// The paths of the key fields, if changes carry deltas.
    delta_keys: Option<Vec<Vec<String>>>,
    computed: Option<Py<PyAny>>,
    buffers: Buffers,
}

#[pymethods]
impl Core {
    #[new]
    fn new(topic: Topic, partition: u32, get_many: Py<PyAny>, position_type: Py<PyAny>) -> Self {
        Core {
            partition,
            partitions: topic.partitions,
            position_type,
            delta_keys: topic.has_deltas.then(|| topic.key_paths.clone()),
            records: Records::new(
                KeyRule::new(topic.key_paths, &topic.domain),
                topic.format,
                get_many,
            ),
            computed: topic.computed,
            buffers: Buffers::default(),
        }
    }

    /// Forget the changes of a batch that is not committed.
    fn begin(&mut self, py: Python<'_>) {
        self.records.begin(py);
    }

    /// Apply log records from `start` on, up to the first that only Python can apply; return the state after
    /// them.
    ///
    /// Changes are appended to `changes`, and to `tombstones` the log time and the SOW key of each deleted record that is
    /// kept. To `others` are appended the indices of log records without a change, each with the partition that it is
    /// forwarded to; None for a repeated command.
    #[expect(
        clippy::too_many_arguments,
        reason = "Python calls it once for a batch, with its state and outputs"
    )]
    fn apply<'py>(
        &mut self,
        py: Python<'py>,
        records: &LogRecords,
        start: usize,
        mut state: State,
        limits: Limits,
        changes: &Bound<'py, PyList>,
        tombstones: &Bound<'py, PyList>,
        others: &Bound<'py, PyList>,
    ) -> PyResult<Applied> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let (mut at, mut deltas, mut deletes) = (start, 0, 0);
        while at < records.records.len() {
            match self.apply_one(
                py,
                &records.records[at..],
                &mut state,
                &limits,
                &mut buffers,
            )? {
                Outcome::Applied {
                    change,
                    is_tombstone,
                } => {
                    deltas += usize::from(change.operation == Operation::DeltaPublish);
                    deletes += usize::from(change.operation == Operation::Delete);
                    if is_tombstone {
                        tombstones.append((state.log_time, &change.sow_key))?;
                    }
                    changes.append(Bound::new(py, change)?)?;
                }
                Outcome::Repeat => others.append((at, None::<u32>))?,
                Outcome::Forwarded(owner) => others.append((at, Some(owner)))?,
                Outcome::Left => break,
            }
            at += 1;
        }
        self.buffers = buffers;
        Ok(Applied {
            end: at,
            position: state.position,
            last_change: state.last_change,
            log_time: state.log_time,
            live_records: state.live_records,
            origins: state.origins,
            deltas,
            deletes,
        })
    }

    /// Return a record's bytes, or None.
    fn get<'py>(
        &mut self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.records.get(py, key)
    }

    /// Change a record that was read before; None removes it.
    fn put(&mut self, py: Python<'_>, key: &[u8], data: Option<Py<PyBytes>>) -> PyResult<()> {
        self.records.put(py, key, data)
    }

    /// Return the records that the batch has changed, in order: their bytes, or None for a removed one.
    fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.records.changed(py)
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
        self.records.written(py, checksum, cache_bytes_max)
    }
}

impl Core {
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
        let Some(headers) = headers_of(py, record.headers.as_ref())? else {
            return Ok(Outcome::Left);
        };
        let given_body = record.body(py);
        // Python continues within a log record of which the state holds the first changes.
        if given_body.len() > limits.record_bytes_max || offset == state.position.offset {
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
        // Python drops a copy of another log, and one that was applied before.
        if command.origin.is_some_and(|copy| !state.is_new(&copy)) {
            return Ok(Outcome::Left);
        }
        let operation = match record.value {
            Some(_) => command.operation,
            None => Operation::Delete,
        };
        let format = self.records.format.as_ref();
        let Some(message) = Format::read(format, py, operation, given_body, &mut buffers.read)?
        else {
            return Ok(Outcome::Left);
        };
        let given_body = message.body;
        if given_body.len() > limits.record_bytes_max || std::str::from_utf8(given_body).is_err() {
            return Ok(Outcome::Left);
        }
        // A publish needs a body.
        if given_body.is_empty() && operation != Operation::Delete {
            return Ok(Outcome::Left);
        }
        let mut given = Vec::with_capacity(16);
        let Some((key_text, key)) =
            self.records
                .key_of(given_body, record.kafka_key(py), &mut given)
        else {
            return Ok(Outcome::Left);
        };
        let key_text = &*key_text;
        let mut digits = itoa::Buffer::new();
        let (partition, partitions) = (self.partition, self.partitions);
        let number = match self.records.slot(py, key.bytes(&mut digits)) {
            Some(number) => number,
            None => self.records.read(py, key, next)?,
        };
        let slot = self.records.at(number);
        let data = slot.data.as_ref().map(|data| data.bind(py).clone());
        let sow_key = slot.key.clone_ref(py);
        // A producer's time is that of its record only: `BatchState.begin`.
        let time = record_time.max(state.log_time);
        let log_time = if record.time_type == LOG_APPEND_TIME {
            time
        } else {
            state.log_time
        };
        let held = match &data {
            Some(data) => match entry::read(data.as_bytes()) {
                Some(held) if held.key_text == key_text => Some(held),
                _ => return Ok(Outcome::Left),
            },
            None => None,
        };
        let owner = match held {
            Some(_) => partition,
            None => partition_of(key_text, partitions),
        };
        if owner != partition {
            // Python refuses what was forwarded here.
            if command.origin.is_some() || record.size(py, &named) > limits.forwarded_bytes_max {
                return Ok(Outcome::Left);
            }
            state.position = Position::of_record(state.position.era, offset);
            state.log_time = log_time;
            return Ok(Outcome::Forwarded(owner));
        }
        let since = limits.numbers_since.max(log_time - limits.repeat_window);
        let Buffers {
            body: merged,
            numbers,
            about: header,
            stored,
            difference,
            enriched,
            ..
        } = buffers;
        numbers.clear();
        let known = held.as_ref().map_or(&b""[..], |held| held.numbers);
        match numbers::after(known, command.publisher, log_time, since, numbers) {
            None => return Ok(Outcome::Left),
            // Python reports the origin of a copy that changes nothing.
            Some(After::Repeat) if command.origin.is_some() => return Ok(Outcome::Left),
            Some(After::Repeat) => {
                state.position = Position::of_record(state.position.era, offset);
                state.log_time = log_time;
                return Ok(Outcome::Repeat);
            }
            Some(After::Written) => {}
        }
        let previous = held.as_ref().and_then(|held| held.body);
        let computed = self
            .computed
            .as_ref()
            .filter(|_| operation != Operation::Delete);
        let mut enriched_fields = Vec::new();
        let (new_body, new_fields) = match computed {
            None => (given_body, &given),
            Some(computed) => {
                let about = Message {
                    body: record.value.as_ref(),
                    sow_key: &sow_key,
                    era: state.position.era,
                    offset,
                    correlation: command.correlation,
                    time,
                    held: previous.and(data.as_ref()).map(|data| data.as_bytes()),
                    previous,
                };
                match about.enrich(py, computed, limits.record_bytes_max, enriched)? {
                    Enriched::No => (given_body, &given),
                    Enriched::Yes if fields(enriched, &mut enriched_fields).is_some() => {
                        (&enriched[..], &enriched_fields)
                    }
                    _ => return Ok(Outcome::Left),
                }
            }
        };
        let is_full = |most| state.live_records >= most;
        let body = match (operation, previous) {
            (Operation::Delete, Some(_)) => None,
            (Operation::Delete, None) => return Ok(Outcome::Left),
            (_, None) if limits.records_max.is_some_and(is_full) => return Ok(Outcome::Left),
            (Operation::DeltaPublish, Some(previous)) => {
                merged.clear();
                // The store holds what was valid once; a text is checked, not trusted.
                if std::str::from_utf8(previous).is_err()
                    || Format::merge(
                        self.records.format.as_ref(),
                        previous,
                        new_body,
                        new_fields,
                        merged,
                    )
                    .is_none()
                    || merged.len() > limits.record_bytes_max
                {
                    return Ok(Outcome::Left);
                }
                Some(&merged[..])
            }
            _ => Some(new_body),
        };
        let keys = match (previous, body) {
            (Some(_), Some(_)) => self.delta_keys.as_ref(),
            _ => None,
        };
        difference.clear();
        if let (Some(keys), Some(previous), Some(body)) = (keys, previous, body)
            && difference.find(previous, body, keys).is_none()
        {
            return Ok(Outcome::Left);
        }
        let era = state.position.era;
        let expires = body.map_or(NEVER, |_| due_time(&command, time, limits));
        header.clear();
        About {
            operation,
            era,
            offset,
            after: state.last_change,
            time,
            log_time,
            expires,
            correlation: command.correlation,
            numbers,
            schema_id: message.schema_id,
            origin: command.origin,
            removed: &difference.removed,
        }
        .write(header);
        stored.clear();
        // A deleted record is kept for its publishers' numbers only: `RecordWriter.remove`.
        let is_tombstone = body.is_none() && !numbers.is_empty();
        if body.is_some() || is_tombstone {
            let written = entry::Written {
                era,
                offset,
                time: if is_tombstone { log_time } else { time },
                expires,
                key_text,
                numbers,
                correlation: body.and(command.correlation),
                schema_id: message.schema_id,
                body,
            };
            entry::write(&written, stored);
        }
        let change = Change {
            sow_key,
            body: body.map(|body| match &record.value {
                Some(value) if std::ptr::eq(body, value.as_bytes(py)) => value.clone_ref(py),
                _ => PyBytes::new(py, body).unbind(),
            }),
            previous: previous.map(|body| PyBytes::new(py, body).unbind()),
            about: PyBytes::new(py, header).unbind(),
            delta: keys.map(|_| PyBytes::new(py, &difference.body).unbind()),
            era,
            offset,
            operation,
            position_type: self.position_type.clone_ref(py),
        };
        let data = (!stored.is_empty()).then(|| PyBytes::new(py, stored).unbind());
        self.records.write(py, number, data);
        state.position = Position::of_record(era, offset);
        state.last_change = state.position;
        state.log_time = log_time;
        if let Some(copy) = command.origin {
            state.origins.insert(copy.partition, copy.offset);
        }
        state.live_records += i64::from(body.is_some()) - i64::from(previous.is_some());
        Ok(Outcome::Applied {
            change,
            is_tombstone,
        })
    }
}
