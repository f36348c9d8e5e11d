//! What the model of streams holds: nodes' messages, the stream, its members, and clients.

use std::collections::{BTreeSet, VecDeque};

use super::Guarantee;

/// The node of a part that has none any more.
pub(super) const NOWHERE: usize = usize::MAX;

/// What a node sends: a change, or its position while it is idle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Sent {
    Change(usize),
    Progress(usize),
}

/// What a client is sent. A snapshot has everything up to its position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Message {
    Snapshot(usize),
    Change(usize),
    Progress(usize),
}

/// A subscription at a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Part {
    pub(super) node: usize,
    /// The position up to which the node has sent everything.
    pub(super) position: usize,
    pub(super) channel: VecDeque<Sent>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Stream {
    /// The position up to which its members were sent everything.
    pub(super) position: usize,
    pub(super) part: Option<Part>,
    pub(super) has_begun: bool,
}

/// A client's subscription within a stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Member {
    /// Until its release, messages wait here.
    pub(super) held: Option<Vec<usize>>,
    /// Whether the stream still sends it messages, or lets them wait.
    pub(super) is_in: bool,
    pub(super) begun: usize,
    /// Up to here the client has everything from elsewhere.
    pub(super) skipped: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Life {
    Away,
    /// It waits for the stream to begin.
    Waiting,
    /// It has joined, and its snapshot must have this position.
    Joined {
        member: Member,
        floor: usize,
    },
    /// Its snapshot has this position, and is sent.
    Begun {
        member: Member,
        snapshot: usize,
    },
    In(Member),
    /// It needs a subscription of its own from this position on.
    Alone(usize),
    /// It has one, and may wait to join the stream, which has passed the goal.
    Flow {
        part: Part,
        received: usize,
        next: Option<(Member, usize)>,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Client {
    pub(super) life: Life,
    pub(super) outbox: VecDeque<Message>,
    /// The bookmark of the last message that it has read.
    pub(super) at: Option<usize>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Whether each change matches.
    pub(super) changes: Vec<bool>,
    pub(super) applied: Vec<usize>,
    pub(super) stream: Option<Stream>,
    pub(super) clients: Vec<Client>,
    pub(super) faults: usize,
    pub(super) wrong: BTreeSet<Guarantee>,
}

impl Part {
    pub(super) fn new(node: usize, position: usize) -> Self {
        Self {
            node,
            position,
            channel: VecDeque::new(),
        }
    }

    /// Whether the node has something to send: a change, or its position if it is idle.
    pub(super) fn has_more(&self, applied: usize, limit: usize) -> bool {
        self.position < applied && self.channel.len() < limit
    }

    /// Send the next change that matches, or the position after all of them.
    pub(super) fn send(&mut self, changes: &[bool], applied: usize) {
        let next = (self.position..applied).find(|number| changes[*number]);
        self.position = next.map_or(applied, |number| number + 1);
        self.channel
            .push_back(next.map_or(Sent::Progress(applied), |_| Sent::Change(self.position)));
    }
}

impl Member {
    pub(super) fn new() -> Self {
        Self {
            held: Some(Vec::new()),
            is_in: true,
            begun: 0,
            skipped: 0,
        }
    }

    /// The position up to which its client was sent everything.
    pub(super) fn sent(&self, stream: &Stream) -> usize {
        if self.held.is_some() {
            self.begun
        } else {
            stream.position.max(self.skipped)
        }
    }
}

impl Client {
    /// The position after everything that it was sent; None without a whole snapshot.
    pub(super) fn end(&self) -> Option<usize> {
        let position = |message: &Message| match message {
            Message::Snapshot(position)
            | Message::Change(position)
            | Message::Progress(position) => *position,
        };
        self.outbox.back().map(position).or(self.at)
    }

    /// Let a client that is refused ask again. It drops a snapshot that it has a part of.
    pub(super) fn ask_again(&mut self) {
        if matches!(self.life, Life::Begun { .. }) {
            self.outbox.pop_back();
        }
        self.life = Life::Away;
    }
}

impl State {
    pub(super) fn members(&mut self) -> impl Iterator<Item = (usize, &mut Member)> {
        self.clients
            .iter_mut()
            .enumerate()
            .filter_map(|(number, client)| match &mut client.life {
                Life::Joined { member, .. }
                | Life::Begun { member, .. }
                | Life::In(member)
                | Life::Flow {
                    next: Some((member, _)),
                    ..
                } => Some((number, member)),
                _ => None,
            })
            .filter(|(_, member)| member.is_in)
    }

    /// Whether a client is in the stream, or waits for it.
    pub(super) fn is_stream_used(&self) -> bool {
        self.clients.iter().any(|client| match &client.life {
            Life::Away | Life::Alone(_) | Life::Flow { next: None, .. } => false,
            Life::Joined { member, .. } | Life::Begun { member, .. } => member.is_in,
            Life::Waiting | Life::In(_) | Life::Flow { next: Some(_), .. } => true,
        })
    }

    /// Let a member leave the stream: it continues alone from where its client was sent everything.
    pub(super) fn leave(&mut self, number: usize) {
        let Some(stream) = &self.stream else { return };
        match &mut self.clients[number].life {
            Life::Joined { member, .. } | Life::Begun { member, .. } => {
                member.is_in = false;
                member.held = Some(Vec::new());
            }
            Life::Flow { next, .. } => *next = None,
            life => {
                if let Life::In(member) = life {
                    *life = Life::Alone(member.sent(stream));
                }
            }
        }
    }

    pub(super) fn read(&mut self, number: usize) {
        let Some(message) = self.clients[number].outbox.pop_front() else {
            return;
        };
        let at = self.clients[number].at;
        let held = at.unwrap_or_default();
        let due = (held..self.changes.len())
            .find(|number| self.changes[*number])
            .map(|number| number + 1);
        let (position, is_due) = match message {
            Message::Snapshot(position) => (position, true),
            Message::Change(position) => (position, due.is_none_or(|due| due == position)),
            Message::Progress(position) => (position, due.is_none_or(|due| due > position)),
        };
        let is_repeat =
            position < held || (position == held && matches!(message, Message::Change(_)));
        if is_repeat {
            self.wrong.insert(Guarantee::NoRepeat);
        } else if !is_due {
            self.wrong.insert(Guarantee::NoGap);
        }
        self.clients[number].at = Some(position);
    }
}
