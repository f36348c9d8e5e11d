//! Log records as the core reads them: `sowline.protocol.command.LogRecord`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// One record of the log as consumed from Kafka, with the members of `sowline.protocol.command.LogRecord`.
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
}

#[pymethods]
impl LogRecord {
    #[new]
    fn new(
        offset: i64,
        time: i64,
        key: Option<Py<PyBytes>>,
        value: Option<Py<PyBytes>>,
        headers: Option<Py<PyList>>,
    ) -> Self {
        LogRecord {
            offset,
            time,
            key,
            value,
            headers,
        }
    }
}

/// Sort consumed messages by topic and partition, as log records in order. Messages of other partitions are left out.
///
/// A message is a `confluent_kafka.Message` without an error; `partitions` has pairs of topic and number as its keys.
#[pyfunction]
pub fn by_partition<'py>(
    messages: &Bound<'py, PyList>,
    partitions: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = messages.py();
    let batches = PyDict::new(py);
    for partition in partitions.keys() {
        batches.set_item(partition, PyList::empty(py))?;
    }
    for message in messages {
        let topic = message.call_method0(intern!(py, "topic"))?;
        let partition = message.call_method0(intern!(py, "partition"))?;
        let Some(batch) = batches.get_item((topic, partition))? else {
            continue;
        };
        let record = LogRecord {
            offset: message.call_method0(intern!(py, "offset"))?.extract()?,
            time: message
                .call_method0(intern!(py, "timestamp"))?
                .get_item(1)?
                .extract()?,
            key: message.call_method0(intern!(py, "key"))?.extract()?,
            value: message.call_method0(intern!(py, "value"))?.extract()?,
            headers: message.call_method0(intern!(py, "headers"))?.extract()?,
        };
        batch.cast::<PyList>()?.append(Bound::new(py, record)?)?;
    }
    for (partition, batch) in batches.copy()? {
        if batch.len()? == 0 {
            batches.del_item(partition)?;
        }
    }
    Ok(batches)
}
