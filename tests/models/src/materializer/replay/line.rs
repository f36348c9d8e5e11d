//! The events of a trace.

use serde::Deserialize;

use crate::trace::At;

/// An event of a trace.
#[derive(Deserialize, Clone, Debug)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// A record was written to the log; it makes these changes.
    Log {
        partition: u16,
        offset: usize,
        effects: Vec<(String, bool)>,
    },
    /// A change was written to the changes topic, by a worker that lives, or late.
    Change {
        partition: u16,
        offset: usize,
        by: String,
        key: String,
        live: bool,
        position: At,
        after: At,
        last: bool,
        again: bool,
        written_in: u8,
    },
    Progress {
        partition: u16,
        offset: usize,
        by: String,
        position: At,
        after: At,
    },
    /// A worker has asked for the end of the changes.
    Ask {
        partition: u16,
        by: String,
        end: usize,
    },
    /// A worker opens its store, or makes a new one.
    Open {
        partition: u16,
        by: String,
        create: bool,
    },
    Close {
        partition: u16,
        by: String,
    },
    /// A commit has reached the disk.
    Commit {
        partition: u16,
        by: String,
        position: At,
        last_change: At,
        complete: bool,
        changes_end: usize,
        stale: Vec<String>,
    },
    /// A power cut has taken the last commits from a disk.
    Restore {
        partition: u16,
        by: String,
        position: At,
        changes_end: usize,
    },
    Wipe {
        by: String,
    },
    Crash {
        by: String,
    },
}

impl Line {
    pub(super) fn partition(&self) -> u16 {
        match self {
            Self::Log { partition, .. }
            | Self::Change { partition, .. }
            | Self::Progress { partition, .. }
            | Self::Ask { partition, .. }
            | Self::Open { partition, .. }
            | Self::Close { partition, .. }
            | Self::Commit { partition, .. }
            | Self::Restore { partition, .. } => *partition,
            Self::Wipe { .. } | Self::Crash { .. } => unreachable!("it concerns all partitions"),
        }
    }
}
