//! Messages that a consumer has received.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use crate::consumer::{Client, KafkaError};
use crate::functions::{Functions, NO_ERROR, RawHeaders, RawMessage, text_at};

/// A message that was handed out, and its headers, which librdkafka keeps with it. It is given back when this is dropped.
struct Received {
    message: NonNull<RawMessage>,
    headers: Option<NonNull<RawHeaders>>,
    functions: &'static Functions,
}

impl Drop for Received {
    fn drop(&mut self) {
        // SAFETY: the message is this one's, and nothing borrows from it any more.
        unsafe { (self.functions.rd_kafka_message_destroy)(self.message.as_ptr()) };
    }
}

impl Received {
    fn message(&self) -> Message<'_> {
        Message {
            // SAFETY: the message lives as long as this does, and nothing changes it.
            raw: unsafe { self.message.as_ref() },
            headers: self.headers,
            functions: self.functions,
        }
    }
}

/// The messages of a batch. They are given back with it, and keep their client until then.
pub struct Batch {
    received: Vec<Received>,
    /// Dropped behind the messages.
    _client: Arc<Client>,
}

// SAFETY: a message may be given back on any thread, and here nothing changes it: its headers are parsed before there
// is a batch, and all other functions only read.
unsafe impl Send for Batch {}
// SAFETY: see above.
unsafe impl Sync for Batch {}

impl Batch {
    /// Take over messages, and parse their headers.
    ///
    /// # Safety
    /// The client has handed the messages out, and nobody else has them.
    pub(crate) unsafe fn of(client: &Arc<Client>, messages: Vec<*mut RawMessage>) -> Self {
        let functions = client.functions;
        let received = messages.into_iter().filter_map(NonNull::new);
        let received = received.map(|message| Received {
            message,
            // SAFETY: nobody else has the message.
            headers: unsafe { parsed_headers(functions, message) },
            functions,
        });
        Batch {
            received: received.collect(),
            _client: client.clone(),
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
        self.received.retain(|received| keep(&received.message()));
    }

    /// Return a message by its index in the batch.
    pub fn get(&self, index: usize) -> Option<Message<'_>> {
        self.received.get(index).map(Received::message)
    }

    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        self.received.iter().map(Received::message)
    }
}

/// Parse the headers of a message, which librdkafka keeps with it; None if it has none.
///
/// # Safety
/// Nobody else has the message.
unsafe fn parsed_headers(
    functions: &Functions,
    message: NonNull<RawMessage>,
) -> Option<NonNull<RawHeaders>> {
    // SAFETY: the message lives, and nobody changes it during the call.
    if unsafe { message.as_ref() }.err != NO_ERROR {
        return None;
    }
    let mut headers = ptr::null_mut();
    // SAFETY: nobody else has the message. Of one without headers, the pointer stays as it is.
    unsafe { (functions.rd_kafka_message_headers)(message.as_ptr(), &raw mut headers) };
    NonNull::new(headers)
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

/// Return bytes at an address; None if it is null.
///
/// # Safety
/// The address is null, or has as many bytes, which nothing changes or frees during `'a`.
unsafe fn bytes_at<'a>(address: *const c_void, bytes: usize) -> Option<&'a [u8]> {
    if address.is_null() {
        return None;
    }
    // SAFETY: see above.
    Some(unsafe { slice::from_raw_parts(address.cast(), bytes) })
}
