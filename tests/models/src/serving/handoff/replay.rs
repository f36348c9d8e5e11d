//! Replays a trace of the simulation: each of its events must be possible in one of the states that the model may be
//! in. What a query service does without an event leaves several: when it begins, sends and goes live.

use std::collections::HashSet;

use stateright::Model;

use super::{Action, Bounds, Handoff, Message, Phase, State};
use crate::position::Key;
use crate::serving::trace::{Cast, Changes, Line, Positions, SentMessage};
use crate::trace::{Summary, expect};

/// A client and a partition, as far as the trace was replayed.
struct Replay<'a> {
    cast: &'a Cast,
    client: &'a str,
    partition: u16,
    model: Handoff,
    changes: Changes,
    /// The nodes that load the partition, or do not run, and how many changes there were when they started.
    loading: Vec<Option<usize>>,
    possible: HashSet<State>,
}

/// Replay the lines of a trace; return what was replayed, or why a line is not possible.
pub fn replay(lines: &[Line]) -> Result<Summary, String> {
    let cast = Cast::of(lines);
    let mut summary = Summary::default();
    for client in &cast.clients {
        for partition in &cast.partitions {
            let mut replay = Replay::new(&cast, client, *partition);
            for (number, line) in (1..).zip(lines) {
                replay.step(line).map_err(|why| {
                    format!("line {number}: {client}, partition {partition}: {why}: {line:?}")
                })?;
                summary.states_max = summary.states_max.max(replay.possible.len());
            }
        }
    }
    summary.events = lines.len();
    Ok(summary)
}

impl<'a> Replay<'a> {
    fn new(cast: &'a Cast, client: &'a str, partition: u16) -> Self {
        let bounds = Bounds {
            // Those of a trace are added as they come.
            changes: 0,
            keys: 0,
            nodes: cast.nodes.len(),
            faults: usize::MAX,
            // The limit of a real outbox is in bytes, which no event shows.
            outbox: usize::MAX,
        };
        let model = Handoff {
            bounds,
            mistake: None,
        };
        Self {
            cast,
            client,
            partition,
            possible: model.init_states().into_iter().collect(),
            model,
            changes: Changes::default(),
            loading: vec![Some(0); cast.nodes.len()],
        }
    }

    fn step(&mut self, line: &Line) -> Result<(), String> {
        match line {
            _ if line.is_elsewhere(self.partition) => Ok(()),
            Line::Change {
                position,
                key,
                body,
                matches,
                ..
            } => {
                self.changes.push(*position, body);
                let matches = matches.iter().any(|client| client == self.client);
                self.act(&Action::Change(self.cast.keys[key], matches))
            }
            Line::Apply { by, position, .. } => {
                self.apply(self.cast.nodes[by], self.changes.up_to(*position))
            }
            Line::Start { by } => {
                self.loading[self.cast.nodes[by]] = Some(self.changes.len());
                Ok(())
            }
            Line::Loaded { by, position, .. } => {
                self.load(self.cast.nodes[by], self.changes.up_to(*position))
            }
            Line::Look { by } => {
                self.look(self.cast.nodes[by]);
                Ok(())
            }
            _ if line.client() == Some(self.client) => self.step_of_client(line),
            _ => Ok(()),
        }
    }

    fn step_of_client(&mut self, line: &Line) -> Result<(), String> {
        match line {
            Line::Subscribe { to, bookmark, .. } => {
                let asked = bookmark.as_ref().map(|bookmark| self.up_to(bookmark));
                if self.possible.iter().all(|state| state.session.is_none()) {
                    self.act(&Action::Connect(self.cast.nodes[to]))?;
                }
                self.keep(|state| {
                    let phase = state.session.as_ref().map(|session| &session.phase);
                    phase == Some(&Phase::Asked(asked))
                })
            }
            Line::Refuse { .. } => self.go(|replay, state| replay.after(state, Action::Refuse)),
            Line::Receive { message, .. } => self.receive(message),
            Line::Read { message, .. } => self.read(message),
            Line::Stand { bookmark, .. } => {
                let end = self.up_to(bookmark);
                self.keep(|state| state.group.is_none() && state.program.position == Some(end))
            }
            Line::Save { .. } => self.act(&Action::Save),
            Line::Disconnect { .. } => {
                let is_on = |state: &State| state.session.is_some();
                if self.possible.iter().any(is_on) {
                    self.act(&Action::Disconnect)?;
                }
                Ok(())
            }
            Line::Restart { .. } => self.act(&Action::RestartProgram),
            _ => Ok(()),
        }
    }

    /// The number of changes up to a bookmark; one that does not name the partition is before all of them.
    fn up_to(&self, bookmark: &Positions) -> usize {
        let found = self.changes.up_to_in(bookmark, self.partition);
        found.unwrap_or_default()
    }

    // what every state allows, or none

    fn act(&mut self, action: &Action) -> Result<(), String> {
        self.go(|replay, state| replay.model.next_state(state, action.clone()))
    }

    fn go(&mut self, next: impl Fn(&Self, &State) -> Option<State>) -> Result<(), String> {
        let next = self.possible.iter().filter_map(|state| next(self, state));
        self.possible = next.collect();
        self.settle()
    }

    /// Return the state after an action, if the model allows it.
    fn after(&self, state: &State, action: Action) -> Option<State> {
        let mut actions = Vec::new();
        self.model.actions(state, &mut actions);
        let is_next = actions.contains(&action);
        is_next.then(|| self.model.next_state(state, action))?
    }

    fn keep(&mut self, is_so: impl Fn(&State) -> bool) -> Result<(), String> {
        self.possible.retain(is_so);
        self.settle()
    }

