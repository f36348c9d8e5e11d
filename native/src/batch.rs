//! What a batch of log records is applied with, and the state that moves through it: `sowline_materializer.core.batch_state`.

use std::collections::HashMap;

use pyo3::prelude::*;

use crate::command::{Command, CopyOf};
use crate::entry::{Entry, NEVER};
use crate::format::Format;
use crate::log_record::TIME_MAX;
use crate::message::Message;
use crate::partials::View;
use crate::position::Position;

/// Why no further log record is applied.
pub enum Stop {
    /// Nothing was touched: Python applies the record.
    Left,
    Failed(PyErr),
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Self {
        Stop::Failed(error)
    }
}

/// The state that moves from log record to log record, as `sowline` has it in its `BatchState`.
#[derive(FromPyObject)]
pub struct State {
    pub position: Position,
    pub last_change: Position,
    pub log_time: i64,
    pub live_records: i64,
    pub log_id: String,
    /// By partition, the highest offset of a forwarded record that was applied.
    pub origins: HashMap<u64, u64>,
}

/// The state behind the log records that were applied.
#[pyclass(frozen, get_all, module = "sowline_native")]
pub struct Applied {
    /// The index of the first log record that was left.
    pub end: usize,
    pub position: Position,
    pub last_change: Position,
    pub log_time: i64,
    pub live_records: i64,
    /// The origins of forwarded records that were applied, in order: partition and offset.
    pub origins: Vec<(u64, u64)>,
    /// How many changes there are of each command.
    pub commands: HashMap<&'static str, usize>,
}

/// What the core needs to know of a topic.
#[derive(FromPyObject)]
pub struct Topic {
    pub partitions: u32,
    pub domain: Vec<u8>,
    pub key_paths: Vec<Vec<String>>,
    /// Whether changes carry deltas.
    pub has_deltas: bool,
    /// Computes the fields of its enrichment, if it has one: `sowline_materializer.core.enricher`.
    pub computed: Option<Py<PyAny>>,
    /// Reads its messages; None for JSON.
    pub format: Option<Format>,
    /// How its groups are merged, if it is a view.
    pub view: Option<View>,
    /// If it keeps documents, their template as JSON.
    pub template: Option<Vec<u8>>,
}

/// The limits of a partition; None for none.
#[derive(FromPyObject)]
pub struct Limits {
    pub record_bytes_max: usize,
    /// The largest log record that can be forwarded, with its key and headers.
    pub forwarded_bytes_max: usize,
    pub repeat_window: i64,
    pub numbers_since: i64,
    pub expiration: Option<i64>,
    pub may_expire: bool,
    pub records_max: Option<i64>,
}

/// What all log records of a batch share.
pub struct Batch {
    pub state: State,
    pub limits: Limits,
    /// Whether Python looks at the current log record again.
    pub is_noted: bool,
    /// The origins of the forwarded records that were applied. A checkpoint lists them in the order in which their
    /// partitions came first, which a table does not keep.
    pub origins: Vec<(u64, u64)>,
}

impl Batch {
    /// Whether the partition may have no more records.
    pub fn is_full(&self) -> bool {
        let records = self.state.live_records;
        self.limits.records_max.is_some_and(|most| records >= most)
    }

    /// Go behind a log record with a change; `added` is how many records there are more.
    pub fn add_change(&mut self, message: &Message<'_>, added: i64) {
        let state = &mut self.state;
        state.pass(message);
        state.last_change = state.position;
        state.live_records += added;
        if let Some(copy) = message.command.origin {
            state.origins.insert(copy.partition, copy.offset);
            self.origins.push((copy.partition, copy.offset));
        }
    }
}

impl State {
    /// Whether a forwarded record is of this log, and behind all that came from its partition.
    pub fn is_new(&self, copy: &CopyOf<'_>) -> bool {
        let highest = self.origins.get(&copy.partition);
        copy.log_id == self.log_id.as_bytes() && highest.is_none_or(|seen| copy.offset > *seen)
    }

    /// Go behind a log record without a change.
    pub fn pass(&mut self, message: &Message<'_>) {
        self.position = message.at;
        self.log_time = message.log_time;
    }
}

/// Whether an `expire` removes a record: `sowline_materializer.core.deletes.Deletes`.
pub fn is_due(entry: &Entry<'_>, message: &Message<'_>, limits: &Limits) -> bool {
    let is_unchanged = entry.body.is_some() && message.command.guard == Some(entry.position);
    let is_reached = entry.due != NEVER && (entry.due <= message.time || entry.due > TIME_MAX);
    is_unchanged && is_reached && limits.may_expire
}

/// Return when a record is due, in ms of log time, or `NEVER`: `sowline.model.limits.Limits.due`.
pub fn due_time(command: &Command<'_>, time: i64, limits: &Limits) -> i64 {
    match command.expiration {
        Some(0.0) => NEVER,
        Some(seconds) => time + (seconds * 1000.0).round_ties_even() as i64,
        None => limits.expiration.map_or(NEVER, |lifetime| time + lifetime),
    }
}
