//! Replays a trace of the simulation: each of its events must be possible in one of the states that the model may be
//! in. What a worker does without an event (an acknowledgement, a look, the size of a batch) leaves several states.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Deserialize;

use super::events::{Event, Name};
use super::followers::Follower;
use super::model::Rules;
use super::owner::{Open, Purpose, Sending, Store};
use super::recovery::{begun, from_kafka, from_store};
use crate::log::{Record, Standing, Step};
use crate::position::{Key, Position};
use crate::trace::{At, Summary, at, expect};

const RULES: Rules = Rules { mistake: None };

/// An event of a trace.
#[derive(Deserialize, Clone, Debug)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// A record was written to the log; it makes these changes.
    Log {
        partition: u16,
        offset: usize,
        effects: Vec<(String, bool)>,
    },
    /// A change was written to the changes topic, by a worker that lives, or late.
    Change {
        partition: u16,
        offset: usize,
        by: String,
        key: String,
        live: bool,
        position: At,
        after: At,
        last: bool,
        again: bool,
        written_in: u8,
    },
    Progress {
        partition: u16,
        offset: usize,
        by: String,
        position: At,
        after: At,
    },
    /// A worker has asked for the end of the changes.
    Ask {
        partition: u16,
        by: String,
        end: usize,
    },
    /// A worker opens its store, or makes a new one.
    Open {
        partition: u16,
        by: String,
        create: bool,
    },
    Close {
        partition: u16,
        by: String,
    },
    /// A commit has reached the disk.
    Commit {
        partition: u16,
        by: String,
        position: At,
        last_change: At,
        complete: bool,
        changes_end: usize,
        stale: Vec<String>,
    },
    /// A power cut has taken the last commits from a disk.
    Restore {
        partition: u16,
        by: String,
        position: At,
        changes_end: usize,
    },
    Wipe {
        by: String,
    },
    Crash {
        by: String,
    },
}

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

