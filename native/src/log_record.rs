//! Log records as the core reads them: `sowline.commands.command.LogRecord`.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySlice, PyString, PyTuple};

use crate::command::NamedHeaders;

/// One record of the log as consumed from Kafka, with the members of `sowline.commands.command.LogRecord`.
#[pyclass(frozen, module = "sowline_native")]
pub struct LogRecord {
    #[pyo3(get)]
    pub offset: i64,
    #[pyo3(get)]
    pub time: i64,
    #[pyo3(get)]
    pub key: Option<Py<PyBytes>>,
    #[pyo3(get)]
    pub value: Option<Py<PyBytes>>,
    #[pyo3(get)]
    pub headers: Option<Py<PyList>>,
    /// Whose time it is: Kafka's number.
    #[pyo3(get)]
    pub time_type: i64,
}

/// Kafka's mark of a time that the broker gave: `sowline.model.log_time`.
pub const LOG_APPEND_TIME: i64 = 2;

/// The last ms of the year 9999.
pub const TIME_MAX: i64 = 253_402_300_799_999;

#[pymethods]
impl LogRecord {
    #[new]
    #[pyo3(signature = (offset, time, key, value, headers=None, time_type=LOG_APPEND_TIME))]
    fn new(
        offset: i64,
        time: i64,
        key: Option<Py<PyBytes>>,
        value: Option<Py<PyBytes>>,
        headers: Option<Py<PyList>>,
        time_type: i64,
    ) -> Self {
        LogRecord {
            offset,
            time,
            key,
            value,
            headers,
            time_type,
        }
    }
}

impl LogRecord {
    /// Return the Kafka key; an empty one if there is none.
    pub fn kafka_key<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.key.as_ref().map_or(b"", |key| key.as_bytes(py))
    }

    /// Return the value; an empty one if there is none.
    pub fn body<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.value.as_ref().map_or(b"", |value| value.as_bytes(py))
    }

    /// Return the size of the key, the value and these headers: `Forwards._check_fits`.
    pub fn size(&self, py: Python<'_>, headers: &NamedHeaders<'_>) -> usize {
        let named = |(name, value): &(&str, Option<&[u8]>)| {
            name.chars().count() + value.map_or(0, <[u8]>::len)
        };
        self.kafka_key(py).len() + self.body(py).len() + headers.iter().map(named).sum::<usize>()
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        LogRecord {
            offset: self.offset,
            time: self.time,
            key: self.key.as_ref().map(|key| key.clone_ref(py)),
            value: self.value.as_ref().map(|value| value.clone_ref(py)),
            headers: self.headers.as_ref().map(|headers| headers.clone_ref(py)),
            time_type: self.time_type,
        }
    }
}

/// Log records of one partition, in order: a sequence that makes a Python object of a record only when it is asked for.
#[pyclass(frozen, sequence, module = "sowline_native")]
pub struct LogRecords {
    pub records: Vec<LogRecord>,
}

#[pymethods]
impl LogRecords {
    #[new]
    fn new(py: Python<'_>, records: Vec<PyRef<'_, LogRecord>>) -> Self {
        LogRecords {
            records: records.iter().map(|record| record.clone_ref(py)).collect(),
        }
    }

    fn __len__(&self) -> usize {
        self.records.len()
    }

    /// Return one record, or some of them as a sequence again.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = index.cast::<PySlice>() {
            let found = slice.indices(self.records.len() as isize)?;
            let numbers = (0..found.slicelength).map(|n| found.start + n as isize * found.step);
            let records = numbers
                .map(|number| self.records[number as usize].clone_ref(py))
                .collect();
            return Ok(Bound::new(py, LogRecords { records })?.into_any());
        }
        let number: isize = index.extract()?;
        let number = if number < 0 {
            number + self.records.len() as isize
        } else {
            number
        };
        let record = usize::try_from(number)
            .ok()
            .and_then(|number| self.records.get(number))
            .ok_or_else(|| PyIndexError::new_err("there is no such log record"))?;
        Ok(Bound::new(py, record.clone_ref(py))?.into_any())
    }
}

/// The headers of a log record: names, and values or None.
pub type Headers<'py> = Vec<(Bound<'py, PyString>, Option<Bound<'py, PyBytes>>)>;

/// Return the headers of a log record; None if they are anything but pairs of a text and bytes or None.
pub fn headers_of<'py>(
    py: Python<'py>,
    headers: Option<&Py<PyList>>,
) -> PyResult<Option<Headers<'py>>> {
    let Some(list) = headers.map(|headers| headers.bind(py)) else {
        return Ok(Some(Vec::new()));
    };
    let mut found = Vec::with_capacity(list.len());
    for pair in list {
        let Ok(pair) = pair.cast_into::<PyTuple>() else {
            return Ok(None);
        };
        let (Ok(name), value) = (pair.get_item(0)?.cast_into::<PyString>(), pair.get_item(1)?)
        else {
            return Ok(None);
        };
        let value = if value.is_none() {
            None
        } else {
            let Ok(value) = value.cast_into::<PyBytes>() else {
                return Ok(None);
            };
            Some(value)
        };
        found.push((name, value));
    }
    Ok(Some(found))
}

/// Sort consumed messages by topic and partition, as log records in order. Messages of other partitions are left out.
///
/// The lists have an item for each message: what its methods of these names return. `partitions` has pairs of topic
/// and number as its keys.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "Python passes the columns of a batch"
)]
pub fn by_partition<'py>(
    topics: &Bound<'py, PyList>,
    numbers: Vec<i64>,
    offsets: Vec<i64>,
    timestamps: Vec<(i64, i64)>,
    keys: &Bound<'py, PyList>,
    values: &Bound<'py, PyList>,
    headers: &Bound<'py, PyList>,
    partitions: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = topics.py();
    let mut batches: Vec<(Bound<'py, PyTuple>, Vec<LogRecord>)> = Vec::new();
    let mut start = 0;
    while start < numbers.len() {
        // Messages of one partition usually follow each other, and then have the same text as their topic.
        let topic = topics.get_item(start)?;
        let mut end = start + 1;
        while end < numbers.len()
            && numbers[end] == numbers[start]
            && topics.get_item(end)?.eq(&topic)?
        {
            end += 1;
        }
        let partition = (topic, numbers[start]).into_pyobject(py)?;
        if partitions.contains(&partition)? {
            let known = batches
                .iter()
                .position(|(one, _)| one.eq(&partition).unwrap_or(false));
            let known = known.unwrap_or_else(|| {
                batches.push((partition, Vec::with_capacity(end - start)));
                batches.len() - 1
            });
            for at in start..end {
                batches[known].1.push(LogRecord {
                    offset: offsets[at],
                    time: timestamps[at].1,
                    key: keys.get_item(at)?.extract()?,
                    value: values.get_item(at)?.extract()?,
                    headers: headers.get_item(at)?.extract()?,
                    time_type: timestamps[at].0,
                });
            }
        }
        start = end;
    }
    let found = PyDict::new(py);
    for (partition, records) in batches {
        found.set_item(partition, Bound::new(py, LogRecords { records })?)?;
    }
    Ok(found)
}
