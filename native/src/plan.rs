//! An index of filters: `sowline.subscriptions.engine.matching.index`, by their equalities and ranges of numbers.

use std::collections::HashMap;

use pyo3::prelude::*;

use crate::demand::{Found, Key, Number, spelled};
use crate::json::{Kind, Value, member_value};
use crate::layout::{Layout, Numbers};
use crate::slab::Slab;

/// How many paths are read of a record; filters on others are Python's.
const PATHS_MAX: usize = 64;

/// What a filter demands of one field.
struct Equality {
    path: usize,
    keys: Vec<Key>,
}

struct Range {
    path: usize,
    low: f64,
    high: f64,
}

/// A filter: where it is TRUE, all of its demands are met.
struct Filter {
    text: String,
    /// The filter as Python evaluates it; None if it demands nothing else.
    rest: Option<Py<PyAny>>,
    equalities: Vec<Equality>,
    ranges: Vec<Range>,
    home: Home,
    /// Its subscriptions.
    subscribers: Vec<usize>,
}

/// Where a filter is found.
#[derive(Clone, Copy)]
enum Home {
    /// By the keys of this one of its equalities.
    Equality(usize),
    /// Among the filters with ranges of the path of its first range.
    Range,
    /// Among those that match everything.
    Everywhere,
}

/// The filters on one path.
#[derive(Default)]
struct Table {
    texts: HashMap<Vec<u8>, Vec<usize>>,
    numbers: HashMap<Number, Vec<usize>>,
    spelled: HashMap<Number, Vec<usize>>,
    lows: Vec<f64>,
    highs: Vec<f64>,
    ranged: Vec<usize>,
}

impl Table {
    fn bucket(&mut self, key: &Key) -> &mut Vec<usize> {
        match key {
            Key::Text(text) => self.texts.entry(text.clone()).or_default(),
            Key::Number(number) => self.numbers.entry(*number).or_default(),
            Key::Spelled(number) => self.spelled.entry(*number).or_default(),
        }
    }

    fn leave(&mut self, key: &Key, filter: usize) {
        let bucket = self.bucket(key);
        bucket.retain(|one| *one != filter);
        if bucket.is_empty() {
            match key {
                Key::Text(text) => drop(self.texts.remove(text)),
                Key::Number(number) => drop(self.numbers.remove(number)),
                Key::Spelled(number) => drop(self.spelled.remove(number)),
            }
        }
    }

    /// Return how many filters the largest bucket of these keys has.
    fn crowd(&self, keys: &[Key]) -> usize {
        let size = |key: &Key| match key {
            Key::Text(text) => self.texts.get(text),
            Key::Number(number) => self.numbers.get(number),
            Key::Spelled(number) => self.spelled.get(number),
        };
        keys.iter()
            .filter_map(|key| size(key).map(Vec::len))
            .max()
            .unwrap_or(0)
    }

    fn is_used(&self) -> bool {
        !(self.texts.is_empty()
            && self.numbers.is_empty()
            && self.spelled.is_empty()
            && self.ranged.is_empty())
    }
}

/// A path that filters demand something of.
struct DemandedPath {
    steps: Vec<String>,
    /// The number of its first name.
    name: usize,
    users: usize,
    table: Table,
}

/// Filters, each with the numbers of its subscriptions.
#[derive(Default)]
pub struct Filters {
    filters: Slab<Filter>,
    by_text: HashMap<String, usize>,
    everywhere: Vec<usize>,
    paths: Slab<DemandedPath>,
    names: Numbers,
}

/// A filter's demands as Python names them: paths and keys; paths, lows and highs; the filter if it demands more.
pub type Demands = (
    Vec<(Vec<String>, Vec<Key>)>,
    Vec<(Vec<String>, f64, f64)>,
    Option<Py<PyAny>>,
);

impl Filters {
    /// Return more than the highest number of a filter.
    pub fn end(&self) -> usize {
        self.filters.end()
    }

    pub fn subscribers(&self, filter: usize) -> &[usize] {
        &self.filters[filter].subscribers
    }

