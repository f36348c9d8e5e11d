//! The subscriptions of a topic and their connections, as a `DeliveryPlan` has them.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::plan::{Demands, Filters};
use crate::select::Select;
use crate::slab::Slab;

/// What a subscription asks for: `sowline.subscriptions.engine.plan.Asked`.
#[derive(FromPyObject)]
pub struct Asked {
    pub oof: bool,
    pub delta: bool,
    pub no_redundant: bool,
    /// Whether its user may see only some records: what such a one learns of a record that leaves is Python's.
    pub is_restricted: bool,
    pub no_empties: bool,
    pub sends_deltas: bool,
    pub sow_key: bool,
    pub timestamp: bool,
    /// Whether a gateway passes its messages on to several clients: then only equal ones are sent as one.
    pub shares: bool,
    /// Whether fields are sent that the select list does not name, and the named ones; None is all fields.
    pub select: Option<(bool, Vec<(String, bool)>)>,
}

/// The content of a message: `sowline.subscriptions.engine.delivery.Form`.
#[derive(Clone, PartialEq, Eq)]
pub struct Form {
    pub select: Option<Arc<Select>>,
    pub sow_key: bool,
    pub timestamp: bool,
}

pub struct Subscriber {
    /// Its number in the order of adding.
    pub number: u64,
    filter: usize,
    pub item: Py<PyAny>,
    pub connection: usize,
    /// Its name as JSON.
    pub sid: Vec<u8>,
    /// Its name alone, as those of a message are handed over.
    pub sids: Py<PyTuple>,
    pub oof: bool,
    delta: bool,
    no_redundant: bool,
    pub is_restricted: bool,
    pub no_empties: bool,
    pub sends_deltas: bool,
    pub shares: bool,
    pub form: Form,
}

impl Subscriber {
    pub fn looks_back(&self) -> bool {
        self.oof || self.delta
    }
}

pub struct Connection {
    pub to: Py<PyAny>,
    id: usize,
    subscribers: usize,
}

/// All subscriptions, each found by its filter.
#[derive(Default)]
pub struct Audience {
    pub filters: Filters,
    subscribers: Slab<Subscriber>,
    by_number: HashMap<u64, usize>,
    connections: Slab<Connection>,
    by_id: HashMap<usize, usize>,
    /// How many want to know whether the record before a change matched.
    pub looking_back: usize,
    /// How many leave out redundant writes.
    pub no_redundant: usize,
}

impl Audience {
    pub fn subscriber(&self, at: usize) -> &Subscriber {
        &self.subscribers[at]
    }

    pub fn connection(&self, at: usize) -> &Connection {
        &self.connections[at]
    }

    /// Keep those filters found for the record after a change, or before it, of which Python says that they hold.
    pub fn retain_holding<'a>(
        &'a self,
        found: &mut Vec<usize>,
        is_now: bool,
        hold: impl FnOnce(Vec<&'a Py<PyAny>>) -> PyResult<Vec<bool>>,
    ) -> PyResult<()> {
        let filters = &self.filters;
        // Evaluating a filter costs as much as several messages.
        let is_asked = |filter: usize| is_now || self.looks_back(filter);
        found.retain(|&filter| filters.rest(filter).is_none() || is_asked(filter));
        let rests: Vec<_> = found
            .iter()
            .filter_map(|&filter| filters.rest(filter))
            .collect();
        if rests.is_empty() {
            return Ok(());
        }
        let mut holding = hold(rests)?.into_iter();
        found.retain(|&filter| filters.rest(filter).is_none() || holding.next().unwrap_or(false));
        Ok(())
    }

    /// Return whether a subscriber of a filter wants to know whether the record before a change matched.
    fn looks_back(&self, filter: usize) -> bool {
        let subscribers = self.filters.subscribers(filter);
        subscribers
            .iter()
            .any(|&at| self.subscribers[at].looks_back())
    }

    /// Return more than the highest number of a subscriber, of a connection, and of a filter.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (
            self.subscribers.end(),
            self.connections.end(),
            self.filters.end(),
        )
    }

    /// Add a subscription; return whether it was added, which is so unless its filter demands too many fields.
    pub fn add(
        &mut self,
        number: u64,
        item: Py<PyAny>,
        (to, sid, sids): (Bound<'_, PyAny>, Vec<u8>, Py<PyTuple>),
        asked: Asked,
        (filter, demands): (&str, Demands),
    ) -> bool {
        let Some(filter) = self.filters.enter(filter, demands) else {
            return false;
        };
        let select = asked
            .select
            .map(|(others, named)| Arc::new(Select::new(others, named)));
        let subscriber = Subscriber {
            number,
            filter,
            item,
            connection: self.connect(to),
            sid,
            sids,
            oof: asked.oof,
            delta: asked.delta,
            no_redundant: asked.no_redundant,
            is_restricted: asked.is_restricted,
            no_empties: asked.no_empties,
            sends_deltas: asked.sends_deltas,
            shares: asked.shares,
            form: Form {
                select,
                sow_key: asked.sow_key,
                timestamp: asked.timestamp,
            },
        };
        self.looking_back += usize::from(subscriber.looks_back());
        self.no_redundant += usize::from(subscriber.no_redundant);
        let at = self.subscribers.put(subscriber);
        self.by_number.insert(number, at);
        self.filters.join(filter, at);
        true
    }

    /// Remove the subscription with this number, if it is there.
    pub fn remove(&mut self, number: u64) {
        let Some(at) = self.by_number.remove(&number) else {
            return;
        };
        let gone = self.subscribers.take(at);
        self.looking_back -= usize::from(gone.looks_back());
        self.no_redundant -= usize::from(gone.no_redundant);
        self.filters.leave(gone.filter, at);
        let connection = &mut self.connections[gone.connection];
        connection.subscribers -= 1;
        if connection.subscribers == 0 {
            self.by_id.remove(&connection.id);
            self.connections.take(gone.connection);
        }
    }

    /// Return the number of a connection, which has one more subscription.
    fn connect(&mut self, to: Bound<'_, PyAny>) -> usize {
        let id = to.as_ptr() as usize;
        if let Some(&known) = self.by_id.get(&id) {
            self.connections[known].subscribers += 1;
            return known;
        }
        let connection = Connection {
            to: to.unbind(),
            id,
            subscribers: 1,
        };
        let at = self.connections.put(connection);
        self.by_id.insert(id, at);
        at
    }
}
