//! Replays a trace of the simulation: each of its events must be possible in one of the states that the model may be
//! in. What a worker does without an event (an acknowledgement, a look, the size of a batch) leaves several states.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::events::{Event, Name};
use super::followers::Follower;
use super::owner::{Open, Store};
use super::recovery::{begun, from_kafka, from_store};
use super::rules::Rules;
use crate::log::{Record, Step};
use crate::position::{Key, Position};
use crate::trace::{Summary, at, expect};

mod line;
mod steps;

pub use line::Line;
use steps::{closure, sent};

const RULES: Rules = Rules { mistake: None };

/// One worker's side of a partition.
#[derive(Default)]
struct Side {
    disk: Option<Store>,
    /// What the disk held before, for power cuts.
    history: Vec<Store>,
    /// The ends of the changes that it has asked for since it opened its store.
    asked: Vec<usize>,
    is_loading: bool,
    possible: HashSet<Open>,
}

/// One partition, as far as the trace was replayed.
#[derive(Default)]
struct Partition {
    log: Vec<Vec<Record>>,
    topic: Vec<Event>,
    sides: BTreeMap<String, Side>,
    /// By dead process, what it may have sent.
    late: Vec<HashSet<Open>>,
    follower: Follower,
}

/// Replay the lines of a trace; return what was replayed, or why a line is not possible.
pub fn replay(lines: &[Line]) -> Result<Summary, String> {
    let keys = numbered(lines);
    let mut partitions: BTreeMap<u16, Partition> = BTreeMap::new();
    let mut summary = Summary::default();
    for (number, line) in (1..).zip(lines) {
        let wrong = |why: String| format!("line {number}: {why}: {line:?}");
        match line {
            Line::Wipe { by } => partitions
                .values_mut()
                .for_each(|partition| partition.wipe(by)),
            Line::Crash { by } => partitions
                .values_mut()
                .for_each(|partition| partition.crash(by)),
            _ => {
                let partition = partitions
                    .entry(line.partition())
                    .or_insert_with(|| Partition {
                        log: vec![Vec::new()],
                        ..Partition::default()
                    });
                partition.step(line, &keys).map_err(wrong)?;
                summary.states_max = summary.states_max.max(partition.states());
            }
        }
        summary.events += 1;
    }
    Ok(summary)
}

/// Number the keys in their order: repairs write keys in it.
fn numbered(lines: &[Line]) -> BTreeMap<String, Key> {
    let mut keys = BTreeSet::new();
    for line in lines {
        match line {
            Line::Log { effects, .. } => keys.extend(effects.iter().map(|(key, _)| key.clone())),
            Line::Change { key, .. } => {
                keys.insert(key.clone());
            }
            Line::Commit { stale, .. } => keys.extend(stale.iter().cloned()),
            _ => (),
        }
    }
    keys.into_iter().zip(0..).collect()
}

impl Partition {
    fn states(&self) -> usize {
        self.sides
            .values()
            .map(|side| side.possible.len().max(1))
            .product()
    }

    fn side(&mut self, by: &str) -> &mut Side {
        self.sides.entry(by.to_owned()).or_default()
    }

    fn step(&mut self, line: &Line, keys: &BTreeMap<String, Key>) -> Result<(), String> {
        match line {
            Line::Log {
                offset, effects, ..
            } => self.write(*offset, effects, keys),
            Line::Change {
                offset,
                by,
                key,
                live,
                position,
                after,
                last,
                again,
                written_in,
                ..
            } => {
                let (position, after) = (at(*position), at(*after));
                let step = Step {
                    key: keys[key],
                    is_live: *live,
                    position,
                    after,
                    last: *last,
                };
                self.append(
                    *offset,
                    by,
                    Event::Change {
                        step,
                        again: *again,
                        written_in: *written_in,
                    },
                )
            }
            Line::Progress {
                offset,
                by,
                position,
                after,
                ..
            } => {
                let event = Event::Progress {
                    position: at(*position),
                    after: at(*after),
                    log: 0,
                };
                self.append(*offset, by, event)
            }
            Line::Ask { by, end, .. } => {
                expect(*end == self.topic.len(), || {
                    format!("the changes end at {}", self.topic.len())
                })?;
                self.side(by).asked.push(*end);
                Ok(())
            }
            Line::Open { by, create, .. } => self.open(by, *create),
            Line::Close { by, .. } => {
                self.side(by).possible.clear();
                Ok(())
            }
            Line::Commit {
                by,
                position,
                last_change,
                complete,
                changes_end,
                stale,
                ..
            } => {
                let stale = stale.iter().map(|key| {
                    if key.is_empty() {
                        Name::Progress
                    } else {
                        Name::Key(keys[key])
                    }
                });
                let found = Committed {
                    position: at(*position),
                    last_change: at(*last_change),
                    complete: *complete,
                    changes_end: *changes_end,
                    stale: stale.collect(),
                };
                self.commit(by, &found)
            }
            Line::Restore {
                by,
                position,
                changes_end,
                ..
            } => self.side(by).restore(at(*position), *changes_end),
            Line::Wipe { .. } | Line::Crash { .. } => unreachable!("they concern all partitions"),
        }
    }

    fn write(
        &mut self,
        offset: usize,
        effects: &[(String, bool)],
        keys: &BTreeMap<String, Key>,
    ) -> Result<(), String> {
        let log = &mut self.log[0];
        expect(offset == log.len(), || {
            format!("the log ends at {}", log.len())
        })?;
        log.push(Record::Known(
            effects
                .iter()
                .map(|(key, is_live)| (keys[key], *is_live))
                .collect(),
        ));
        Ok(())
    }

