//! The log lines of a client, kept until they are asked for.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

use crate::functions::{RawClient, loaded, text_at};

/// How many lines are kept; a client that nobody asks loses the lines behind them.
const LINES_MAX: usize = 1000;

/// A log line of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The level of syslog: 0 is an emergency, 7 is for debugging.
    pub level: i32,
    /// The part of the client that has written it.
    pub facility: String,
    /// The name of the client.
    pub client: String,
    pub text: String,
}

/// The lines of one client. Its threads add lines, and any thread may take them.
#[derive(Default)]
pub struct Lines(Mutex<Vec<Line>>);

impl Lines {
    /// Return the lines that have come since the last call.
    pub fn take(&self) -> Vec<Line> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, line: Line) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < LINES_MAX {
            waiting.push(line);
        }
    }
}

/// Add a line to the `Lines` of its client, which are the client's opaque value.
///
/// # Safety
/// Only librdkafka calls it, for a client whose opaque value is a `Lines` that outlives the client. The texts are C
/// texts.
pub unsafe extern "C" fn add_line(
    client: *const RawClient,
    level: c_int,
    facility: *const c_char,
    text: *const c_char,
) {
    let Some(functions) = loaded().filter(|_| !client.is_null()) else {
        return;
    };
    // SAFETY: the client is not null, and lives while it logs.
    let opaque = unsafe { (functions.rd_kafka_opaque)(client) };
    // SAFETY: see above.
    let name = unsafe { (functions.rd_kafka_name)(client) };
    // SAFETY: the caller promises what the opaque value is. It is only shared.
    let Some(lines) = (unsafe { opaque.cast::<Lines>().as_ref() }) else {
        return;
    };
    lines.add(Line {
        level,
        // SAFETY: the caller promises that it is a C text.
        facility: unsafe { text_at(facility) },
        // SAFETY: the name of a client is a C text that lives as long as the client.
        client: unsafe { text_at(name) },
        // SAFETY: the caller promises that it is a C text.
        text: unsafe { text_at(text) },
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line {
            level: 7,
            facility: String::new(),
            client: String::new(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn lines_are_taken_once() {
        let lines = Lines::default();
        lines.add(line("a"));
        assert_eq!(lines.take(), [line("a")]);
        assert_eq!(lines.take(), []);
    }

    #[test]
    fn lines_that_are_never_taken_are_lost() {
        let lines = Lines::default();
        (0..LINES_MAX + 5).for_each(|number| lines.add(line(&number.to_string())));
        let kept = lines.take();
        assert_eq!((kept.len(), &kept[0]), (LINES_MAX, &line("0")));
    }
}
