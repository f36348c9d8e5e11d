//! The log of a partition, and the changes that it makes: the state is a function of them.

use crate::position::{Key, Position, Records};

/// A record of the log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Record {
    /// A publish.
    Put(Key),
    /// A delete by filter, which may make many changes, or none.
    Clear,
    /// A record of a trace, with the changes that it makes: keys, and whether their records are live afterwards.
    Known(Vec<(Key, bool)>),
}

impl Record {
    fn effects(&self, records: &Records) -> Vec<(Key, bool)> {
        match self {
            Self::Put(key) => vec![(*key, true)],
            Self::Clear => records.keys().map(|key| (*key, false)).collect(),
            Self::Known(effects) => effects.clone(),
        }
    }
}

/// One record's step from one state to the next. `last` is false on all but the last change of a log record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Step {
    pub key: Key,
    pub is_live: bool,
    pub position: Position,
    pub after: Position,
    pub last: bool,
}

/// The state of a partition between two changes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Standing {
    pub records: Records,
    pub position: Position,
    pub last_change: Position,
    /// Whether all changes of the last log record are applied. Otherwise the record is read again.
    pub complete: bool,
}

impl Standing {
    /// The state before the first log record.
    pub fn empty() -> Self {
        let position = Position::before_the_log(0);
        Self {
            records: Records::new(),
            position,
            last_change: position,
            complete: true,
        }
    }

    /// The offset of the log at which to continue reading.
    pub fn next_offset(&self) -> usize {
        usize::try_from(self.position.offset + i16::from(self.complete)).expect("a log begins at 0")
    }

    /// Apply the log record at `next_offset`, and return its changes.
    pub fn apply(&mut self, record: &Record) -> Vec<Step> {
        let offset = i16::try_from(self.next_offset()).expect("logs are short");
        let effects = record.effects(&self.records);
        // Of a record that was cut short, some changes are made already. A delete finds them made; the changes of a
        // trace are counted.
        let first = if self.complete {
            0
        } else {
            self.position.nth + 1
        };
        let made = if matches!(record, Record::Known(_)) {
            usize::from(first)
        } else {
            0
        };
        let left = effects.get(made..).unwrap_or_default();
        let mut steps = Vec::with_capacity(left.len());
        self.position = Position::at(self.position.era, offset);
        for (at, (key, is_live)) in left.iter().enumerate() {
            let nth = first + u16::try_from(at).expect("records are few");
            let position = Position {
                nth,
                ..self.position
            };
            let last = at + 1 == left.len();
            steps.push(Step {
                key: *key,
                is_live: *is_live,
                position,
                after: self.last_change,
                last,
            });
            self.last_change = position;
            if *is_live {
                self.records.insert(*key, position);
            } else {
                self.records.remove(key);
            }
        }
        if let Some(step) = steps.last() {
            self.position = step.position;
        }
        self.complete = true;
        steps
    }
}

/// An era of a partition: the log that it applies, and the state that it began with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Era {
    pub log: usize,
    pub base: Standing,
}

impl Era {
    /// Return the state at a position of this era, which may be within a log record; None if its log has no such
    /// position.
    pub fn at(&self, number: u8, position: Position, logs: &[Vec<Record>]) -> Option<Standing> {
        let mut standing = self.begin(number);
        for record in logs.get(self.log)? {
            if standing.position.offset >= position.offset {
                break;
            }
            let before = standing.clone();
            let steps = standing.apply(record);
            if standing.position > position {
                // Within the record: only its first changes.
                standing = before;
                standing.position = Position::at(number, position.offset);
                for step in steps.iter().filter(|step| step.position <= position) {
                    take(&mut standing, step);
                }
            }
        }
        (standing.position.offset == position.offset).then_some(standing)
    }

    /// Return the change that comes after `last`, the last one that was taken.
    pub fn next_after(&self, number: u8, last: Position, logs: &[Vec<Record>]) -> Option<Step> {
        let mut standing = self.begin(number);
        let steps = logs
            .get(self.log)?
            .iter()
            .flat_map(|record| standing.apply(record));
        steps.into_iter().find(|step| step.position > last)
    }

    fn begin(&self, number: u8) -> Standing {
        let position = Position::before_the_log(number);
        Standing {
            position,
            complete: true,
            ..self.base.clone()
        }
    }
}

fn take(standing: &mut Standing, step: &Step) {
    standing.position = step.position;
    standing.last_change = step.position;
    standing.complete = step.last;
    if step.is_live {
        standing.records.insert(step.key, step.position);
    } else {
        standing.records.remove(&step.key);
    }
}
