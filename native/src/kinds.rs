//! The kinds of a store's entries, as the first byte of their keys: `materializer.store.interface`.

pub const RECORD: u8 = b'r';
pub const EXPIRY: u8 = b'd';
