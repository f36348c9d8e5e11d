//! What a follower of the changes sees: it reads each event as it is written, and notes what breaks a guarantee.

use super::events::{Event, Verdict, verdict};
use super::rules::{Mistake, Rules};
use crate::log::{Era, Record, Standing};
use crate::position::Position;

/// The guarantees of a changes topic, and of the states that are derived from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Guarantee {
    EmitBeforeCommit,
    NoGap,
    NoRepeat,
    Purity,
    OneSnapshot,
    NewestIsKept,
}

impl Guarantee {
    pub const ALL: [Self; 6] = [
        Self::EmitBeforeCommit,
        Self::NoGap,
        Self::NoRepeat,
        Self::Purity,
        Self::OneSnapshot,
        Self::NewestIsKept,
    ];
}

/// A follower that was there from the start, and the eras that it has seen begin.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Follower {
    pub standing: Standing,
    pub eras: Vec<Era>,
}

impl Follower {
    pub fn new() -> Self {
        Self {
            standing: Standing::empty(),
            eras: Vec::new(),
        }
    }

    /// Return the true state at a position; None if no log has it.
    pub fn truth(&self, position: Position, logs: &[Vec<Record>]) -> Option<Standing> {
        self.eras
            .get(usize::from(position.era))?
            .at(position.era, position, logs)
    }

    /// Read the next event; return the guarantee that it breaks.
    pub fn read(&mut self, event: &Event, logs: &[Vec<Record>], rules: Rules) -> Option<Guarantee> {
        let begins_era = self.eras.len() <= usize::from(event.written_in());
        if begins_era {
            // An era begins with a progress event, which names its log. Its base is what followers hold then.
            let Event::Progress { log, .. } = event else {
                return Some(Guarantee::NoGap);
            };
            self.eras.push(Era {
                log: *log,
                base: self.standing.clone(),
            });
        }
        let judged = verdict(event, self.standing.position);
        if judged == Verdict::Gap {
            return Some(Guarantee::NoGap);
        }
        let is_repeat = judged == Verdict::Drop;
        let is_ended = event.position().era < self.standing.position.era;
        let takes_it = rules.makes(Mistake::FollowerTakesRepeats)
            || (is_ended && rules.makes(Mistake::FollowerTakesEndedEras));
        if is_repeat && !takes_it {
            return None;
        }
        match event {
            Event::Progress {
                position, after, ..
            } if !is_repeat => {
                // An owner that is not the newest may begin an era: it is fenced once it has written this event, and
                // the base is what followers hold.
                if *after != self.standing.last_change && !begins_era {
                    return Some(Guarantee::NoGap);
                }
                self.standing.position = *position;
                self.standing.complete = true;
                None
            }
            Event::Change { step, again, .. } if !is_repeat || !again => self.take(step, logs),
            _ => None,
        }
    }

    fn take(&mut self, step: &crate::log::Step, logs: &[Vec<Record>]) -> Option<Guarantee> {
        let era = self.eras.get(usize::from(step.position.era))?;
        let due = era.next_after(step.position.era, self.standing.last_change, logs);
        let is_ended = usize::from(step.position.era) + 1 < self.eras.len();
        let wrong = match due {
            // An era that has ended makes no more changes.
            _ if is_ended => Some(Guarantee::NoRepeat),
            Some(due) if due == *step => None,
            Some(due) if due.position < step.position => Some(Guarantee::NoGap),
            Some(due) if due.position == step.position && due.after == step.after => {
                Some(Guarantee::Purity)
            }
            Some(due) if due.position == step.position => Some(Guarantee::NoGap),
            _ => Some(Guarantee::NoRepeat),
        };
        self.standing.position = step.position;
        self.standing.last_change = step.position;
        self.standing.complete = step.last;
        if step.is_live {
            self.standing.records.insert(step.key, step.position);
        } else {
            self.standing.records.remove(&step.key);
        }
        wrong
    }
}

impl Default for Follower {
    fn default() -> Self {
        Self::new()
    }
}
