//! What a batch of log records is applied with, and the state that moves through it: `sowline_materializer.core.batch_state`.

use std::collections::HashMap;

use pyo3::prelude::*;

use crate::command::{Command, CopyOf};
use crate::entry::NEVER;
use crate::format::Format;
use crate::position::Position;

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
    pub origins: HashMap<u64, u64>,
    /// How many changes are of delta publishes.
    pub deltas: usize,
    /// How many changes are deletes.
    pub deletes: usize,
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
    pub records_max: Option<i64>,
}

impl State {
    /// Whether a forwarded record is of this log, and behind all that came from its partition.
    pub fn is_new(&self, copy: &CopyOf<'_>) -> bool {
        let highest = self.origins.get(&copy.partition);
        copy.log_id == self.log_id.as_bytes() && highest.is_none_or(|seen| copy.offset > *seen)
    }
}

/// Return when a record is due, in ms of log time, or `NEVER`: `sowline.model.limits.Limits.due`.
pub fn due_time(command: &Command<'_>, time: i64, limits: &Limits) -> i64 {
    match command.expiration {
        Some(0.0) => NEVER,
        Some(seconds) => time + (seconds * 1000.0).round_ties_even() as i64,
        None => limits.expiration.map_or(NEVER, |lifetime| time + lifetime),
    }
}
