//! The headers of a plain command: `sowline.commands.command` for what changes one record.

use crate::number::whole;
use crate::numbers::Publisher;
use crate::position::Position;

/// The longest lifetime that is read here, in seconds; Python reads or refuses longer ones.
const LIFETIME_MAX: f64 = 1e9;

const TEXT_BYTES_MAX: usize = 250;

/// The highest number of a partition that Kafka has.
const PARTITION_MAX: u64 = i32::MAX as u64;

/// What a command does with its record.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    Publish,
    DeltaPublish,
    Delete,
    Expire,
    /// Partial states of a view.
    Partials,
    /// The delta of a document.
    Delta,
}

/// All operations, each at its own number.
pub const OPERATIONS: [Operation; 6] = [
    Operation::Publish,
    Operation::DeltaPublish,
    Operation::Delete,
    Operation::Expire,
    Operation::Partials,
    Operation::Delta,
];

impl Operation {
    /// Return the `op` of the change.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Publish => "publish",
            Operation::DeltaPublish => "delta_publish",
            Operation::Delete => "delete",
            Operation::Expire => "expire",
            Operation::Partials => "partials",
            Operation::Delta => "delta",
        }
    }

    /// Whether it removes the record.
    pub fn removes(self) -> bool {
        self.reason().is_some()
    }

    /// Return why the record is gone; None if it need not be.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Operation::Delete => Some("deleted"),
            Operation::Expire => Some("expired"),
            _ => None,
        }
    }
}

/// A publish, a delta publish, or a command that removes one record, without its body.
#[derive(Default)]
pub struct Command<'a> {
    pub operation: Operation,
    pub publisher: Option<Publisher<'a>>,
    pub correlation: Option<&'a [u8]>,
    /// The lifetime in seconds; 0 for none.
    pub expiration: Option<f64>,
    /// Where a forwarded command comes from.
    pub origin: Option<CopyOf<'a>>,
    /// The last change of the record that expires.
    pub guard: Option<Position>,
    pub has_trace: bool,
    /// The tags of a write to a document, with commas between them.
    pub tags: Option<&'a [u8]>,
    /// The id that the writer gave to a write to a document.
    pub change_id: Option<&'a [u8]>,
}

impl Command<'_> {
    /// Whether it says something that only documents know.
    pub fn is_of_document(&self) -> bool {
        self.operation == Operation::Delta || self.tags.is_some() || self.change_id.is_some()
    }
}

/// The log and the position in it of the record that a forwarded one is a copy of.
#[derive(Clone, Copy)]
pub struct CopyOf<'a> {
    pub log_id: &'a [u8],
    pub partition: u64,
    pub offset: u64,
}

/// Headers by name; a value may be missing.
pub type NamedHeaders<'a> = [(&'a str, Option<&'a [u8]>)];

/// Return the command in the headers; None if only Python can read or refuse it.
pub fn command<'a>(headers: &NamedHeaders<'a>) -> Option<Command<'a>> {
    let mut found = Command::default();
    let (mut publisher, mut sequence) = (None, None);
    for &(name, value) in headers {
        // Python passes the trace context on: `sowline_materializer.batch_trace`.
        found.has_trace |= name == "traceparent";
        let Some(name) = name.strip_prefix("sow.") else {
            continue;
        };
        let value = value?;
        match name {
            "command" => match value {
                b"publish" => found.operation = Operation::Publish,
                b"delta_publish" => found.operation = Operation::DeltaPublish,
                b"sow_delete" => found.operation = Operation::Delete,
                b"expire" => found.operation = Operation::Expire,
                b"delta" => found.operation = Operation::Delta,
                _ => return None,
            },
            "publisher" => publisher = Some(plain(value)?),
            "sequence" => sequence = Some(pair(value)?),
            "correlation" => found.correlation = Some(plain(value)?),
            "tags" => found.tags = Some(plain(value)?),
            "change_id" => found.change_id = Some(plain(value)?),
            "origin" => found.origin = Some(copy_of(value)?),
            "guard" => found.guard = Some(Position::parse(value)?),
            "expiration" => found.expiration = Some(seconds(value)?),
            _ => return None,
        }
    }
    found.publisher = match (publisher, sequence) {
        (Some(name), Some(sequence)) => Some(Publisher { name, sequence }),
        (None, None) => None,
        _ => return None,
    };
    let is_expiry = found.operation == Operation::Expire;
    let has_more = found.publisher.is_some()
        || found.correlation.is_some()
        || found.expiration.is_some()
        || found.origin.is_some()
        || found.is_of_document();
    let is_valid = is_expiry == found.guard.is_some() && !(is_expiry && has_more);
    is_valid.then_some(found)
}

/// Return a text that JSON holds as it is.
fn plain(text: &[u8]) -> Option<&[u8]> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'"' && *byte != b'\\';
    (!text.is_empty() && text.len() <= TEXT_BYTES_MAX && text.iter().all(is_plain)).then_some(text)
}

fn pair(text: &[u8]) -> Option<(u64, u64)> {
    match text.iter().position(|byte| *byte == b'.') {
        None => Some((whole(text)?, 0)),
        Some(dot) => Some((whole(&text[..dot])?, whole(&text[dot + 1..])?)),
    }
}

fn copy_of(text: &[u8]) -> Option<CopyOf<'_>> {
    let colon = text
        .iter()
        .rposition(|byte| *byte == b':')
        .filter(|at| *at > 0)?;
    let position = &text[colon + 1..];
    let at = position.iter().position(|byte| *byte == b'@')?;
    Some(CopyOf {
        log_id: &text[..colon],
        partition: whole(&position[..at]).filter(|number| *number <= PARTITION_MAX)?,
        offset: whole(&position[at + 1..])?,
    })
}

fn seconds(text: &[u8]) -> Option<f64> {
    pair(text)?;
    let seconds: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (seconds <= LIFETIME_MAX).then_some(seconds)
}