impl Line {
    fn partition(&self) -> u16 {
        match self {
            Self::Log { partition, .. }
            | Self::Change { partition, .. }
            | Self::Progress { partition, .. }
            | Self::Ask { partition, .. }
            | Self::Open { partition, .. }
            | Self::Close { partition, .. }
            | Self::Commit { partition, .. }
            | Self::Restore { partition, .. } => *partition,
            Self::Wipe { .. } | Self::Crash { .. } => unreachable!("it concerns all partitions"),
        }
    }
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

/// Return the states that a worker may be in after what it does without an event.
fn closure(
    possible: &HashSet<Open>,
    asked: &[usize],
    topic: &[Event],
    log: &[Record],
) -> HashSet<Open> {
    let mut found = possible.clone();
    let mut new: Vec<Open> = possible.iter().cloned().collect();
    while let Some(open) = new.pop() {
        for next in silent_steps(&open, asked, topic, log) {
            if found.insert(next.clone()) {
                new.push(next);
            }
        }
    }
    found
}

fn silent_steps(open: &Open, asked: &[usize], topic: &[Event], log: &[Record]) -> Vec<Open> {
    let mut found = Vec::new();
    match &open.sending {
        Some(Sending {
            purpose: Purpose::Batch(_),
            ..
        }) => {
            found.extend(
                batch_ends(open, log)
                    .into_iter()
                    .filter_map(|end| acknowledged(end, topic)),
            );
        }
        Some(sending) if sending.queue.is_empty() => {
            found.extend(acknowledged(open.clone(), topic))
        }
        Some(_) => (),
        None => {
            // A batch without an event.
            let batch = Open {
                sending: Some(new_batch(open)),
                ..open.clone()
            };
            found.extend(
                batch_ends(&batch, log)
                    .into_iter()
                    .filter_map(|end| acknowledged(end, topic)),
            );
            for end in asked.iter().filter(|end| **end > open.store.changes_end) {
                let mut looked = open.clone();
                if looked.look(topic, *end, RULES).is_ok() {
                    found.push(looked);
                }
            }
            if open.is_repair_due(RULES) {
                let mut repairing = open.clone();
                repairing.begin_repair(RULES);
                found.push(repairing);
            }
        }
    }
    found
}

fn acknowledged(mut open: Open, topic: &[Event]) -> Option<Open> {
    open.acknowledge(topic, RULES).is_ok().then_some(open)
}

/// A batch of which no event was sent yet. How many log records it has, its end shows.
fn new_batch(open: &Open) -> Sending {
    Sending {
        purpose: Purpose::Batch(open.store.standing.clone()),
        queue: [].into(),
        sent: Vec::new(),
        end: open.store.changes_end,
    }
}

/// Return the states after each number of log records, and how many changes they make that were not emitted before.
fn batches(open: &Open, log: &[Record]) -> Vec<(Standing, usize)> {
    let mut standing = open.store.standing.clone();
    let mut changes = 0;
    let records = log.get(standing.next_offset()..).unwrap_or_default();
    // Kafka may deliver only records that are applied already: the batch then has none.
    let mut found = vec![(standing.clone(), 0)];
    for record in records {
        changes += standing
            .apply(record)
            .iter()
            .filter(|step| step.position > open.emitted_to)
            .count();
        found.push((standing.clone(), changes));
    }
    found
}

/// Return the ends of a batch at which all of its events were sent.
fn batch_ends(open: &Open, log: &[Record]) -> Vec<Open> {
    let sending = open.sending.as_ref().expect("a batch is sent");
    let count = sending
        .sent
        .iter()
        .filter(|event| event.name() != Name::Progress)
        .count();
    let last = sending.sent.last();
    let is_end = |(standing, changes): &(Standing, usize)| {
        let needs_progress = standing.position > standing.last_change.max(open.emitted_to);
        let is_reported = match last {
            Some(Event::Progress { position, .. }) => *position == standing.position,
            _ => !needs_progress,
        };
        *changes == count && is_reported
    };
    let ends = batches(open, log).into_iter().filter(is_end);
    ends.map(|(standing, _)| {
        let mut ended = open.clone();
        if let Some(sending) = &mut ended.sending {
            sending.purpose = Purpose::Batch(standing);
        }
        ended
    })
    .collect()
}

/// Return the state of a worker after it has sent an event; None if that is not its next one.
fn sent(open: &Open, offset: usize, event: &Event, log: &[Record]) -> Option<Open> {
    let mut after = open.clone();
    let mut sending = after.sending.take().unwrap_or_else(|| new_batch(open));
    if matches!(sending.purpose, Purpose::Batch(_)) {
        is_next_of_batch(open, &sending, event, log).then_some(())?;
    } else {
        let next = sending.queue.pop_front()?;
        is_repair(&next, event).then_some(())?;
    }
    sending.sent.push(*event);
    sending.end = offset + 1;
    after.sending = Some(sending);
    Some(after)
}

/// Whether a repair writes this event for the one that the model expects. A deleted record may be remembered, with the
/// position of its deletion.
fn is_repair(expected: &Event, event: &Event) -> bool {
    match (expected, event) {
        (
            Event::Change {
                step: expected,
                again: true,
                written_in: era,
            },
            Event::Change {
                step,
                again: true,
                written_in,
            },
        ) if !expected.is_live && !step.is_live => {
            (expected.key, era) == (step.key, written_in)
                && step.after == step.position
                && step.position <= expected.position
        }
        _ => expected == event,
    }
}

/// Whether an event is the next one of a batch: its next change, or a progress event that no change is missing before.
fn is_next_of_batch(open: &Open, sending: &Sending, event: &Event, log: &[Record]) -> bool {
    let count = sending
        .sent
        .iter()
        .filter(|event| event.name() != Name::Progress)
        .count();
    match event {
        Event::Change { again: true, .. } => false,
        Event::Change {
            step, written_in, ..
        } => {
            let mut standing = open.store.standing.clone();
            let records = log.get(standing.next_offset()..).unwrap_or_default();
            let steps = records.iter().flat_map(|record| standing.apply(record));
            let due = steps
                .filter(|step| step.position > open.emitted_to)
                .nth(count);
            due == Some(*step) && *written_in == step.position.era
        }
        Event::Progress {
            position, after, ..
        } => batches(open, log).iter().any(|(standing, changes)| {
            (standing.position, standing.last_change, *changes) == (*position, *after, count)
        }),
    }
}
