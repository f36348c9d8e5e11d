//! A trace of query services, gateways and clients. Each model replays it for one client and partition at a time, or
//! for all clients of a stream, because the positions of other partitions change nothing in theirs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::position::{Key, Position};
use crate::trace::{At, at};

/// A position for each partition.
pub type Positions = Vec<(u16, At)>;

/// An event of a trace.
#[derive(Deserialize, Clone, Debug)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// A change was written to the changes topic. Afterwards the record matches what some clients ask for; a message
    /// is due to others, too: those that the record leaves.
    Change {
        partition: u16,
        position: At,
        key: String,
        body: String,
        matches: Vec<String>,
        due: Vec<String>,
    },
    /// A query service has applied everything up to a position.
    Apply {
        partition: u16,
        by: String,
        position: At,
    },
    /// A query service starts.
    Start { by: String },
    /// A query service has loaded a partition.
    Loaded {
        partition: u16,
        by: String,
        position: At,
    },
    /// A query service looks which subscriptions are quiet.
    Look { by: String },
    /// A client asks for everything after a bookmark, or for a snapshot.
    Subscribe {
        by: String,
        to: String,
        bookmark: Option<Positions>,
    },
    /// A request was refused for now.
    Refuse { by: String },
    /// A client has received a message.
    Receive { by: String, message: SentMessage },
    /// A program has read a message.
    Read { by: String, message: SentMessage },
    /// What the bookmark of a program is, after it has read.
    Stand { by: String, bookmark: Positions },
    /// A program writes down what it has.
    Save { by: String },
    /// The connection of a client ends.
    Disconnect { by: String },
    /// A program begins again with what it has written down.
    Restart { by: String },
    /// A gateway ends.
    Stop { by: String },
    /// A stream follows a node from a bookmark on.
    Follow {
        stream: usize,
        to: String,
        bookmark: Positions,
    },
    /// A stream has passed a message on to its members.
    Pass { stream: usize, message: SentMessage },
    /// A stream ends.
    End { stream: usize },
    /// A client's messages wait in a stream from now on.
    Join { by: String, stream: usize },
    /// The snapshot of a client has this bookmark.
    Snapshot { by: String, bookmark: Positions },
    /// A stream sends a client its messages from now on.
    Release { by: String },
    /// A client leaves a stream, which has sent it everything up to a bookmark, or nothing yet.
    Leave { by: String, bookmark: Positions },
    /// A client has subscriptions of its own at nodes, from a bookmark on.
    Alone {
        by: String,
        parts: Vec<(String, Positions)>,
    },
    /// A message of these subscriptions was passed on.
    Relay { by: String, message: SentMessage },
    /// The node of such a subscription has sent everything up to a bookmark.
    Note { by: String, bookmark: Positions },
}

impl Line {
    /// Whether it is about changes of another partition.
    pub fn is_elsewhere(&self, ours: u16) -> bool {
        matches!(self,
            Self::Change { partition, .. } | Self::Apply { partition, .. } | Self::Loaded { partition, .. }
                if *partition != ours)
    }

    /// The client that an event is about.
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Subscribe { by, .. }
            | Self::Refuse { by }
            | Self::Receive { by, .. }
            | Self::Read { by, .. }
            | Self::Stand { by, .. }
            | Self::Save { by }
            | Self::Disconnect { by }
            | Self::Restart { by }
            | Self::Join { by, .. }
            | Self::Snapshot { by, .. }
            | Self::Release { by }
            | Self::Leave { by, .. }
            | Self::Alone { by, .. }
            | Self::Relay { by, .. }
            | Self::Note { by, .. } => Some(by),
            _ => None,
        }
    }
}

/// A message to a client.
#[derive(Deserialize, Clone, Debug)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum SentMessage {
    GroupBegin,
    Sow {
        partition: u16,
        key: String,
        body: String,
    },
    GroupEnd {
        bookmark: Positions,
    },
    Publish {
        partition: u16,
        position: At,
        key: String,
    },
    Oof {
        partition: u16,
        position: At,
        key: String,
    },
    Progress {
        bookmark: Positions,
    },
}

/// Who and what a trace is about.
#[derive(Default)]
pub struct Cast {
    pub clients: BTreeSet<String>,
    pub nodes: BTreeMap<String, usize>,
    pub partitions: BTreeSet<u16>,
    pub keys: BTreeMap<String, Key>,
}

impl Cast {
    pub fn of(lines: &[Line]) -> Self {
        let mut found = Self::default();
        for line in lines {
            match line {
                Line::Change { partition, key, .. } => {
                    found.partitions.insert(*partition);
                    let next = Key::try_from(found.keys.len()).expect("keys are few");
                    found.keys.entry(key.clone()).or_insert(next);
                }
                Line::Start { by } => {
                    let next = found.nodes.len();
                    found.nodes.entry(by.clone()).or_insert(next);
                }
                Line::Subscribe { by, .. } => {
                    found.clients.insert(by.clone());
                }
                _ => (),
            }
        }
        found
    }
}

/// The changes of a partition, as far as the trace was replayed.
#[derive(Default)]
pub struct Changes {
    positions: Vec<Position>,
    bodies: Vec<String>,
}

impl Changes {
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub fn push(&mut self, position: At, body: &str) {
        self.positions.push(at(position));
        self.bodies.push(body.to_owned());
    }

    /// The number of changes up to a position, which may be that of a progress event.
    pub fn up_to(&self, position: At) -> usize {
        self.positions
            .partition_point(|change| *change <= at(position))
    }

    /// The number of changes up to the bookmark's position in a partition; None if it has none.
    pub fn up_to_in(&self, bookmark: &Positions, partition: u16) -> Option<usize> {
        let found = bookmark.iter().find(|(number, _)| *number == partition);
        found.map(|(_, position)| self.up_to(*position))
    }

    /// The number of the change at a position; None if there is none.
    pub fn number(&self, position: At) -> Option<usize> {
        let number = self.up_to(position);
        let found = *self.positions.get(number.checked_sub(1)?)?;
        (found == at(position)).then_some(number)
    }

    /// Whether a change left its record with this body.
    pub fn has_body(&self, number: usize, body: &str) -> bool {
        self.bodies[number - 1] == body
    }
}
