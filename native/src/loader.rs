//! Loads plain changes into the entries of a store: `materializer.partition.changes_loader`.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet};
use rustc_hash::FxHashMap;

use crate::checksum::{Checksum, Committed};
use crate::core::PositionTuple;
use crate::entry;
use crate::event::{About, about, about_of};
use crate::json::fields;
use crate::key::text_in;
use crate::key_filter::KeyFilter;
use crate::wholeness::{Wholeness, WholenessTuple};

/// About how much memory an entry takes in addition to its bytes.
const ENTRY_BYTES: usize = 150;

/// Entries in the order of their keys, changes of the index of due times in order, and the checksum after them.
type Written<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, (i64, u64));

/// An entry as it is now, and what the store's checksum holds of it.
struct Loaded {
    data: Option<Box<[u8]>>,
    committed: Option<Committed>,
    is_dirty: bool,
}

/// What a load knows besides its entries: era, newest change, log time, live records, and its wholeness.
type StateTuple = (u32, Option<PositionTuple>, i64, i64, WholenessTuple);

struct State {
    newest: Option<PositionTuple>,
    time: i64,
    live: i64,
    wholeness: Wholeness,
}

/// A message of a changes topic, as bytes.
struct Message<'a> {
    offset: i64,
    key: &'a [u8],
    value: &'a [u8],
    about: &'a [u8],
}

/// A plain change, and the key text of its record.
struct Plain<'a> {
    message: &'a Message<'a>,
    about: About<'a>,
    key_text: &'a [u8],
}

/// The entries of a store while it is loaded.
///
/// `get` reads an entry that an earlier `written` has taken to the store.
#[pyclass(module = "sowline_native")]
pub struct Loader {
    key_field: Vec<u8>,
    get: Py<PyAny>,
    entries: FxHashMap<Box<[u8]>, Loaded>,
    bytes: usize,
    /// The keys that the store may hold; None as long as it is empty.
    stored: Option<KeyFilter>,
}

#[pymethods]
impl Loader {
    #[new]
    fn new(key_field: &str, get: Py<PyAny>) -> Self {
        Loader {
            key_field: key_field.as_bytes().to_vec(),
            get,
            entries: FxHashMap::default(),
            bytes: 0,
            stored: None,
        }
    }

    /// About how much memory the entries take that were not yet written.
    #[getter]
    fn pending_bytes(&self) -> usize {
        self.bytes
    }

    /// Load messages from `start` on, up to the first that only Python can load; return its index and the state.
    ///
    /// Python also loads the changes of the keys in `ranks` and `stale_keys`. The lists have an item for each message:
    /// Kafka keys, values, headers and offsets.
    #[expect(
        clippy::too_many_arguments,
        reason = "Python calls it once for a batch, with the batch's columns"
    )]
    fn load<'py>(
        &mut self,
        py: Python<'py>,
        keys: &Bound<'py, PyList>,
        values: &Bound<'py, PyList>,
        headers: &Bound<'py, PyList>,
        offsets: Vec<i64>,
        start: usize,
        state: StateTuple,
        ranks: &Bound<'py, PyDict>,
        stale_keys: &Bound<'py, PySet>,
    ) -> PyResult<(usize, StateTuple)> {
        let (era, newest, time, live, wholeness) = state;
        let mut state = State {
            newest,
            time,
            live,
            wholeness: wholeness.into(),
        };
        let mut held = Vec::with_capacity(keys.len() - start);
        for (at, &offset) in offsets.iter().enumerate().skip(start) {
            let (Ok(key), Ok(value)) = (
                keys.get_item(at)?.cast_into::<PyBytes>(),
                values.get_item(at)?.cast_into::<PyBytes>(),
            ) else {
                break;
            };
            if (!ranks.is_empty() && ranks.contains(&key)?)
                || (!stale_keys.is_empty() && stale_keys.contains(&key)?)
            {
                break;
            }
            let Some(about) = about_of(&headers.get_item(at)?)? else {
                break;
            };
            held.push((offset, key, value, about));
        }
        let messages: Vec<Message<'_>> = held
            .iter()
            .map(|(offset, key, value, about)| Message {
                offset: *offset,
                key: key.as_bytes(),
                value: value.as_bytes(),
                about: about.as_bytes(),
            })
            .collect();
        // The rest needs no Python: other threads run meanwhile.
        let (plain, unread) = py.detach(|| {
            let plain = self.plain_of(&messages, era);
            let unread = self.unread(&plain);
            (plain, unread)
        });
        for key in unread {
            self.read(py, key)?;
        }
        let loaded = py.detach(|| {
            let applied = |change: &&Plain<'_>| self.apply(change, &mut state).is_some();
            plain.iter().take_while(applied).count()
        });
        let (newest, time, live) = (state.newest, state.time, state.live);
        Ok((
            start + loaded,
            (era, newest, time, live, state.wholeness.into()),
        ))
    }

    /// Return an entry's bytes, or None.
    fn get<'py>(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if !self.entries.contains_key(key) {
            self.read(py, key)?;
        }
        let data = self.entries[key].data.as_ref();
        Ok(data.map(|data| PyBytes::new(py, data)))
    }

    /// Change an entry that was read before; None removes it.
    fn put(&mut self, key: &[u8], data: Option<&[u8]>) {
        self.write(key, data.map(Box::from));
    }

    /// Return what is to be written to the store, and forget it. `checksum` is that of the store before.
    fn written<'py>(&mut self, py: Python<'py>, checksum: (i64, u64)) -> PyResult<Written<'py>> {
        let mut checksum = Checksum {
            entries: checksum.0,
            sum: checksum.1,
        };
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        let stored = self.stored.get_or_insert_with(KeyFilter::new);
        let (sorted, expiries) = py.detach(|| {
            let mut sorted: Vec<_> = entries.into_iter().filter(|(_, it)| it.is_dirty).collect();
            sorted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            let mut expiries = Vec::new();
            for (key, loaded) in &sorted {
                let data = loaded.data.as_deref();
                let now = data.map(|data| Committed::of(key, data));
                let Ok(()) = checksum.replace(key, loaded.committed, now, |index, is_there| {
                    expiries.push((index, is_there));
                    Ok::<(), Infallible>(())
                });
                stored.add(key);
            }
            expiries.sort_unstable();
            (sorted, expiries)
        });
        let (written, dues) = (PyList::empty(py), PyList::empty(py));
        for (key, loaded) in &sorted {
            let data = loaded.data.as_deref().map(|data| PyBytes::new(py, data));
            written.append((PyBytes::new(py, key), data))?;
        }
        for (index, is_there) in &expiries {
            dues.append((PyBytes::new(py, index), is_there))?;
        }
        Ok((written, dues, (checksum.entries, checksum.sum)))
    }
}

