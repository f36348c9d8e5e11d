//! Handoff and resume: one client, replicas that follow one partition, connections that break, and a program that
//! restarts. `query_service/sowline_query_service/{subscriptions,live}` and `sowline/subscriptions` have the originals.

use std::collections::{BTreeSet, VecDeque};

use stateright::{Model, Property};

use crate::position::Key;

mod actions;
pub mod replay;
mod state;

pub use actions::Action;
pub use state::{Change, Guarantee, State};
use state::{Message, Node, Phase, Program, Session};

/// A mistake that is planted in the model. The checker has to find each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mistake {
    /// The rows of a snapshot are read when they are sent, not at its instant.
    RowsAreReadLater,
    /// A group ends with the replica's bookmark at that time, not with that of its instant.
    GroupEndsAtTheReplicasPosition,
    /// A subscription goes live although the replica is ahead of it.
    GoesLiveWhileBehind,
    /// A message that does not fit the outbox is dropped.
    SlowClientLosesAMessage,
    /// The saved bookmark moves on receipt, not on delivery to the program.
    BookmarkMovesOnReceipt,
    /// Changes that are gone are skipped without a word.
    SkipsWhatIsGone,
    /// A subscription continues with the change of its bookmark, not after it.
    ResumesWithTheBookmark,
    /// A replica that is behind a bookmark begins at its own position.
    BehindReplicaIsNotWaitedFor,
    /// A client that comes back keeps what it has received, but not read, although it is sent that again.
    KeepsWhatWaits,
    /// A client that was refused asks again for what it has received, but not read.
    AsksForWhatWaits,
    /// A record that does not match any more is not reported.
    NeverOutOfFocus,
    /// Each change of a record that does not match is reported as out of focus.
    AlwaysOutOfFocus,
    /// A bookmark expires as soon as the replica's memory does not reach back to it.
    ExpiresWithTheMemory,
    /// A replica that is behind a bookmark calls it expired.
    ExpiresWhileBehind,
}

/// How much happens at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub changes: usize,
    pub keys: Key,
    pub nodes: usize,
    /// How often a connection breaks, or the program restarts, or a query service does.
    pub faults: usize,
    /// Messages from which on a client is too slow for live messages.
    pub outbox: usize,
}

#[derive(Clone, Debug)]
pub struct Handoff {
    pub bounds: Bounds,
    pub mistake: Option<Mistake>,
}

impl Handoff {
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn message(&self, state: &State, number: usize) -> Option<Message> {
        let change = state.changes[number - 1];
        if !change.matches && self.makes(Mistake::AlwaysOutOfFocus) {
            return Some(Message::OutOfFocus(change.key, number));
        }
        let due = state.due(number);
        due.filter(|message| {
            !(matches!(message, Message::OutOfFocus(..)) && self.makes(Mistake::NeverOutOfFocus))
        })
    }

    /// Put what the next change is due to the client, and move the session on.
    fn put_next(&self, state: &State, session: &mut Session) {
        session.position += 1;
        if let Some(message) = self.message(state, session.position) {
            let is_full = session.outbox.len() >= self.bounds.outbox;
            if !(is_full && self.makes(Mistake::SlowClientLosesAMessage)) {
                session.outbox.push_back(message);
            }
        }
    }

    fn apply(&self, state: &mut State, node: usize) {
        state.nodes[node].applied += 1;
        let Some(mut session) = state.session.take() else {
            return;
        };
        if session.node == node && session.phase == Phase::Live {
            self.put_next(state, &mut session);
            // From here on it catches up as fast as its client reads.
            if session.outbox.len() > self.bounds.outbox {
                session.phase = Phase::CatchingUp;
            }
        }
        state.session = Some(session);
    }

    /// Whether the replica has the change after a position.
    fn has_next(&self, state: &State, node: usize, position: usize) -> bool {
        let in_memory = state.nodes[node].remembers <= position;
        in_memory || (state.gone <= position && !self.makes(Mistake::ExpiresWithTheMemory))
    }

    fn expire(&self, state: &mut State, session: &mut Session, bookmark: usize) {
        state.check(state.gone > bookmark, Guarantee::Resumable);
        session.outbox.push_back(Message::Expired);
        session.phase = Phase::Over;
    }

