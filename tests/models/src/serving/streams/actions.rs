//! What can happen next, in a state of streams.

use super::state::{Life, NOWHERE, Sent, State, Stream};
use super::{Mistake, Streams};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Change(bool),
    Apply(usize),
    Subscribe(usize),
    /// The stream begins, or continues, at a node.
    Follow(usize),
    NodeSends,
    StreamPasses,
    Join(usize),
    Snapshot(usize, usize),
    Release(usize),
    /// A subscription of its own begins at a node.
    BeginAlone(usize, usize),
    NodeSendsAlone(usize),
    PassAlone(usize),
    /// Note that the node has sent everything up to where it is; the client is not told.
    NoteAlone(usize),
    /// Tell the client where it is.
    TellAlone(usize),
    WaitToJoin(usize),
    JoinIfLevel(usize),
    Read(usize),
    CutStream,
    CutAlone(usize),
    /// A member leaves, for example because its client asks for a checksum or pauses.
    Leave(usize),
    /// The stream ends, because nobody uses it or no node has its partition.
    EndStream,
    Disconnect(usize),
    /// A client is refused for now. It asks again for what it has not received.
    Refuse(usize),
    RestartGateway,
}

impl Streams {
    pub(super) fn client_actions(&self, state: &State, number: usize, actions: &mut Vec<Action>) {
        let client = &state.clients[number];
        let stream = state.stream.as_ref().filter(|stream| stream.has_begun);
        let has_room = client.outbox.len() < self.bounds.outbox;
        match &client.life {
            Life::Away => actions.push(Action::Subscribe(number)),
            Life::Waiting if stream.is_some() => actions.push(Action::Join(number)),
            Life::Joined { floor, .. } => {
                let nodes = self.nodes_at(state, *floor);
                actions.extend(nodes.map(|node| Action::Snapshot(number, node)));
            }
            Life::Begun { .. } => actions.push(Action::Release(number)),
            Life::Alone(from) => {
                let nodes = self.nodes_at(state, *from);
                actions.extend(nodes.map(|node| Action::BeginAlone(number, node)));
            }
            Life::Flow {
                part,
                received,
                next,
            } => {
                if part.has_more(state.applied[part.node], self.bounds.outbox) {
                    actions.push(Action::NodeSendsAlone(number));
                }
                if !part.channel.is_empty() && has_room {
                    actions.push(Action::PassAlone(number));
                }
                if matches!(part.channel.front(), Some(Sent::Progress(_))) {
                    actions.push(Action::NoteAlone(number));
                }
                if has_room && client.end() < Some(*received) {
                    actions.push(Action::TellAlone(number));
                }
                match next {
                    None if stream.is_some() => actions.push(Action::WaitToJoin(number)),
                    Some((_, goal)) if has_room && self.is_level(*received, *goal) => {
                        actions.push(Action::JoinIfLevel(number));
                    }
                    _ => (),
                }
                if state.faults < self.bounds.faults {
                    actions.push(Action::CutAlone(number));
                }
            }
            Life::Waiting | Life::In(_) => (),
        }
        if !client.outbox.is_empty() {
            actions.push(Action::Read(number));
        }
        if state.faults < self.bounds.faults && client.life != Life::Away {
            actions.extend([Action::Disconnect(number), Action::Refuse(number)]);
            if matches!(client.life, Life::In(_)) {
                actions.push(Action::Leave(number));
            }
        }
    }

    pub(super) fn stream_actions(&self, state: &State, stream: &Stream, actions: &mut Vec<Action>) {
        if self.is_without_node(stream) {
            // A node that is behind the stream's bookmark lets it wait.
            let goes_at_once = !stream.has_begun || self.makes(Mistake::BehindNodeIsNotWaitedFor);
            let least = if goes_at_once { 0 } else { stream.position };
            actions.extend(self.nodes_at(state, least).map(Action::Follow));
        }
        if !state.is_stream_used() || state.faults < self.bounds.faults {
            actions.push(Action::EndStream);
        }
        let Some(part) = &stream.part else { return };
        if part.node != NOWHERE {
            if part.has_more(state.applied[part.node], self.bounds.outbox) {
                actions.push(Action::NodeSends);
            }
            if state.faults < self.bounds.faults {
                actions.push(Action::CutStream);
            }
        }
        if !part.channel.is_empty() {
            actions.push(Action::StreamPasses);
        }
    }
}
