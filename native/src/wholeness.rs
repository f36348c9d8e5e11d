//! Whether the changes of a load include every record: `sowline.protocol.changes_loader.Wholeness`.

use crate::core::PositionTuple;

/// The expected next offset after a gap in the offsets.
const BROKEN_OFF: i64 = -2;

/// What a load knows of its wholeness: the newest position, the next offset without a gap, and whether it is refilling.
pub type WholenessTuple = (PositionTuple, i64, bool);

/// What plain changes show about the wholeness of a load.
#[derive(Clone, Copy)]
pub struct Wholeness {
    newest: PositionTuple,
    due: i64,
    is_refilling: bool,
}

impl From<WholenessTuple> for Wholeness {
    fn from((newest, due, is_refilling): WholenessTuple) -> Self {
        Wholeness {
            newest,
            due,
            is_refilling,
        }
    }
}

impl From<Wholeness> for WholenessTuple {
    fn from(it: Wholeness) -> Self {
        (it.newest, it.due, it.is_refilling)
    }
}

impl Wholeness {
    /// Note the next change, which is not written again.
    pub fn saw_change(&mut self, offset: i64, position: PositionTuple, after: PositionTuple) {
        let follows = offset == self.due;
        self.due = if follows { offset + 1 } else { BROKEN_OFF };
        if position > self.newest {
            self.is_refilling |= follows && after > self.newest;
            self.newest = position;
        }
    }
}
