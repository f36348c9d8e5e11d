//! Writes to documents, as literals and as deltas of plain maps: `sowline_materializer.core.document_writer`.

use crate::canonical::{push_fields, push_value};
use crate::command::Operation;
use crate::deltas::{map_or_object, text_order};
use crate::json::{FIELDS_MAX, Field, Kind, elements, fields, member, members_behind_brace};
use crate::merge::merge;
use crate::message::Message;
use crate::target::Target;
use crate::writes::{Write, Writes, write_accounts};

/// The longest text of a delta, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Applies writes to the documents of a topic.
pub struct Documents {
    partition: u32,
    key_paths: Vec<Vec<String>>,
    /// A JSON object: the fields that all documents have for readers, and that no write sees.
    template: Vec<u8>,
}

/// Space for one document after the other.
#[derive(Default)]
pub struct Space {
    own: Vec<u8>,
    merged: Vec<u8>,
    body: Vec<u8>,
    writes: Vec<u8>,
    accounts: Vec<u8>,
}

/// What a message writes to its document, as far as the message alone tells.
pub struct Given<'a> {
    write: Write,
    /// The content of a delta; None for any other command.
    delta: Option<Content<'a>>,
}

impl<'a> Given<'a> {
    /// Return the body that has the key of the document; empty if the Kafka key names it.
    pub fn keyed_body(&self, message: &Message<'a>) -> &'a [u8] {
        self.delta.as_ref().map_or(message.body, |_| b"")
    }
}

/// A document after a write.
pub struct Folded<'a> {
    /// The new body; None if the document is deleted.
    pub body: Option<&'a [u8]>,
    pub is_changed: bool,
    /// The metadata of its writes.
    pub writes: &'a [u8],
    /// The metadata after the write and before it.
    pub accounts: &'a [u8],
}

impl Documents {
    pub fn new(partition: u32, key_paths: Vec<Vec<String>>, template: Vec<u8>) -> Self {
        Documents {
            partition,
            key_paths,
            template,
        }
    }

    /// Return the texts of the key fields; None if only Python can find them.
    pub fn key_texts<'a>(&self, key_text: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        if self.key_paths.len() < 2 {
            return Some(vec![key_text; self.key_paths.len()]);
        }
        let (mut texts, mut bytes) = (Vec::new(), 1);
        elements(key_text, |element| {
            let text = element.text();
            bytes += text.len() + 1;
            texts.push(text.strip_prefix(b"\"")?.strip_suffix(b"\"")?);
            (element.kind == Kind::Text).then_some(())
        })?;
        // Python refuses a key with blanks.
        (texts.len() == self.key_paths.len() && bytes == key_text.len()).then_some(texts)
    }

    /// Return what a message writes; None if only Python can read or refuse it.
    ///
    /// Python refuses a delta or a header before it looks for the document.
    pub fn given<'a>(&self, message: &Message<'a>) -> Option<Given<'a>> {
        let write = Write::of(
            &message.command,
            self.partition,
            message.at.offset,
            message.time,
        )?;
        let delta = match message.command.operation {
            Operation::Delta => Some(Content::of_delta(message.body)?),
            Operation::Expire | Operation::Partials => return None,
            _ => None,
        };
        Some(Given { write, delta })
    }

    /// Apply a message to its document; `fields` are those of its body. None if only Python can.
    pub fn fold<'a>(
        &self,
        message: &Message<'_>,
        given: &Given<'_>,
        fields: &[Field<'_>],
        target: &Target<'a>,
        bytes_max: usize,
        space: &'a mut Space,
    ) -> Option<Folded<'a>> {
        let before = match &target.entry {
            None => None,
            Some(entry) => Some(Writes::read(entry.writes)?),
        };
        let (is_changed, body) = match message.command.operation {
            Operation::Delete => (true, None),
            _ => {
                let delta = given.delta.as_ref();
                let is_changed = self.apply(message, fields, delta, target, space)?;
                let previous = target.previous().filter(|_| !is_changed);
                (is_changed, Some(previous.unwrap_or(&space.body)))
            }
        };
        if body.is_some_and(|body| body.len() > bytes_max) {
            return None;
        }
        given
            .write
            .write(before.as_ref(), is_changed, &mut space.writes);
        write_accounts(&space.writes, before.as_ref(), &mut space.accounts);
        Some(Folded {
            body,
            is_changed,
            writes: &space.writes,
            accounts: &space.accounts,
        })
    }

    /// Write the body after a write to `space`; return whether the content differs from that before.
    fn apply(
        &self,
        message: &Message<'_>,
        given: &[Field<'_>],
        delta: Option<&Content<'_>>,
        target: &Target<'_>,
        space: &mut Space,
    ) -> Option<bool> {
        let mut template = Vec::new();
        fields(&self.template, &mut template)?;
        let mut held = Vec::with_capacity(16);
        let previous = target.previous();
        if let Some(previous) = previous {
            // The store holds what was valid once; a text is checked, not trusted.
            std::str::from_utf8(previous).ok()?;
            fields(previous, &mut held)?;
            held.retain(|field| !has(&template, field.name));
        }
        let (made, mut merged) = (&mut space.merged, Vec::new());
        let literal = match (delta, message.command.operation, previous) {
            (Some(_), _, _) => None,
            (None, Operation::DeltaPublish, Some(_)) => {
                space.own.clear();
                push_fields(&held, &mut space.own);
                made.clear();
                merge(&space.own, given, made)?;
                fields(made, &mut merged)?;
                Some(Content::of_fields(&merged)?)
            }
            _ => Some(Content::of_fields(given)?),
        };
        let content = delta.or(literal.as_ref())?;
        if template
            .iter()
            .any(|field| content.find(field.name).is_some())
        {
            // Python keeps the fields that the template hides.
            return None;
        }
        self.require_key(content, &target.key_texts)?;
        space.body.clear();
        content.apply(previous.map(|_| &held[..]), &template, &mut space.body)
    }

    /// Check that a write does not change the key: None if it does, or if only Python can judge it.
    fn require_key(&self, content: &Content<'_>, texts: &[&[u8]]) -> Option<()> {
        for (path, expected) in self.key_paths.iter().zip(texts) {
            let (first, below) = path.split_first()?;
            let mut found = content.find(first.as_bytes());
            for step in below {
                found = match found {
                    Some((text, Kind::Object)) => member(text, step.as_bytes())?,
                    _ => None,
                };
            }
            let own = match found {
                None => continue,
                Some((text, Kind::Text)) => &text[1..text.len() - 1],
                Some((text, Kind::Integer | Kind::Boolean)) => text,
                Some(_) => return None,
            };
            if own != *expected {
                return None;
            }
        }
        Some(())
    }
}

