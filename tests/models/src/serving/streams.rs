//! A gateway: clients with equal requests share a stream, which follows a query service, and another one when that is
//! lost. Clients that lack something catch up with subscriptions of their own, and join.
//! `gateway/sowline_gateway/{streams,subscriptions}` have the originals.

use std::collections::{BTreeSet, VecDeque};

use stateright::{Model, Property};

mod actions;
pub mod replay;
mod state;

pub use actions::Action;
pub use state::State;
use state::{Client, Life, Member, Message, NOWHERE, Part, Sent, Stream};

/// What a client of a gateway is promised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Guarantee {
    NoGap,
    NoRepeat,
}

/// A mistake that is planted in the model. The checker has to find each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mistake {
    /// A stream that lost its node begins where another node is.
    StreamBeginsWhereTheNodeIs,
    /// A node that is behind a stream's positions begins at once, at its own position.
    BehindNodeIsNotWaitedFor,
    /// Messages do not wait for the snapshot of a member.
    MessagesDoNotWait,
    /// A snapshot may be older than the stream's positions.
    FloorIsIgnored,
    /// A subscription joins before its client has what the members have.
    JoinsBeforeItIsLevel,
    /// A member that leaves counts the message that it could not take.
    LeavesAfterTheMessage,
    /// The stream sends a member what its snapshot has.
    SnapshotIsNotSkipped,
    /// Messages of a lost node that are on their way still count.
    LostNodeIsStillHeard,
    /// A subscription that joins begins at the position where it began to wait.
    JoinsAtTheGoal,
    /// Messages that waited for a snapshot are dropped.
    WaitingMessagesAreDropped,
}

/// How much happens at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub changes: usize,
    pub clients: usize,
    pub nodes: usize,
    /// How often a connection breaks, a process is lost, or a member leaves for something else than a full outbox.
    pub faults: usize,
    /// Messages from which on a client is too slow for live messages.
    pub outbox: usize,
}

#[derive(Clone, Debug)]
pub struct Streams {
    pub bounds: Bounds,
    pub mistake: Option<Mistake>,
}

impl Streams {
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Begin the stream at a node that has applied so much, or continue there from its position.
    fn follow(&self, state: &mut State, node: usize, applied: usize) {
        let Some(stream) = &mut state.stream else {
            return;
        };
        let mut position = stream.position;
        if !stream.has_begun || self.makes(Mistake::StreamBeginsWhereTheNodeIs) {
            position = applied;
        }
        if !stream.has_begun {
            stream.position = applied;
            stream.has_begun = true;
        }
        let mut part = Part::new(node, position.min(applied));
        if let Some(lost) = stream.part.take() {
            part.channel = lost.channel;
        }
        stream.part = Some(part);
    }

    /// Whether the stream has no node that it follows.
    fn is_without_node(&self, stream: &Stream) -> bool {
        stream.part.as_ref().is_none_or(|part| part.node == NOWHERE)
    }

    fn cut_stream(&self, state: &mut State) {
        let Some(stream) = &mut state.stream else {
            return;
        };
        match &mut stream.part {
            Some(part) if self.makes(Mistake::LostNodeIsStillHeard) => part.node = NOWHERE,
            part => *part = None,
        }
    }

    /// Pass the next message of the stream on to its members.
    fn pass(&self, state: &mut State) {
        let Some(sent) = state
            .stream
            .as_mut()
            .and_then(|stream| stream.part.as_mut())
            .and_then(|part| part.channel.pop_front())
        else {
            return;
        };
        let position = match sent {
            Sent::Change(position) => {
                self.pass_change(state, position);
                position
            }
            Sent::Progress(position) => position,
        };
        if let Some(stream) = &mut state.stream {
            stream.position = position;
        }
    }

    fn pass_change(&self, state: &mut State, position: usize) {
        let Some(stream) = state.stream.clone() else {
            return;
        };
        let mut due = Vec::new();
        for (number, member) in state.members() {
            match &mut member.held {
                Some(held) => held.push(position),
                None if position > member.skipped => due.push(number),
                None => (),
            }
        }
        for number in due {
            let client = &mut state.clients[number];
            let Life::In(member) = &client.life else {
                continue;
            };
            let sent = member.sent(&stream);
            if client.outbox.len() < self.bounds.outbox {
                client.outbox.push_back(Message::Change(position));
            } else {
                let is_late = self.makes(Mistake::LeavesAfterTheMessage);
                client.life = Life::Alone(if is_late { position } else { sent });
            }
        }
    }

