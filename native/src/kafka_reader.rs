//! Reads a partition of Kafka without an object of Python for each message: `sowline.kafka.native_reader`.
//!
//! The calls of librdkafka are in the crate `sowline_kafka`. None of them holds Python's lock.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyOSError, PyUnicodeDecodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice};

use sowline_kafka::{Batch, Consumer, Headers, KafkaError, Library, Line, Message};

use crate::event::Header;
use crate::source;

/// A consumer of one partition, from an offset on.
#[pyclass(frozen, module = "sowline_native")]
pub struct KafkaReader {
    /// None once it is closed.
    consumer: Mutex<Option<Consumer>>,
}

#[pymethods]
impl KafkaReader {
    /// Raise OSError if librdkafka can't be used, or refuses a setting.
    ///
    /// `path` is the extension module of the client, which has or needs librdkafka. `settings` have its names and values.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        settings: Vec<(String, String)>,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> PyResult<Self> {
        let consumer = py.detach(|| {
            let library = Library::open(&path).map_err(|why| why.to_string())?;
            let settings = settings.iter().map(|(name, value)| (&**name, &**value));
            let made = Consumer::new(library, settings).and_then(|consumer| {
                consumer.assign(topic, partition, offset)?;
                Ok(consumer)
            });
            made.map_err(|error| error.text)
        });
        Ok(KafkaReader {
            consumer: Mutex::new(Some(consumer.map_err(PyOSError::new_err)?)),
        })
    }

    /// Return the messages that have arrived before the offset `end`, and errors; wait for the first of them only.
    fn batch(&self, py: Python<'_>, messages_max: usize, wait_ms: i32, end: i64) -> KafkaBatch {
        py.detach(|| {
            let consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(consumer) = &*consumer else {
                return KafkaBatch::default();
            };
            let batch = consumer.batch(messages_max, wait_ms);
            KafkaBatch::of(batch, end, logged(consumer))
        })
    }

    /// Return the log lines of the client that no batch has: the level of syslog, and the text.
    fn lines(&self, py: Python<'_>) -> Vec<(i32, String)> {
        py.detach(|| {
            let consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
            consumer.as_ref().map(logged).unwrap_or_default()
        })
    }

    /// Leave Kafka. The messages of batches stay until the batches are gone.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let mut consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
            drop(consumer.take());
        });
    }
}

fn logged(consumer: &Consumer) -> Vec<(i32, String)> {
    let text = |line: &Line| format!("{} [{}] {}", line.facility, line.client, line.text);
    let lines = consumer.lines().into_iter();
    lines.map(|line| (line.level, text(&line))).collect()
}

/// Return the error as Python's client has it.
fn as_python<'py>(py: Python<'py>, error: &KafkaError) -> PyResult<Bound<'py, PyAny>> {
    let kind = py.import("confluent_kafka")?.getattr("KafkaError")?;
    kind.call1((error.code, &error.text))
}

/// An error about the partition, and the offset that it is about.
struct Failure {
    error: KafkaError,
    partition: i32,
    offset: i64,
}

/// The messages of a partition that have arrived, as a sequence; a message becomes an object when Python takes it.
#[pyclass(frozen, module = "sowline_native")]
#[derive(Default)]
pub struct KafkaBatch {
    /// None if there is none.
    batch: Option<Batch>,
    failures: Vec<Failure>,
    /// The offset behind the last message that arrived, even if that is not in the batch; None if none arrived.
    #[pyo3(get)]
    next_offset: Option<i64>,
    /// The log lines of the client since the batch before. To ask for them apart would take Python's lock once more.
    #[pyo3(get)]
    lines: Vec<(i32, String)>,
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        drop_detached(
            self.consumer
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }
}

impl Drop for KafkaBatch {
    fn drop(&mut self) {
        drop_detached(self.batch.take());
    }
}

/// Drop a consumer or a batch without Python's lock: to close and to free a client waits for its threads.
fn drop_detached(last: impl Send) {
    // Without an interpreter there is no lock, and it is dropped all the same.
    Python::try_attach(|py| py.detach(|| drop(last)));
}

impl KafkaBatch {
    fn of(mut batch: Batch, end: i64, lines: Vec<(i32, String)>) -> Self {
        let (mut failures, mut next_offset) = (Vec::new(), None);
        for message in batch.iter() {
            match message.error() {
                None => next_offset = Some(message.offset() + 1),
                Some(error) => failures.push(Failure {
                    error,
                    partition: message.partition(),
                    offset: message.offset(),
                }),
            }
        }
        batch.retain(|message| !message.is_error() && message.offset() < end);
        KafkaBatch {
            batch: Some(batch),
            failures,
            next_offset,
            lines,
        }
    }

    pub fn len(&self) -> usize {
        self.batch.as_ref().map_or(0, Batch::len)
    }

