//! A consumer: made from settings, assigned to a partition, and asked for batches.

use std::ffi::{CString, c_char, c_int};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::batch::Batch;
use crate::functions::{
    CONF_OK, CONSUMER, Functions, INVALID_ARG, Library, NO_ERROR, RawClient, RawConf, RawList,
    RawMessage, RawQueue, text_at,
};
use crate::lines::{Line, Lines, add_line};

/// How long messages are gathered. A reader that is faster than the client's threads would wake up for every few messages.
const GATHERING: Duration = Duration::from_millis(5);

/// The bytes for the text of an error, as librdkafka's examples have them.
const TEXT_BYTES: usize = 512;

/// An error of Kafka or librdkafka: a code of `rd_kafka_resp_err_t`, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaError {
    pub code: i32,
    pub text: String,
}

impl KafkaError {
    fn of(functions: &Functions, code: c_int) -> Self {
        KafkaError {
            code,
            text: functions.text_of(code),
        }
    }
}

/// A client of librdkafka. It is freed when neither its consumer nor a batch of it is left.
pub(crate) struct Client {
    pub functions: &'static Functions,
    handle: NonNull<RawClient>,
    queue: NonNull<RawQueue>,
    /// The opaque value of the client. It is freed behind the client.
    lines: Arc<Lines>,
}

// SAFETY: all functions of librdkafka may be called from any thread, at the same time.
unsafe impl Send for Client {}
// SAFETY: see above.
unsafe impl Sync for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: the queue is this client's, and nobody uses it any more. librdkafka wants it back before the client.
        unsafe { (self.functions.rd_kafka_queue_destroy)(self.queue.as_ptr()) };
        // SAFETY: nothing of the client is left: each batch keeps the client, and has given its messages back.
        unsafe { (self.functions.rd_kafka_destroy)(self.handle.as_ptr()) };
    }
}

/// Settings until a client takes them.
struct Conf {
    functions: &'static Functions,
    raw: *mut RawConf,
}

impl Drop for Conf {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: no client has taken the settings.
            unsafe { (self.functions.rd_kafka_conf_destroy)(self.raw) };
        }
    }
}

impl Conf {
    fn new(functions: &'static Functions) -> Self {
        Conf {
            functions,
            // SAFETY: the function needs nothing.
            raw: unsafe { (functions.rd_kafka_conf_new)() },
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), KafkaError> {
        let (given_name, given_value) = (c_text(name)?, c_text(value)?);
        let mut text = [0; TEXT_BYTES];
        // SAFETY: the texts and the buffer live during the call, and the buffer has as many bytes as it says.
        let result = unsafe {
            (self.functions.rd_kafka_conf_set)(
                self.raw,
                given_name.as_ptr(),
                given_value.as_ptr(),
                text.as_mut_ptr(),
                text.len(),
            )
        };
        if result == CONF_OK {
            return Ok(());
        }
        Err(KafkaError {
            code: INVALID_ARG,
            text: text_in(&text),
        })
    }

    /// Make a consumer, which takes the settings.
    fn client(mut self, lines: Arc<Lines>) -> Result<Client, KafkaError> {
        let functions = self.functions;
        // SAFETY: the callback fits, and the lines are freed behind the client.
        unsafe { (functions.rd_kafka_conf_set_log_cb)(self.raw, Some(add_line)) };
        let opaque = Arc::as_ptr(&lines).cast_mut().cast();
        // SAFETY: the client only hands the value on to `add_line`.
        unsafe { (functions.rd_kafka_conf_set_opaque)(self.raw, opaque) };
        let mut text = [0; TEXT_BYTES];
        // SAFETY: the buffer lives during the call, and has as many bytes as it says.
        let handle =
            unsafe { (functions.rd_kafka_new)(CONSUMER, self.raw, text.as_mut_ptr(), text.len()) };
        let Some(handle) = NonNull::new(handle) else {
            return Err(KafkaError {
                // SAFETY: the function needs nothing.
                code: unsafe { (functions.rd_kafka_last_error)() },
                text: format!("Failed to create consumer: {}", text_in(&text)),
            });
        };
        // The client has them now.
        self.raw = ptr::null_mut();
        // SAFETY: the client is a consumer.
        unsafe { (functions.rd_kafka_poll_set_consumer)(handle.as_ptr()) };
        // SAFETY: the client is a consumer.
        let queue = unsafe { (functions.rd_kafka_queue_get_consumer)(handle.as_ptr()) };
        Ok(Client {
            functions,
            handle,
            queue: NonNull::new(queue).expect("a consumer has a queue"),
            lines,
        })
    }
}

/// A list of partitions.
struct List {
    functions: &'static Functions,
    raw: *mut RawList,
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list is this one's.
        unsafe { (self.functions.rd_kafka_topic_partition_list_destroy)(self.raw) };
    }
}

