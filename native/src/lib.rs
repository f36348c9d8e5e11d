//! The native core of Sowline: applies batches of plain log records to the records of a partition, and loads changes.
//!
//! It does what `sowline_materializer.core` does for plain commands, byte for byte, and stops at the first
//! record that it does not know. Only `kafka_reader` does I/O; nothing else has a clock or threads. Each module names its
//! Python twin, which is the specification.

mod audience;
mod batch;
mod bodies;
mod canonical;
mod change;
mod change_message;
mod checksum;
mod columns;
mod command;
mod core;
mod deliver;
mod deltas;
mod demand;
mod difference;
mod documents;
mod enrichment;
mod entry;
mod escapes;
mod event;
mod fix;
mod format;
mod group_body;
mod group_input;
mod group_state;
mod groups;
mod json;
mod json_parts;
mod kafka_reader;
mod key;
mod key_filter;
mod kinds;
mod layout;
mod loaded;
mod loader;
mod log_record;
mod made;
mod marks;
mod merge;
mod message;
mod message_pack;
mod number;
mod numbers;
mod outcome;
mod packing;
mod partials;
mod pending;
mod plan;
mod position;
mod reading;
mod records;
mod replica;
mod replica_tables;
mod scan;
mod select;
mod slab;
mod slot;
mod slots;
mod sorting;
mod source;
mod survey;
mod target;
mod unflushed;
mod value;
mod wholeness;
mod writes;

#[cfg(test)]
mod tests;

use pyo3::prelude::*;

/// The native core of Sowline.
#[pymodule]
mod sowline_native {
    #[pymodule_export]
    use super::change::{Change, messages};
    #[pymodule_export]
    use super::columns::ColumnReader;
    #[pymodule_export]
    use super::core::Core;
    #[pymodule_export]
    use super::deliver::DeliveryPlan;
    #[pymodule_export]
    use super::deltas::plain_delta;
    #[pymodule_export]
    use super::event::read_about;
    #[pymodule_export]
    use super::fix::FixReader;
    #[pymodule_export]
    use super::groups::Groups;
    #[pymodule_export]
    use super::kafka_reader::{KafkaBatch, KafkaMessage, KafkaReader};
    #[pymodule_export]
    use super::loaded::LoadedEntries;
    #[pymodule_export]
    use super::loader::Loader;
    #[pymodule_export]
    use super::log_record::{LogRecord, LogRecords, by_partition};
    #[pymodule_export]
    use super::message_pack::MessagePackReader;
    #[pymodule_export]
    use super::replica::PlainChanges;
    #[pymodule_export]
    use super::scan::scan;
    #[pymodule_export]
    use super::survey::survey;
    #[pymodule_export]
    use super::unflushed::{Entries, Unflushed};
}
