//! Plain changes for replicas: `sowline_query_service.replica.partition_replica` and `sowline_query_service.index.rows`.
//!
//! Changes are read in bulk from columns of messages, and put into the rows of a topic.

use blake2::Digest;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use rustc_hash::FxHashMap;

use crate::event::{about, about_of};
use crate::key::DomainHash;
use crate::replica_tables::{Before, Found, Loaded, Messages, Position, Tables, WrittenRows};
use crate::wholeness::{Wholeness, WholenessTuple};

/// The era in which an event was written, and its position.
type Rank = (i64, Position);

/// A change of one record by a publish or a delta publish.
struct Plain {
    offset: i64,
    key: Py<PyBytes>,
    body: Py<PyBytes>,
    position: Position,
    after: Position,
    time: i64,
    partition_time: i64,
    replay_time: i64,
    correlation: Option<Py<PyString>>,
}

/// Plain changes of one partition that follow each other in its changes topic.
#[pyclass(frozen, module = "sowline_native")]
pub struct PlainChanges {
    changes: Vec<Plain>,
}

#[pymethods]
impl PlainChanges {
    /// Read messages from `start` on, up to the first that is of another partition or that only Python can read.
    #[new]
    fn new(messages: Messages<'_>, start: usize) -> PyResult<Self> {
        let Messages {
            topics,
            partitions,
            offsets,
            keys,
            values,
            headers,
        } = messages;
        let mut changes = Vec::with_capacity(topics.len().saturating_sub(start));
        let (topic, partition) = (topics.get_item(start)?, partitions.get_item(start)?);
        for at in start..topics.len() {
            if !is_same(&partitions.get_item(at)?, &partition)?
                || !is_same(&topics.get_item(at)?, &topic)?
            {
                break;
            }
            let (Ok(offset), Ok(key), Ok(body)) = (
                offsets.get_item(at)?.extract(),
                keys.get_item(at)?.cast_into(),
                values.get_item(at)?.cast_into(),
            ) else {
                break;
            };
            match plain(offset, key, body, &headers.get_item(at)?)? {
                Some(change) => changes.push(change),
                None => break,
            }
        }
        Ok(PlainChanges { changes })
    }

    fn __len__(&self) -> usize {
        self.changes.len()
    }

    /// The highest position, if there are changes.
    #[getter]
    fn highest(&self) -> Option<Position> {
        self.changes.iter().map(|change| change.position).max()
    }

    /// Return the state of `Wholeness` after these changes; None for the newest position if it is the same.
    fn follow(
        &self,
        state: WholenessTuple<Bound<'_, PyAny>>,
    ) -> PyResult<WholenessTuple<Option<Position>>> {
        let (newest, due, is_refilling) = state;
        let before = position_of(&newest)?;
        let mut wholeness = Wholeness::from((before, due, is_refilling));
        for change in &self.changes {
            wholeness.saw_change(change.offset, change.position, change.after);
        }
        let (newest, due, is_refilling) = wholeness.into();
        Ok(((newest != before).then_some(newest), due, is_refilling))
    }

    /// Return the row of each change as bytes; -1 if its key has none.
    fn rows<'py>(&self, numbers: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyBytes>> {
        let rows: PyResult<Vec<i64>> = self
            .changes
            .iter()
            .map(|change| match numbers.get_item(&change.key)? {
                Some(row) => row.extract(),
                None => Ok(NO_ROW),
            })
            .collect();
        Ok(column(numbers.py(), rows?.into_iter(), i64::to_ne_bytes))
    }

    /// Do what `PartitionReplica.load` does with these changes, in all but the columns of `Rows`.
    ///
    /// The index gets an entry for the first event, and then every `index_step` events.
    fn load<'py>(
        &self,
        py: Python<'py>,
        tables: Tables<'py>,
        found: Found,
        before: Before<'py>,
        index_step: usize,
    ) -> PyResult<(Loaded, WrittenRows)> {
        let Before {
            ranks,
            era,
            position,
            since_indexed,
        } = before;
        let held = Held {
            rows: found.rows.to_vec(py)?,
            eras: found.eras.to_vec(py)?,
            offsets: found.offsets.to_vec(py)?,
            nths: found.nths.to_vec(py)?,
            has_ranks: !ranks.is_empty(),
            ranks,
        };
        let position = position
            .map(|position| position_of(&position))
            .transpose()?;
        let after = self.moved(clamped(&era)?, position, since_indexed, index_step);
        let kept = self.kept(py, &held, clamped(&era)?)?;
        let written = self.write(py, &tables, &held, &kept)?;
        Ok((after, written))
    }
}