    fn get(&self, index: usize) -> Option<Message<'_>> {
        self.batch.as_ref()?.get(index)
    }

    pub fn key(&self, index: usize) -> Option<&[u8]> {
        self.get(index)?.key()
    }

    /// Return a message as the loader reads it; None if only Python can read it.
    pub fn loadable(&self, index: usize) -> Option<source::Message<'_>> {
        let message = self.get(index)?;
        Some(source::Message {
            offset: message.offset(),
            key: message.key()?,
            value: message.value()?,
            about: about_of(message.headers()?)?,
        })
    }
}

/// Return the header `sow`; None if there are headers that a plain change lacks: `crate::event::about_of`.
fn about_of(headers: Headers<'_>) -> Option<&[u8]> {
    let mut found = None;
    for (name, value) in headers {
        match Header::of(name.to_bytes())? {
            Header::About => found = Some(value?),
            Header::Previous => {}
        }
    }
    found
}

#[pymethods]
impl KafkaBatch {
    fn __len__(&self) -> usize {
        self.len()
    }

    /// Return a message by its index, or a list of messages by a slice.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        at: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let length = self.len();
        if let Ok(slice) = at.cast::<PySlice>() {
            let found = slice.indices(isize::try_from(length)?)?;
            let indexes = (0..found.slicelength)
                .map(|nth| found.start + isize::try_from(nth).unwrap_or(0) * found.step);
            let messages = indexes.map(|index| self.taken(py, index));
            return Ok(PyList::new(py, messages.collect::<PyResult<Vec<_>>>()?)?.into_any());
        }
        let index: isize = at.extract()?;
        let index = if index < 0 {
            index + isize::try_from(length)?
        } else {
            index
        };
        Ok(Bound::new(py, self.taken(py, index)?)?.into_any())
    }

    /// The errors that arrived between the messages.
    #[getter]
    fn failures<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, KafkaMessage>>> {
        self.failures
            .iter()
            .map(|failure| Bound::new(py, failure.message(py)?))
            .collect()
    }
}

impl KafkaBatch {
    fn taken(&self, py: Python<'_>, index: isize) -> PyResult<KafkaMessage> {
        let message = usize::try_from(index)
            .ok()
            .and_then(|index| self.get(index));
        let message =
            message.ok_or_else(|| PyIndexError::new_err("expected an index within the batch"))?;
        KafkaMessage::of(py, &message)
    }
}

impl Failure {
    fn message(&self, py: Python<'_>) -> PyResult<KafkaMessage> {
        Ok(KafkaMessage {
            error: Some(as_python(py, &self.error)?.unbind()),
            partition: self.partition,
            offset: self.offset,
            key: None,
            value: None,
            headers: Ok(None),
        })
    }
}

/// A message, or an error, with the methods of `confluent_kafka.Message` that Sowline uses.
#[pyclass(module = "sowline_native")]
pub struct KafkaMessage {
    error: Option<Py<PyAny>>,
    partition: i32,
    offset: i64,
    key: Option<Py<PyBytes>>,
    value: Option<Py<PyBytes>>,
    /// The headers; or the name of one that is not UTF-8.
    headers: Result<Option<Py<PyAny>>, Vec<u8>>,
}

impl KafkaMessage {
    fn of(py: Python<'_>, message: &Message<'_>) -> PyResult<Self> {
        let bytes = |bytes: Option<&[u8]>| bytes.map(|bytes| PyBytes::new(py, bytes).unbind());
        Ok(KafkaMessage {
            error: None,
            partition: message.partition(),
            offset: message.offset(),
            key: bytes(message.key()),
            value: bytes(message.value()),
            headers: match message.headers() {
                None => Ok(None),
                Some(headers) => listed(py, headers)?.map(Some),
            },
        })
    }
}

/// Return headers as a list; or the name of one that is not UTF-8.
fn listed(py: Python<'_>, headers: Headers<'_>) -> PyResult<Result<Py<PyAny>, Vec<u8>>> {
    let list = PyList::empty(py);
    for (name, value) in headers {
        let Ok(name) = name.to_str() else {
            return Ok(Err(name.to_bytes().to_vec()));
        };
        let value = value.map(|value| PyBytes::new(py, value));
        list.append((name, value))?;
    }
    Ok(Ok(list.into_any().unbind()))
}

#[pymethods]
impl KafkaMessage {
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.error.as_ref().map(|error| error.clone_ref(py))
    }

    fn partition(&self) -> i32 {
        self.partition
    }

    fn offset(&self) -> i64 {
        self.offset
    }

    fn key(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.key.as_ref().map(|key| key.clone_ref(py))
    }

    fn value(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.value.as_ref().map(|value| value.clone_ref(py))
    }

    /// Return the headers, or None; raise UnicodeDecodeError if the name of one is not UTF-8.
    fn headers(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match &self.headers {
            Ok(headers) => Ok(headers.as_ref().map(|headers| headers.clone_ref(py))),
            Err(name) => Err(match std::str::from_utf8(name) {
                Ok(_) => unreachable!("it is not UTF-8"),
                Err(error) => {
                    PyErr::from_value(PyUnicodeDecodeError::new_utf8(py, name, error)?.into_any())
                }
            }),
        }
    }

    /// Replace the headers.
    fn set_headers(&mut self, headers: Py<PyAny>) {
        self.headers = Ok(Some(headers));
    }
}
