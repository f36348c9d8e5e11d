//! Decimal numbers.

/// Append an integer in decimal digits.
pub fn push<N: itoa::Integer>(value: N, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Return the whole number that the digits spell; None if there are none, more than 18, or anything else.
pub fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        text.iter()
            .fold(0, |value, digit| value * 10 + u64::from(digit - b'0')),
    )
}
