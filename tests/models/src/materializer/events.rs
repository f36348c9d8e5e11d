//! The events of a changes partition: changes and progress events. `sowline/changes/` has the originals.

use crate::log::Step;
use crate::position::{Key, Position};

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    Change {
        step: Step,
        /// Whether it is written again so that compaction keeps it: it changes no state.
        again: bool,
        /// The era in which it was written.
        written_in: u8,
    },
    Progress {
        position: Position,
        after: Position,
        log: usize,
    },
}

impl Event {
    /// The position that a follower is at after the event.
    pub fn position(&self) -> Position {
        match self {
            Self::Change { step, .. } => step.position,
            Self::Progress { position, .. } => *position,
        }
    }

    /// The position of the change before it.
    pub fn after(&self) -> Position {
        match self {
            Self::Change { step, .. } => step.after,
            Self::Progress { after, .. } => *after,
        }
    }

    /// The Kafka key by which compaction keeps the last event.
    pub fn name(&self) -> Name {
        match self {
            Self::Change { step, .. } => Name::Key(step.key),
            Self::Progress { .. } => Name::Progress,
        }
    }

    /// The era in which it was written.
    pub fn written_in(&self) -> u8 {
        match self {
            Self::Change { written_in, .. } => *written_in,
            Self::Progress { position, .. } => position.era,
        }
    }
}

/// A Kafka key of the changes partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Name {
    Progress,
    Key(Key),
}

/// A reader's decision about an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Take,
    Drop,
    Gap,
}

/// Compare an event with the position that a follower holds.
pub fn verdict(event: &Event, held: Position) -> Verdict {
    if event.position() <= held {
        Verdict::Drop
    } else if event.after() > held {
        Verdict::Gap
    } else {
        Verdict::Take
    }
}
