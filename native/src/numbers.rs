//! Publishers' numbers of a record, as the text of a JSON object: `sowline.changes.change.Numbers`.

use crate::number::push;

/// How many publishers a record remembers; Python chooses which one to drop.
const PUBLISHERS_MAX: usize = 8;

/// A publisher's name and the sequence of its command.
#[derive(Clone, Copy)]
pub struct Publisher<'a> {
    pub name: &'a [u8],
    pub sequence: (u64, u64),
}

/// What becomes of a record's numbers with a command.
pub enum After {
    /// The record has seen the command, or a later one of its publisher.
    Repeat,
    /// The new numbers are in the buffer; empty if there are none.
    Written,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, expected: u8) -> Option<()> {
        (*self.text.get(self.at)? == expected).then(|| self.at += 1)
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.text[start..self.at - 1])
    }

    fn number(&mut self) -> Option<u64> {
        let mut value: u64 = 0;
        let start = self.at;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            value = value
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            self.at += 1;
        }
        (self.at > start).then_some(value)
    }
}

fn write(name: &[u8], sequence: (u64, u64), time: u64, out: &mut Vec<u8>) {
    out.push(if out.is_empty() { b'{' } else { b',' });
    out.push(b'"');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":[");
    push(sequence.0, out);
    out.push(b',');
    push(sequence.1, out);
    out.push(b',');
    push(time, out);
    out.push(b']');
}

/// Write the numbers after a command to `out`, which is empty; numbers from before `since` are dropped.
///
/// Returns None if only Python can.
pub fn after(
    held: &[u8],
    publisher: Option<Publisher<'_>>,
    time: i64,
    since: i64,
    out: &mut Vec<u8>,
) -> Option<After> {
    let now = u64::try_from(time).ok()?;
    let mut count = 0;
    let mut is_noted = publisher.is_none();
    if !held.is_empty() {
        let mut reader = Reader { text: held, at: 0 };
        reader.take(b'{')?;
        loop {
            let name = reader.name()?;
            reader.take(b':')?;
            reader.take(b'[')?;
            let row = reader.number()?;
            reader.take(b',')?;
            let part = reader.number()?;
            reader.take(b',')?;
            let seen_at = reader.number()?;
            reader.take(b']')?;
            if i64::try_from(seen_at).ok()? >= since {
                count += 1;
                match publisher.filter(|one| one.name == name) {
                    Some(one) if one.sequence <= (row, part) => return Some(After::Repeat),
                    Some(one) => {
                        is_noted = true;
                        write(name, one.sequence, now, out);
                    }
                    None => write(name, (row, part), seen_at, out),
                }
            }
            if reader.take(b',').is_none() {
                break;
            }
        }
        reader.take(b'}')?;
        if reader.at != held.len() {
            return None;
        }
    }
    if let Some(one) = publisher.filter(|_| !is_noted) {
        count += 1;
        write(one.name, one.sequence, now, out);
    }
    if count > PUBLISHERS_MAX {
        return None;
    }
    if !out.is_empty() {
        out.push(b'}');
    }
    Some(After::Written)
}
