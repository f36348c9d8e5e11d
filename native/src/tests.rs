//! The scanner and the readers over damaged texts. `cargo +nightly miri test` runs this with every access checked.

use crate::checksum::Checksum;
use crate::command::command;
use crate::entry::{self, NEVER};
use crate::event::about;
use crate::fix::FixReader;
use crate::json::fields;
use crate::key::{SowKey, domain_hash, partition_of, sow_key};
use crate::merge::merge;
use crate::message_pack::MessagePackReader;
use crate::numbers::{self, Publisher};
use crate::packing::{DICTIONARY_BYTES_MAX, Dictionary};
use crate::pending::Pending;
use crate::slots::Slots;

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
            let lookup = pending.look_up(key);
            pending.write(lookup, key, true, data.len(), |out| {
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
        let lookup = pending.look_up(key.as_bytes());
        pending.write(lookup, key.as_bytes(), true, data.len(), |out| {
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

#[test]
fn what_is_packed_is_unpacked_again() {
    let mut chance = Chance(3);
    let (mut texts, mut saved) = (WHOLE.concat(), 0);
    texts.resize(DICTIONARY_BYTES_MAX, b'x');
    for length in [0, 1, 3, 4, 200, DICTIONARY_BYTES_MAX] {
        let dictionary = Dictionary::new(texts[..length].to_vec());
        for _ in 0..ROUNDS / 10 {
            // A piece and what is between two pieces may be longer than half of a token counts.
            let mut record = damaged(&texts[chance.below(texts.len())..], &mut chance);
            let strange = chance.below(700);
            record.extend((0..strange).map(|number| (number * number) as u8));
            record.extend(damaged(WHOLE[chance.below(WHOLE.len())], &mut chance));
            let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
            dictionary.pack(&record, &mut packed);
            dictionary.unpack(&packed, usize::MAX, &mut unpacked);
            assert_eq!(unpacked, record);
            saved += record.len().saturating_sub(packed.len());
        }
    }
    assert!(saved > 0);
}

#[test]
fn slots_have_what_was_committed_or_nothing() {
    const KEYS: usize = 200;
    let (mut slots, mut chance) = (Slots::default(), Chance(5));
    let mut stored: Vec<Option<Vec<u8>>> = vec![None; KEYS];
    let (mut found, mut missed, mut whole) = (0, 0, 0);
    for round in 0..ROUNDS {
        // Less and more memory, as partitions come and go.
        let memory = match chance.below(100) {
            0 => 0,
            rare => 20_000 + 20_000 * (rare % 2),
        };
        let key = chance.below(KEYS);
        let digits = (key * 7).to_string();
        // Numbers, and names that are none.
        let name = match key % 3 {
            0 => digits.clone(),
            1 => format!("0{digits}"),
            _ => format!("key {digits}"),
        };
        let name = SowKey::Own(name.as_bytes());
        let slot = match slots.number(name) {
            Some(slot) => {
                found += 1;
                slots.use_again(slot);
                slot
            }
            None => {
                missed += 1;
                slots.add(name, stored[key].as_deref())
            }
        };
        assert_eq!(slots.data(slot).as_deref(), stored[key].as_deref());
        assert!(slots.key(slot) == name.named());
        if chance.below(2) == 0 {
            let data = match chance.below(5) {
                0 => None,
                1 => Some((0..150).map(|_| chance.below(256) as u8).collect()),
                _ => Some([WHOLE[0], WHOLE[1], &round.to_le_bytes()].concat()),
            };
            slots.commit(slot, data.as_deref(), memory);
            stored[key] = data;
        }
        slots.shrink(memory);
        let is_due = |data: &[u8]| entry::due(data).is_some_and(|due| due != NEVER);
        let entries = stored
            .iter()
            .flatten()
            .map(|data| 1 + i64::from(is_due(data)));
        let kept = entries.sum();
        assert!(slots.entries() <= kept);
        whole += usize::from(slots.entries() == kept);
    }
    assert!(found > ROUNDS / 10 && missed > ROUNDS / 10 && whole > 0);
}

/// Other partitions come, so that a partition has less memory than its old dictionaries take.
#[test]
fn slots_are_kept_in_less_memory_than_old_dictionaries_took() {
    const KEYS: usize = 300;
    let (mut slots, mut chance) = (Slots::default(), Chance(5));
    let commit = |slots: &mut Slots, key: usize, memory: usize, round: usize| {
        let name = key.to_string();
        let name = SowKey::Own(name.as_bytes());
        let slot = slots.number(name).unwrap_or_else(|| slots.add(name, None));
        let data = [WHOLE[0], WHOLE[1], &round.to_le_bytes()].concat();
        slots.commit(slot, Some(&data), memory);
        slots.shrink(memory);
    };
    for round in 0..20 * KEYS {
        commit(&mut slots, chance.below(KEYS), 60_000, round);
    }
    for round in 0..20 * KEYS {
        commit(&mut slots, chance.below(KEYS), 8_000, round);
    }
    let kept = (0..KEYS).filter(|key| {
        let name = key.to_string();
        slots.number(SowKey::Own(name.as_bytes())).is_some()
    });
    assert!(kept.count() > 10);
}
