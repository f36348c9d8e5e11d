//! Replays a trace of the simulation: each of its events must be possible in one of the states that the model may be
//! in. Nodes send without an event: what has passed shows what they had sent, and when.

use std::collections::{BTreeSet, HashSet};

use stateright::Model;

use super::{Action, Bounds, Life, Message, Part, Sent, State, Stream, Streams};
use crate::serving::trace::{Cast, Changes, Line, Positions, SentMessage};
use crate::trace::{Summary, expect};

mod alone;
mod groups;

use groups::{Group, groups};

/// A group of clients and a partition, as far as the trace was replayed.
struct Replay<'a> {
    cast: &'a Cast,
    group: &'a Group,
    partition: u16,
    model: Streams,
    changes: Changes,
    /// For each node, how many changes it had applied at any time.
    applied: Vec<BTreeSet<usize>>,
    /// The stream that the model has, and those that have ended.
    stream: Option<usize>,
    over: BTreeSet<usize>,
    possible: HashSet<State>,
}

/// Replay the lines of a trace; return what was replayed, or why a line is not possible.
pub fn replay(lines: &[Line]) -> Result<Summary, String> {
    let cast = Cast::of(lines);
    let mut summary = Summary::default();
    for group in groups(&cast, lines) {
        for partition in &cast.partitions {
            let mut replay = Replay::new(&cast, &group, *partition);
            for (number, line) in (1..).zip(lines) {
                replay.step(line).map_err(|why| {
                    let clients = group.clients.join(", ");
                    format!("line {number}: {clients}, partition {partition}: {why}: {line:?}")
                })?;
                summary.states_max = summary.states_max.max(replay.possible.len());
            }
        }
    }
    summary.events = lines.len();
    Ok(summary)
}

impl<'a> Replay<'a> {
    fn new(cast: &'a Cast, group: &'a Group, partition: u16) -> Self {
        let bounds = Bounds {
            // Those of a trace are added as they come.
            changes: 0,
            clients: group.clients.len(),
            nodes: cast.nodes.len(),
            faults: usize::MAX,
            // The limit of a real outbox is in bytes. The trace shows who left because of it.
            outbox: usize::MAX,
        };
        let model = Streams {
            bounds,
            mistake: None,
        };
        Self {
            cast,
            group,
            partition,
            possible: model.init_states().into_iter().collect(),
            model,
            changes: Changes::default(),
            applied: vec![BTreeSet::from([0]); cast.nodes.len()],
            stream: None,
            over: BTreeSet::new(),
        }
    }

    fn step(&mut self, line: &Line) -> Result<(), String> {
        match line {
            _ if line.is_elsewhere(self.partition) => Ok(()),
            Line::Change {
                position,
                body,
                due,
                ..
            } => {
                self.changes.push(*position, body);
                let is_due = self.group.clients.iter().any(|one| due.contains(one));
                self.act(&Action::Change(is_due))
            }
            Line::Apply { by, position, .. } | Line::Loaded { by, position, .. } => {
                self.apply(self.cast.nodes[by], self.changes.up_to(*position))
            }
            Line::Stop { .. } => {
                self.over.extend(self.stream.take());
                self.act(&Action::RestartGateway)
            }
            Line::Follow { stream, .. } | Line::Pass { stream, .. } | Line::End { stream }
                if self.group.streams.contains(stream) && !self.over.contains(stream) =>
            {
                self.step_of_stream(*stream, line)
            }
            _ => match line.client() {
                Some(client) => match self.group.clients.iter().position(|one| one == client) {
                    Some(number) => self.step_of_client(number, line),
                    None => Ok(()),
                },
                None => Ok(()),
            },
        }
    }

    fn step_of_stream(&mut self, stream: usize, line: &Line) -> Result<(), String> {
        match line {
            Line::Follow { to, bookmark, .. } => {
                if let Some(begun) = self.up_to(bookmark) {
                    expect(self.stream.is_none_or(|one| one == stream), || {
                        "the stream before has not ended".to_owned()
                    })?;
                    self.stream = Some(stream);
                    self.follow(self.cast.nodes[to], begun)?;
                }
                Ok(())
            }
            Line::Pass { message, .. } => self.pass(message),
            _ => {
                self.over.insert(stream);
                if self.stream.take_if(|one| *one == stream).is_some() {
                    self.act(&Action::EndStream)?;
                }
                Ok(())
            }
        }
    }

