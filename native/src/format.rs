//! The bodies of a topic whose message type is not JSON: `sowline_materializer.core.bodies`.

use pyo3::prelude::*;

use crate::fix::FixReader;
use crate::json::Field;
use crate::merge::merge;
use crate::message_pack::{self, MessagePackReader};

/// What reads the messages of a topic.
#[derive(FromPyObject)]
pub enum Format {
    Fix(Py<FixReader>),
    MessagePack(Py<MessagePackReader>),
}

impl Format {
    /// Return a body as canonical JSON, which `out` gets; None if only Python can read or refuse it.
    ///
    /// JSON stays as it is, and so does an empty body.
    pub fn json_of<'a>(
        format: Option<&Format>,
        body: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let Some(format) = format.filter(|_| !body.is_empty()) else {
            return Some(body);
        };
        out.clear();
        match format {
            Format::Fix(reader) => reader.get().read(body, out)?,
            Format::MessagePack(reader) => reader.get().read(body, out)?,
        }
        Some(out)
    }

    /// Append `old` with a delta merged into it, as its message type has it, to `out`, which is empty. Returns None
    /// if only Python can.
    pub fn merge(
        format: Option<&Format>,
        old: &[u8],
        delta: &[u8],
        fields: &[Field<'_>],
        out: &mut Vec<u8>,
    ) -> Option<()> {
        match format {
            Some(Format::MessagePack(_)) if !message_pack::is_plain_merge(old, delta) => None,
            None | Some(Format::MessagePack(_)) => merge(old, fields, out),
            Some(Format::Fix(reader)) => {
                merge(old, fields, out)?;
                reader.get().complete(out)
            }
        }
    }
}
