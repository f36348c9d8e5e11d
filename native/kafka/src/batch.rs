//! Messages that a consumer has received.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use crate::consumer::{Client, KafkaError};
use crate::functions::{Functions, NO_ERROR, RawHeaders, RawMessage, text_at};

/// A message, and its headers, which librdkafka keeps with it.
struct Received {
    message: NonNull<RawMessage>,
    headers: Option<NonNull<RawHeaders>>,
}

/// The messages of a batch. They are freed with it, and keep their client until then.
pub struct Batch {
    received: Vec<Received>,
    client: Arc<Client>,
}

// SAFETY: a message may be freed on any thread, and here nothing changes it: its headers are parsed before there is a
// batch, and all other functions only read.
unsafe impl Send for Batch {}
// SAFETY: see above.
unsafe impl Sync for Batch {}

impl Drop for Batch {
    fn drop(&mut self) {
        for received in &self.received {
            // SAFETY: the message is this batch's, and nothing borrows from it any more.
            unsafe { (self.client.functions.rd_kafka_message_destroy)(received.message.as_ptr()) };
        }
    }
}

impl Batch {
    /// Take over messages, and parse their headers.
    ///
    /// # Safety
    /// The client has handed the messages out, and nobody else has them.
    pub(crate) unsafe fn of(client: &Arc<Client>, messages: Vec<*mut RawMessage>) -> Self {
        let functions = client.functions;
        let received = messages.into_iter().filter_map(NonNull::new);
        let received = received.map(|message| {
            let mut headers = ptr::null_mut();
            // SAFETY: nobody else has the message. Of one without headers, the pointer stays as it is.
            unsafe { (functions.rd_kafka_message_headers)(message.as_ptr(), &raw mut headers) };
            Received {
                message,
                headers: NonNull::new(headers),
            }
        });
        Batch {
            received: received.collect(),
            client: client.clone(),
        }
    }

    pub fn len(&self) -> usize {
        self.received.len()
    }

    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Remove the messages for which a test fails.
    pub fn retain(&mut self, keep: impl Fn(&Message<'_>) -> bool) {
        let client = &self.client;
        let mut removed = Vec::new();
        self.received.retain(|received| {
            let is_kept = keep(&message_of(client.functions, received));
            if !is_kept {
                removed.push(received.message);
            }
            is_kept
        });
        for message in removed {
            // SAFETY: the message was this batch's, which has it no more.
            unsafe { (client.functions.rd_kafka_message_destroy)(message.as_ptr()) };
        }
    }

    /// Return a message by its index in the batch.
    pub fn get(&self, index: usize) -> Option<Message<'_>> {
        let received = self.received.get(index)?;
        Some(message_of(self.client.functions, received))
    }

    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        let functions = self.client.functions;
        self.received
            .iter()
            .map(|received| message_of(functions, received))
    }
}

fn message_of<'a>(functions: &'static Functions, received: &'a Received) -> Message<'a> {
    Message {
        // SAFETY: the message lives as long as its batch, and nothing changes it.
        raw: unsafe { received.message.as_ref() },
        headers: received.headers,
        functions,
    }
}

/// A message of a batch, or an error about the partition.
pub struct Message<'a> {
    raw: &'a RawMessage,
    headers: Option<NonNull<RawHeaders>>,
    functions: &'static Functions,
}

impl<'a> Message<'a> {
    /// The error that came instead of a message.
    pub fn error(&self) -> Option<KafkaError> {
        if self.raw.err == NO_ERROR {
            return None;
        }
        // SAFETY: the message is of a consumer, and has an error.
        let text = unsafe { (self.functions.rd_kafka_message_errstr)(self.raw) };
        Some(KafkaError {
            code: self.raw.err,
            // SAFETY: it is a C text of the message, or one that is never freed.
            text: unsafe { text_at(text) },
        })
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.raw.err != NO_ERROR
    }

    pub fn partition(&self) -> i32 {
        self.raw.partition
    }

    pub fn offset(&self) -> i64 {
        self.raw.offset
    }

    pub fn key(&self) -> Option<&'a [u8]> {
        if self.is_error() {
            return None;
        }
        // SAFETY: a message without an error has a key of so many bytes, or none.
        unsafe { bytes_at(self.raw.key, self.raw.key_len) }
    }

    pub fn value(&self) -> Option<&'a [u8]> {
        if self.is_error() {
            return None;
        }
        // SAFETY: a message without an error has a payload of so many bytes, or none.
        unsafe { bytes_at(self.raw.payload, self.raw.len) }
    }

    /// The headers in their order; None if the message has none.
    pub fn headers(&self) -> Option<Headers<'a>> {
        let headers = self.headers?;
        Some(Headers {
            // SAFETY: the headers live as long as their message, and nothing changes them.
            raw: unsafe { headers.as_ref() },
            next: 0,
            functions: self.functions,
        })
    }
}

/// The names of headers, and their values.
pub struct Headers<'a> {
    raw: &'a RawHeaders,
    next: usize,
    functions: &'static Functions,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a CStr, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut name, mut value, mut bytes) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the function fills all three, unless there is no header of this index.
        let code = unsafe {
            (self.functions.rd_kafka_header_get_all)(
                self.raw,
                self.next,
                &raw mut name,
                &raw mut value,
                &raw mut bytes,
            )
        };
        if code != NO_ERROR {
            return None;
        }
        self.next += 1;
        // SAFETY: the name is a C text that lives as long as the headers.
        let name = unsafe { CStr::from_ptr(name) };
        // SAFETY: the value has so many bytes, or is null; it lives as long as the headers.
        Some((name, unsafe { bytes_at(value, bytes) }))
    }
}

/// Return bytes at a place; None if it is null.
///
/// # Safety
/// The place is null, or has as many bytes, which nothing changes or frees during `'a`.
unsafe fn bytes_at<'a>(place: *const c_void, bytes: usize) -> Option<&'a [u8]> {
    if place.is_null() {
        return None;
    }
    // SAFETY: see above.
    Some(unsafe { slice::from_raw_parts(place.cast(), bytes) })
}
