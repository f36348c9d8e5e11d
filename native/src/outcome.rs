//! What a change is to a subscriber, and its deltas: `Delivery` and `Deltas` in `sowline.subscriptions.engine`.

use std::sync::Arc;

use crate::difference::Difference;
use crate::select::Select;

/// What a subscriber learns of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Entered,
    Updated,
    Left,
}

impl Outcome {
    pub fn command(self) -> &'static [u8] {
        match self {
            Outcome::Left => b"oof",
            _ => b"publish",
        }
    }
}

/// A record before and after a change.
pub struct Bodies<'a> {
    pub now: Option<&'a [u8]>,
    pub before: Option<&'a [u8]>,
}

impl<'a> Bodies<'a> {
    /// Return the record of a message that is no delta; an `oof` of a conflated topic has what its subscriber holds.
    pub fn sent(&self, outcome: Outcome, is_conflated: bool) -> Option<&'a [u8]> {
        match outcome {
            Outcome::Left if is_conflated => self.before,
            _ => self.now.or(self.before),
        }
    }
}

/// The deltas of a change, each found once for its select list.
#[derive(Default)]
pub struct Deltas {
    found: Vec<(Option<Arc<Select>>, Difference)>,
}

impl Deltas {
    pub fn clear(&mut self) {
        self.found.clear();
    }

    /// Return the delta for a select list; None if only Python can tell.
    pub fn of(
        &mut self,
        bodies: &Bodies<'_>,
        keys: &[Vec<String>],
        select: &Option<Arc<Select>>,
    ) -> Option<&Difference> {
        if let Some(known) = self.found.iter().position(|(of, _)| of == select) {
            return Some(&self.found[known].1);
        }
        let (before, now) = (bodies.before?, bodies.now?);
        let mut delta = Difference::default();
        match select {
            None => delta.find(before, now, keys)?,
            Some(select) => {
                let (mut held, mut given) = (Vec::new(), Vec::new());
                select.apply(before, &mut held)?;
                select.apply(now, &mut given)?;
                delta.find(&held, &given, keys)?;
            }
        }
        self.found.push((select.clone(), delta));
        self.found.last().map(|(_, delta)| delta)
    }
}
