//! Texts of JSON as `msgspec` and `orjson` write them, which is the same.

use crate::value::unescaped;

/// Return whether JSON has a text as it is, without escapes.
pub fn is_plain(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\'))
}

/// Append valid UTF-8 as a text of JSON, with its quotes.
pub fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    write_inside(text, out);
    out.push(b'"');
}

/// Return whether what is between the quotes of a text is spelled as it is written here.
pub fn is_as_written(inside: &[u8]) -> bool {
    let mut written = Vec::with_capacity(inside.len());
    unescaped(inside).is_some_and(|text| {
        write_inside(&text, &mut written);
        written == inside
    })
}

fn write_inside(text: &[u8], out: &mut Vec<u8>) {
    if is_plain(text) {
        out.extend_from_slice(text);
        return;
    }
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0xC => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}