    fn join(&self, state: &mut State, number: usize) {
        let Some(stream) = &state.stream else { return };
        let floor = if self.makes(Mistake::FloorIsIgnored) {
            0
        } else {
            stream.position
        };
        let mut member = Member::new();
        if self.makes(Mistake::MessagesDoNotWait) {
            member.held = None;
            member.skipped = usize::MAX;
        }
        state.clients[number].life = Life::Joined { member, floor };
    }

    fn snapshot(&self, state: &mut State, number: usize, snapshot: usize) {
        let client = &mut state.clients[number];
        if let Life::Joined { member, .. } = &client.life {
            client.outbox.push_back(Message::Snapshot(snapshot));
            client.life = Life::Begun {
                member: member.clone(),
                snapshot,
            };
        }
    }

    /// Send what has waited from a position on, and let the stream send from now on.
    fn release(&self, state: &mut State, number: usize, mut member: Member, begun: usize) {
        let client = &mut state.clients[number];
        if !member.is_in {
            client.life = Life::Alone(begun);
            return;
        }
        let Some(stream) = &state.stream else { return };
        member.begun = begun;
        let held = member.held.take().unwrap_or_default();
        let is_dropped = self.makes(Mistake::WaitingMessagesAreDropped);
        let is_skipping = !self.makes(Mistake::SnapshotIsNotSkipped);
        for position in held.into_iter().filter(|_| !is_dropped) {
            if position <= member.begun && is_skipping {
                continue;
            }
            if client.outbox.len() >= self.bounds.outbox {
                client.life = Life::Alone(member.begun);
                return;
            }
            client.outbox.push_back(Message::Change(position));
            member.begun = position;
        }
        member.skipped = if stream.position < member.begun && is_skipping {
            member.begun
        } else {
            0
        };
        client.life = Life::In(member);
    }

    /// Let messages of the stream wait from now on. The goal is what the members were sent until now.
    fn wait_to_join(&self, state: &mut State, number: usize) {
        let Some(stream) = &state.stream else { return };
        if let Life::Flow { next, .. } = &mut state.clients[number].life {
            *next = Some((Member::new(), stream.position));
        }
    }

    /// Become a member if the client has reached the goal.
    fn join_if_level(&self, state: &mut State, number: usize) {
        if let Life::Flow {
            received,
            next: Some((member, goal)),
            ..
        } = state.clients[number].life.clone()
        {
            let is_early = self.makes(Mistake::JoinsAtTheGoal);
            let begun = if is_early { goal } else { received };
            self.release(state, number, member, begun);
        }
    }

    fn pass_alone(&self, state: &mut State, number: usize) {
        let client = &mut state.clients[number];
        let Life::Flow { part, received, .. } = &mut client.life else {
            return;
        };
        let Some(sent) = part.channel.pop_front() else {
            return;
        };
        let (position, message) = match sent {
            Sent::Change(position) => (position, Message::Change(position)),
            Sent::Progress(position) => (position, Message::Progress(position)),
        };
        *received = position;
        client.outbox.push_back(message);
    }

    fn is_level(&self, received: usize, goal: usize) -> bool {
        received >= goal || self.makes(Mistake::JoinsBeforeItIsLevel)
    }

    /// The nodes that have applied everything up to a position.
    fn nodes_at(&self, state: &State, position: usize) -> impl Iterator<Item = usize> {
        (0..self.bounds.nodes).filter(move |node| state.applied[*node] >= position)
    }
}

