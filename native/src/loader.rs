//! Loads plain changes into the entries of a store: `sowline_materializer.partition.changes_loader`.

use std::borrow::Cow;
use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet};

use crate::checksum::Checksum;
use crate::entry;
use crate::event::{About, about, about_of};
use crate::json::fields;
use crate::key::KeyRule;
use crate::key_filter::KeyFilter;
use crate::kinds::{EXPIRY, RECORD, of_kind};
use crate::pending::Pending;
use crate::position::Position;
use crate::reading::stored;
use crate::sorting::in_order;
use crate::wholeness::Wholeness;

/// Keys with their kinds, data or None for a removed entry, and the checksum after them.
type Written<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, (i64, u64));

/// What a load knows besides its entries: the era, the newest change, log time, and live records.
#[derive(FromPyObject)]
struct State {
    era: u32,
    newest: Option<Position>,
    time: i64,
    live: i64,
    wholeness: Wholeness<Position>,
}

/// The same behind the messages that were loaded.
#[pyclass(frozen, get_all, module = "sowline_native")]
pub struct LoadedTo {
    /// The index of the first message that was left.
    end: usize,
    newest: Option<Position>,
    time: i64,
    live: i64,
    wholeness: Wholeness<Position>,
}

/// How many messages are taken from Python at once: at least and at most.
const AHEAD_MIN: usize = 16;
const AHEAD_MAX: usize = 16_384;

/// The columns of messages, as Python passes them, and the keys that only Python can load.
struct Columns<'a, 'py> {
    keys: &'a Bound<'py, PyList>,
    values: &'a Bound<'py, PyList>,
    headers: &'a Bound<'py, PyList>,
    offsets: Vec<i64>,
    ranks: &'a Bound<'py, PyDict>,
    stale_keys: &'a Bound<'py, PySet>,
}

/// A message with the objects that hold its bytes.
struct Held<'py> {
    offset: i64,
    key: Bound<'py, PyBytes>,
    value: Bound<'py, PyBytes>,
    about: Bound<'py, PyBytes>,
}

impl Held<'_> {
    fn bytes(&self) -> Message<'_> {
        Message {
            offset: self.offset,
            key: self.key.as_bytes(),
            value: self.value.as_bytes(),
            about: self.about.as_bytes(),
        }
    }
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
    key_text: Cow<'a, [u8]>,
}

/// The entries of a store while it is loaded.
///
/// `get_many` reads entries that an earlier `written` has taken to the store.
#[pyclass(module = "sowline_native")]
pub struct Loader {
    key_rule: KeyRule,
    get_many: Py<PyAny>,
    pending: Pending,
    /// The keys that the store may hold; None as long as it is empty.
    stored: Option<KeyFilter>,
    /// How many messages are taken from Python at once: few while many of them are not plain.
    ahead: usize,
}

#[pymethods]
impl Loader {
    #[new]
    fn new(key_paths: Vec<Vec<String>>, get_many: Py<PyAny>) -> Self {
        Loader {
            key_rule: KeyRule::new(key_paths, b""),
            get_many,
            pending: Pending::default(),
            stored: None,
            ahead: AHEAD_MAX,
        }
    }

    /// About how much memory the entries take that were not yet written.
    #[getter]
    fn pending_bytes(&self) -> usize {
        self.pending.bytes
    }

    /// Load messages from `start` on, up to the first that only Python can load; return the state after
    /// them.
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
        mut state: State,
        ranks: &Bound<'py, PyDict>,
        stale_keys: &Bound<'py, PySet>,
    ) -> PyResult<LoadedTo> {
        let columns = Columns {
            keys,
            values,
            headers,
            offsets,
            ranks,
            stale_keys,
        };
        let (mut at, end) = (start, columns.offsets.len());
        while at < end {
            let stop = end.min(at + self.ahead);
            let loaded = self.load_some(py, &columns.messages(at, stop)?, &mut state)?;
            at += loaded;
            if at < stop {
                self.ahead = loaded.max(AHEAD_MIN);
                break;
            }
            self.ahead = (4 * self.ahead).min(AHEAD_MAX);
        }
        Ok(LoadedTo {
            end: at,
            newest: state.newest,
            time: state.time,
            live: state.live,
            wholeness: state.wholeness,
        })
    }

    /// Return an entry's bytes, or None.
    fn get<'py>(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if self.pending.get(key).is_none() {
            if self.stored.as_ref().is_some_and(|it| it.may_hold(key)) {
                self.read(py, [PyBytes::new(py, key)])?;
            } else {
                self.pending.add_stored(key, None);
            }
        }
        let data = self.pending.get(key).and_then(|entry| entry.data());
        Ok(data.map(|data| PyBytes::new(py, data)))
    }

    /// Change an entry that was read before; None removes it.
    fn put(&mut self, key: &[u8], data: Option<&[u8]>) {
        let write = |out: &mut Vec<u8>| out.extend_from_slice(data.unwrap_or_default());
        self.pending
            .write(key, data.is_some(), data.map_or(0, <[u8]>::len), write);
    }

    /// Return what is to be written to the store, in the order of the keys, and forget it.
    ///
    /// `checksum` is that of the store before.
    fn written<'py>(&mut self, py: Python<'py>, checksum: (i64, u64)) -> PyResult<Written<'py>> {
        let mut checksum = Checksum {
            entries: checksum.0,
            sum: checksum.1,
        };
        let stored = self.stored.get_or_insert_with(KeyFilter::new);
        let pending = &mut self.pending;
        let entries = py.detach(|| pending.take());
        let (changed, expiries) = py.detach(|| {
            let changed = in_order(entries.iter(), |entry| entry.key());
            let mut expiries = Vec::new();
            for entry in &changed {
                let (was, now) = entry.change();
                let Ok(()) = checksum.replace(entry.key(), was, now, |index, is_there| {
                    expiries.push((index, is_there));
                    Ok::<(), Infallible>(())
                });
                stored.add(entry.key());
            }
            expiries.sort_unstable();
            (changed, expiries)
        });
        let (keys, data) = (PyList::empty(py), PyList::empty(py));
        for (index, is_there) in &expiries {
            keys.append(of_kind(py, EXPIRY, index)?)?;
            data.append(is_there.then(|| PyBytes::new(py, b"")))?;
        }
        for entry in &changed {
            keys.append(of_kind(py, RECORD, entry.key())?)?;
            data.append(entry.data().map(|data| PyBytes::new(py, data)))?;
        }
        drop(changed);
        py.detach(|| drop((entries, expiries)));
        Ok((keys, data, (checksum.entries, checksum.sum)))
    }
}

