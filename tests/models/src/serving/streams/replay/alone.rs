//! The part of a trace in which a client has a subscription of its own.

use stateright::Model;

use super::super::{Action, Life, Message, Sent, State};
use super::Replay;
use crate::serving::trace::{Positions, SentMessage};

impl Replay<'_> {
    pub(super) fn begin_alone(
        &mut self,
        number: usize,
        parts: &[(String, Positions)],
    ) -> Result<(), String> {
        let ours = parts
            .iter()
            .find_map(|(node, bookmark)| Some((self.cast.nodes[node], self.up_to(bookmark)?)));
        let (node, begun) = ours.ok_or("no node has the partition")?;
        self.go(|replay, state| {
            let next = match &state.clients[number].life {
                Life::Flow { .. } => replay.model.next_state(state, Action::CutAlone(number))?,
                // It left before its snapshot was sent.
                Life::Begun { member, .. } if !member.is_in => {
                    replay.model.next_state(state, Action::Release(number))?
                }
                _ => state.clone(),
            };
            let is_so = next.clients[number].life == Life::Alone(begun);
            is_so.then(|| replay.after(&next, Action::BeginAlone(number, node)))?
        })
    }

    pub(super) fn relay(&mut self, number: usize, given: &SentMessage) -> Result<(), String> {
        let Some(sent) = self.sent(given)? else {
            return Ok(());
        };
        self.go(|replay, state| {
            let passed = replay.sent_alone(state, number, sent, Action::PassAlone(number));
            // An idle node of other partitions tells the client where it is in this one.
            let given = replay.after(state, Action::TellAlone(number)).filter(|next| {
                matches!((sent, next.clients[number].outbox.back()), (Sent::Progress(end), Some(Message::Progress(given))) if end == *given)
            });
            passed.into_iter().chain(given)
        })
    }

    pub(super) fn note(&mut self, number: usize, bookmark: &Positions) -> Result<(), String> {
        let Some(end) = self.up_to(bookmark) else {
            return Ok(());
        };
        let sent = Sent::Progress(end);
        self.go(|replay, state| replay.sent_alone(state, number, sent, Action::NoteAlone(number)))
    }

    pub(super) fn sent_alone(
        &self,
        state: &State,
        number: usize,
        sent: Sent,
        action: Action,
    ) -> Option<State> {
        let mut next = state.clone();
        let Life::Flow { part, received, .. } = &mut next.clients[number].life else {
            return None;
        };
        if sent == Sent::Progress(*received) {
            return Some(next);
        }
        self.send(state, part, sent)?;
        self.after(&next, action)
    }
}
