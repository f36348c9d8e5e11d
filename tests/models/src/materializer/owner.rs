//! The owner of a partition: it applies a batch, sends its events, and commits once Kafka has them all. Then it repairs
//! what stale owners wrote. `materializer/sowline_materializer/{partition,worker}` have the originals.

use std::collections::{BTreeSet, VecDeque};

use super::events::{Event, Name};
use super::rules::{Mistake, Rules};
use crate::log::{Record, Standing};
use crate::position::Position;

/// A state as a store has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Store {
    pub standing: Standing,
    /// The log that the position is of.
    pub log: usize,
    /// The offset in the changes up to which this state has written or seen them.
    pub changes_end: usize,
    /// The names whose last event may not be their newest.
    pub stale: BTreeSet<Name>,
}

/// An open partition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Open {
    pub store: Store,
    /// The last commit, until it is flushed.
    pub pending: Option<Store>,
    /// The newest position that was in the changes when the partition was opened.
    pub emitted_to: Position,
    /// The offset at which everything begins that is newer than the opened state.
    pub tail_start: usize,
    pub sending: Option<Sending>,
}

/// Events that Kafka has not acknowledged yet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sending {
    pub purpose: Purpose,
    pub queue: VecDeque<Event>,
    pub sent: Vec<Event>,
    /// The offset after the last event that Kafka has.
    pub end: usize,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Purpose {
    /// A batch, which leads to this state.
    Batch(Standing),
    /// A repair: the events that follow these, and the names that were written by others in between.
    Repair {
        rest: VecDeque<Vec<Event>>,
        base: Option<Position>,
        stale: BTreeSet<Name>,
        start: usize,
    },
}

/// Followers received more than the owner's state holds.
#[derive(PartialEq, Eq, Debug)]
pub struct Fenced;

impl Open {
    pub fn position(&self) -> Position {
        self.store.standing.position
    }

    /// Whether the state has yet to reach what was emitted, or the end of a log record.
    pub fn is_behind(&self) -> bool {
        self.position() < self.emitted_to || !self.store.standing.complete
    }

    fn progress(&self, standing: &Standing) -> Event {
        Event::Progress {
            position: standing.position,
            after: standing.last_change,
            log: self.store.log,
        }
    }

    /// Return the state after the next log records of a batch, and the changes that were not emitted before.
    pub fn applied(&self, batch: &[Record], rules: Rules) -> (Standing, Vec<Event>) {
        let mut standing = self.store.standing.clone();
        if rules.makes(Mistake::CutShortCountsAsComplete) {
            standing.complete = true;
        }
        let mut changes = Vec::new();
        for record in batch {
            changes.extend(
                standing
                    .apply(record)
                    .into_iter()
                    .map(|step| Event::Change {
                        step,
                        again: false,
                        written_in: step.position.era,
                    }),
            );
        }
        changes.retain(|change| change.position() > self.emitted_to);
        (standing, changes)
    }

    /// Apply the next log records, and begin to send their events.
    pub fn prepare(&mut self, batch: &[Record], rules: Rules) {
        let (standing, mut events) = self.applied(batch, rules);
        if standing.position > standing.last_change.max(self.emitted_to) {
            events.push(self.progress(&standing));
        }
        if rules.makes(Mistake::CommitsBeforeEmitting) {
            let end = self.store.changes_end;
            self.commit(standing.clone(), end, rules);
        }
        self.send(Purpose::Batch(standing), events);
    }

    fn send(&mut self, purpose: Purpose, events: Vec<Event>) {
        let end = match &purpose {
            Purpose::Batch(_) => self.store.changes_end,
            Purpose::Repair { start, .. } => *start,
        };
        self.sending = Some(Sending {
            purpose,
            queue: events.into(),
            sent: Vec::new(),
            end,
        });
    }

    /// Note that Kafka has the next event; `offset` is its offset.
    pub fn sent(&mut self, offset: usize) {
        let sending = self.sending.as_mut().expect("events are sent");
        let event = sending.queue.pop_front().expect("an event is to be sent");
        sending.sent.push(event);
        sending.end = offset + 1;
    }

    /// Take the acknowledgement of everything that was sent.
    pub fn acknowledge(&mut self, topic: &[Event], rules: Rules) -> Result<(), Fenced> {
        let sending = self.sending.take().expect("events are acknowledged");
        match sending.purpose {
            Purpose::Batch(standing) => {
                let start = self.store.changes_end;
                let end = if sending.sent.is_empty() {
                    start
                } else {
                    sending.end
                };
                if end - start > sending.sent.len() && !rules.makes(Mistake::JumpIsNotSeen) {
                    let found = &topic[start..end];
                    let stale =
                        written_by_others(found, &sending.sent, standing.position, None, rules)?;
                    self.store.stale.extend(stale);
                }
                self.commit(standing, end, rules);
                self.settle();
                self.begin_repair(rules);
            }
            Purpose::Repair {
                mut rest,
                base,
                mut stale,
                start,
            } => {
                let end = sending.end;
                if end - start > sending.sent.len() && !rules.makes(Mistake::JumpIsNotSeen) {
                    let found = &topic[start..end];
                    stale.extend(written_by_others(
                        found,
                        &sending.sent,
                        self.position(),
                        base,
                        rules,
                    )?);
                }
                if let Some(events) = rest.pop_front() {
                    self.send(
                        Purpose::Repair {
                            rest,
                            base: None,
                            stale,
                            start: end,
                        },
                        events,
                    );
                } else {
                    self.store.changes_end = end;
                    self.store.stale = stale;
                    self.pending = Some(self.store.clone());
                }
            }
        }
        Ok(())
    }

