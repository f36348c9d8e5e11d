//! SOW keys and partitions of key texts: `sowline.model.key`.

use std::borrow::Cow;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::json::{Field, Kind, member};
use crate::value::INTEGER_BYTES_MAX;

/// The longest key text, in bytes; Python reads or refuses longer ones.
const KEY_BYTES_MAX: usize = 1024;

/// A hash that has read the key domain.
pub type DomainHash = Blake2b<U8>;

/// Return 64 bits of BLAKE2b over the key domain, with its zero byte, and the key text.
pub fn sow_key(domain: &DomainHash, text: &[u8]) -> u64 {
    u64::from_be_bytes(domain.clone().chain_update(text).finalize().into())
}

/// Return a hash that has read the key domain.
pub fn domain_hash(domain: &[u8]) -> DomainHash {
    DomainHash::new_with_prefix(domain)
}

/// Return the partition that owns the record with a key text: Kafka's murmur2, made positive as in Java.
pub fn partition_of(text: &[u8], partitions: u32) -> u32 {
    const M: u32 = 0x5BD1_E995;
    let mut hash = 0x9747_B28C ^ text.len() as u32;
    let (words, rest) = text.as_chunks::<4>();
    for word in words {
        let k = u32::from_le_bytes(*word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (k ^ (k >> 24)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    ((hash ^ (hash >> 15)) & 0x7FFF_FFFF) % partitions
}

/// The longest key that is a SOW key itself, in bytes.
const OWN_BYTES_MAX: usize = 255;

/// A SOW key: the number that its digits spell, or the key itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum SowKey<'a> {
    Hash(u64),
    Own(&'a [u8]),
}

impl<'a> SowKey<'a> {
    /// Return the number if a key is the digits of one, else the key itself: one form for each key.
    pub fn named(self) -> Self {
        let SowKey::Own(key) = self else {
            return self;
        };
        if key != b"0" && !matches!(key.first(), Some(b'1'..=b'9')) {
            return self;
        }
        let number = std::str::from_utf8(key)
            .ok()
            .and_then(|key| key.parse().ok());
        number.map_or(self, SowKey::Hash)
    }

    /// Return its bytes; `digits` is space for them.
    pub fn bytes(self, digits: &'a mut itoa::Buffer) -> &'a [u8] {
        match self {
            SowKey::Hash(number) => digits.format(number).as_bytes(),
            SowKey::Own(key) => key,
        }
    }
}

/// The key rule of a topic: the paths of its key fields; none if the Kafka keys of its records are the SOW keys.
pub struct KeyRule {
    paths: Vec<Vec<String>>,
    domain: DomainHash,
}

impl KeyRule {
    pub fn new(paths: Vec<Vec<String>>, domain: &[u8]) -> Self {
        KeyRule {
            paths,
            domain: domain_hash(domain),
        }
    }

    /// Return the key text and the SOW key of a log record; None if only Python can find or refuse them.
    pub fn key_of<'a: 'b, 'b>(
        &self,
        given: &[Field<'b>],
        kafka_key: &'a [u8],
    ) -> Option<(Cow<'b, [u8]>, SowKey<'a>)> {
        let text = self.text_of(given, kafka_key)?;
        let key = if self.paths.is_empty() {
            SowKey::Own(kafka_key)
        } else {
            SowKey::Hash(sow_key(&self.domain, &text))
        };
        Some((text, key))
    }

    /// Return the key text and the SOW key of the record that a Kafka key names; None if only Python can judge it.
    pub fn named<'a>(&self, kafka_key: &'a [u8]) -> Option<(Cow<'a, [u8]>, SowKey<'a>)> {
        if self.paths.is_empty() {
            return self.key_of(&[], kafka_key);
        }
        let is_valid = (1..=KEY_BYTES_MAX).contains(&kafka_key.len());
        std::str::from_utf8(kafka_key).ok().filter(|_| is_valid)?;
        let key = SowKey::Hash(sow_key(&self.domain, kafka_key));
        Some((Cow::Borrowed(kafka_key), key))
    }

    /// Return the key text of a body with these fields, or of a Kafka key; None if only Python can find or refuse it.
    ///
    /// That of several fields is a JSON array of their texts, which need no escapes.
    pub fn text_of<'a>(&self, given: &[Field<'a>], kafka_key: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.paths.is_empty() {
            let is_plain = kafka_key.iter().all(|byte| matches!(byte, b' '..=b'~'));
            let is_valid = (1..=OWN_BYTES_MAX).contains(&kafka_key.len()) && is_plain;
            return is_valid.then_some(Cow::Borrowed(kafka_key));
        }
        if let [path] = &self.paths[..] {
            let text = part_in(given, path)?;
            return (!text.is_empty() && text.len() <= KEY_BYTES_MAX)
                .then_some(Cow::Borrowed(text));
        }
        let mut text = Vec::with_capacity(64);
        for path in &self.paths {
            text.extend_from_slice(if text.is_empty() { b"[\"" } else { b",\"" });
            text.extend_from_slice(part_in(given, path)?);
            text.push(b'"');
        }
        text.push(b']');
        (text.len() <= KEY_BYTES_MAX).then_some(Cow::Owned(text))
    }
}

/// Return the text of one key field.
fn part_in<'a>(given: &[Field<'a>], path: &[String]) -> Option<&'a [u8]> {
    let (first, below) = path.split_first()?;
    let field = given.iter().find(|field| field.name == first.as_bytes())?;
    let (mut text, mut kind) = (field.value, field.kind);
    for step in below {
        if kind != Kind::Object {
            return None;
        }
        (text, kind) = member(text, step.as_bytes())??;
    }
    match kind {
        Kind::Text => Some(&text[1..text.len() - 1]),
        Kind::Integer if text.len() <= INTEGER_BYTES_MAX && text != b"-0" => Some(text),
        Kind::Boolean => Some(text),
        _ => None,
    }
}