impl Model for Streams {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client {
            life: Life::Away,
            outbox: VecDeque::new(),
            at: None,
        };
        vec![State {
            changes: Vec::new(),
            applied: vec![0; self.bounds.nodes],
            stream: None,
            clients: vec![client; self.bounds.clients],
            faults: 0,
            wrong: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.wrong.is_empty() {
            return;
        }
        if state.changes.len() < self.bounds.changes {
            actions.extend([Action::Change(true), Action::Change(false)]);
        }
        let behind =
            (0..self.bounds.nodes).filter(|node| state.applied[*node] < state.changes.len());
        actions.extend(behind.map(Action::Apply));
        if let Some(stream) = &state.stream {
            self.stream_actions(state, stream, actions);
            if state.faults < self.bounds.faults {
                actions.push(Action::RestartGateway);
            }
        }
        for number in 0..state.clients.len() {
            self.client_actions(state, number, actions);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Change(matches) => next.changes.push(matches),
            Action::Apply(node) => next.applied[node] += 1,
            Action::Subscribe(number) => {
                let client = &mut next.clients[number];
                client.life = client.end().map_or(Life::Waiting, Life::Alone);
                next.stream.get_or_insert_default();
            }
            Action::Follow(node) => self.follow(&mut next, node, state.applied[node]),
            Action::NodeSends => {
                let part = next.stream.as_mut()?.part.as_mut()?;
                part.send(&next.changes, next.applied[part.node]);
            }
            Action::StreamPasses => self.pass(&mut next),
            Action::Join(number) => self.join(&mut next, number),
            Action::Snapshot(number, node) => {
                self.snapshot(&mut next, number, state.applied[node]);
            }
            Action::Release(number) => {
                if let Life::Begun { member, snapshot } = state.clients[number].life.clone() {
                    self.release(&mut next, number, member, snapshot);
                }
            }
            Action::BeginAlone(number, node) => {
                if let Life::Alone(from) = state.clients[number].life {
                    next.clients[number].life = Life::Flow {
                        part: Part::new(node, from),
                        received: from,
                        next: None,
                    };
                }
            }
            Action::NodeSendsAlone(number) => {
                if let Life::Flow { part, .. } = &mut next.clients[number].life {
                    part.send(&next.changes, next.applied[part.node]);
                }
            }
            Action::PassAlone(number) => self.pass_alone(&mut next, number),
            Action::NoteAlone(number) => {
                if let Life::Flow { part, received, .. } = &mut next.clients[number].life
                    && let Some(Sent::Progress(position)) = part.channel.pop_front()
                {
                    *received = position;
                }
            }
            Action::TellAlone(number) => {
                let client = &mut next.clients[number];
                if let Life::Flow { received, .. } = client.life {
                    client.outbox.push_back(Message::Progress(received));
                }
            }
            Action::WaitToJoin(number) => self.wait_to_join(&mut next, number),
            Action::JoinIfLevel(number) => self.join_if_level(&mut next, number),
            Action::Read(number) => next.read(number),
            Action::CutStream => {
                self.cut_stream(&mut next);
                next.faults += 1;
            }
            Action::CutAlone(number) => {
                if let Life::Flow { received, .. } = next.clients[number].life {
                    next.clients[number].life = Life::Alone(received);
                }
                next.faults += 1;
            }
            Action::Disconnect(number) => {
                let client = &mut next.clients[number];
                client.life = Life::Away;
                client.outbox.clear();
                next.faults += 1;
            }
            Action::Leave(number) => {
                next.leave(number);
                next.faults += 1;
            }
            Action::EndStream => {
                let is_used = state.is_stream_used();
                (0..next.clients.len()).for_each(|number| next.leave(number));
                let is_away = |client: &Client| client.life == Life::Away;
                next.stream = (!next.clients.iter().all(is_away)).then(Stream::default);
                next.faults += usize::from(is_used);
            }
            Action::Refuse(number) => {
                next.clients[number].ask_again();
                next.faults += 1;
            }
            Action::RestartGateway => {
                for client in &mut next.clients {
                    client.life = Life::Away;
                    client.outbox.clear();
                }
                next.stream = None;
                next.faults += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "no gap: the next change follows, from any node or stream",
                |_, state: &State| !state.wrong.contains(&Guarantee::NoGap),
            ),
            Property::always(
                "no repeat, in order: positions only move on",
                |_, state: &State| !state.wrong.contains(&Guarantee::NoRepeat),
            ),
            Property::sometimes(
                "a stream has changed its node, and all are level in it",
                |model: &Self, state: &State| {
                    let end = state.changes.len();
                    let is_level = |client: &Client| {
                        matches!(client.life, Life::In(_)) && client.at == Some(end)
                    };
                    end == model.bounds.changes
                        && state.faults == model.bounds.faults
                        && state.changes.last() == Some(&true)
                        && state.clients.iter().all(is_level)
                },
            ),
            Property::sometimes(
                "a slow client leaves, and comes back",
                |_, state: &State| {
                    state
                        .clients
                        .iter()
                        .any(|client| matches!(client.life, Life::Flow { next: Some(_), .. }))
                },
            ),
        ]
    }
}
