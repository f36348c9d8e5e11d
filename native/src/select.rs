//! Select lists of top-level fields: `sowline.model.select`.

use crate::canonical::push_name;
use crate::json::members;

/// Which fields of a body are sent. None is all, with the text of the body unchanged.
#[derive(Debug, PartialEq, Eq)]
pub struct Select {
    /// Whether fields are sent that are not named.
    sends_others: bool,
    /// The named fields, and whether they are sent.
    named: Vec<(Vec<u8>, bool)>,
}

impl Select {
    pub fn new(sends_others: bool, named: Vec<(String, bool)>) -> Self {
        let named = named.into_iter();
        Select {
            sends_others,
            named: named
                .map(|(name, sent)| (name.into_bytes(), sent))
                .collect(),
        }
    }

    /// Append the body without the fields that are not sent; None if only Python can.
    pub fn apply(&self, body: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if self.named.is_empty() {
            out.extend_from_slice(if self.sends_others {
                body.trim_ascii_start()
            } else {
                b"{}"
            });
            return Some(());
        }
        let start = out.len();
        let mut names: Vec<&[u8]> = Vec::with_capacity(16);
        out.push(b'{');
        members(body, |name, value| {
            // Of a repeated name the last value counts, in the first position.
            if names.contains(&name) {
                return None;
            }
            names.push(name);
            let directive = self.named.iter().find(|(named, _)| named == name);
            if directive.map_or(self.sends_others, |(_, sent)| *sent) {
                if out.len() > start + 1 {
                    out.push(b',');
                }
                push_name(name, out);
                out.extend_from_slice(value.text());
            }
            Some(())
        })?;
        if names.is_empty() && self.sends_others {
            // An object that was empty before is treated like any other value.
            out.truncate(start);
            out.extend_from_slice(body.trim_ascii_start());
            return Some(());
        }
        out.push(b'}');
        Some(())
    }
}
