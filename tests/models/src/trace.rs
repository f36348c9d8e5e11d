//! What the traces of all models have in common.

use crate::position::Position;

/// A position as a trace has it: era, offset and the number of the change.
pub type At = (u8, i16, u16);

/// Return the position that a trace names.
pub fn at((era, offset, nth): At) -> Position {
    Position { era, offset, nth }
}

/// What was replayed.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Summary {
    pub events: usize,
    /// The most states that were possible at once.
    pub states_max: usize,
}

/// Return an error if something that a trace says is not so.
pub fn expect(is_so: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(why()) }
}