    fn begin(&self, state: &mut State, session: &mut Session, bookmark: Option<usize>) {
        let applied = state.nodes[session.node].applied;
        let Some(bookmark) = bookmark else {
            session.position = applied;
            session.outbox.push_back(Message::GroupBegin);
            session.phase = Phase::Group(state.matching(applied));
            return;
        };
        if bookmark > applied && self.makes(Mistake::ExpiresWhileBehind) {
            self.expire(state, session, bookmark);
            return;
        }
        session.position = bookmark.min(applied);
        if self.makes(Mistake::ResumesWithTheBookmark) {
            session.position = bookmark.saturating_sub(1);
        }
        session.phase = Phase::CatchingUp;
    }

    fn send_row(&self, state: &State, session: &mut Session, key: Key) {
        let Phase::Group(rows) = &mut session.phase else {
            return;
        };
        let mut row = rows.remove(&key);
        if self.makes(Mistake::RowsAreReadLater) {
            let now = state.nodes[session.node].applied;
            row = state.matching(now).get(&key).copied();
        }
        session
            .outbox
            .extend(row.map(|number| Message::Row(key, number)));
    }

    fn end_group(&self, state: &State, session: &mut Session) {
        if self.makes(Mistake::GroupEndsAtTheReplicasPosition) {
            session.position = state.nodes[session.node].applied;
        }
        session
            .outbox
            .push_back(Message::GroupEnd(session.position));
        session.phase = Phase::CatchingUp;
    }

    fn catch_up(&self, state: &mut State, session: &mut Session) {
        let position = session.position;
        if self.has_next(state, session.node, position) {
            self.put_next(state, session);
        } else if self.makes(Mistake::SkipsWhatIsGone) {
            session.position = state.gone.min(state.nodes[session.node].applied);
        } else {
            self.expire(state, session, position);
        }
    }

    /// Connect, and ask for what the program has not read.
    fn connect(&self, state: &mut State, node: usize) {
        // A group that has not ended begins again.
        if !self.makes(Mistake::KeepsWhatWaits) {
            state.inbox.clear();
            state.group = None;
        }
        state.session = Some(Session {
            node,
            phase: Phase::Asked(state.program.position),
            position: 0,
            outbox: VecDeque::new(),
        });
    }

    /// Ask again for what the client has not received.
    fn ask_again(&self, state: &mut State, session: &mut Session) {
        let end = state
            .end()
            .filter(|_| !self.makes(Mistake::AsksForWhatWaits));
        session.phase = Phase::Asked(end.or(state.program.position));
    }

    fn with_session(&self, state: &mut State, act: impl FnOnce(&mut State, &mut Session)) {
        if let Some(mut session) = state.session.take() {
            act(state, &mut session);
            state.session = Some(session);
        }
    }

    /// What a program would save; None within a group.
    fn savable(&self, state: &State) -> Option<Program> {
        let mut program = state.program.clone();
        if self.makes(Mistake::BookmarkMovesOnReceipt) {
            program.position = state.end().or(program.position);
        }
        state.group.is_none().then_some(program)
    }
}

