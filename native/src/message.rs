//! A log record with a plain command: `sowline_materializer.core.applier`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::{Batch, Limits, Stop};
use crate::command::{Command, NamedHeaders, Operation, command};
use crate::format::{Format, Read};
use crate::log_record::{LOG_APPEND_TIME, LogRecord, TIME_MAX};
use crate::position::Position;

/// A log record, its command and its position in the log.
pub struct Message<'a> {
    pub record: &'a LogRecord,
    pub command: Command<'a>,
    /// The body as JSON; empty if there is none.
    pub body: &'a [u8],
    /// The position of its first change.
    pub at: Position,
    /// The time of its changes, in ms.
    pub time: i64,
    /// The log time after it, in ms.
    pub log_time: i64,
    /// The schema that it names.
    pub schema_id: Option<u64>,
    headers: &'a NamedHeaders<'a>,
}

impl<'a> Message<'a> {
    /// Read a log record, with its body in a format; `space` is for that.
    pub fn read(
        py: Python<'a>,
        record: &'a LogRecord,
        headers: &'a NamedHeaders<'a>,
        batch: &Batch,
        format: Option<&Format>,
        space: &'a mut Vec<u8>,
    ) -> Result<Self, Stop> {
        let given = record.body(py);
        let command = command_of(record, headers, given, batch).ok_or(Stop::Left)?;
        let read = Format::read(format, py, command.operation, given, space)?;
        let Read { body, schema_id } = read.ok_or(Stop::Left)?;
        if body.len() > batch.limits.record_bytes_max || std::str::from_utf8(body).is_err() {
            return Err(Stop::Left);
        }
        // A publish needs a body, and an expire has none.
        let is_valid = match command.operation {
            Operation::Publish | Operation::DeltaPublish | Operation::Delta => !body.is_empty(),
            Operation::Delete => true,
            Operation::Expire => body.is_empty(),
            // Python reads these: `ViewFold`.
            Operation::Partials => false,
        };
        if !is_valid {
            return Err(Stop::Left);
        }
        // A producer's time is that of its record only: `BatchState.begin`.
        let state = &batch.state;
        let time = record.time.max(state.log_time);
        Ok(Message {
            record,
            command,
            body,
            at: Position::of_record(state.position.era, record.offset),
            time,
            log_time: if record.time_type == LOG_APPEND_TIME {
                time
            } else {
                state.log_time
            },
            schema_id,
            headers,
        })
    }

    /// Whether it may be forwarded. Python refuses what was forwarded here, and what is too large.
    pub fn may_be_forwarded(&self, py: Python<'_>, limits: &Limits) -> bool {
        let is_new = self.command.origin.is_none();
        is_new && self.record.size(py, self.headers) <= limits.forwarded_bytes_max
    }

    /// Return the text of its delta of a document.
    pub fn delta_text(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        let text = self.record.value.as_ref()?;
        (self.command.operation == Operation::Delta).then(|| text.clone_ref(py))
    }

    /// Return a body as Python's bytes: those of the log record, if the body is in them.
    pub fn share(&self, py: Python<'_>, body: &[u8]) -> Py<PyBytes> {
        match &self.record.value {
            Some(value) if std::ptr::eq(body, value.as_bytes(py)) => value.clone_ref(py),
            _ => PyBytes::new(py, body).unbind(),
        }
    }
}

/// Return the command of a log record; None if only Python can read or refuse it.
fn command_of<'a>(
    record: &LogRecord,
    headers: &NamedHeaders<'a>,
    given: &[u8],
    batch: &Batch,
) -> Option<Command<'a>> {
    let Batch { state, limits, .. } = batch;
    // Python continues within a log record of which the state holds the first changes.
    if given.len() > limits.record_bytes_max || record.offset == state.position.offset {
        return None;
    }
    // Python refuses such a time.
    if !(0..=TIME_MAX).contains(&record.time) {
        return None;
    }
    let mut command = command(headers)?;
    // Python drops a copy of another log, and one that was applied before.
    if command.origin.is_some_and(|copy| !state.is_new(&copy)) {
        return None;
    }
    // Python refuses a delta without a text.
    let has_no_body = matches!(command.operation, Operation::Delta | Operation::Expire);
    if record.value.is_none() && !has_no_body {
        command.operation = Operation::Delete;
    }
    Some(command)
}
