//! What a message makes of a record: its change, and what the store holds of it.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::change::{About, Change, DocumentHeaders, NO_VIEW, OfDocument};
use crate::documents::Folded;
use crate::entry;
use crate::message::Message;
use crate::position::Position;
use crate::target::Target;

/// What a message makes of a record.
pub struct Record<'a> {
    /// The new body; None if the record is deleted.
    pub body: Option<&'a [u8]>,
    pub expires: i64,
    pub numbers: &'a [u8],
    /// The document that it is, if the topic keeps documents.
    pub document: Option<&'a Folded<'a>>,
}

/// Return the change that makes this record, with the content of its headers.
pub fn change(
    py: Python<'_>,
    message: &Message<'_>,
    target: &Target<'_>,
    record: &Record<'_>,
    about: &[u8],
    delta: Option<Py<PyBytes>>,
    position_type: Py<PyAny>,
) -> Change {
    let bytes = |text: &[u8]| PyBytes::new(py, text).unbind();
    Change {
        sow_key: target.sow_key.clone_ref(py),
        body: record.body.map(|body| message.share(py, body)),
        previous: target.previous().map(bytes),
        about: bytes(about),
        delta,
        document: record.document.map(|folded| DocumentHeaders {
            accounts: bytes(folded.accounts),
            text: message.delta_text(py),
        }),
        states: None,
        at: message.at,
        operation: message.command.operation,
        trace: None,
        position_type,
    }
}

/// Write the header of the change that makes this record.
pub fn write_about(
    message: &Message<'_>,
    record: &Record<'_>,
    key_text: &[u8],
    after: Position,
    removed: &[u8],
    out: &mut Vec<u8>,
) {
    out.clear();
    About {
        operation: message.command.operation,
        at: message.at,
        after,
        time: message.time,
        log_time: message.log_time,
        expires: record.expires,
        correlation: message.command.correlation,
        numbers: record.numbers,
        schema_id: message.schema_id,
        origin: message.command.origin,
        document: record.document.map(|folded| OfDocument {
            key_text,
            is_changed: folded.is_changed,
        }),
        removed,
        of_view: NO_VIEW,
    }
    .write(out);
}

/// Write what the store holds of this record; nothing if it forgets it.
///
/// A deleted record is kept for its publishers' numbers only: `RecordWriter.remove`. A deleted document is kept.
pub fn write_stored(
    message: &Message<'_>,
    record: &Record<'_>,
    key_text: &[u8],
    out: &mut Vec<u8>,
) {
    out.clear();
    let writes = record.document.map_or(&b""[..], |folded| folded.writes);
    let is_kept = record.body.is_some() || !writes.is_empty();
    if !is_kept && record.numbers.is_empty() {
        return;
    }
    let written = entry::Written {
        at: message.at,
        time: if is_kept {
            message.time
        } else {
            message.log_time
        },
        expires: record.expires,
        key_text,
        numbers: record.numbers,
        correlation: record.body.and(message.command.correlation),
        schema_id: message.schema_id,
        writes,
        states: b"",
        body: record.body,
    };
    entry::write(&written, out);
}
