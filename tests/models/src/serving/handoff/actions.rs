//! What can happen next, in a state of handoff.

use super::state::{Phase, Session, State};
use super::{Handoff, Mistake};
use crate::position::Key;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Change(Key, bool),
    Apply(usize),
    Compact,
    Forget(usize),
    RestartNode(usize),
    Connect(usize),
    /// The session is refused for now. The client asks again on the same connection.
    Refuse,
    Begin,
    SendRow(Key),
    EndGroup,
    CatchUp,
    GoLive,
    Progress,
    Receive,
    Read,
    /// The program writes down what it has, with the bookmark.
    Save,
    Disconnect,
    RestartProgram,
}

impl Handoff {
    pub(super) fn session_actions(
        &self,
        state: &State,
        session: &Session,
        actions: &mut Vec<Action>,
    ) {
        let applied = state.nodes[session.node].applied;
        let has_room = session.outbox.len() < self.bounds.outbox;
        match &session.phase {
            Phase::Asked(bookmark) => {
                let goes_at_once = self.makes(Mistake::BehindReplicaIsNotWaitedFor)
                    || self.makes(Mistake::ExpiresWhileBehind);
                if goes_at_once || bookmark.is_none_or(|bookmark| bookmark <= applied) {
                    actions.push(Action::Begin);
                }
            }
            Phase::Group(rows) if has_room && rows.is_empty() => actions.push(Action::EndGroup),
            Phase::Group(rows) if has_room => {
                actions.extend(rows.keys().map(|key| Action::SendRow(*key)))
            }
            Phase::CatchingUp if session.position < applied => {
                if has_room {
                    actions.push(Action::CatchUp);
                }
                if self.makes(Mistake::GoesLiveWhileBehind) {
                    actions.push(Action::GoLive);
                }
            }
            Phase::CatchingUp => actions.push(Action::GoLive),
            Phase::Live
                if session.outbox.is_empty()
                    && state.end().is_some_and(|end| end < session.position) =>
            {
                actions.push(Action::Progress);
            }
            _ => (),
        }
        if !session.outbox.is_empty() && state.inbox.len() < self.bounds.outbox {
            actions.push(Action::Receive);
        }
        let has_faults = state.faults < self.bounds.faults;
        if has_faults || (session.phase == Phase::Over && session.outbox.is_empty()) {
            actions.push(Action::Disconnect);
        }
        if has_faults && session.phase != Phase::Over && session.outbox.is_empty() {
            actions.push(Action::Refuse);
        }
    }
}
