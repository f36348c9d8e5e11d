//! SOW keys and partitions of key texts: `sowline.model.key`.

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::json::{Field, Kind};

/// The longest key text, in bytes; Python reads or refuses longer ones.
const KEY_BYTES_MAX: usize = 1024;

/// The longest integer that is a key here, in characters: it is within 64 bits.
const INTEGER_BYTES_MAX: usize = 18;

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

/// Return the key text in the fields of a body; None if only Python can find or refuse it.
pub fn text_in<'a>(given: &[Field<'a>], key_field: &[u8]) -> Option<&'a [u8]> {
    let field = given.iter().find(|field| field.name == key_field)?;
    let text = match field.kind {
        Kind::Text => &field.value[1..field.value.len() - 1],
        Kind::Integer if field.value.len() <= INTEGER_BYTES_MAX && field.value != b"-0" => {
            field.value
        }
        Kind::Boolean => field.value,
        _ => return None,
    };
    (!text.is_empty() && text.len() <= KEY_BYTES_MAX).then_some(text)
}