impl<'py> Columns<'_, 'py> {
    /// Return the messages from `start` to `stop`, up to the first that only Python can load.
    fn messages(&self, start: usize, stop: usize) -> PyResult<Vec<Held<'py>>> {
        let mut held = Vec::with_capacity(stop - start);
        for at in start..stop {
            let (Ok(key), Ok(value)) = (
                self.keys.get_item(at)?.cast_into::<PyBytes>(),
                self.values.get_item(at)?.cast_into::<PyBytes>(),
            ) else {
                break;
            };
            if (!self.ranks.is_empty() && self.ranks.contains(&key)?)
                || (!self.stale_keys.is_empty() && self.stale_keys.contains(&key)?)
            {
                break;
            }
            let Some(about) = about_of(&self.headers.get_item(at)?)? else {
                break;
            };
            held.push(Held {
                offset: self.offsets[at],
                key,
                value,
                about,
            });
        }
        Ok(held)
    }
}

impl Loader {
    /// Load messages up to the first that is not plain; return how many were loaded.
    fn load_some(
        &mut self,
        py: Python<'_>,
        held: &[Held<'_>],
        state: &mut State,
    ) -> PyResult<usize> {
        let messages: Vec<Message<'_>> = held.iter().map(Held::bytes).collect();
        // The rest needs no Python: other threads run meanwhile.
        let (plain, unread) = py.detach(|| {
            let plain = self.plain_of(&messages, state.era);
            let unread = self.unread(&plain);
            (plain, unread)
        });
        self.read(py, unread.iter().map(|key| PyBytes::new(py, key)))?;
        Ok(py.detach(|| {
            let applied = |change: &&Plain<'_>| self.apply(change, state).is_some();
            plain.iter().take_while(applied).count()
        }))
    }

    /// Return the messages as changes, up to the first that is not plain or is of another era.
    fn plain_of<'a>(&self, messages: &'a [Message<'a>], era: u32) -> Vec<Plain<'a>> {
        let mut given = Vec::with_capacity(16);
        let mut plain = Vec::with_capacity(messages.len());
        for message in messages {
            let Some(about) = about(message.about) else {
                break;
            };
            if about.position.era != era
                || about.position.nth != 0
                || about.schema_id.is_some()
                || std::str::from_utf8(message.value).is_err()
                || fields(message.value, &mut given).is_none()
            {
                break;
            }
            let Some(key_text) = self.key_rule.text_of(&given, message.key) else {
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
        keys.filter(|key| self.pending.get(key).is_none() && stored.may_hold(key))
            .collect()
    }

    /// Read entries from the store that are not here; a key may be given twice.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        keys: impl IntoIterator<Item = Bound<'py, PyBytes>>,
    ) -> PyResult<()> {
        for (key, data) in stored(py, &self.get_many, keys)? {
            let data = data.as_ref().map(|data| data.as_bytes());
            self.pending.add_stored(key.as_bytes(), data);
        }
        Ok(())
    }

    /// Load one change; None if only Python can: then nothing was touched.
    fn apply(&mut self, change: &Plain<'_>, state: &mut State) -> Option<()> {
        let (about, message) = (&change.about, change.message);
        let position = about.position;
        let held = self.pending.get(message.key).and_then(|entry| entry.data());
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
        state.time = state.time.max(about.partition_time());
        state.newest = state.newest.max(Some(position));
        if !is_newer {
            return Some(());
        }
        let record = entry::Written {
            at: position,
            time: about.time,
            expires: about.expires,
            key_text: &change.key_text,
            numbers: about.numbers,
            correlation: about.correlation,
            schema_id: None,
            states: b"",
            writes: b"",
            body: Some(message.value),
        };
        self.pending
            .write(message.key, true, entry::bytes_of(&record), |out| {
                entry::write(&record, out);
            });
        state.live += i64::from(!was_live);
        Some(())
    }
}
