//! Log records as the core reads them: `sowline.protocol.command.LogRecord`.

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
    let batches = PyDict::new(py);
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
            let batch = match batches.get_item(&partition)? {
                Some(batch) => batch.cast_into::<PyList>()?,
                None => {
                    let batch = PyList::empty(py);
                    batches.set_item(&partition, &batch)?;
                    batch
                }
            };
            for at in start..end {
                let record = LogRecord {
                    offset: offsets[at],
                    time: timestamps[at].1,
                    key: keys.get_item(at)?.extract()?,
                    value: values.get_item(at)?.extract()?,
                    headers: headers.get_item(at)?.extract()?,
                };
                batch.append(Bound::new(py, record)?)?;
            }
        }
        start = end;
    }
    Ok(batches)
}