    /// Forget what no longer matters once the state has reached what was emitted: fewer states differ then.
    pub fn settle(&mut self) {
        if self.position() >= self.emitted_to {
            self.emitted_to = Position::before_the_log(0);
            self.tail_start = 0;
        }
    }

    fn commit(&mut self, standing: Standing, changes_end: usize, rules: Rules) {
        self.store.standing = standing;
        self.store.changes_end = changes_end;
        let mut stored = self.store.clone();
        // The next owner has to read the same tail of the changes, or followers would stay ahead of it.
        if self.position() < self.emitted_to && !rules.makes(Mistake::TailIsForgotten) {
            stored.changes_end = self.tail_start;
        }
        self.pending = Some(stored);
    }

    /// Note what others wrote up to an offset of a partition without traffic.
    pub fn look(&mut self, topic: &[Event], end: usize, rules: Rules) -> Result<(), Fenced> {
        let found = &topic[self.store.changes_end..end];
        let stale = written_by_others(found, &[], self.position(), None, rules)?;
        self.store.stale.extend(stale);
        self.store.changes_end = end;
        self.begin_repair(rules);
        Ok(())
    }

    /// Whether there is something to repair, and the state is new enough.
    pub fn is_repair_due(&self, rules: Rules) -> bool {
        let may_be_behind = rules.makes(Mistake::RepairsWhileBehind);
        !self.store.stale.is_empty()
            && (may_be_behind || !self.is_behind())
            && self.sending.is_none()
    }

    /// Begin to write the newest events of the stale names again, if that is due.
    pub fn begin_repair(&mut self, rules: Rules) {
        if !self.is_repair_due(rules) {
            return;
        }
        let standing = &self.store.standing;
        let mut batches = VecDeque::new();
        let begins_era = standing.last_change.era != standing.position.era;
        // Repairs carry the new era. Followers must see the era begin before its first event.
        if begins_era && !rules.makes(Mistake::EraBeginsWithoutProgress) {
            batches.push_back(vec![self.progress(standing)]);
        }
        let keys = self.store.stale.iter().filter_map(|name| match name {
            Name::Key(key) => Some(self.newest_event(*key)),
            Name::Progress => None,
        });
        let again: Vec<Event> = keys.collect();
        if !again.is_empty() {
            batches.push_back(again);
        }
        batches.push_back(vec![self.progress(standing)]);
        let first = batches
            .pop_front()
            .expect("a repair ends with the position");
        let base = begins_era.then_some(standing.last_change);
        let start = self.store.changes_end;
        self.send(
            Purpose::Repair {
                rest: batches,
                base,
                stale: BTreeSet::new(),
                start,
            },
            first,
        );
    }

    fn newest_event(&self, key: u16) -> Event {
        let standing = &self.store.standing;
        let era = standing.position.era;
        let last_of_era = if standing.last_change.era == era {
            standing.last_change
        } else {
            Position::before_the_log(era)
        };
        let record = standing.records.get(&key);
        let position = *record.unwrap_or(&last_of_era);
        let step = crate::log::Step {
            key,
            is_live: record.is_some(),
            position,
            after: position,
            last: true,
        };
        Event::Change {
            step,
            again: true,
            written_in: era,
        }
    }
}

/// Return the names that another process wrote between our events; `Fenced` if one of them is newer than our position,
/// or newer than the base on which our events begin an era.
fn written_by_others(
    found: &[Event],
    ours: &[Event],
    position: Position,
    base: Option<Position>,
    rules: Rules,
) -> Result<BTreeSet<Name>, Fenced> {
    if found.iter().any(|event| event.position() > position) {
        return Err(Fenced);
    }
    if let Some(base) = base.filter(|_| !rules.makes(Mistake::BaseIsNotChecked)) {
        let before = found
            .iter()
            .take_while(|event| event.position().era <= base.era);
        let is_change = |event: &&Event| matches!(event, Event::Change { .. });
        if before
            .filter(is_change)
            .any(|event| event.position() > base)
        {
            return Err(Fenced);
        }
    }
    let mut expected: BTreeSet<Position> =
        changes(ours).map(|(event, _)| event.position()).collect();
    let mut names = BTreeSet::from([Name::Progress]);
    for (event, name) in changes(found) {
        if !expected.remove(&event.position()) {
            names.insert(name);
        }
    }
    Ok(names)
}

fn changes(events: &[Event]) -> impl Iterator<Item = (&Event, Name)> {
    events
        .iter()
        .map(|event| (event, event.name()))
        .filter(|(_, name)| *name != Name::Progress)
}