    fn step_of_client(&mut self, number: usize, line: &Line) -> Result<(), String> {
        match line {
            Line::Subscribe { bookmark, .. } => {
                let at = bookmark
                    .as_ref()
                    .map(|bookmark| self.up_to(bookmark).unwrap_or_default());
                self.keep(|state| {
                    state.clients[number].life == Life::Away && state.clients[number].end() == at
                })?;
                self.act(&Action::Subscribe(number))
            }
            Line::Refuse { .. } => self.act(&Action::Refuse(number)),
            Line::Disconnect { .. } => self.act(&Action::Disconnect(number)),
            Line::Restart { .. } => self.keep(|state| state.clients[number].at.is_none()),
            Line::Read { message, .. } => self.read(number, message),
            Line::Stand { bookmark, .. } => {
                let at = self.up_to(bookmark);
                self.keep(|state| state.clients[number].at == at)
            }
            Line::Join { stream, .. } => self.join(number, *stream),
            Line::Snapshot { bookmark, .. } => self.snapshot(number, bookmark),
            Line::Release { .. } => self.release(number),
            Line::Leave { bookmark, .. } => self.leave(number, self.up_to(bookmark)),
            Line::Alone { parts, .. } => self.begin_alone(number, parts),
            Line::Relay { message, .. } => self.relay(number, message),
            Line::Note { bookmark, .. } => self.note(number, bookmark),
            _ => Ok(()),
        }
    }

    fn up_to(&self, bookmark: &Positions) -> Option<usize> {
        self.changes.up_to_in(bookmark, self.partition)
    }

    // what some state allows, or none

    fn act(&mut self, action: &Action) -> Result<(), String> {
        let next = |state: &State| self.model.next_state(state, action.clone());
        self.possible = self.possible.iter().filter_map(next).collect();
        self.settle()
    }

    fn keep(&mut self, is_so: impl Fn(&State) -> bool) -> Result<(), String> {
        self.possible.retain(is_so);
        self.settle()
    }

    /// Replace each state by those that an event leads to.
    fn go<T: IntoIterator<Item = State>>(
        &mut self,
        next: impl Fn(&Self, &State) -> T,
    ) -> Result<(), String> {
        self.possible = self
            .possible
            .iter()
            .flat_map(|state| next(self, state))
            .collect();
        self.settle()
    }

    /// Return the state after an action, if the model allows it.
    fn after(&self, state: &State, action: Action) -> Option<State> {
        let mut actions = Vec::new();
        self.model.actions(state, &mut actions);
        actions
            .contains(&action)
            .then(|| self.model.next_state(state, action))
            .flatten()
    }

    /// There must be a state that breaks no guarantee. A program is given no progress messages: they may be read
    /// already.
    fn settle(&mut self) -> Result<(), String> {
        self.possible.retain(|state| state.wrong.is_empty());
        expect(!self.possible.is_empty(), || {
            "it is possible in no state".to_owned()
        })?;
        let mut new: Vec<State> = self.possible.iter().cloned().collect();
        while let Some(state) = new.pop() {
            for number in 0..state.clients.len() {
                if let Some(Message::Progress(_)) = state.clients[number].outbox.front() {
                    let mut next = state.clone();
                    next.read(number);
                    if next.wrong.is_empty() && self.possible.insert(next.clone()) {
                        new.push(next);
                    }
                }
            }
        }
        Ok(())
    }

    // nodes

    fn apply(&mut self, node: usize, end: usize) -> Result<(), String> {
        expect(end <= self.changes.len(), || {
            format!("there are {} changes", self.changes.len())
        })?;
        self.applied[node].insert(end);
        self.go(|_, state| {
            let mut next = state.clone();
            next.applied[node] = end;
            (state.applied[node] <= end).then_some(next)
        })
    }

    /// Let the node of a part send a message, now or when it was at that position.
    fn send(&self, state: &State, part: &mut Part, sent: Sent) -> Option<()> {
        let at = match sent {
            Sent::Change(_) => state.applied[part.node],
            Sent::Progress(position) => position,
        };
        let is_possible = self.applied[part.node].contains(&at) && part.position < at;
        is_possible.then(|| part.send(&state.changes, at))?;
        (part.channel.back() == Some(&sent)).then_some(())
    }

    /// Return what a message is to the model; None if it is about another partition.
    fn sent(&self, given: &SentMessage) -> Result<Option<Sent>, String> {
        match given {
            SentMessage::Publish {
                partition,
                position,
                ..
            }
            | SentMessage::Oof {
                partition,
                position,
                ..
            } if *partition == self.partition => {
                let number = self.changes.number(*position);
                Ok(Some(Sent::Change(
                    number.ok_or("no change has this position")?,
                )))
            }
            SentMessage::Progress { bookmark } => Ok(self.up_to(bookmark).map(Sent::Progress)),
            _ => Ok(None),
        }
    }

    // the stream

