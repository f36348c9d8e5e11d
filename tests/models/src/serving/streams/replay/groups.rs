//! The groups of clients that a trace has.

use std::collections::BTreeSet;

use crate::serving::trace::{Cast, Line};

/// Clients that have shared streams.
pub(super) struct Group {
    pub(super) clients: Vec<String>,
    pub(super) streams: BTreeSet<usize>,
}

/// Put the clients into groups that share no streams with each other.
pub(super) fn groups(cast: &Cast, lines: &[Line]) -> Vec<Group> {
    let alone = |client: &String| Group {
        clients: vec![client.clone()],
        streams: BTreeSet::new(),
    };
    let mut found: Vec<Group> = cast.clients.iter().map(alone).collect();
    for line in lines {
        if let Line::Join { by, stream } = line {
            let is_one =
                |group: &Group| group.clients.contains(by) || group.streams.contains(stream);
            let (ones, others): (Vec<Group>, Vec<Group>) = found.into_iter().partition(is_one);
            let mut joined = Group {
                clients: Vec::new(),
                streams: BTreeSet::from([*stream]),
            };
            for one in ones {
                joined.clients.extend(one.clients);
                joined.streams.extend(one.streams);
            }
            found = others;
            found.push(joined);
        }
    }
    found
}
