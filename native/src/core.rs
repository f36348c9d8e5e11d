//! The plain commands of a batch, applied to the records of a partition: `sowline_materializer.core`.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::batch::{Applied, Batch, Limits, State, Stop, Topic, due_time, is_due};
use crate::bodies::{Bodies, Rules};
use crate::change::Change;
use crate::command::{OPERATIONS, Operation};
use crate::difference::Difference;
use crate::documents::{Documents, Given, Space};
use crate::entry::{self, NEVER};
use crate::json::Field;
use crate::key::{KeyRule, partition_of};
use crate::log_record::{LogRecord, LogRecords, headers_of};
use crate::made::{Record, change, write_about, write_stored};
use crate::message::Message;
use crate::numbers::{self, After};
use crate::partials;
use crate::records::{Records, Written};
use crate::target::Target;

/// Space that is used for one record after the other.
#[derive(Default)]
struct Buffers {
    bodies: Bodies,
    document: Space,
    numbers: Vec<u8>,
    about: Vec<u8>,
    stored: Vec<u8>,
    difference: Difference,
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
    view: Option<partials::View>,
    /// The groups that the present message of a view has merged, and not written yet.
    merged: Vec<partials::Merged>,
    /// Applies the writes of a topic that keeps documents.
    documents: Option<Documents>,
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
            documents: topic
                .template
                .map(|template| Documents::new(partition, topic.key_paths.clone(), template)),
            delta_keys: topic.has_deltas.then(|| topic.key_paths.clone()),
            records: Records::new(
                KeyRule::new(topic.key_paths, &topic.domain),
                topic.format,
                get_many,
            ),
            computed: topic.computed,
            view: topic.view,
            merged: Vec::new(),
            buffers: Buffers::default(),
        }
    }

    /// Merge partial states, a JSON array, into the groups of a view; return how many groups `write_states` will write.
    ///
    /// Returns None if only Python can merge them.
    fn merge_states(
        &mut self,
        py: Python<'_>,
        states: &[u8],
        given: partials::Given,
    ) -> PyResult<Option<usize>> {
        self.merged.clear();
        let Some(view) = &self.view else {
            return Ok(None);
        };
        let merged = view.merge(py, states, &given, &mut self.records)?;
        Ok(merged.map(|merged| {
            self.merged = merged;
            self.merged.len()
        }))
    }

    /// Write the groups that were merged, and append their changes to `changes`; return how many more are live.
    fn write_states<'py>(
        &mut self,
        py: Python<'py>,
        state: partials::State,
        reflection: partials::Reflection,
        changes: &Bound<'py, PyList>,
    ) -> PyResult<i64> {
        let (merged, types) = (std::mem::take(&mut self.merged), &self.position_type);
        partials::write(
            py,
            &state,
            merged,
            &reflection,
            &mut self.records,
            types,
            changes,
        )
    }

    /// Forget the changes of a batch that is not committed.
    fn begin(&mut self) {
        self.merged.clear();
        self.records.begin();
    }

    /// Apply log records from `start` on, up to the first that only Python can apply; return the state after
    /// them.
    ///
    /// Changes are appended to `changes`, and to `tombstones` the log time and the SOW key of each deleted record that is
    /// kept. To `others` are appended the indices of log records without a change, each with the partition that it is
    /// forwarded to; None for a repeated command. To `noted` are appended the indices of log records at which Python
    /// looks again: of expiries, and with a trace context.
    #[expect(
        clippy::too_many_arguments,
        reason = "Python calls it once for a batch, with its state and outputs"
    )]
    fn apply<'py>(
        &mut self,
        py: Python<'py>,
        records: &LogRecords,
        start: usize,
        state: State,
        limits: Limits,
        changes: &Bound<'py, PyList>,
        tombstones: &Bound<'py, PyList>,
        others: &Bound<'py, PyList>,
        noted: &Bound<'py, PyList>,
    ) -> PyResult<Applied> {
        let mut batch = Batch {
            state,
            limits,
            is_noted: false,
            origins: Vec::new(),
        };
        let (mut at, mut commands) = (start, [0; OPERATIONS.len()]);
        while at < records.records.len() {
            let mut read = std::mem::take(&mut self.buffers.read);
            let outcome = self.apply_one(py, &records.records[at..], &mut batch, &mut read);
            self.buffers.read = read;
            match outcome {
                Ok(Outcome::Applied {
                    change,
                    is_tombstone,
                }) => {
                    commands[change.operation as usize] += 1;
                    if is_tombstone {
                        tombstones.append((batch.state.log_time, &change.sow_key))?;
                    }
                    changes.append(Bound::new(py, change)?)?;
                }
                Ok(Outcome::Repeat) => others.append((at, None::<u32>))?,
                Ok(Outcome::Forwarded(owner)) => others.append((at, Some(owner)))?,
                Err(Stop::Left) => break,
                Err(Stop::Failed(error)) => return Err(error),
            }
            if batch.is_noted {
                noted.append(at)?;
            }
            at += 1;
        }
        let state = batch.state;
        Ok(Applied {
            end: at,
            position: state.position,
            last_change: state.last_change,
            log_time: state.log_time,
            live_records: state.live_records,
            origins: batch.origins,
            commands: OPERATIONS
                .map(Operation::name)
                .into_iter()
                .zip(commands)
                .collect(),
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
    fn put(&mut self, key: &[u8], data: Option<Py<PyBytes>>) -> PyResult<()> {
        self.records.put(key, data)
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
        batch: &mut Batch,
        read: &mut Vec<u8>,
    ) -> Result<Outcome, Stop> {
        let (record, next) = records.split_first().expect("there is one to apply");
        let headers = headers_of(py, record.headers.as_ref())?.ok_or(Stop::Left)?;
        let mut named = Vec::with_capacity(headers.len());
        for (name, value) in &headers {
            let name = name.to_str().map_err(|_| Stop::Left)?;
            named.push((name, value.as_ref().map(|value| value.as_bytes())));
        }
        let format = self.records.format.as_ref();
        let message = Message::read(py, record, &named, batch, format, read)?;
        let is_expiry = message.command.operation == Operation::Expire;
        batch.is_noted = is_expiry || message.command.has_trace;
        let given = self.given(&message)?;
        let keyed = match &given {
            None => message.body,
            Some(given) => given.keyed_body(&message),
        };
        let mut fields = Vec::with_capacity(16);
        let (key_text, key) = self
            .records
            .key_of(keyed, record.kafka_key(py), &mut fields)
            .ok_or(Stop::Left)?;
        let key_texts = match &self.documents {
            None => Vec::new(),
            Some(documents) => documents.key_texts(&key_text).ok_or(Stop::Left)?,
        };
        let mut digits = itoa::Buffer::new();
        let slot = match self.records.slot(key) {
            Some(slot) => slot,
            None => self.records.read(py, key, next)?,
        };
        let data = self.records.data(py, slot).map(Cow::into_owned);
        let entry = data.as_ref().map(|data| entry::read(data));
        let target = Target {
            slot,
            sow_key: PyBytes::new(py, key.bytes(&mut digits)).unbind(),
            key_text: &key_text,
            key_texts,
            // Another key text may have the same SOW key.
            entry: match entry {
                None => None,
                Some(Some(entry))
                    if entry.key_text == &*key_text
                        && entry.writes.is_empty() == self.documents.is_none() =>
                {
                    Some(entry)
                }
                _ => return Err(Stop::Left),
            },
        };
        if is_expiry {
            let is_due = |entry| is_due(entry, &message, &batch.limits);
            if !target.entry.as_ref().is_some_and(is_due) {
                return Err(Stop::Left);
            }
        } else if target.entry.is_none() {
            let owner = partition_of(&key_text, self.partitions);
            if owner != self.partition {
                if !message.may_be_forwarded(py, &batch.limits) {
                    return Err(Stop::Left);
                }
                batch.state.pass(&message);
                return Ok(Outcome::Forwarded(owner));
            }
        }
        self.apply_to(py, &message, &fields, given.as_ref(), &target, batch)
    }

    /// Return what a message writes to a document, if the topic keeps documents.
    fn given<'a>(&self, message: &Message<'a>) -> Result<Option<Given<'a>>, Stop> {
        match &self.documents {
            None if message.command.is_of_document() => Err(Stop::Left),
            None => Ok(None),
            Some(documents) => documents.given(message).ok_or(Stop::Left).map(Some),
        }
    }

    /// Apply a message to the record that it is for, which this partition owns; `fields` are those of its body.
    fn apply_to(
        &mut self,
        py: Python<'_>,
        message: &Message<'_>,
        fields: &[Field<'_>],
        given: Option<&Given<'_>>,
        target: &Target<'_>,
        batch: &mut Batch,
    ) -> Result<Outcome, Stop> {
        let Buffers {
            bodies,
            document,
            numbers,
            about,
            stored,
            difference,
            ..
        } = &mut self.buffers;
        if let After::Repeat = numbers_after(message, target, &batch.limits, numbers)? {
            batch.state.pass(message);
            return Ok(Outcome::Repeat);
        }
        let previous = target.previous();
        let is_update = !message.command.operation.removes();
        if previous.is_none() && (!is_update || batch.is_full()) {
            return Err(Stop::Left);
        }
        let most = batch.limits.record_bytes_max;
        let folded = match (&self.documents, given) {
            (Some(documents), Some(given)) => documents
                .fold(message, given, fields, target, most, document)
                .ok_or(Stop::Left)
                .map(Some)?,
            _ => None,
        };
        let body = match &folded {
            Some(folded) => folded.body,
            None if is_update => {
                let rules = Rules {
                    computed: self.computed.as_ref(),
                    format: self.records.format.as_ref(),
                    bytes_max: most,
                };
                Some(bodies.after(py, &rules, message, fields, target)?)
            }
            None => None,
        };
        let keys = self.delta_keys.as_ref();
        let delta = delta_after(py, keys, previous, body, difference)?;
        let after = Record {
            body,
            expires: body.map_or(NEVER, |_| {
                due_time(&message.command, message.time, &batch.limits)
            }),
            numbers,
            document: folded.as_ref(),
        };
        let (key_text, last) = (target.key_text, batch.state.last_change);
        write_about(message, &after, key_text, last, &difference.removed, about);
        write_stored(message, &after, key_text, stored);
        let position_type = self.position_type.clone_ref(py);
        let change = change(py, message, target, &after, about, delta, position_type);
        let data = (!stored.is_empty()).then(|| PyBytes::new(py, stored).unbind());
        let is_tombstone = body.is_none() && data.is_some() && folded.is_none();
        self.records.write(target.slot, data);
        let added = i64::from(body.is_some()) - i64::from(previous.is_some());
        batch.add_change(message, added);
        Ok(Outcome::Applied {
            change,
            is_tombstone,
        })
    }
}

/// Write the publishers' numbers after a message to `out`.
fn numbers_after(
    message: &Message<'_>,
    target: &Target<'_>,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<After, Stop> {
    out.clear();
    let since = (message.log_time - limits.repeat_window).max(limits.numbers_since);
    let publisher = message.command.publisher;
    match numbers::after(target.numbers(), publisher, message.log_time, since, out) {
        // Python reports the origin of a copy that changes nothing.
        Some(After::Repeat) if message.command.origin.is_some() => Err(Stop::Left),
        after => after.ok_or(Stop::Left),
    }
}

/// Return what an update changes, if the topic's changes carry deltas and so have `keys`.
fn delta_after(
    py: Python<'_>,
    keys: Option<&Vec<Vec<String>>>,
    previous: Option<&[u8]>,
    body: Option<&[u8]>,
    difference: &mut Difference,
) -> Result<Option<Py<PyBytes>>, Stop> {
    difference.clear();
    let (Some(keys), Some(previous), Some(body)) = (keys, previous, body) else {
        return Ok(None);
    };
    difference.find(previous, body, keys).ok_or(Stop::Left)?;
    Ok(Some(PyBytes::new(py, &difference.body).unbind()))
}
