//! Positions: they identify the changes of a partition, in log order.

use std::collections::BTreeMap;

/// A SOW key.
pub type Key = u16;

/// The position of one change: the `nth` change that the log record at `offset` makes, in the partition's `era`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub era: u8,
    pub offset: i16,
    pub nth: u16,
}

impl Position {
    /// The position of a partition that has applied no log record in this era.
    pub const fn before_the_log(era: u8) -> Self {
        Self {
            era,
            offset: -1,
            nth: 0,
        }
    }

    /// The position of the first change of the log record at an offset.
    pub const fn at(era: u8, offset: i16) -> Self {
        Self {
            era,
            offset,
            nth: 0,
        }
    }
}

impl std::fmt::Debug for Position {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}/{}.{}", self.era, self.offset, self.nth)
    }
}

/// The live records of a partition. The position of a record's last change stands for its body: both come from the
/// same log record.
pub type Records = BTreeMap<Key, Position>;