impl Loader {
    /// Return the messages as changes, up to the first that is not plain or is of another era.
    fn plain_of<'a>(&self, messages: &'a [Message<'a>], era: u32) -> Vec<Plain<'a>> {
        let mut given = Vec::with_capacity(16);
        let mut plain = Vec::with_capacity(messages.len());
        for message in messages {
            let Some(about) = about(message.about) else {
                break;
            };
            if about.position.0 != era
                || about.position.2 != 0
                || std::str::from_utf8(message.value).is_err()
                || fields(message.value, &mut given).is_none()
            {
                break;
            }
            let Some(key_text) = text_in(&given, &self.key_field) else {
                break;
            };
            plain.push(Plain {
                message,
                about,
                key_text,
            });
        }
        plain
    }

    /// Return the keys of changes whose entries may be in the store, and are not here.
    fn unread<'a>(&self, plain: &[Plain<'a>]) -> Vec<&'a [u8]> {
        let Some(stored) = &self.stored else {
            return Vec::new();
        };
        let keys = plain.iter().map(|change| change.message.key);
        keys.filter(|key| !self.entries.contains_key(*key) && stored.may_hold(key))
            .collect()
    }

    /// Read an entry from the store.
    fn read(&mut self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        let is_stored = self.stored.as_ref().is_some_and(|it| it.may_hold(key));
        let data: Option<Box<[u8]>> = if is_stored {
            let found = self.get.bind(py).call1((PyBytes::new(py, key),))?;
            let data: Option<Bound<'_, PyBytes>> = found.extract()?;
            data.map(|data| data.as_bytes().into())
        } else {
            None
        };
        let loaded = Loaded {
            committed: data.as_deref().map(|data| Committed::of(key, data)),
            data,
            is_dirty: false,
        };
        self.bytes += ENTRY_BYTES + key.len() + loaded.data.as_ref().map_or(0, |data| data.len());
        self.entries.insert(key.into(), loaded);
        Ok(())
    }

    /// Load one change; None if only Python can: then nothing was touched.
    fn apply(&mut self, change: &Plain<'_>, state: &mut State) -> Option<()> {
        let (about, message) = (&change.about, change.message);
        let position = about.position;
        let held = self
            .entries
            .get(message.key)
            .and_then(|it| it.data.as_deref());
        let (is_newer, was_live) = match held {
            None => (true, false),
            Some(data) => {
                let held = entry::head(data)?;
                if position < held.position {
                    return None;
                }
                (position > held.position, held.is_live)
            }
        };
        state
            .wholeness
            .saw_change(message.offset, position, about.after);
        state.time = state.time.max(about.time);
        state.newest = state.newest.max(Some(position));
        if !is_newer {
            return Some(());
        }
        let record = entry::Written {
            era: position.0,
            offset: position.1,
            time: about.time,
            expires: about.expires,
            key_text: change.key_text,
            numbers: about.numbers,
            correlation: about.correlation,
            body: message.value,
        };
        let mut stored = Vec::with_capacity(entry::bytes_of(&record));
        entry::write(&record, &mut stored);
        self.write(message.key, Some(stored.into_boxed_slice()));
        state.live += i64::from(!was_live);
        Some(())
    }

    fn write(&mut self, key: &[u8], data: Option<Box<[u8]>>) {
        let more = data.as_ref().map_or(0, |data| data.len());
        match self.entries.get_mut(key) {
            Some(loaded) => {
                let less = loaded.data.as_ref().map_or(0, |data| data.len());
                self.bytes = (self.bytes + more).saturating_sub(less);
                loaded.data = data;
                loaded.is_dirty = true;
            }
            None => {
                self.bytes += ENTRY_BYTES + key.len() + more;
                let loaded = Loaded {
                    data,
                    committed: None,
                    is_dirty: true,
                };
                self.entries.insert(key.into(), loaded);
            }
        }
    }
}
