//! What the model of handoff holds: changes, nodes, the session and the program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::position::Key;

/// What a client is promised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Guarantee {
    OneSnapshot,
    NoGap,
    NoRepeat,
    Focus,
    Resumable,
}

/// A change of one record: whether the record matches the client's filter after it, and whether it did before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Change {
    pub(super) key: Key,
    pub(super) matches: bool,
    pub(super) matched: bool,
}

/// The records that match, with the number of the last change of each. It stands for the body.
pub(super) type View = BTreeMap<Key, usize>;

/// A message to the client. Positions count changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Message {
    GroupBegin,
    Row(Key, usize),
    GroupEnd(usize),
    Publish(Key, usize),
    OutOfFocus(Key, usize),
    Progress(usize),
    Expired,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Node {
    pub(super) applied: usize,
    /// Its memory has the changes after this position.
    pub(super) remembers: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    Asked(Option<usize>),
    /// These rows of the snapshot are yet to be sent, in any order.
    Group(View),
    CatchingUp,
    Live,
    Over,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Session {
    pub(super) node: usize,
    pub(super) phase: Phase,
    pub(super) position: usize,
    pub(super) outbox: VecDeque<Message>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Program {
    pub(super) view: View,
    pub(super) position: Option<usize>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub(super) changes: Vec<Change>,
    /// Up to this position changes are no longer kept one by one.
    pub(super) gone: usize,
    pub(super) nodes: Vec<Node>,
    pub(super) session: Option<Session>,
    /// What the client library has received, and the program has not read.
    pub(super) inbox: VecDeque<Message>,
    pub(super) group: Option<View>,
    pub(super) program: Program,
    pub(super) saved: Program,
    pub(super) faults: usize,
    pub(super) wrong: BTreeSet<Guarantee>,
}

impl State {
    /// Let a node load the changes up to an end; its memory is empty.
    pub(super) fn load(&mut self, node: usize, end: usize) {
        self.nodes[node] = Node {
            applied: end,
            remembers: end,
        };
    }

    pub(super) fn matching(&self, position: usize) -> View {
        let mut view = View::new();
        for (number, change) in (1..).zip(&self.changes[..position]) {
            if change.matches {
                view.insert(change.key, number);
            } else {
                view.remove(&change.key);
            }
        }
        view
    }

    /// The message that a change is due to the client.
    pub(super) fn due(&self, number: usize) -> Option<Message> {
        let change = self.changes[number - 1];
        if change.matches {
            Some(Message::Publish(change.key, number))
        } else {
            change
                .matched
                .then_some(Message::OutOfFocus(change.key, number))
        }
    }

    pub(super) fn first_due(&self, after: usize) -> Option<Message> {
        (after + 1..=self.changes.len()).find_map(|number| self.due(number))
    }

    /// The position after everything that was received; None if a group has not ended.
    pub(super) fn end(&self) -> Option<usize> {
        let mut end = self.program.position;
        let mut in_group = self.group.is_some();
        for message in &self.inbox {
            match message {
                Message::GroupBegin => in_group = true,
                Message::GroupEnd(position) => {
                    in_group = false;
                    end = Some(*position);
                }
                Message::Publish(_, position)
                | Message::OutOfFocus(_, position)
                | Message::Progress(position) => {
                    end = Some(*position);
                }
                Message::Expired => end = None,
                Message::Row(..) => (),
            }
        }
        end.filter(|_| !in_group)
    }

    /// Let the program read a message, and check it.
    pub(super) fn read(&mut self, message: Message) {
        match message {
            Message::GroupBegin => self.group = Some(View::new()),
            Message::Row(key, number) => {
                let is_new = self
                    .group
                    .as_mut()
                    .is_some_and(|group| group.insert(key, number).is_none());
                self.check(is_new, Guarantee::OneSnapshot);
            }
            Message::GroupEnd(position) => {
                let group = self.group.take();
                self.check(
                    group == Some(self.matching(position)),
                    Guarantee::OneSnapshot,
                );
                self.check(
                    self.program.position.is_none_or(|held| held <= position),
                    Guarantee::NoRepeat,
                );
                self.program = Program {
                    view: group.unwrap_or_default(),
                    position: Some(position),
                };
            }
            Message::Publish(key, position) => {
                self.check_due(message, position);
                self.program.view.insert(key, position);
                self.program.position = Some(position);
            }
            Message::OutOfFocus(key, position) => {
                self.check_due(message, position);
                self.program.view.remove(&key);
                self.program.position = Some(position);
            }
            Message::Progress(position) => {
                let held = self.program.position.unwrap_or_default();
                match self.first_due(held) {
                    Some(Message::Publish(_, due)) => self.check(due > position, Guarantee::NoGap),
                    Some(Message::OutOfFocus(_, due)) => {
                        self.check(due > position, Guarantee::Focus)
                    }
                    _ => (),
                }
                self.check(held <= position, Guarantee::NoRepeat);
                self.program.position = Some(position);
            }
            Message::Expired => self.program = Program::default(),
        }
        if self.group.is_none() {
            let view = self.matching(self.program.position.unwrap_or_default());
            if self.wrong.is_empty() {
                self.check(self.program.view == view, Guarantee::NoGap);
            }
        }
    }

    pub(super) fn check_due(&mut self, message: Message, position: usize) {
        let held = self.program.position.unwrap_or_default();
        if position <= held {
            self.check(false, Guarantee::NoRepeat);
            return;
        }
        self.check(self.due(position) == Some(message), Guarantee::Focus);
        match self.first_due(held) {
            Some(Message::Publish(_, due)) => self.check(due == position, Guarantee::NoGap),
            Some(Message::OutOfFocus(_, due)) => self.check(due == position, Guarantee::Focus),
            _ => (),
        }
    }

    pub(super) fn check(&mut self, is_so: bool, guarantee: Guarantee) {
        if !is_so {
            self.wrong.insert(guarantee);
        }
    }
}