    fn open(&mut self, by: &str, create: bool) -> Result<(), String> {
        let Self {
            sides, topic, log, ..
        } = self;
        let side = sides.entry(by.to_owned()).or_default();
        let extent = *side
            .asked
            .last()
            .ok_or("it has not asked for the extent of the partition")?;
        side.asked = vec![extent];
        side.possible.clear();
        side.is_loading = create;
        if create {
            side.disk = None;
            side.history.clear();
            return Ok(());
        }
        let disk = side.disk.as_ref().ok_or("there is no store")?;
        side.possible.extend(
            from_store(disk, &topic[..extent], log, RULES).map(|opened| begun(opened, log, RULES)),
        );
        Ok(())
    }

    /// An event was written. It must be the next one of its writer.
    fn append(&mut self, offset: usize, by: &str, event: Event) -> Result<(), String> {
        expect(offset == self.topic.len(), || {
            format!("the changes end at {}", self.topic.len())
        })?;
        let is_known = self.topic.contains(&event);
        if by.is_empty() {
            let arrived = self.arrive(offset, &event);
            expect(arrived || is_known, || {
                "no process that has died can have sent it".to_owned()
            })?;
        } else {
            let Self {
                sides, topic, log, ..
            } = self;
            let side = sides.get_mut(by).ok_or("it has no store open")?;
            let possible = closure(&side.possible, &side.asked, topic, &log[0]);
            let after: HashSet<Open> = possible
                .iter()
                .filter_map(|open| sent(open, offset, &event, &log[0]))
                .collect();
            expect(!after.is_empty(), || {
                format!("it is next in none of {} possible states", possible.len())
            })?;
            side.possible = after;
        }
        self.topic.push(event);
        match self.follower.read(&event, &self.log, RULES) {
            None => Ok(()),
            Some(guarantee) => Err(format!("it breaks {guarantee:?}")),
        }
    }

    fn arrive(&mut self, offset: usize, event: &Event) -> bool {
        let log = &self.log[0];
        let next = |possible: &HashSet<Open>| -> HashSet<Open> {
            possible
                .iter()
                .filter_map(|open| sent(open, offset, event, log))
                .collect()
        };
        let arrived: Vec<HashSet<Open>> = self.late.iter().map(next).collect();
        let count = arrived.iter().filter(|after| !after.is_empty()).count();
        for (possible, after) in self.late.iter_mut().zip(arrived) {
            if after.is_empty() {
                continue;
            }
            // If several may have sent it, each has, or has not.
            if count == 1 {
                *possible = after;
            } else {
                possible.extend(after);
            }
        }
        count > 0
    }

    fn commit(&mut self, by: &str, found: &Committed) -> Result<(), String> {
        let Self {
            sides, topic, log, ..
        } = self;
        let side = sides.get_mut(by).ok_or("it has no store open")?;
        if side.is_loading {
            let extent = *side.asked.last().unwrap_or(&0);
            let loaded = from_kafka(&topic[..extent], log, RULES);
            expect(found.is(&loaded.store), || {
                format!("a load leads to {:?}", loaded.store)
            })?;
            side.is_loading = false;
            side.asked = vec![extent];
            side.disk = Some(loaded.store.clone());
            side.possible = HashSet::from([begun(loaded, log, RULES)]);
            return Ok(());
        }
        let possible = closure(&side.possible, &side.asked, topic, &log[0]);
        let mut after = HashSet::new();
        let mut stored = None;
        for mut open in possible {
            if open
                .pending
                .as_ref()
                .is_some_and(|pending| found.is(pending))
            {
                stored = open.pending.take();
                after.insert(open);
            }
        }
        side.history.extend(side.disk.take());
        side.disk = Some(stored.ok_or("no possible state has such a commit")?);
        side.possible = after;
        Ok(())
    }

    fn wipe(&mut self, by: &str) {
        let side = self.side(by);
        side.disk = None;
        side.history.clear();
    }

    fn crash(&mut self, by: &str) {
        let Self {
            sides,
            topic,
            log,
            late,
            ..
        } = self;
        let Some(side) = sides.get_mut(by) else {
            return;
        };
        let possible = closure(&side.possible, &side.asked, topic, &log[0]);
        side.possible.clear();
        side.asked.clear();
        side.is_loading = false;
        if !possible.is_empty() {
            late.push(possible);
        }
    }
}

impl Side {
    fn restore(&mut self, position: Position, changes_end: usize) -> Result<(), String> {
        let is_same =
            |store: &Store| store.standing.position == position && store.changes_end == changes_end;
        if self.disk.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        let found = self
            .history
            .iter()
            .rposition(is_same)
            .ok_or("the disk has never held that")?;
        self.disk = Some(self.history.swap_remove(found));
        self.history.truncate(found);
        Ok(())
    }
}

/// What a trace tells of a commit.
struct Committed {
    position: Position,
    last_change: Position,
    complete: bool,
    changes_end: usize,
    stale: BTreeSet<Name>,
}

impl Committed {
    fn is(&self, store: &Store) -> bool {
        let standing = &store.standing;
        (self.position, self.last_change, self.complete)
            == (standing.position, standing.last_change, standing.complete)
            && self.changes_end == store.changes_end
            && self.stale == store.stale
    }
}