    /// Add a subscription to a filter.
    pub fn join(&mut self, filter: usize, subscriber: usize) {
        self.filters[filter].subscribers.push(subscriber);
    }

    /// Return the filter that Python evaluates for the records that are found; None if they match.
    pub fn rest(&self, filter: usize) -> Option<&Py<PyAny>> {
        self.filters[filter].rest.as_ref()
    }

    /// Return the number of a filter, which is added if it is new; None if it demands too many paths.
    pub fn enter(&mut self, text: &str, demands: Demands) -> Option<usize> {
        if let Some(&known) = self.by_text.get(text) {
            return Some(known);
        }
        let (equalities, ranges, rest) = demands;
        let paths = equalities.len() + ranges.len();
        if self.paths.iter().count() + paths > PATHS_MAX {
            return None;
        }
        let equalities: Vec<_> = equalities
            .into_iter()
            .map(|(steps, keys)| Equality {
                path: self.number_of_path(steps),
                keys,
            })
            .collect();
        let ranges: Vec<_> = ranges
            .into_iter()
            .map(|(steps, low, high)| Range {
                path: self.number_of_path(steps),
                low,
                high,
            })
            .collect();
        let home = self.settle(self.filters.next(), &equalities, &ranges);
        let filter = Filter {
            text: text.to_owned(),
            rest,
            equalities,
            ranges,
            home,
            subscribers: Vec::new(),
        };
        let number = self.filters.put(filter);
        self.by_text.insert(text.to_owned(), number);
        Some(number)
    }

    /// Put a filter where it is found: by the equality with the smallest buckets, so that values common to most
    /// filters do not fill one.
    fn settle(&mut self, number: usize, equalities: &[Equality], ranges: &[Range]) -> Home {
        let table = |path: usize| &self.paths[path].table;
        let crowds = equalities
            .iter()
            .map(|one| (table(one.path).crowd(&one.keys), one.keys.len()));
        if let Some((best, _)) = crowds.enumerate().min_by_key(|(_, crowd)| *crowd) {
            let Equality { path, keys } = &equalities[best];
            let table = self.table(*path);
            keys.iter().for_each(|key| table.bucket(key).push(number));
            return Home::Equality(best);
        }
        let Some(range) = ranges.first() else {
            self.everywhere.push(number);
            return Home::Everywhere;
        };
        let table = self.table(range.path);
        table.lows.push(range.low);
        table.highs.push(range.high);
        table.ranged.push(number);
        Home::Range
    }

    /// Remove a subscription from a filter, which leaves with the last one.
    pub fn leave(&mut self, number: usize, subscriber: usize) {
        let subscribers = &mut self.filters[number].subscribers;
        subscribers.retain(|one| *one != subscriber);
        if subscribers.is_empty() {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: usize) {
        let filter = self.filters.take(number);
        self.by_text.remove(&filter.text);
        match filter.home {
            Home::Equality(best) => {
                let Equality { path, keys } = &filter.equalities[best];
                let table = self.table(*path);
                keys.iter().for_each(|key| table.leave(key, number));
            }
            Home::Range => {
                let table = self.table(filter.ranges[0].path);
                let at = table.ranged.iter().position(|one| *one == number);
                let at = at.expect("it was put there");
                table.lows.swap_remove(at);
                table.highs.swap_remove(at);
                table.ranged.swap_remove(at);
            }
            Home::Everywhere => self.everywhere.retain(|one| *one != number),
        }
        let paths = filter.equalities.iter().map(|one| one.path);
        for path in paths.chain(filter.ranges.iter().map(|one| one.path)) {
            self.paths[path].users -= 1;
            if self.paths[path].users == 0 {
                self.paths.take(path);
                self.number_names();
            }
        }
    }

    fn table(&mut self, path: usize) -> &mut Table {
        &mut self.paths[path].table
    }

    /// Return the number of a path, which has one more user.
    fn number_of_path(&mut self, steps: Vec<String>) -> usize {
        let known = self.paths.iter().find(|(_, one)| one.steps == steps);
        if let Some((known, _)) = known {
            self.paths[known].users += 1;
            return known;
        }
        let demanded = DemandedPath {
            steps,
            name: 0,
            users: 1,
            table: Table::default(),
        };
        let number = self.paths.put(demanded);
        self.number_names();
        number
    }

    fn number_names(&mut self) {
        self.names.clear();
        for demanded in self.paths.iter_mut() {
            let next = self.names.len();
            let name = demanded.steps[0].as_bytes().to_vec();
            demanded.name = *self.names.entry(name).or_insert(next);
        }
    }

    /// Return a reader of records, for as many of them as come before the filters change.
    pub fn reader(&self) -> Layout<'_> {
        Layout::new(&self.names)
    }