    fn follow(&mut self, node: usize, begun: usize) -> Result<(), String> {
        self.go(|replay, state| {
            let model = &replay.model;
            let mut next = state.clone();
            model.cut_stream(&mut next);
            // Before a stream has begun at all of its nodes it has no members, and may begin elsewhere.
            let has_members = next.members().next().is_some();
            if !has_members && next.stream.as_ref()?.position != begun {
                next.stream = Some(Stream::default());
            }
            let has_begun = next.stream.as_ref()?.has_begun;
            if has_begun {
                return replay.after(&next, Action::Follow(node)).filter(|state| {
                    state
                        .stream
                        .as_ref()
                        .is_some_and(|one| one.position == begun)
                });
            }
            let is_possible = replay.applied[node].contains(&begun);
            is_possible.then(|| model.follow(&mut next, node, begun))?;
            Some(next)
        })
    }

    fn pass(&mut self, given: &SentMessage) -> Result<(), String> {
        let Some(sent) = self.sent(given)? else {
            return Ok(());
        };
        self.go(|replay, state| {
            let mut next = state.clone();
            let stream = next.stream.as_mut()?;
            if sent == Sent::Progress(stream.position) {
                return Some(next);
            }
            replay.send(state, stream.part.as_mut()?, sent)?;
            replay.after(&next, Action::StreamPasses)
        })
    }

    // a client in the stream

    fn join(&mut self, number: usize, stream: usize) -> Result<(), String> {
        expect(self.stream == Some(stream), || {
            "the stream has not begun".to_owned()
        })?;
        self.go(|replay, state| match &state.clients[number].life {
            Life::Waiting => replay.after(state, Action::Join(number)),
            _ => replay.after(state, Action::WaitToJoin(number)),
        })
    }

    fn snapshot(&mut self, number: usize, bookmark: &Positions) -> Result<(), String> {
        let at = self.up_to(bookmark).ok_or("it lacks the partition")?;
        let is_known = self.applied.iter().any(|applied| applied.contains(&at));
        expect(is_known, || "no node was ever there".to_owned())?;
        self.go(|replay, state| {
            let mut next = state.clone();
            match &state.clients[number].life {
                Life::Joined { floor, .. } if *floor <= at => {
                    replay.model.snapshot(&mut next, number, at);
                    Some(next)
                }
                _ => None,
            }
        })
    }

    fn release(&mut self, number: usize) -> Result<(), String> {
        self.go(|replay, state| {
            let action = match &state.clients[number].life {
                Life::Begun { .. } => Action::Release(number),
                _ => Action::JoinIfLevel(number),
            };
            let next = replay.after(state, action);
            next.filter(|state| matches!(state.clients[number].life, Life::In(_)))
        })
    }

    /// Let a client leave: before its messages are sent, while those are sent that have waited, or later.
    fn leave(&mut self, number: usize, sent: Option<usize>) -> Result<(), String> {
        self.go(|replay, state| {
            let life = &state.clients[number].life;
            let action = match life {
                Life::Begun { .. } => Action::Release(number),
                _ => Action::JoinIfLevel(number),
            };
            let mut found = Vec::new();
            match (life, sent) {
                (Life::In(_), Some(_)) | (_, None) => {
                    let mut next = state.clone();
                    next.leave(number);
                    found.push(next);
                }
                // How much room its outbox has, no event shows.
                _ => {
                    for room in 0..=replay.changes.len() {
                        let mut model = replay.model.clone();
                        model.bounds.outbox = state.clients[number].outbox.len() + room;
                        let mut next = model.next_state(state, action.clone());
                        if let Some(next) = &mut next
                            && let Life::In(member) = &next.clients[number].life
                        {
                            // What waited in this partition is sent, but not a message of another one.
                            next.clients[number].life = Life::Alone(member.begun);
                        }
                        found.extend(next);
                    }
                }
            }
            let is_so = |state: &State| match (&state.clients[number].life, sent) {
                (Life::Alone(from), Some(sent)) => *from == sent,
                (life, None) => !matches!(life, Life::Alone(_)),
                _ => false,
            };
            found.retain(is_so);
            found
        })
    }

    // its program

    fn read(&mut self, number: usize, given: &SentMessage) -> Result<(), String> {
        let expected = match given {
            SentMessage::GroupEnd { bookmark } => {
                Message::Snapshot(self.up_to(bookmark).ok_or("it lacks the partition")?)
            }
            _ => match self.sent(given)? {
                Some(Sent::Change(position)) => Message::Change(position),
                _ => return Ok(()),
            },
        };
        self.go(|replay, state| {
            let is_next = state.clients[number].outbox.front() == Some(&expected);
            is_next.then(|| replay.model.next_state(state, Action::Read(number)))?
        })
    }
}
