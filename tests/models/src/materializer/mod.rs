//! Emit before commit: the owner of a partition, its takeover, stale owners, and eras.

pub mod actions;
pub mod events;
pub mod followers;
pub mod model;
pub mod owner;
pub mod recovery;
pub mod replay;
pub mod rules;
