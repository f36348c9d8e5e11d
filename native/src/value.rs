//! What texts of the scanner spell, as `orjson` and `json` read them.

use crate::json::{Scanner, Value};

/// The longest integer that is read, or is a key, here, in characters: it is within 64 bits.
pub const INTEGER_BYTES_MAX: usize = 18;

/// Powers of ten.
const POWERS: [f64; 8] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

/// Return the integer that a text of the scanner spells; None if it may be beyond 64 bits.
pub fn integer(value: Value<'_>) -> Option<i64> {
    let text = value.text();
    if let Some(number) = value.word().and_then(|word| eight(word, text.len())) {
        return Some(i64::from(number));
    }
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.len() > INTEGER_BYTES_MAX {
        return None;
    }
    let number = digits
        .iter()
        .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    Some(if digits.len() < text.len() {
        -number
    } else {
        number
    })
}

/// Return the integer that a text of the scanner spells as Python writes it; None of -0, and of one beyond 18 digits.
pub fn integer_of(text: &[u8]) -> Option<i64> {
    let is_short = text.len() <= INTEGER_BYTES_MAX && text != b"-0";
    str::from_utf8(text).ok().filter(|_| is_short)?.parse().ok()
}

/// Return the double nearest to what a text of the scanner spells.
pub fn double(value: Value<'_>) -> Option<f64> {
    plain_double(value).or_else(|| str::from_utf8(value.text()).ok()?.parse().ok())
}

/// Return the double that is spelled by at most eight digits, a point, and at most seven digits; otherwise None.
///
/// All digits are a whole number that a double holds, and so is the power of ten: the one division rounds correctly.
fn plain_double(value: Value<'_>) -> Option<f64> {
    let word = value.word()?;
    let point = position(word, b'.')?;
    let behind = value.text().len().checked_sub(point + 1)?;
    let power = POWERS.get(behind)?;
    let whole = eight(word, point)?;
    let part = eight(word >> (8 * (point + 1)), behind)?;
    Some((f64::from(whole) * power + f64::from(part)) / power)
}

/// Return the index of the first byte that is `wanted`.
fn position(word: u128, wanted: u8) -> Option<usize> {
    const LOW_BITS: u128 = u128::MAX / 0xFF;
    let others = word ^ (LOW_BITS * u128::from(wanted));
    let found = others.wrapping_sub(LOW_BITS) & !others & (LOW_BITS << 7);
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// Return the whole number that the first bytes spell; None if they are not one to eight digits.
fn eight(word: u128, count: usize) -> Option<u32> {
    if !(1..=8).contains(&count) {
        return None;
    }
    // In front of the digits come zeros.
    let digits = (word as u64 ^ 0x3030_3030_3030_3030) << (64 - 8 * count);
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    // Pairs of digits, pairs of these, and pairs of those, each in the lower half of its word.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some(((fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF) as u32)
}

/// Return what a text of the scanner spells; `inside` is between its quotes.
pub fn unescaped(inside: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(inside.len());
    let mut scanner = Scanner::new(inside);
    while let Some(byte) = scanner.peek() {
        if byte == b'\\' {
            let character = scanner.escaped()?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            out.push(byte);
            scanner.at += 1;
        }
    }
    Some(out)
}
