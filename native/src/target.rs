//! The record that a message is for: `sowline_materializer.core.batch_state.Target`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::entry::Entry;

/// The record that a message is for, as it was before.
pub struct Target<'a> {
    /// The number of its slot.
    pub slot: usize,
    pub sow_key: Py<PyBytes>,
    pub key_text: &'a [u8],
    /// The texts of the key fields, if the topic keeps documents.
    pub key_texts: Vec<&'a [u8]>,
    /// What is stored; None if there is nothing.
    pub entry: Option<Entry<'a>>,
}

impl<'a> Target<'a> {
    /// Return the body before; None if there is no live record.
    pub fn previous(&self) -> Option<&'a [u8]> {
        self.entry.as_ref()?.body
    }

    /// Return the publishers' numbers as a JSON object; empty if there are none.
    pub fn numbers(&self) -> &'a [u8] {
        self.entry.as_ref().map_or(b"", |entry| entry.numbers)
    }
}
