//! What a worker may have done between two events of a trace, and which event it sends next.

use std::collections::HashSet;

use super::super::events::{Event, Name};
use super::super::owner::{Open, Purpose, Sending};
use super::RULES;
use crate::log::{Record, Standing};

/// Return the states that a worker may be in after what it does without an event.
pub(super) fn closure(
    possible: &HashSet<Open>,
    asked: &[usize],
    topic: &[Event],
    log: &[Record],
) -> HashSet<Open> {
    let mut found = possible.clone();
    let mut new: Vec<Open> = possible.iter().cloned().collect();
    while let Some(open) = new.pop() {
        for next in silent_steps(&open, asked, topic, log) {
            if found.insert(next.clone()) {
                new.push(next);
            }
        }
    }
    found
}

pub(super) fn silent_steps(
    open: &Open,
    asked: &[usize],
    topic: &[Event],
    log: &[Record],
) -> Vec<Open> {
    let mut found = Vec::new();
    match &open.sending {
        Some(Sending {
            purpose: Purpose::Batch(_),
            ..
        }) => {
            found.extend(
                batch_ends(open, log)
                    .into_iter()
                    .filter_map(|end| acknowledged(end, topic)),
            );
        }
        Some(sending) if sending.queue.is_empty() => {
            found.extend(acknowledged(open.clone(), topic))
        }
        Some(_) => (),
        None => {
            // A batch without an event.
            let batch = Open {
                sending: Some(new_batch(open)),
                ..open.clone()
            };
            found.extend(
                batch_ends(&batch, log)
                    .into_iter()
                    .filter_map(|end| acknowledged(end, topic)),
            );
            for end in asked.iter().filter(|end| **end > open.store.changes_end) {
                let mut looked = open.clone();
                if looked.look(topic, *end, RULES).is_ok() {
                    found.push(looked);
                }
            }
            if open.is_repair_due(RULES) {
                let mut repairing = open.clone();
                repairing.begin_repair(RULES);
                found.push(repairing);
            }
        }
    }
    found
}

pub(super) fn acknowledged(mut open: Open, topic: &[Event]) -> Option<Open> {
    open.acknowledge(topic, RULES).is_ok().then_some(open)
}

/// A batch of which no event was sent yet. How many log records it has, its end shows.
pub(super) fn new_batch(open: &Open) -> Sending {
    Sending {
        purpose: Purpose::Batch(open.store.standing.clone()),
        queue: [].into(),
        sent: Vec::new(),
        end: open.store.changes_end,
    }
}

/// Return the states after each number of log records, and how many changes they make that were not emitted before.
pub(super) fn batches(open: &Open, log: &[Record]) -> Vec<(Standing, usize)> {
    let mut standing = open.store.standing.clone();
    let mut changes = 0;
    let records = log.get(standing.next_offset()..).unwrap_or_default();
    // Kafka may deliver only records that are applied already: the batch then has none.
    let mut found = vec![(standing.clone(), 0)];
    for record in records {
        changes += standing
            .apply(record)
            .iter()
            .filter(|step| step.position > open.emitted_to)
            .count();
        found.push((standing.clone(), changes));
    }
    found
}

/// Return the ends of a batch at which all of its events were sent.
pub(super) fn batch_ends(open: &Open, log: &[Record]) -> Vec<Open> {
    let sending = open.sending.as_ref().expect("a batch is sent");
    let count = sending
        .sent
        .iter()
        .filter(|event| event.name() != Name::Progress)
        .count();
    let last = sending.sent.last();
    let is_end = |(standing, changes): &(Standing, usize)| {
        let needs_progress = standing.position > standing.last_change.max(open.emitted_to);
        let is_reported = match last {
            Some(Event::Progress { position, .. }) => *position == standing.position,
            _ => !needs_progress,
        };
        *changes == count && is_reported
    };
    let ends = batches(open, log).into_iter().filter(is_end);
    ends.map(|(standing, _)| {
        let mut ended = open.clone();
        if let Some(sending) = &mut ended.sending {
            sending.purpose = Purpose::Batch(standing);
        }
        ended
    })
    .collect()
}

/// Return the state of a worker after it has sent an event; None if that is not its next one.
pub(super) fn sent(open: &Open, offset: usize, event: &Event, log: &[Record]) -> Option<Open> {
    let mut after = open.clone();
    let mut sending = after.sending.take().unwrap_or_else(|| new_batch(open));
    if matches!(sending.purpose, Purpose::Batch(_)) {
        is_next_of_batch(open, &sending, event, log).then_some(())?;
    } else {
        let next = sending.queue.pop_front()?;
        is_repair(&next, event).then_some(())?;
    }
    sending.sent.push(*event);
    sending.end = offset + 1;
    after.sending = Some(sending);
    Some(after)
}

/// Whether a repair writes this event for the one that the model expects. A deleted record may be remembered, with the
/// position of its deletion.
pub(super) fn is_repair(expected: &Event, event: &Event) -> bool {
    match (expected, event) {
        (
            Event::Change {
                step: expected,
                again: true,
                written_in: era,
            },
            Event::Change {
                step,
                again: true,
                written_in,
            },
        ) if !expected.is_live && !step.is_live => {
            (expected.key, era) == (step.key, written_in)
                && step.after == step.position
                && step.position <= expected.position
        }
        _ => expected == event,
    }
}

/// Whether an event is the next one of a batch: its next change, or a progress event that no change is missing before.
pub(super) fn is_next_of_batch(
    open: &Open,
    sending: &Sending,
    event: &Event,
    log: &[Record],
) -> bool {
    let count = sending
        .sent
        .iter()
        .filter(|event| event.name() != Name::Progress)
        .count();
    match event {
        Event::Change { again: true, .. } => false,
        Event::Change {
            step, written_in, ..
        } => {
            let mut standing = open.store.standing.clone();
            let records = log.get(standing.next_offset()..).unwrap_or_default();
            let steps = records.iter().flat_map(|record| standing.apply(record));
            let due = steps
                .filter(|step| step.position > open.emitted_to)
                .nth(count);
            due == Some(*step) && *written_in == step.position.era
        }
        Event::Progress {
            position, after, ..
        } => batches(open, log).iter().any(|(standing, changes)| {
            (standing.position, standing.last_change, *changes) == (*position, *after, count)
        }),
    }
}
