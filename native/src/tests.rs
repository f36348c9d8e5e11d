//! The scanner and the readers over damaged texts. `cargo +nightly miri test` runs this with every access checked.

use crate::checksum::Checksum;
use crate::command::command;
use crate::entry;
use crate::event::about;
use crate::fix::FixReader;
use crate::json::fields;
use crate::key::{domain_hash, partition_of, sow_key};
use crate::merge::merge;
use crate::message_pack::MessagePackReader;
use crate::numbers::{self, Publisher};
use crate::pending::Pending;

/// How many damaged texts are made of each whole one; Miri takes about a thousand times as long.
const ROUNDS: u64 = if cfg!(miri) { 100 } else { 20_000 };

const WHOLE: &[&[u8]] = &[
    br#"{"id":1,"a":{"b":[1,2.5e3,null,true]},"c":"\u00e9\ud83d\ude00"}"#,
    br#" { "id" : "x" , "long name of a field" : "a text that is longer than eight bytes" } "#,
    br#"{"position":"5","after":"1/4.2","op":"delta_publish","time":12,"era":2,"numbers":{"p":[1,0,5]}}"#,
    br#"{"p":[1,0,5],"q q":[18446744073709551615,2,6]}"#,
    br#"[{"p":[1,0,5]},"c"]"#,
    b"\x83\xa2id\x01\xa1a\x92\xcb\x3f\xe0\0\0\0\0\0\0\xd9\x02\xc3\xa9\xa1o\xde\0\x01\xa1b\xd1\x80\0",
    b"8=FIX.4.4\x019=15\x0135=D\x0111=1\x0155=a\x0110=194\x01",
];

/// Numbers by chance, the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

fn damaged(whole: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut text = whole.to_vec();
    for _ in 0..chance.below(4) {
        let at = chance.below(text.len() + 1);
        match chance.below(3) {
            0 => text.insert(at, b"\"\\{}[],:0-.eu\x00\x80\xff"[chance.below(16)]),
            1 if at < text.len() => drop(text.remove(at)),
            _ => text.truncate(at),
        }
    }
    text
}

#[test]
fn damaged_texts_are_read_or_refused() {
    let mut chance = Chance(7);
    let mut accepted = 0;
    let fix = FixReader::new(
        true,
        '\u{1}',
        [(b"55".to_vec(), b"Ticker".to_vec())].into_iter().collect(),
        Default::default(),
        Default::default(),
    );
    for _ in 0..ROUNDS {
        for whole in WHOLE {
            let text = damaged(whole, &mut chance);
            let _ = about(&text);
            let _ = entry::read(&text);
            let _ = command(&[
                ("sow.sequence", Some(&text)),
                ("sow.publisher", Some(&text)),
            ]);
            let publisher = Publisher {
                name: b"p",
                sequence: (2, 0),
            };
            let _ = numbers::after(&text, Some(publisher), 9, 0, &mut Vec::new());
            let mut read = Vec::new();
            if fix.read(&text, &mut read).is_some()
                || MessagePackReader.read(&text, &mut read).is_some()
            {
                assert!(std::str::from_utf8(&read).is_ok());
                accepted += 1;
            }
            let Ok(_) = std::str::from_utf8(&text) else {
                continue;
            };
            let mut given = Vec::new();
            if fields(&text, &mut given).is_some() {
                accepted += 1;
                let mut merged = Vec::new();
                if merge(WHOLE[0], &given, &mut merged).is_some() {
                    assert!(fields(&merged, &mut Vec::new()).is_some());
                }
            }
        }
    }
    assert!(accepted > 0);
}

#[test]
fn entries_come_in_the_order_of_their_keys() {
    let mut pending = Pending::default();
    let same = b"a long key that starts as another does";
    let keys: [&[u8]; 5] = [b"b", b"a", &same[..38], &same[..37], b""];
    for key in keys {
        for data in [&b"old"[..], b"new data"] {
            let place = pending.place(key);
            pending.write(place, key, true, data.len(), |out| {
                out.extend_from_slice(data)
            });
        }
    }
    pending.add_stored(b"stored", Some(b"is not changed"));
    let entries = pending.take();
    let changed = entries.in_order();
    let changed: Vec<_> = changed.iter().map(|index| entries.at(*index)).collect();
    let found: Vec<_> = changed.iter().map(|one| one.key).collect();
    let mut expected = keys;
    expected.sort_unstable();
    assert_eq!(found, expected);
    let mut checksum = Checksum { entries: 0, sum: 0 };
    for one in changed {
        assert_eq!(one.data, Some(&b"new data"[..]));
        let (was, now) = one.change();
        let nothing_due = checksum.replace(one.key, was, now, |_, _| Err(()));
        assert_eq!(nothing_due, Ok(()));
    }
    assert_eq!(checksum.entries, 5);
}

#[test]
fn entries_that_grow_and_shrink_keep_to_themselves() {
    let mut pending = Pending::default();
    let mut chance = Chance(7);
    let mut expected = std::collections::BTreeMap::new();
    for round in 0..ROUNDS.min(2_000) {
        let key = format!("{}", chance.below(20));
        let data = vec![round.to_le_bytes()[0]; chance.below(300)];
        let place = pending.place(key.as_bytes());
        pending.write(place, key.as_bytes(), true, data.len(), |out| {
            out.extend_from_slice(&data)
        });
        expected.insert(key.into_bytes(), data);
    }
    // More than what the entries hold, but not all that was ever written.
    let held: usize = expected.values().map(Vec::len).sum();
    assert!((held..held * 4 + 20 * 200).contains(&pending.bytes));
    let entries = pending.take();
    let found = entries.in_order();
    let found = found.iter().map(|index| entries.at(*index));
    let found = found.map(|one| (one.key, one.data));
    let expected = expected
        .iter()
        .map(|(key, data)| (&key[..], Some(&data[..])));
    assert!(found.eq(expected));
}

#[test]
fn keys_are_those_of_the_specification() {
    // As sowline.model.key.sow_key and partition_of give them.
    assert_eq!(
        sow_key(&domain_hash(b"orders\0"), b"1"),
        8_170_273_982_623_898_929
    );
    assert_eq!(partition_of(b"1", 8), 7);
}
