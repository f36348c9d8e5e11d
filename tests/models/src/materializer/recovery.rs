//! Opening a partition: from the local store, from the changes, or from the log; and in the era that its log requires.
//! `materializer/sowline_materializer/partition/{recovery,tail,eras,changes_loader}.py` are the originals.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{Event, Name, Verdict, verdict};
use super::owner::{Open, Store};
use super::rules::{Mistake, Rules};
use crate::log::{Record, Standing};
use crate::position::{Key, Position, Records};

/// Open a partition, and begin to write what it needs before its first batch. What was loaded is written to the disk.
pub fn open(disk: &mut Option<Store>, topic: &[Event], logs: &[Vec<Record>], rules: Rules) -> Open {
    let stored = disk
        .as_ref()
        .and_then(|store| from_store(store, topic, logs, rules));
    let opened = stored.unwrap_or_else(|| {
        let loaded = from_kafka(topic, logs, rules);
        *disk = Some(loaded.store.clone());
        loaded
    });
    begun(opened, logs, rules)
}

/// Load a partition from the changes, or from the log if there are none.
pub fn from_kafka(topic: &[Event], logs: &[Vec<Record>], rules: Rules) -> Open {
    from_changes(topic, rules).unwrap_or_else(|| from_log(logs))
}

/// Return a partition in the era that its log requires, with its first repair begun.
pub fn begun(mut opened: Open, logs: &[Vec<Record>], rules: Rules) -> Open {
    let log = logs.len() - 1;
    if opened.store.log != log && !rules.makes(Mistake::ReplacedLogContinuesTheEra) {
        let standing = &mut opened.store.standing;
        standing.position = Position::before_the_log(standing.position.era + 1);
        standing.complete = true;
        opened.emitted_to = standing.position;
        // The newest progress event is still one of the era that ended.
        if !rules.makes(Mistake::EraIsNotAnnounced) {
            opened.store.stale.insert(Name::Progress);
        }
    }
    opened.store.log = log;
    opened.settle();
    opened.begin_repair(rules);
    opened
}

/// Continue from a local store; None if the log does not lead from it to the last emitted change.
pub fn from_store(
    store: &Store,
    topic: &[Event],
    logs: &[Vec<Record>],
    rules: Rules,
) -> Option<Open> {
    let mut store = store.clone();
    let tail_start = store.changes_end;
    let mut newest = store.standing.position;
    let mut stale = BTreeSet::new();
    for event in topic.get(tail_start..).unwrap_or_default() {
        if verdict(event, newest) == Verdict::Drop {
            stale.insert(event.name());
        } else {
            newest = event.position();
        }
    }
    if newest > store.standing.position && !leads_on(&store, newest, logs, rules) {
        return None;
    }
    store.changes_end = topic.len();
    if !rules.makes(Mistake::TailIsNotRepaired) {
        store.stale.extend(stale);
    }
    Some(Open {
        store,
        pending: None,
        emitted_to: newest,
        tail_start,
        sending: None,
    })
}

/// Whether the log still holds all records between the state and the last emitted change.
fn leads_on(store: &Store, newest: Position, logs: &[Vec<Record>], rules: Rules) -> bool {
    let is_same = store.log == logs.len() - 1 && store.standing.position.era == newest.era;
    is_same || rules.makes(Mistake::LogIsTrustedToLeadOn)
}

fn from_changes(topic: &[Event], rules: Rules) -> Option<Open> {
    if topic.is_empty() {
        return None;
    }
    let mut load = Load::default();
    for event in topic {
        load.take(event, rules);
    }
    let (standing, log) = load
        .standing()
        .expect("the changes begin with a progress event");
    let mut stale = load.stale;
    stale.insert(Name::Progress);
    let store = Store {
        standing,
        log,
        changes_end: topic.len(),
        stale,
    };
    Some(opened(store))
}

fn from_log(logs: &[Vec<Record>]) -> Open {
    let stale = BTreeSet::from([Name::Progress]);
    let store = Store {
        standing: Standing::empty(),
        log: logs.len() - 1,
        changes_end: 0,
        stale,
    };
    opened(store)
}

fn opened(store: Store) -> Open {
    let emitted_to = store.standing.position;
    Open {
        store,
        pending: None,
        emitted_to,
        tail_start: 0,
        sending: None,
    }
}

/// A load of the changes: the newest event of each key, deletions too.
#[derive(Default)]
pub struct Load {
    era: u8,
    ranks: BTreeMap<Key, (u8, Position)>,
    records: Records,
    newest: Option<(Position, bool)>,
    progress: Option<(Position, Position, usize)>,
    pub stale: BTreeSet<Name>,
}

impl Load {
    /// Load the next event.
    pub fn take(&mut self, event: &Event, rules: Rules) {
        self.era = self.era.max(event.written_in());
        match event {
            Event::Progress {
                position,
                after,
                log,
            } => {
                if self
                    .progress
                    .is_none_or(|(newest, _, _)| *position >= newest)
                {
                    self.progress = Some((*position, *after, *log));
                }
            }
            Event::Change {
                step,
                again,
                written_in,
            } => {
                // Written late by the owner of an ended era: it never was part of the state.
                if *written_in < self.era && !rules.makes(Mistake::LoadCountsEndedEras) {
                    self.stale.insert(event.name());
                    return;
                }
                let stands_for_none = *again && !step.is_live;
                if !stands_for_none && self.newest.is_none_or(|(newest, _)| step.position > newest)
                {
                    self.newest = Some((step.position, step.last));
                }
                let rank = (*written_in, step.position);
                let held = self.ranks.get(&step.key);
                if held.is_some_and(|held| rank < *held) && !rules.makes(Mistake::LoadTakesTheLast)
                {
                    self.stale.insert(event.name());
                    return;
                }
                self.stale.remove(&event.name());
                self.ranks.insert(step.key, rank);
                if step.is_live {
                    self.records.insert(step.key, step.position);
                } else {
                    self.records.remove(&step.key);
                }
            }
        }
    }

    /// Return the loaded state and its log; None if no event has a position of the partition.
    pub fn standing(&self) -> Option<(Standing, usize)> {
        let (reported, after, log) = self.progress?;
        let newest = self.newest.map_or(after, |(newest, _)| newest);
        let last_change = after.max(newest);
        let position = reported.max(last_change);
        let cut_short = self
            .newest
            .is_some_and(|(newest, last)| newest == position && !last);
        let records = self.records.clone();
        Some((
            Standing {
                records,
                position,
                last_change,
                complete: !cut_short,
            },
            log,
        ))
    }
}
