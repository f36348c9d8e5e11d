//! What clients are sent: snapshots, the changes after them, and what follows a bookmark.

pub mod handoff;
pub mod streams;
pub mod trace;
