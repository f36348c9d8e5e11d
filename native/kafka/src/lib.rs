//! Reads Kafka with the librdkafka that the process has already loaded.
//!
//! This is the one crate of Sowline with `unsafe` code: it calls C. It only calls functions that `rdkafka.h` documents,
//! and only reads structs whose fields are documented there. Types own what they free, and a message can't outlive its
//! batch. Nothing here knows Python, or what is in a message.

mod batch;
mod consumer;
mod functions;
mod lines;

pub use batch::{Batch, Headers, Message};
pub use consumer::{Consumer, KafkaError};
pub use functions::{Library, Unavailable};
pub use lines::Line;
