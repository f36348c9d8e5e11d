//! Asks Python for the computed fields of a message: `sowline_materializer.core.enricher`.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::Stop;
use crate::json::fields;
use crate::merge::merge;
use crate::message::Message;
use crate::target::Target;

/// Append the body with the computed fields to `out`, which is empty; nothing if none were computed.
pub fn enrich(
    py: Python<'_>,
    computed: &Py<PyAny>,
    message: &Message<'_>,
    target: &Target<'_>,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let delta = computed_fields(py, computed, message, target)?;
    let mut new = Vec::with_capacity(8);
    fields(delta.as_bytes(py), &mut new).ok_or(Stop::Left)?;
    if new.is_empty() {
        return Ok(());
    }
    merge(message.body, &new, out)
        .filter(|()| out.len() <= bytes_max)
        .ok_or(Stop::Left)
}

/// Return the computed fields as a JSON object.
fn computed_fields(
    py: Python<'_>,
    computed: &Py<PyAny>,
    message: &Message<'_>,
    target: &Target<'_>,
) -> Result<Py<PyBytes>, Stop> {
    let previous = target.previous();
    let correlation = message.command.correlation.map(std::str::from_utf8);
    let given = (
        PyBytes::new(py, message.body),
        &target.sow_key,
        message.at.era,
        message.at.offset,
        message.record.body(py).len(),
        correlation.transpose().map_err(|_| Stop::Left)?,
        message.time,
        previous.and(target.entry.as_ref()).map(|entry| entry.time),
        previous.map(|body| PyBytes::new(py, body)),
    );
    match computed.bind(py).call1(given) {
        Ok(found) => {
            let fields: Option<Py<PyBytes>> = found.extract().map_err(PyErr::from)?;
            fields.ok_or(Stop::Left)
        }
        // Python meets the same error again, and makes a dead letter of it.
        Err(error) if error.is_instance_of::<PyException>(py) => Err(Stop::Left),
        Err(error) => Err(Stop::Failed(error)),
    }
}