fn has(fields: &[Field<'_>], name: &[u8]) -> bool {
    fields.iter().any(|field| field.name == name)
}

/// What a write gives a document: all its fields, or some of them.
pub struct Content<'a> {
    /// The values as documents store them, one after the other.
    values: Vec<u8>,
    members: Vec<Member<'a>>,
    /// Whether the other fields of the document stay.
    keeps_rest: bool,
}

struct Member<'a> {
    name: &'a [u8],
    start: usize,
    end: usize,
    kind: Kind,
}

/// How two values compare.
#[derive(PartialEq, Eq)]
enum Verdict {
    Same,
    Different,
    /// The order of the fields in an object may differ.
    Unknown,
}

impl<'a> Content<'a> {
    fn new(keeps_rest: bool) -> Self {
        Content {
            values: Vec::with_capacity(256),
            members: Vec::with_capacity(16),
            keeps_rest,
        }
    }

    /// Return what a delta gives; None if it is not plain, and only Python can read or refuse it.
    pub fn of_delta(text: &'a [u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (keeps_rest, behind) = map_or_object(str::from_utf8(text).ok()?)?;
        let mut content = Content::new(keeps_rest);
        members_behind_brace(behind.as_bytes(), |name, value| {
            content.add(name, value.text(), value.kind)
        })?;
        if keeps_rest {
            content
                .members
                .sort_by(|one, other| text_order(one.name, other.name));
        }
        (!keeps_rest || !content.members.is_empty()).then_some(content)
    }

    /// Return what a body with these fields gives; None if only Python can store it.
    fn of_fields(given: &[Field<'a>]) -> Option<Self> {
        let mut content = Content::new(false);
        for field in given {
            content.add(field.name, field.value, field.kind)?;
        }
        Some(content)
    }

    fn add(&mut self, name: &'a [u8], value: &[u8], kind: Kind) -> Option<()> {
        // Python drops the names of intrinsics, and refuses a name that comes again.
        let is_known = self.members.iter().any(|member| member.name == name);
        if is_known || name.starts_with(b"~") || self.members.len() == FIELDS_MAX {
            return None;
        }
        let start = self.values.len();
        push_value(value, kind, &mut self.values)?;
        let end = self.values.len();
        self.members.push(Member {
            name,
            start,
            end,
            kind,
        });
        Some(())
    }

    /// Return the value of a field and its kind; None if it is not given.
    fn find(&self, name: &[u8]) -> Option<(&[u8], Kind)> {
        let member = self.members.iter().find(|member| member.name == name)?;
        Some((&self.values[member.start..member.end], member.kind))
    }

    fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.members.iter().map(|member| Field {
            name: member.name,
            value: &self.values[member.start..member.end],
            kind: member.kind,
        })
    }

    /// Write the document after it to `out`, with the fields of the template; return whether its content is another one
    /// than that of these fields, if there was one. None if only Python can tell.
    fn apply(
        &self,
        held: Option<&[Field<'_>]>,
        template: &[Field<'_>],
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let before = held.unwrap_or_default();
        let kept = if self.keeps_rest { before } else { &[] };
        let mut after = Vec::with_capacity(kept.len() + self.members.len());
        after.extend_from_slice(kept);
        let mut verdicts = Vec::with_capacity(self.members.len());
        for given in self.fields() {
            let at = before.iter().position(|field| field.name == given.name);
            verdicts.push(at.map_or(Verdict::Different, |at| compared(&before[at], &given)));
            match at.filter(|_| self.keeps_rest) {
                Some(at) => after[at] = given,
                None => after.push(given),
            }
        }
        push_fields(after.iter().chain(template), out);
        let has_other_fields = held.is_none() || after.len() != before.len();
        if has_other_fields || verdicts.contains(&Verdict::Different) {
            return Some(true);
        }
        (!verdicts.contains(&Verdict::Unknown)).then_some(false)
    }
}

/// Compare two values as documents store them: `sowline.language.emodb.values.same`.
fn compared(before: &Field<'_>, now: &Field<'_>) -> Verdict {
    let has_object = |field: &Field<'_>| field.value.contains(&b'{');
    if before.value == now.value {
        Verdict::Same
    } else if before.value.len() == now.value.len() && has_object(before) && has_object(now) {
        Verdict::Unknown
    } else {
        Verdict::Different
    }
}
