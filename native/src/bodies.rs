//! The body that a record has after a message: `sowline_materializer.core.writer`.

use pyo3::prelude::*;

use crate::batch::Stop;
use crate::command::Operation;
use crate::enrichment::enrich;
use crate::format::Format;
use crate::json::{Field, fields};
use crate::message::Message;
use crate::target::Target;

/// How bodies are made.
pub struct Rules<'a> {
    /// Finds the fields of an enrichment.
    pub computed: Option<&'a Py<PyAny>>,
    /// None for JSON.
    pub format: Option<&'a Format>,
    pub bytes_max: usize,
}

/// Space for the bodies of one record after the other.
#[derive(Default)]
pub struct Bodies {
    enriched: Vec<u8>,
    merged: Vec<u8>,
}

impl Bodies {
    /// Return the body after a publish; `given` are the fields of its body.
    pub fn after<'a>(
        &'a mut self,
        py: Python<'_>,
        rules: &Rules<'_>,
        message: &Message<'a>,
        given: &[Field<'_>],
        target: &Target<'_>,
    ) -> Result<&'a [u8], Stop> {
        let bytes_max = rules.bytes_max;
        self.enriched.clear();
        if let Some(computed) = rules.computed {
            enrich(py, computed, message, target, bytes_max, &mut self.enriched)?;
        }
        let body = if self.enriched.is_empty() {
            message.body
        } else {
            &self.enriched
        };
        let previous = match (message.command.operation, target.previous()) {
            (Operation::DeltaPublish, Some(previous)) => previous,
            _ => return Ok(body),
        };
        self.merged.clear();
        // The store holds what was valid once; a text is checked, not trusted.
        std::str::from_utf8(previous).map_err(|_| Stop::Left)?;
        let merged = if self.enriched.is_empty() {
            Format::merge(rules.format, previous, body, given, &mut self.merged)
        } else {
            let mut now = Vec::with_capacity(16);
            fields(body, &mut now).ok_or(Stop::Left)?;
            Format::merge(rules.format, previous, body, &now, &mut self.merged)
        };
        merged
            .filter(|()| self.merged.len() <= bytes_max)
            .ok_or(Stop::Left)?;
        Ok(&self.merged)
    }
}
