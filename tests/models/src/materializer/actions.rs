//! What can happen next, in a state of the materializers.

use std::collections::VecDeque;

use super::events::Event;
use super::model::{Materializer, State};
use super::owner::Open;
use super::rules::Mistake;
use crate::log::Record;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// The log is deleted and created again, with these records.
    ReplaceLog(Vec<Record>),
    /// The group gives the partition to a worker, which opens it.
    Open(usize),
    /// A worker opens the partition again, because its log was replaced.
    Reopen(usize),
    /// An owner gives the partition back, or hears that it is not the owner any more.
    Close(usize),
    /// The group gives up an owner that is alive.
    GiveUp,
    Prepare(usize, usize),
    /// Kafka has the next event.
    Deliver(usize),
    Flush(usize),
    Look(usize),
    Repair(usize),
    Crash {
        worker: usize,
        loses_disk: bool,
    },
    /// An event of a dead process arrives.
    Arrive(VecDeque<Event>),
}

impl Materializer {
    /// What a worker with an open partition may do.
    pub(super) fn actions_of(
        &self,
        state: &State,
        worker: usize,
        open: &Open,
        actions: &mut Vec<Action>,
    ) {
        let log = &state.logs[open.store.log];
        let is_of_another_log = open.store.log + 1 < state.logs.len();
        if let Some(sending) = &open.sending {
            if !sending.queue.is_empty() {
                actions.push(Action::Deliver(worker));
            }
            if open.pending.is_some() && self.rules.makes(Mistake::CommitsBeforeEmitting) {
                actions.push(Action::Flush(worker));
            }
        } else {
            for count in 1..=log.len() - open.store.standing.next_offset().min(log.len()) {
                actions.push(Action::Prepare(worker, count));
            }
            if state.owner != Some(worker) || state.stalls < self.bounds.stalls {
                actions.push(Action::Close(worker));
            }
            if is_of_another_log {
                actions.push(Action::Reopen(worker));
            }
            if open.store.changes_end < state.topic.len() {
                actions.push(Action::Look(worker));
            }
            if open.is_repair_due(self.rules) {
                actions.push(Action::Repair(worker));
            }
            // A worker that closes the partition flushes.
            let may_crash = state.crashes < self.bounds.crashes;
            if open.pending.is_some() && may_crash {
                actions.push(Action::Flush(worker));
            }
        }
        if state.crashes < self.bounds.crashes {
            actions.push(Action::Crash {
                worker,
                loses_disk: false,
            });
        }
        if state.losses < self.bounds.losses {
            actions.push(Action::Crash {
                worker,
                loses_disk: true,
            });
        }
    }
}