impl Model for Handoff {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            changes: Vec::new(),
            gone: 0,
            nodes: vec![
                Node {
                    applied: 0,
                    remembers: 0
                };
                self.bounds.nodes
            ],
            session: None,
            inbox: VecDeque::new(),
            group: None,
            program: Program::default(),
            saved: Program::default(),
            faults: 0,
            wrong: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.wrong.is_empty() {
            return;
        }
        if state.changes.len() < self.bounds.changes {
            for key in 0..self.bounds.keys {
                actions.extend([Action::Change(key, true), Action::Change(key, false)]);
            }
        }
        let has_faults = state.faults < self.bounds.faults;
        for (number, node) in state.nodes.iter().enumerate() {
            if node.applied < state.changes.len() {
                actions.push(Action::Apply(number));
            }
            if node.remembers < node.applied && has_faults {
                actions.push(Action::Forget(number));
            }
            if has_faults {
                actions.push(Action::RestartNode(number));
            }
        }
        if state.gone < state.changes.len() && has_faults {
            actions.push(Action::Compact);
        }
        match &state.session {
            Some(session) => self.session_actions(state, session, actions),
            None => actions.extend((0..state.nodes.len()).map(Action::Connect)),
        }
        if !state.inbox.is_empty() {
            actions.push(Action::Read);
        }
        // Nothing else reads what was saved.
        if has_faults
            && self
                .savable(state)
                .is_some_and(|program| program != state.saved)
        {
            actions.push(Action::Save);
        }
        if has_faults && state.program != Program::default() {
            actions.push(Action::RestartProgram);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Change(key, matches) => {
                let matched = state.matching(state.changes.len()).contains_key(&key);
                next.changes.push(Change {
                    key,
                    matches,
                    matched,
                });
            }
            Action::Apply(node) => self.apply(&mut next, node),
            Action::Compact => {
                next.gone = next.changes.len();
                next.faults += 1;
            }
            Action::Forget(node) => {
                next.nodes[node].remembers = next.nodes[node].applied;
                next.faults += 1;
            }
            Action::RestartNode(node) => {
                next.load(node, next.changes.len());
                next.session = next.session.filter(|session| session.node != node);
                next.faults += 1;
            }
            Action::Connect(node) => self.connect(&mut next, node),
            Action::Refuse => {
                self.with_session(&mut next, |state, session| self.ask_again(state, session));
                next.faults += 1;
            }
            Action::Begin => self.with_session(&mut next, |state, session| {
                if let Phase::Asked(bookmark) = session.phase {
                    self.begin(state, session, bookmark);
                }
            }),
            Action::SendRow(key) => self.with_session(&mut next, |state, session| {
                self.send_row(state, session, key)
            }),
            Action::EndGroup => {
                self.with_session(&mut next, |state, session| self.end_group(state, session))
            }
            Action::CatchUp => {
                self.with_session(&mut next, |state, session| self.catch_up(state, session))
            }
            Action::GoLive => self.with_session(&mut next, |state, session| {
                session.position = state.nodes[session.node].applied;
                session.phase = Phase::Live;
            }),
            Action::Progress => self.with_session(&mut next, |_, session| {
                session
                    .outbox
                    .push_back(Message::Progress(session.position));
            }),
            Action::Receive => {
                let message = next.session.as_mut()?.outbox.pop_front()?;
                next.inbox.push_back(message);
            }
            Action::Read => {
                let message = next.inbox.pop_front()?;
                next.read(message);
            }
            Action::Save => next.saved = self.savable(state)?,
            Action::Disconnect => {
                let is_over = next
                    .session
                    .take()
                    .is_some_and(|session| session.phase == Phase::Over);
                next.faults += usize::from(!is_over);
            }
            Action::RestartProgram => {
                next.session = None;
                next.inbox.clear();
                next.group = None;
                next.program = next.saved.clone();
                next.faults += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(
                "one snapshot: a group is what matches at its bookmark",
                |_, state: &State| !state.wrong.contains(&Guarantee::OneSnapshot),
            ),
            Property::always(
                "no gap: the next change that is due comes next",
                |_, state: &State| !state.wrong.contains(&Guarantee::NoGap),
            ),
            Property::always(
                "no repeat, in order: positions only move on",
                |_, state: &State| !state.wrong.contains(&Guarantee::NoRepeat),
            ),
            Property::always(
                "focus: a record is in if it matches, and leaves once",
                |_, state: &State| !state.wrong.contains(&Guarantee::Focus),
            ),
            Property::always(
                "resumable: a bookmark expires only if changes after it are gone",
                |_, state: &State| !state.wrong.contains(&Guarantee::Resumable),
            ),
            Property::sometimes(
                "a client resumes at another replica, and is level",
                |model: &Self, state: &State| {
                    let is_all = state.changes.len() == model.bounds.changes
                        && state.faults == model.bounds.faults;
                    let is_live = state
                        .session
                        .as_ref()
                        .is_some_and(|session| session.phase == Phase::Live);
                    is_all && is_live && state.program.position == Some(state.changes.len())
                },
            ),
        ];
        // Changes go, and a connection or a memory with them.
        if self.bounds.faults > 1 {
            properties.push(Property::sometimes(
                "a bookmark expires",
                |_, state: &State| state.inbox.contains(&Message::Expired),
            ));
        }
        properties
    }
}
