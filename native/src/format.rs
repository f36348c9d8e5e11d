//! The bodies of a topic whose message type is not JSON: `sowline_materializer.core.bodies`.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::command::Operation;
use crate::fix::FixReader;
use crate::json::Field;
use crate::merge::merge;
use crate::message_pack::{self, MessagePackReader};

/// What reads the messages of a topic.
#[derive(FromPyObject)]
pub enum Format {
    Fix(Py<FixReader>),
    MessagePack(Py<MessagePackReader>),
    /// Python's codec, for whole records: it returns canonical JSON and the schema id of a message, or None.
    Codec(Py<PyAny>),
}

/// A body as canonical JSON, and the schema that its message names.
pub struct Read<'a> {
    pub body: &'a [u8],
    pub schema_id: Option<u64>,
}

/// What Python's codec returns.
type Decoded<'py> = Option<(Bound<'py, PyBytes>, Option<u64>)>;

impl Format {
    /// Return the body of a command as `json_of` does, and the schema that its message names.
    pub fn read<'a>(
        format: Option<&Format>,
        py: Python<'_>,
        operation: Operation,
        body: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> PyResult<Option<Read<'a>>> {
        let mut schema_id = None;
        let body = match format {
            // A delta is read and merged under its schema.
            Some(Format::Codec(read)) if operation == Operation::Publish => {
                let decoded: Decoded<'_> = match read.bind(py).call1((body,)) {
                    Ok(decoded) => decoded.extract()?,
                    // Python meets the same error again, and names the log record.
                    Err(error) if error.is_instance_of::<PyException>(py) => None,
                    Err(error) => return Err(error),
                };
                decoded.map(|(json, id)| {
                    schema_id = id;
                    out.clear();
                    out.extend_from_slice(json.as_bytes());
                    &out[..]
                })
            }
            _ => Format::json_of(format, body, out),
        };
        Ok(body.map(|body| Read { body, schema_id }))
    }

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
            Format::Codec(_) => return None,
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
            Some(Format::Codec(_)) => None,
            None | Some(Format::MessagePack(_)) => merge(old, fields, out),
            Some(Format::Fix(reader)) => {
                merge(old, fields, out)?;
                reader.get().complete(out)
            }
        }
    }
}
