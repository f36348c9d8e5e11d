//! Loads plain changes into the entries of a store: `sowline_materializer.partition.changes_loader`.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PySet};

use crate::checksum::Checksum;
use crate::entry;
use crate::event::{About, about};
use crate::json::fields;
use crate::key::KeyRule;
use crate::key_filter::KeyFilter;
use crate::loaded::LoadedEntries;
use crate::pending::Pending;
use crate::position::Position;
use crate::reading::stored;
use crate::source::{Held, LeftKeys, Message, Source, end_in, held};
use crate::wholeness::Wholeness;

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

/// How many changes are read before their entries are changed: what is read then is still in the processor's cache.
const PORTION: usize = 512;

/// A plain change, and the key text of its record.
struct Plain<'a> {
    message: Message<'a>,
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
    /// Python also loads the changes of the keys in `ranks` and `stale_keys`.
    fn load<'py>(
        &mut self,
        py: Python<'py>,
        messages: Source<'py>,
        start: usize,
        mut state: State,
        ranks: &Bound<'py, PyDict>,
        stale_keys: &Bound<'py, PySet>,
    ) -> PyResult<LoadedTo> {
        let left = LeftKeys { ranks, stale_keys };
        let (mut at, end) = (start, messages.len());
        while at < end {
            let stop = end.min(at + self.ahead);
            let loaded = match &messages {
                Source::Columns(columns) => {
                    let held = held(columns, at..stop, &left)?;
                    let some: Vec<Message<'_>> = held.iter().map(Held::bytes).collect();
                    self.load_some(py, some.into_iter(), &mut state)?
                }
                Source::Batch(batch) => {
                    let batch = batch.get();
                    let stop = end_in(py, batch, at..stop, &left)?;
                    let some = (at..stop).map_while(|at| batch.loadable(at));
                    self.load_some(py, some, &mut state)?
                }
            };
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
        let data = self.pending.get(key).and_then(|entry| entry.data);
        Ok(data.map(|data| PyBytes::new(py, data)))
    }

    /// Change an entry that was read before; None removes it.
    fn put(&mut self, key: &[u8], data: Option<&[u8]>) {
        let write = |out: &mut Vec<u8>| out.extend_from_slice(data.unwrap_or_default());
        let lookup = self.pending.look_up(key);
        self.pending.write(
            lookup,
            key,
            data.is_some(),
            data.map_or(0, <[u8]>::len),
            write,
        );
    }

    /// Return what is to be written to the store, and the checksum after it; forget it.
    ///
    /// `checksum` is that of the store before.
    fn written(&mut self, py: Python<'_>, checksum: (i64, u64)) -> (LoadedEntries, (i64, u64)) {
        py.detach(|| {
            let mut checksum = Checksum {
                entries: checksum.0,
                sum: checksum.1,
            };
            let pending = self.pending.take();
            let stored = self.stored.get_or_insert_with(KeyFilter::new);
            for entry in pending.changed() {
                stored.add(entry.key);
            }
            let entries = LoadedEntries::of(pending, &mut checksum);
            (entries, (checksum.entries, checksum.sum))
        })
    }
}

impl State {
    /// Note changes that were loaded.
    ///
    /// Noted between the writes of entries, each would wait until the entry before it has reached the memory.
    fn saw(&mut self, changes: &[Plain<'_>]) {
        for change in changes {
            let (about, position) = (&change.about, change.about.position);
            self.wholeness
                .saw_change(change.message.offset, position, about.after);
            self.time = self.time.max(about.partition_time());
            self.newest = self.newest.max(Some(position));
        }
    }
}

impl Loader {
    /// Load messages up to the first that is not plain; return how many were loaded.
    ///
    /// Other threads run meanwhile: Python is only needed to read entries from the store.
    fn load_some<'a>(
        &mut self,
        py: Python<'_>,
        mut messages: impl Iterator<Item = Message<'a>> + Send,
        state: &mut State,
    ) -> PyResult<usize> {
        py.detach(|| {
            let mut loaded = 0;
            loop {
                let plain = self.plain_of(messages.by_ref().take(PORTION), state.era);
                let unread = self.unread(&plain);
                if !unread.is_empty() {
                    Python::attach(|py| {
                        let keys = unread.iter().map(|key| PyBytes::new(py, key));
                        self.read(py, keys)
                    })?;
                }
                let applied = |change: &&Plain<'_>| self.apply(change, state).is_some();
                let count = plain.iter().take_while(applied).count();
                state.saw(&plain[..count]);
                loaded += count;
                if count < PORTION {
                    return Ok(loaded);
                }
            }
        })
    }

    /// Return the messages as changes, up to the first that is not plain or is of another era.
    fn plain_of<'a>(
        &self,
        messages: impl Iterator<Item = Message<'a>>,
        era: u32,
    ) -> Vec<Plain<'a>> {
        let mut given = Vec::with_capacity(16);
        let mut plain = Vec::with_capacity(PORTION);
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

    /// Load one change into its entry; None if only Python can: then nothing was touched.
    fn apply(&mut self, change: &Plain<'_>, state: &mut State) -> Option<()> {
        let (about, message) = (&change.about, &change.message);
        let position = about.position;
        let lookup = self.pending.look_up(message.key);
        let held = self.pending.found(&lookup).and_then(|entry| entry.data);
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
            .write(lookup, message.key, true, entry::bytes_of(&record), |out| {
                entry::write(&record, out);
            });
        state.live += i64::from(!was_live);
        Some(())
    }
}
