//! The model: workers, their disks, the log and the changes of one partition, and everything that may go wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stateright::{Model, Property};

use super::actions::Action;
use super::events::Event;
use super::followers::{Follower, Guarantee};
use super::owner::{Open, Sending, Store};
use super::recovery::{Load, open};
use super::rules::{Bounds, Mistake, Rules};
use crate::log::Record;

const RECORDS: [Record; 3] = [Record::Put(0), Record::Put(1), Record::Clear];

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Worker {
    pub disk: Option<Store>,
    pub open: Option<Open>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub logs: Vec<Vec<Record>>,
    pub topic: Vec<Event>,
    pub workers: Vec<Worker>,
    /// The worker that has the partition, as the group sees it.
    pub owner: Option<usize>,
    /// What dead processes have sent, and Kafka does not have yet.
    pub late: BTreeSet<VecDeque<Event>>,
    pub follower: Follower,
    pub wrong: BTreeSet<Guarantee>,
    pub crashes: usize,
    pub losses: usize,
    pub stalls: usize,
}

#[derive(Clone, Debug)]
pub struct Materializer {
    pub bounds: Bounds,
    pub rules: Rules,
}

impl Materializer {
    /// Return all logs that begin like this. When their records are written does not matter: a batch has any number of
    /// them.
    fn logs(&self, first: Record) -> Vec<Vec<Record>> {
        let mut logs = vec![vec![first]];
        for _ in 1..self.bounds.records {
            let longer =
                |log: &Vec<Record>| RECORDS.map(|record| [log.as_slice(), &[record]].concat());
            logs = logs.iter().flat_map(longer).collect();
        }
        logs
    }

    /// Which worker is the first one makes no difference.
    fn in_order(state: &mut State) {
        if state.workers.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..state.workers.len()).collect();
        order.sort_by(|one, other| state.workers[*one].cmp(&state.workers[*other]));
        state.owner = state
            .owner
            .and_then(|owner| order.iter().position(|worker| *worker == owner));
        state.workers.sort();
    }

    /// Take the acknowledgement once everything is sent. That it takes a while makes no difference: nothing else sees
    /// it, and a worker that dies before it leaves the same disk.
    fn acknowledge(&self, state: &mut State, worker: usize) {
        let State { workers, topic, .. } = state;
        let Some(open) = &mut workers[worker].open else {
            return;
        };
        while open
            .sending
            .as_ref()
            .is_some_and(|sending| self.is_acknowledged(sending))
        {
            if open.acknowledge(topic, self.rules).is_err() {
                self.close(state, worker);
                return;
            }
        }
    }

    fn is_acknowledged(&self, sending: &Sending) -> bool {
        let is_early =
            self.rules.makes(Mistake::CommitsAtFirstAcknowledgement) && !sending.sent.is_empty();
        is_early || sending.queue.is_empty()
    }

    fn append(&self, state: &mut State, event: Event) -> usize {
        state.topic.push(event);
        state
            .wrong
            .extend(state.follower.read(&event, &state.logs, self.rules));
        if state.wrong.is_empty() && !self.is_snapshot_true(state) {
            state.wrong.insert(Guarantee::OneSnapshot);
        }
        state.topic.len() - 1
    }

    /// Whether a load at this instant is what a follower holds.
    fn is_snapshot_true(&self, state: &State) -> bool {
        loaded(state.topic.iter(), self.rules).is_none_or(|load| load == state.follower.standing)
    }

    fn flush(&self, state: &mut State, worker: usize) {
        let Some(open) = &mut state.workers[worker].open else {
            return;
        };
        let Some(mut stored) = open.pending.take() else {
            return;
        };
        if let Some(disk) = state.workers[worker]
            .disk
            .as_ref()
            .filter(|_| self.rules.makes(Mistake::TornFlush))
        {
            stored.standing.records = disk.standing.records.clone();
        }
        if stored.standing.position > state.follower.standing.position {
            state.wrong.insert(Guarantee::EmitBeforeCommit);
        } else if state
            .follower
            .truth(stored.standing.position, &state.logs)
            .is_none_or(|truth| truth.records != stored.standing.records)
        {
            state.wrong.insert(Guarantee::Purity);
        }
        state.workers[worker].disk = Some(stored);
    }

    fn close(&self, state: &mut State, worker: usize) {
        self.flush(state, worker);
        state.workers[worker].open = None;
        if state.owner == Some(worker) {
            state.owner = None;
        }
    }

    fn crash(&self, state: &mut State, worker: usize, loses_disk: bool) {
        let open = state.workers[worker].open.take();
        if let Some(mut queue) = open
            .and_then(|open| open.sending)
            .map(|sending| sending.queue)
        {
            if self.rules.makes(Mistake::ProducerLeavesGaps) && queue.len() > 1 {
                queue.pop_front();
            }
            if !queue.is_empty() {
                state.late.insert(queue);
            }
        }
        if loses_disk {
            state.workers[worker].disk = None;
            state.losses += 1;
        } else {
            state.crashes += 1;
        }
        if state.owner == Some(worker) {
            state.owner = None;
        }
    }

    fn open(&self, state: &mut State, worker: usize) {
        let State {
            workers,
            topic,
            logs,
            ..
        } = state;
        let opened = open(&mut workers[worker].disk, topic, logs, self.rules);
        workers[worker].open = Some(opened);
    }

    /// Whether the owner has done all that it can.
    fn quiet_owner<'a>(&self, state: &'a State) -> Option<&'a Open> {
        let open = state.workers[state.owner?].open.as_ref()?;
        let is_quiet = open.sending.is_none()
            && open.store.stale.is_empty()
            && open.store.changes_end == state.topic.len()
            && open.position() == state.follower.standing.position;
        is_quiet.then_some(open)
    }

    fn keeps_the_newest(&self, state: &State) -> bool {
        let Some(open) = self.quiet_owner(state) else {
            return true;
        };
        let mut last = BTreeMap::new();
        for (offset, event) in state.topic.iter().enumerate() {
            last.insert(event.name(), offset);
        }
        let mut kept: Vec<usize> = last.into_values().collect();
        kept.sort_unstable();
        loaded(kept.iter().map(|offset| &state.topic[*offset]), self.rules).as_ref()
            == Some(&open.store.standing)
    }
}

