//! The messages of changes to live subscriptions: `sowline.subscriptions.engine.deliver`, for those that a
//! `sowline.subscriptions.engine.plan.DeliveryPlan` leaves to the native core.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::audience::{Asked, Audience, Subscriber};
use crate::change_message::{Sent, Topic, push_prefix, push_suffix};
use crate::layout::Layout;
use crate::marks::Marks;
use crate::outcome::{Bodies, Deltas, Outcome};
use crate::plan::Demands;
use crate::position::Position;

/// The `op` of a change of a group, which may change only its states.
/// The `op` of changes that subscribers may not see: `Change.shows_nothing_new`.
const UNSEEN: [&str; 2] = ["partials", "define"];

/// One message of a change: subscriptions of one connection that it is for, at least one.
struct Outgoing {
    outcome: Outcome,
    is_delta: bool,
    first: usize,
    others: Vec<usize>,
}

/// The messages of a batch to one connection, and the names of the subscriptions that each is for.
type Part = (Py<PyAny>, Py<PyList>, Py<PyList>);

/// The index of the first change that is left to Python, the messages up to it, and the subscriptions that get some.
type Delivered = (usize, Vec<Part>, Vec<Py<PyAny>>);

/// Makes the messages of changes to subscriptions of a topic that ask for no more than it knows.
#[pyclass(module = "sowline_native")]
pub struct DeliveryPlan {
    topic: Topic,
    keys: Vec<Vec<String>>,
    /// Whether an `oof` has the record as its subscriber holds it.
    is_conflated: bool,
    audience: Audience,
    marks: Marks,
}

#[pymethods]
impl DeliveryPlan {
    /// Make a plan of a topic, given its name as JSON, its log, and the names of its key fields.
    #[new]
    fn new(topic: Vec<u8>, log: Vec<u8>, keys: Vec<Vec<String>>, is_conflated: bool) -> Self {
        DeliveryPlan {
            topic: Topic { name: topic, log },
            keys,
            is_conflated,
            audience: Audience::default(),
            marks: Marks::default(),
        }
    }

    /// Add a subscription; return whether it was added, which is so unless its filter demands too many fields.
    ///
    /// `to` is its connection, its name as JSON, and its name in a tuple; `filter` the filter's text and its demands.
    fn add(
        &mut self,
        number: u64,
        item: Py<PyAny>,
        to: (Bound<'_, PyAny>, Vec<u8>, Py<PyTuple>),
        asked: Asked,
        filter: (String, Demands),
    ) -> bool {
        let (text, demands) = filter;
        self.audience.add(number, item, to, asked, (&text, demands))
    }

    /// Remove the subscription with this number, if it is there.
    fn remove(&mut self, number: u64) {
        self.audience.remove(number);
    }

    /// Make the messages of changes from `start` on, up to the first that is left to Python.
    ///
    /// `hold` says which filters match the record after the change with an index, or before it.
    fn deliver(
        &mut self,
        partition: i64,
        changes: &Bound<'_, PyList>,
        start: usize,
        hold: &Bound<'_, PyAny>,
    ) -> PyResult<Delivered> {
        let mut batch = Batch {
            plan: Plan {
                topic: &self.topic,
                keys: &self.keys,
                is_conflated: self.is_conflated,
                audience: &self.audience,
            },
            marks: &mut self.marks,
            partition,
            hold,
            reader: self.audience.filters.reader(),
            found: Found::default(),
            parts: Vec::new(),
            reached: Vec::new(),
        };
        batch.marks.begin_batch(&self.audience);
        let mut at = start;
        while at < changes.len() && batch.deliver(at, &changes.get_item(at)?)?.is_some() {
            at += 1;
        }
        Ok((at, batch.parts, batch.reached))
    }
}

/// What a plan is while changes are delivered.
struct Plan<'a> {
    topic: &'a Topic,
    keys: &'a [Vec<String>],
    is_conflated: bool,
    audience: &'a Audience,
}

/// What is found of one change; kept for its memory.
#[derive(Default)]
struct Found {
    now: Vec<usize>,
    before: Vec<usize>,
    due: Vec<(u64, usize, Outcome)>,
    outgoing: Vec<Outgoing>,
    reached: Vec<usize>,
    deltas: Deltas,
    message: Vec<u8>,
}

struct Batch<'a> {
    plan: Plan<'a>,
    marks: &'a mut Marks,
    partition: i64,
    hold: &'a Bound<'a, PyAny>,
    reader: Layout<'a>,
    found: Found,
    parts: Vec<Part>,
    reached: Vec<Py<PyAny>>,
}