/// The row of a key that has none.
const NO_ROW: i64 = -1;

/// What a replica holds for the key of each change.
struct Held<'py> {
    rows: Vec<i64>,
    eras: Vec<i64>,
    offsets: Vec<i64>,
    nths: Vec<i32>,
    has_ranks: bool,
    ranks: Bound<'py, PyDict>,
}

impl Held<'_> {
    /// Return the rank that a change has to exceed: `NewestEvents.relative_age`.
    fn rank(&self, at: usize, key: &Py<PyBytes>) -> PyResult<Option<Rank>> {
        if self.has_ranks
            && let Some(rank) = self.ranks.get_item(key)?
        {
            let (era, position): (Bound<'_, PyAny>, Bound<'_, PyAny>) = rank.extract()?;
            return Ok(Some((clamped(&era)?, position_of(&position)?)));
        }
        let era = self.eras[at];
        let position = Position {
            era,
            offset: self.offsets[at],
            nth: i64::from(self.nths[at]),
        };
        Ok((self.rows[at] != NO_ROW).then_some((era, position)))
    }
}

impl PlainChanges {
    /// Return the state after all changes: `NewestEvents.saw`, and `_note` and `_advance` of `PartitionReplica`.
    fn moved(
        &self,
        era: i64,
        position: Option<Position>,
        mut since_indexed: usize,
        index_step: usize,
    ) -> Loaded {
        let (mut held, mut newest_era) = (position, era);
        let (mut reached, mut times, mut entries) = (None, None, Vec::new());
        for change in &self.changes {
            newest_era = newest_era.max(change.position.era);
            since_indexed += 1;
            if held.is_some_and(|held| change.position <= held) {
                continue;
            }
            if held.is_none() || since_indexed >= index_step {
                entries.push((change.position, change.offset));
                since_indexed = 0;
            }
            held = Some(change.position);
            reached = held;
            let (log_time, changed) = times.unwrap_or((0, 0));
            times = Some((
                change.partition_time.max(log_time),
                change.replay_time.max(changed),
            ));
        }
        let new_era = (newest_era > era).then_some(newest_era);
        Loaded {
            era: new_era,
            position: reached,
            times,
            since_indexed,
            entries,
        }
    }

    /// Return the changes to keep, one for each key: the first that was newer than what is held, and the last.
    fn kept(&self, py: Python<'_>, held: &Held<'_>, era: i64) -> PyResult<Vec<(usize, usize)>> {
        let mut kept: Vec<(usize, usize)> = Vec::with_capacity(self.changes.len());
        let mut by_key: FxHashMap<&[u8], usize> = FxHashMap::default();
        by_key.reserve(self.changes.len());
        let mut newest_era = era;
        for (at, change) in self.changes.iter().enumerate() {
            newest_era = newest_era.max(change.position.era);
            if change.position.era < newest_era {
                continue;
            }
            let key = change.key.as_bytes(py);
            if let Some(&slot) = by_key.get(key) {
                if change.position > self.changes[kept[slot].1].position {
                    kept[slot].1 = at;
                }
                continue;
            }
            let rank = (change.position.era, change.position);
            if held.rank(at, &change.key)?.is_none_or(|held| rank > held) {
                by_key.insert(key, kept.len());
                kept.push((at, at));
            }
        }
        Ok(kept)
    }