/// Reads a partition. Its calls block, and may be made from any thread.
pub struct Consumer {
    client: Arc<Client>,
}

impl Drop for Consumer {
    /// Close the client: it fetches no more, even if batches of it are left.
    fn drop(&mut self) {
        // SAFETY: the client is a consumer. Messages that were handed out stay until they are given back.
        unsafe { (self.client.functions.rd_kafka_consumer_close)(self.client.handle.as_ptr()) };
    }
}

impl Consumer {
    /// Make a consumer with the settings that `CONFIGURATION.md` of librdkafka lists.
    pub fn new<'a>(
        library: Library,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, KafkaError> {
        let mut conf = Conf::new(library.0);
        for (name, value) in settings {
            conf.set(name, value)?;
        }
        let client = conf.client(Arc::default())?;
        Ok(Consumer {
            client: Arc::new(client),
        })
    }

    /// Read a partition from an offset on, and nothing else.
    pub fn assign(&self, topic: &str, partition: i32, offset: i64) -> Result<(), KafkaError> {
        let functions = self.client.functions;
        let topic = c_text(topic)?;
        let list = List {
            functions,
            // SAFETY: the function takes any size.
            raw: unsafe { (functions.rd_kafka_topic_partition_list_new)(1) },
        };
        // SAFETY: the list is there, and the name is copied.
        unsafe {
            (functions.rd_kafka_topic_partition_list_add)(list.raw, topic.as_ptr(), partition)
        };
        // SAFETY: see above.
        let set = unsafe {
            (functions.rd_kafka_topic_partition_list_set_offset)(
                list.raw,
                topic.as_ptr(),
                partition,
                offset,
            )
        };
        self.judged(set)?;
        // SAFETY: the client copies the list.
        self.judged(unsafe { (functions.rd_kafka_assign)(self.client.handle.as_ptr(), list.raw) })
    }

    /// Return what has arrived, waiting for the first message at most so many ms, and for others `GATHERING`.
    pub fn batch(&self, messages_max: usize, wait_ms: i32) -> Batch {
        let mut received = vec![ptr::null_mut(); messages_max];
        let mut count = self.receive(&mut received[..1], wait_ms);
        if count > 0 {
            count += self.receive(&mut received[count..], 0);
            if count < messages_max {
                thread::sleep(GATHERING);
                count += self.receive(&mut received[count..], 0);
            }
        }
        received.truncate(count);
        // SAFETY: the messages are this client's, and were just handed out.
        unsafe { Batch::of(&self.client, received) }
    }

    /// Fill a slice with messages; return how many have come.
    fn receive(&self, into: &mut [*mut RawMessage], wait_ms: i32) -> usize {
        let queue = self.client.queue.as_ptr();
        // SAFETY: the queue is the client's, and the slice has room for as many messages as it says.
        let count = unsafe {
            (self.client.functions.rd_kafka_consume_batch_queue)(
                queue,
                wait_ms,
                into.as_mut_ptr(),
                into.len(),
            )
        };
        // An error has a negative number, and no messages.
        usize::try_from(count).unwrap_or(0)
    }

    /// Return the log lines of the client since the last call.
    pub fn lines(&self) -> Vec<Line> {
        self.client.lines.take()
    }

    fn judged(&self, code: c_int) -> Result<(), KafkaError> {
        if code == NO_ERROR {
            return Ok(());
        }
        Err(KafkaError::of(self.client.functions, code))
    }
}

fn c_text(text: &str) -> Result<CString, KafkaError> {
    CString::new(text).map_err(|_| KafkaError {
        code: INVALID_ARG,
        text: "expected a text without NUL".to_owned(),
    })
}

/// Return the text that librdkafka has written into a buffer.
fn text_in(buffer: &[c_char; TEXT_BYTES]) -> String {
    // SAFETY: the buffer was zeros, and librdkafka ends its text with a NUL within the size of the buffer.
    unsafe { text_at(buffer.as_ptr()) }
}