fn loaded<'a>(
    events: impl Iterator<Item = &'a Event>,
    rules: Rules,
) -> Option<crate::log::Standing> {
    let mut load = Load::default();
    for event in events {
        load.take(event, rules);
    }
    load.standing().map(|(standing, _)| standing)
}

impl Model for Materializer {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let begin = |log| State {
            logs: vec![log],
            topic: Vec::new(),
            workers: vec![Worker::default(); self.bounds.workers],
            owner: None,
            late: BTreeSet::new(),
            follower: Follower::new(),
            wrong: BTreeSet::new(),
            crashes: 0,
            losses: 0,
            stalls: 0,
        };
        self.logs(Record::Put(0)).into_iter().map(begin).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.wrong.is_empty() {
            return;
        }
        if state.logs.len() < self.bounds.logs && !state.topic.is_empty() {
            let logs = RECORDS.into_iter().flat_map(|first| self.logs(first));
            actions.extend(logs.map(Action::ReplaceLog));
        }
        if state.owner.is_some() && state.stalls < self.bounds.stalls {
            actions.push(Action::GiveUp);
        }
        for (worker, of) in state.workers.iter().enumerate() {
            match &of.open {
                Some(open) => self.actions_of(state, worker, open, actions),
                None if state.owner.is_none_or(|owner| owner == worker) => {
                    actions.push(Action::Open(worker))
                }
                None => (),
            }
        }
        actions.extend(state.late.iter().cloned().map(Action::Arrive));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::ReplaceLog(log) => next.logs.push(log),
            Action::Open(worker) => {
                next.owner = Some(worker);
                self.open(&mut next, worker);
            }
            Action::Reopen(worker) => {
                self.flush(&mut next, worker);
                self.open(&mut next, worker);
            }
            Action::Close(worker) => {
                if next.owner == Some(worker) {
                    next.stalls += 1;
                }
                self.close(&mut next, worker);
            }
            Action::GiveUp => {
                next.owner = None;
                next.stalls += 1;
            }
            Action::Prepare(worker, count) => {
                let open = next.workers[worker].open.as_mut()?;
                let start = open.store.standing.next_offset();
                open.prepare(&next.logs[open.store.log][start..start + count], self.rules);
                self.acknowledge(&mut next, worker);
            }
            Action::Deliver(worker) => {
                let event = *next.workers[worker]
                    .open
                    .as_ref()?
                    .sending
                    .as_ref()?
                    .queue
                    .front()?;
                let offset = self.append(&mut next, event);
                next.workers[worker].open.as_mut()?.sent(offset);
                self.acknowledge(&mut next, worker);
            }
            Action::Flush(worker) => self.flush(&mut next, worker),
            Action::Look(worker) => {
                let State { workers, topic, .. } = &mut next;
                if workers[worker]
                    .open
                    .as_mut()?
                    .look(topic, topic.len(), self.rules)
                    .is_err()
                {
                    self.close(&mut next, worker);
                }
            }
            Action::Repair(worker) => next.workers[worker].open.as_mut()?.begin_repair(self.rules),
            Action::Crash { worker, loses_disk } => self.crash(&mut next, worker, loses_disk),
            Action::Arrive(mut queue) => {
                next.late.remove(&queue);
                let event = queue.pop_front()?;
                if !queue.is_empty() {
                    next.late.insert(queue);
                }
                self.append(&mut next, event);
            }
        }
        Self::in_order(&mut next);
        Some(next)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.topic.len() <= self.bounds.events
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "emit before commit: no disk is ahead of the changes",
                |_, state: &State| !state.wrong.contains(&Guarantee::EmitBeforeCommit),
            ),
            Property::always(
                "no gap: an event names the change that followers have taken last",
                |_, state: &State| !state.wrong.contains(&Guarantee::NoGap),
            ),
            Property::always(
                "no repeat, in order: followers take each change of the log once",
                |_, state: &State| !state.wrong.contains(&Guarantee::NoRepeat),
            ),
            Property::always(
                "purity: a disk holds what its log says at its position",
                |_, state: &State| !state.wrong.contains(&Guarantee::Purity),
            ),
            Property::always(
                "one snapshot: a load is the state at one instant",
                |_, state: &State| !state.wrong.contains(&Guarantee::OneSnapshot),
            ),
            Property::always(
                "the newest is kept: what compaction leaves loads to the state",
                Self::keeps_the_newest,
            ),
            Property::sometimes(
                "a stale owner writes, and the owner repairs it",
                |model: &Self, state: &State| {
                    model.quiet_owner(state).is_some() && state.topic.iter().any(is_repair)
                },
            ),
            Property::sometimes(
                "the last era applies its log",
                |model: &Self, state: &State| {
                    let is_last = state.logs.len() == model.bounds.logs
                        && state.logs.last().is_some_and(|log| log.len() > 1);
                    is_last
                        && model
                            .quiet_owner(state)
                            .is_some_and(|open| open.position().offset == 1)
                },
            ),
        ]
    }
}

fn is_repair(event: &Event) -> bool {
    matches!(event, Event::Change { again: true, .. })
}