impl Batch<'_> {
    /// Make the messages of a change; None if it is left to Python, and then nothing of it was made.
    fn deliver(&mut self, at: usize, change: &Bound<'_, PyAny>) -> PyResult<Option<()>> {
        let py = change.py();
        self.marks.change += 1;
        let body: Option<Bound<'_, PyBytes>> = change.getattr(intern!(py, "body"))?.extract()?;
        let previous: Option<Bound<'_, PyBytes>> =
            change.getattr(intern!(py, "previous"))?.extract()?;
        let bodies = Bodies {
            now: body.as_ref().map(|body| body.as_bytes()),
            before: previous.as_ref().map(|body| body.as_bytes()),
        };
        let op = change.getattr(intern!(py, "op"))?;
        if bodies.now == bodies.before && UNSEEN.contains(&op.cast::<PyString>()?.to_str()?) {
            return Ok(Some(()));
        }
        if self.plan.audience.no_redundant > 0
            && change.getattr(intern!(py, "is_redundant"))?.extract()?
        {
            return Ok(None);
        }
        if self.find_matching(at, &bodies)?.is_none()
            || self.find_due(&bodies).is_none()
            || self.find_outgoing(&bodies).is_none()
        {
            return Ok(None);
        }
        if self.found.outgoing.is_empty() {
            return Ok(Some(()));
        }
        let key: Bound<'_, PyBytes> = change.getattr(intern!(py, "sow_key"))?.extract()?;
        let Ok((era, offset, nth)) = change.getattr(intern!(py, "position"))?.extract() else {
            return Ok(None);
        };
        let Ok(time) = change.getattr(intern!(py, "time"))?.extract() else {
            return Ok(None);
        };
        let correlation: Option<Bound<'_, PyString>> =
            change.getattr(intern!(py, "correlation"))?.extract()?;
        let correlation = match correlation.as_ref().map(|text| text.to_str()) {
            None => None,
            Some(Ok(text)) => Some(text.as_bytes()),
            Some(Err(_)) => return Ok(None),
        };
        let reason: Option<Bound<'_, PyString>> =
            change.getattr(intern!(py, "reason"))?.extract()?;
        let reason = match (bodies.now, &reason) {
            (Some(_), _) => "match",
            (None, Some(reason)) if !reason.is_empty()? => reason.to_str()?,
            (None, _) => "deleted",
        };
        let sent = Sent {
            sow_key: key.as_bytes(),
            partition: self.partition,
            position: Position { era, offset, nth },
            time,
            correlation,
        };
        let Some(messages) = self.messages(py, &bodies, &sent, reason.as_bytes()) else {
            return Ok(None);
        };
        self.hand_over(py, messages)?;
        Ok(Some(()))
    }

    /// Find the filters that match the record after a change and the one before it; None if only Python can.
    fn find_matching(&mut self, at: usize, bodies: &Bodies<'_>) -> PyResult<Option<()>> {
        let Found { now, before, .. } = &mut self.found;
        let audience = self.plan.audience;
        now.clear();
        before.clear();
        let looked_back = bodies.before.filter(|_| audience.looking_back > 0);
        for (body, found) in [(bodies.now, &mut *now), (looked_back, &mut *before)] {
            if let Some(body) = body
                && audience
                    .filters
                    .matching(&mut self.reader, body, found)
                    .is_none()
            {
                return Ok(None);
            }
        }
        for (found, is_now) in [(now, true), (before, false)] {
            let hold = |rests| self.hold.call1((at, rests, is_now))?.extract();
            audience.retain_holding(found, is_now, hold)?;
        }
        Ok(Some(()))
    }

    /// Find the subscribers that the change concerns, in the order of adding; None if only Python can.
    fn find_due(&mut self, bodies: &Bodies<'_>) -> Option<()> {
        let Found {
            now, before, due, ..
        } = &mut self.found;
        let (audience, marks) = (self.plan.audience, &mut *self.marks);
        due.clear();
        for &filter in &*before {
            marks.matched_before[filter] = marks.change;
        }
        for &filter in &*now {
            marks.matched_now[filter] = marks.change;
            let was_in = marks.matched_before[filter] == marks.change;
            for &at in audience.filters.subscribers(filter) {
                let subscriber = audience.subscriber(at);
                let is_held = was_in && subscriber.looks_back();
                let outcome = if is_held {
                    Outcome::Updated
                } else {
                    Outcome::Entered
                };
                due.push((subscriber.number, at, outcome));
            }
        }
        for &filter in &*before {
            if marks.matched_now[filter] == marks.change {
                continue;
            }
            for &at in audience.filters.subscribers(filter) {
                let subscriber = audience.subscriber(at);
                if !subscriber.oof {
                    continue;
                }
                // Whether its user may see the new record decides what it learns.
                if subscriber.is_restricted && bodies.now.is_some() {
                    return None;
                }
                due.push((subscriber.number, at, Outcome::Left));
            }
        }
        due.sort_unstable_by_key(|(number, ..)| *number);
        Some(())
    }

    /// Find which messages there are, and for whom; None if only Python can tell.
    fn find_outgoing(&mut self, bodies: &Bodies<'_>) -> Option<()> {
        let Found {
            due,
            outgoing,
            reached,
            deltas,
            ..
        } = &mut self.found;
        outgoing.clear();
        reached.clear();
        deltas.clear();
        for &(_, at, outcome) in &*due {
            let subscriber = self.plan.audience.subscriber(at);
            let is_delta = subscriber.sends_deltas && outcome == Outcome::Updated;
            if is_delta {
                let delta = deltas.of(bodies, self.plan.keys, &subscriber.form.select)?;
                if subscriber.no_empties && !delta.is_changed {
                    continue;
                }
            }
            reached.push(at);
            let slots = &mut self.marks.slots[usize::from(outcome == Outcome::Left)];
            let (change, slot) = &mut slots[subscriber.connection];
            let is_first = *change != self.marks.change;
            if is_first {
                (*change, *slot) = (self.marks.change, outgoing.len());
            }
            let alike = outgoing[*slot..].iter_mut().find(|one| {
                let first = self.plan.audience.subscriber(one.first);
                one.is_delta == is_delta
                    && one.outcome.command() == outcome.command()
                    && first.connection == subscriber.connection
                    && first.form == subscriber.form
            });
            if let Some(alike) = alike {
                alike.others.push(at);
            } else if is_first || subscriber.shares {
                outgoing.push(Outgoing {
                    outcome,
                    is_delta,
                    first: at,
                    others: Vec::new(),
                });
            } else {
                // A message for several forms has the fields that any of them wants.
                return None;
            }
        }
        Some(())
    }

    /// Make the messages that were found; None if only Python can.
    fn messages(
        &mut self,
        py: Python<'_>,
        bodies: &Bodies<'_>,
        sent: &Sent<'_>,
        reason: &[u8],
    ) -> Option<Vec<Py<PyBytes>>> {
        let Found {
            outgoing,
            deltas,
            message,
            ..
        } = &mut self.found;
        let audience = self.plan.audience;
        let mut made: Vec<Py<PyBytes>> = Vec::with_capacity(outgoing.len());
        for (at, one) in outgoing.iter().enumerate() {
            // Many connections use the same name, and get the same bytes.
            if let Some(last) = at.checked_sub(1).map(|last| &outgoing[last])
                && is_same(audience, last, one)
            {
                made.push(made[at - 1].clone_ref(py));
                continue;
            }
            let first = audience.subscriber(one.first);
            let sids: Vec<&[u8]> = std::iter::once(&one.first)
                .chain(&one.others)
                .map(|at| &audience.subscriber(*at).sid[..])
                .collect();
            let delta = if one.is_delta {
                Some(deltas.of(bodies, self.plan.keys, &first.form.select)?)
            } else {
                None
            };
            let whole = bodies.sent(one.outcome, self.plan.is_conflated);
            let removed = delta.map(|delta| &delta.removed[..]);
            let why = (one.outcome == Outcome::Left).then_some(reason);
            let mut selected = Vec::new();
            let body = match (delta, &first.form.select) {
                (Some(delta), _) => &delta.body[..],
                (None, None) => whole?,
                (None, Some(select)) => {
                    select.apply(whole?, &mut selected)?;
                    &selected
                }
            };
            message.clear();
            push_prefix(one.outcome.command(), &sids, removed, why, message);
            let (has_key, has_time) = (first.form.sow_key, first.form.timestamp);
            push_suffix(self.plan.topic, sent, has_key, has_time, body, message);
            made.push(PyBytes::new(py, message).unbind());
        }
        Some(made)
    }

    /// Add messages to those of the batch.
    fn hand_over(&mut self, py: Python<'_>, messages: Vec<Py<PyBytes>>) -> PyResult<()> {
        let (audience, marks) = (self.plan.audience, &mut *self.marks);
        for (one, message) in self.found.outgoing.iter().zip(messages) {
            let first = audience.subscriber(one.first);
            let (batch, part) = &mut marks.parts[first.connection];
            if *batch != marks.batch {
                (*batch, *part) = (marks.batch, self.parts.len());
                let to = audience.connection(first.connection).to.clone_ref(py);
                let (messages, sids) = (PyList::empty(py), PyList::empty(py));
                self.parts.push((to, messages.unbind(), sids.unbind()));
            }
            let (_, messages, sids) = &self.parts[*part];
            messages.bind(py).append(message)?;
            if one.others.is_empty() {
                sids.bind(py).append(&first.sids)?;
                continue;
            }
            let mut names = vec![first.sids.bind(py).get_item(0)?];
            for at in &one.others {
                names.push(audience.subscriber(*at).sids.bind(py).get_item(0)?);
            }
            sids.bind(py).append(PyTuple::new(py, names)?)?;
        }
        for &at in &self.found.reached {
            if marks.reached[at] != marks.batch {
                marks.reached[at] = marks.batch;
                self.reached
                    .push(audience.subscriber(at).item.clone_ref(py));
            }
        }
        Ok(())
    }
}

/// Return whether two messages have the same bytes.
fn is_same(audience: &Audience, one: &Outgoing, other: &Outgoing) -> bool {
    let subscriber = |at: &usize| -> &Subscriber { audience.subscriber(*at) };
    let (first, second) = (subscriber(&one.first), subscriber(&other.first));
    let sids = one.others.iter().map(|at| &subscriber(at).sid);
    one.outcome.command() == other.outcome.command()
        && one.is_delta == other.is_delta
        && first.sid == second.sid
        && first.form == second.form
        && sids.eq(other.others.iter().map(|at| &subscriber(at).sid))
}