    /// Add the states that follow without an event; there must be one that breaks no guarantee.
    fn settle(&mut self) -> Result<(), String> {
        self.possible.retain(|state| state.wrong.is_empty());
        expect(!self.possible.is_empty(), || {
            "it is possible in no state".to_owned()
        })?;
        let mut new: Vec<State> = self.possible.iter().cloned().collect();
        while let Some(state) = new.pop() {
            for action in self.silent(&state) {
                let next = self.model.next_state(&state, action);
                if let Some(next) = next.filter(|next| next.wrong.is_empty())
                    && self.possible.insert(next.clone())
                {
                    new.push(next);
                }
            }
        }
        Ok(())
    }

    /// What may happen next without an event.
    fn silent(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        self.model.actions(state, &mut actions);
        let is_loading = state
            .session
            .as_ref()
            .is_some_and(|session| self.loading[session.node].is_some());
        let mut has_row = false;
        actions.retain(|action| match action {
            Action::Begin => !is_loading,
            // In any order: which row is the next, the client decides when it receives one.
            Action::SendRow(_) => !std::mem::replace(&mut has_row, true),
            Action::EndGroup | Action::CatchUp | Action::GoLive => true,
            // A program is given no progress messages; they move its bookmark on.
            Action::Read => matches!(state.inbox.front(), Some(Message::Progress(_))),
            _ => false,
        });
        actions
    }

    // query services

    fn apply(&mut self, node: usize, end: usize) -> Result<(), String> {
        expect(self.loading[node].is_none(), || "it still loads".to_owned())?;
        expect(end <= self.changes.len(), || {
            format!("there are {} changes", self.changes.len())
        })?;
        // A batch is applied in one instant: nothing happens between its changes.
        let to_end = |state: &State| {
            let mut next = state.clone();
            while next.nodes[node].applied < end {
                self.model.apply(&mut next, node);
            }
            next
        };
        self.possible = self.possible.iter().map(to_end).collect();
        self.keep(|state| state.nodes[node].applied == end)
    }

    fn load(&mut self, node: usize, end: usize) -> Result<(), String> {
        let began = self.loading[node].take().ok_or("it has not started")?;
        expect((began..=self.changes.len()).contains(&end), || {
            format!("the changes end between {began} and {}", self.changes.len())
        })?;
        let loaded = |mut state: State| {
            state.load(node, end);
            state
        };
        self.possible = self.possible.drain().map(loaded).collect();
        self.settle()
    }

    fn look(&mut self, node: usize) {
        let is_here = |state: &&State| {
            let session = state.session.as_ref();
            session.is_some_and(|session| session.node == node)
        };
        let here = self.possible.iter().filter(is_here);
        let given: Vec<State> = here
            .filter_map(|state| self.after(state, Action::Progress))
            .collect();
        self.possible.extend(given);
    }

    // the client

    fn receive(&mut self, given: &SentMessage) -> Result<(), String> {
        let Some(expected) = self.expected(given)? else {
            return Ok(());
        };
        self.go(|replay, state| {
            if let Expected::Message(Message::Progress(end)) = expected
                && state.end() == Some(end)
            {
                // No change is between two positions of the log: to the model they are the same.
                return Some(state.clone());
            }
            let mut state = state.clone();
            let outbox = &mut state.session.as_mut()?.outbox;
            let found = replay.found(&expected, outbox.iter())?;
            let message = outbox.remove(found)?;
            outbox.push_front(message);
            replay.after(&state, Action::Receive)
        })
    }

    fn read(&mut self, given: &SentMessage) -> Result<(), String> {
        let Some(expected) = self.expected(given)? else {
            return Ok(());
        };
        self.go(|replay, state| {
            replay.found(&expected, state.inbox.iter().take(1))?;
            replay.after(state, Action::Read)
        })
    }

    /// Return what the model calls a message; None if it is about another partition.
    fn expected<'b>(&self, given: &'b SentMessage) -> Result<Option<Expected<'b>>, String> {
        let is_ours = |partition: &u16| *partition == self.partition;
        let number = |position| {
            let number = self.changes.number(position);
            number.ok_or("no change has this position")
        };
        let message = match given {
            SentMessage::GroupBegin => Message::GroupBegin,
            SentMessage::Sow {
                partition,
                key,
                body,
            } => {
                return Ok(is_ours(partition).then(|| Expected::Row(self.cast.keys[key], body)));
            }
            SentMessage::GroupEnd { bookmark } => Message::GroupEnd(self.up_to(bookmark)),
            SentMessage::Publish {
                partition,
                position,
                key,
            } if is_ours(partition) => Message::Publish(self.cast.keys[key], number(*position)?),
            SentMessage::Oof {
                partition,
                position,
                key,
            } if is_ours(partition) => Message::OutOfFocus(self.cast.keys[key], number(*position)?),
            SentMessage::Publish { .. } | SentMessage::Oof { .. } => return Ok(None),
            SentMessage::Progress { bookmark } => Message::Progress(self.up_to(bookmark)),
        };
        Ok(Some(Expected::Message(message)))
    }

    /// Return where an expected message is: it must be the first one, or among the first rows, which have no order.
    fn found<'b>(
        &self,
        expected: &Expected,
        mut messages: impl Iterator<Item = &'b Message>,
    ) -> Option<usize> {
        match expected {
            Expected::Message(message) => (messages.next()? == message).then_some(0),
            Expected::Row(key, body) => messages
                .map_while(|message| match message {
                    Message::Row(key, number) => Some((*key, *number)),
                    _ => None,
                })
                .position(|(of, number)| of == *key && self.changes.has_body(number, body)),
        }
    }
}

/// A message that the trace has. A row has no position: its body shows which change it is.
enum Expected<'a> {
    Message(Message),
    Row(Key, &'a str),
}
