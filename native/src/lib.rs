//! The native core of Sowline: applies batches of plain log records to the records of a partition.
//!
//! It does what `materializer.core` does for publishes of plain JSON objects, byte for byte, and stops at the first
//! record that it does not know. It does no I/O, and has no clock and no threads. Each module names its Python twin,
//! which is the specification.

mod change;
mod columns;
mod command;
mod core;
mod deltas;
mod entry;
mod event;
mod json;
mod key;
mod log_record;
mod merge;
mod number;
mod numbers;
mod value;

use pyo3::prelude::*;

/// The native core of Sowline.
#[pymodule]
mod sowline_native {
    #[pymodule_export]
    use super::change::Change;
    #[pymodule_export]
    use super::columns::ColumnReader;
    #[pymodule_export]
    use super::core::Core;
    #[pymodule_export]
    use super::deltas::plain_delta;
    #[pymodule_export]
    use super::event::read_about;
    #[pymodule_export]
    use super::log_record::{LogRecord, by_partition};
}
