//! Asks Python for the computed fields of a message: `sowline_materializer.core.enricher`.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::entry;
use crate::json::fields;
use crate::merge::merge;

/// A message, and the record that it is for: `Given`.
pub struct Message<'a> {
    pub body: Option<&'a Py<PyBytes>>,
    pub sow_key: &'a Py<PyBytes>,
    pub era: u32,
    pub offset: i64,
    pub correlation: Option<&'a [u8]>,
    pub time: i64,
    /// The bytes of the stored record; None if there is none that is live.
    pub held: Option<&'a [u8]>,
    pub previous: Option<&'a [u8]>,
}

/// What became of a message.
pub enum Enriched {
    Yes,
    /// Nothing was computed.
    No,
    /// Python has to apply the log record.
    Left,
}

impl Message<'_> {
    /// Append the body with the computed fields to `out`.
    pub fn enrich(
        &self,
        py: Python<'_>,
        computed: &Py<PyAny>,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> PyResult<Enriched> {
        let Some(delta) = self.computed(py, computed)? else {
            return Ok(Enriched::Left);
        };
        let mut new = Vec::with_capacity(8);
        let body = self.body.map_or(&b""[..], |body| body.as_bytes(py));
        if fields(delta.as_bytes(py), &mut new).is_none() {
            return Ok(Enriched::Left);
        }
        if new.is_empty() {
            return Ok(Enriched::No);
        }
        out.clear();
        let is_merged = merge(body, &new, out).is_some() && out.len() <= bytes_max;
        Ok(if is_merged {
            Enriched::Yes
        } else {
            Enriched::Left
        })
    }

    /// Return the computed fields as a JSON object; None if Python has to apply the log record.
    fn computed(&self, py: Python<'_>, computed: &Py<PyAny>) -> PyResult<Option<Py<PyBytes>>> {
        let size = self.body.map_or(0, |body| body.as_bytes(py).len());
        let given = (
            self.body,
            self.sow_key,
            self.era,
            self.offset,
            size,
            self.correlation
                .and_then(|text| std::str::from_utf8(text).ok()),
            self.time,
            self.held.and_then(entry::time),
            self.previous.map(|body| PyBytes::new(py, body)),
        );
        match computed.bind(py).call1(given) {
            Ok(found) => Ok(found.extract()?),
            // Python meets the same error again, and makes a dead letter of it.
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