    /// Find the filters whose equalities and ranges a record meets, each once; None if only Python can.
    pub fn matching(
        &self,
        reader: &mut Layout<'_>,
        body: &[u8],
        found: &mut Vec<usize>,
    ) -> Option<()> {
        found.clear();
        let mut fields: [Option<Value<'_>>; PATHS_MAX] = [None; PATHS_MAX];
        reader.find(body, &mut fields)?;
        let record = Record {
            paths: &self.paths,
            fields: &fields,
        };
        found.extend(&self.everywhere);
        for (path, demanded) in self.paths.iter() {
            if demanded.table.is_used() {
                self.matching_on(&record, path, &demanded.table, found)?;
            }
        }
        Some(())
    }

    /// Find those that are found by one path.
    fn matching_on(
        &self,
        record: &Record<'_, '_>,
        path: usize,
        table: &Table,
        found: &mut Vec<usize>,
    ) -> Option<()> {
        let value = record.value(path)?;
        let empty = Vec::new();
        let (first, second) = match &value {
            Found::Null => (&empty, &empty),
            Found::Number(number) => (table.numbers.get(number).unwrap_or(&empty), &empty),
            Found::Text(text) => (
                table.texts.get(&text[..]).unwrap_or(&empty),
                spelled(text)
                    .and_then(|number| table.spelled.get(&number))
                    .unwrap_or(&empty),
            ),
        };
        for &filter in first {
            if self.holds(record, filter)? {
                found.push(filter);
            }
        }
        for &filter in second {
            if !first.contains(&filter) && self.holds(record, filter)? {
                found.push(filter);
            }
        }
        if !table.ranged.is_empty() {
            let rank = value.ranked()?;
            for (at, &filter) in table.ranged.iter().enumerate() {
                if rank.is_within(table.lows[at], table.highs[at]) && self.holds(record, filter)? {
                    found.push(filter);
                }
            }
        }
        Some(())
    }

    /// Return whether a record meets the demands of a filter but the one by which it was found.
    fn holds(&self, record: &Record<'_, '_>, filter: usize) -> Option<bool> {
        let filter = &self.filters[filter];
        for (at, one) in filter.equalities.iter().enumerate() {
            let is_known = matches!(filter.home, Home::Equality(best) if best == at);
            if !is_known && !record.value(one.path)?.has(&one.keys) {
                return Some(false);
            }
        }
        let first = usize::from(matches!(filter.home, Home::Range));
        for one in &filter.ranges[first..] {
            if !record
                .value(one.path)?
                .ranked()?
                .is_within(one.low, one.high)
            {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// The fields of a record that filters demand something of.
struct Record<'i, 'a> {
    paths: &'i Slab<DemandedPath>,
    fields: &'i [Option<Value<'a>>; PATHS_MAX],
}

impl<'a> Record<'_, 'a> {
    /// Return the value at a path; None if only Python can read it.
    fn value(&self, path: usize) -> Option<Found<'a>> {
        let demanded = &self.paths[path];
        let mut value = self.fields[demanded.name];
        for step in &demanded.steps[1..] {
            value = match value {
                Some(object) if object.kind == Kind::Object => {
                    member_value(object.text(), step.as_bytes())?
                }
                // Fields of objects inside an array count, too.
                Some(array) if array.kind == Kind::Array => return None,
                _ => None,
            };
        }
        Found::read(value)
    }
}
