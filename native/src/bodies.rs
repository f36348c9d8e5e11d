//! The body that a record has after a message: `sowline_materializer.core.writer`.

use pyo3::prelude::*;

use crate::batch::Stop;
use crate::command::Operation;
use crate::enrichment::enrich;
use crate::json::{Field, fields};
use crate::merge::merge;
use crate::message::Message;
use crate::target::Target;

/// Space for the bodies of one record after the other.
#[derive(Default)]
pub struct Bodies {
    enriched: Vec<u8>,
    merged: Vec<u8>,
}

impl Bodies {
    /// Return the body after a publish; `given` are the fields of its body, and `computed` finds those of an enrichment.
    pub fn after<'a>(
        &'a mut self,
        py: Python<'_>,
        computed: Option<&Py<PyAny>>,
        message: &Message<'a>,
        given: &[Field<'_>],
        target: &Target<'_>,
        bytes_max: usize,
    ) -> Result<&'a [u8], Stop> {
        self.enriched.clear();
        if let Some(computed) = computed {
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
            merge(previous, given, &mut self.merged)
        } else {
            let mut now = Vec::with_capacity(16);
            fields(body, &mut now).ok_or(Stop::Left)?;
            merge(previous, &now, &mut self.merged)
        };
        merged
            .filter(|()| self.merged.len() <= bytes_max)
            .ok_or(Stop::Left)?;
        Ok(&self.merged)
    }
}