    /// Put changes into the tables of `Rows`; return what its columns get.
    fn write<'py>(
        &self,
        py: Python<'py>,
        tables: &Tables<'py>,
        held: &Held<'py>,
        kept: &[(usize, usize)],
    ) -> PyResult<WrittenRows> {
        let rare = &tables.rare;
        let mut has_rare = !rare.is_empty();
        let (mut rows, mut new, mut digests) = (Vec::with_capacity(kept.len()), vec![], vec![]);
        for &(first, last) in kept {
            let change = &self.changes[last];
            let mut row = held.rows[first];
            if row == NO_ROW {
                let key = &self.changes[first].key;
                row = new_row(tables, key.bind(py))?;
                new.push(row);
                let digest = DomainHash::digest(key.as_bytes(py));
                digests.push(u64::from_be_bytes(digest.into()));
            }
            tables
                .bodies
                .set_item(usize::try_from(row)?, &change.body)?;
            if let Some(correlation) = &change.correlation {
                rare.set_item(row, tables.rare_type.call1((correlation,))?)?;
                has_rare = true;
            } else if has_rare && rare.contains(row)? {
                rare.del_item(row)?;
            }
            if let Some(changed) = &tables.changed {
                changed.add(row)?;
            }
            if held.has_ranks && held.ranks.contains(&change.key)? {
                held.ranks.del_item(&change.key)?;
            }
            rows.push(row);
        }
        let last = || kept.iter().map(|&(_, last)| &self.changes[last]);
        let eras = last().map(|change| change.position.era);
        let offsets = last().map(|change| change.position.offset);
        // `plain` leaves larger numbers to Python.
        let nths = last().map(|change| change.position.nth as i32);
        let times = last().map(|change| change.time);
        Ok(WrittenRows {
            rows: column(py, rows.into_iter(), i64::to_ne_bytes).unbind(),
            eras: column(py, eras, i64::to_ne_bytes).unbind(),
            offsets: column(py, offsets, i64::to_ne_bytes).unbind(),
            nths: column(py, nths, i32::to_ne_bytes).unbind(),
            times: column(py, times, i64::to_ne_bytes).unbind(),
            made: column(py, new.into_iter(), i64::to_ne_bytes).unbind(),
            digests: column(py, digests.into_iter(), u64::to_ne_bytes).unbind(),
        })
    }
}

/// Make a row for a key: `Rows._new_row`.
fn new_row(tables: &Tables<'_>, key: &Bound<'_, PyBytes>) -> PyResult<i64> {
    let Tables {
        numbers,
        keys,
        bodies,
        free,
        ..
    } = tables;
    let count = free.len();
    let row = if count == 0 {
        keys.append(key)?;
        bodies.append(key.py().None())?;
        i64::try_from(keys.len() - 1)?
    } else {
        let row = free.get_item(count - 1)?.extract()?;
        free.del_item(count - 1)?;
        keys.set_item(usize::try_from(row)?, key)?;
        row
    };
    numbers.set_item(key, row)?;
    Ok(row)
}

/// Return values as the bytes of an array.
fn column<T, const N: usize>(
    py: Python<'_>,
    values: impl Iterator<Item = T>,
    bytes: impl Fn(T) -> [u8; N],
) -> Bound<'_, PyBytes> {
    let mut all = Vec::with_capacity(N * values.size_hint().0);
    for value in values {
        all.extend_from_slice(&bytes(value));
    }
    PyBytes::new(py, &all)
}

/// Return a change; None if only Python can read it.
fn plain(
    offset: i64,
    key: Bound<'_, PyBytes>,
    body: Bound<'_, PyBytes>,
    headers: &Bound<'_, PyAny>,
) -> PyResult<Option<Plain>> {
    // The keys of progress events begin with a zero byte.
    if key.as_bytes().first() == Some(&0) {
        return Ok(None);
    }
    let Some(text) = about_of(headers)? else {
        return Ok(None);
    };
    let Some(found) = about(text.as_bytes()) else {
        return Ok(None);
    };
    // The rows have no larger numbers.
    if i32::try_from(found.position.nth).is_err() {
        return Ok(None);
    }
    let correlation = match found.correlation.map(std::str::from_utf8) {
        None => None,
        Some(Ok(text)) => Some(PyString::new(headers.py(), text).unbind()),
        Some(Err(_)) => return Ok(None),
    };
    Ok(Some(Plain {
        offset,
        key: key.unbind(),
        body: body.unbind(),
        position: found.position.into(),
        after: found.after.into(),
        time: found.time,
        partition_time: found.partition_time(),
        replay_time: found.replay_time(),
        correlation,
    }))
}

/// Whether two texts or two numbers are equal.
fn is_same(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    if one.is(other) {
        return Ok(true);
    }
    match (one.cast::<PyString>(), other.cast::<PyString>()) {
        (Ok(one), Ok(other)) => Ok(one.to_str()? == other.to_str()?),
        _ => one.eq(other),
    }
}

/// Return a number that compares with any number of a plain change as this one does, which may be of any size.
fn clamped(number: &Bound<'_, PyAny>) -> PyResult<i64> {
    match number.extract() {
        Ok(number) => Ok(number),
        Err(_) if number.lt(0)? => Ok(i64::MIN),
        Err(_) => Ok(i64::MAX),
    }
}

fn position_of(position: &Bound<'_, PyAny>) -> PyResult<Position> {
    let (era, offset, nth): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
        position.extract()?;
    Ok(Position {
        era: clamped(&era)?,
        offset: clamped(&offset)?,
        nth: clamped(&nth)?,
    })
}
