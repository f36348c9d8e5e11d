//! JSON as it is stored in a document: `sowline.model.body.write_body` of what was read.

use crate::escapes::write_text;
use crate::json::{FIELDS_MAX, Field, Kind, Value, elements, members};
use crate::value::{INTEGER_BYTES_MAX, unescaped};

/// Digits that a double always keeps: it has no shorter text than a fraction of so many.
const DIGITS_MAX: usize = 15;

/// How many zeros a fraction below one has behind its point, at most; a smaller one has an exponent.
const ZEROS_MAX: usize = 3;

/// Append a value of the scanner to `out`, in the one text that it has in documents.
///
/// Returns None if only Python can write or refuse it, such as an object in which a name comes again.
pub fn push_value(text: &[u8], kind: Kind, out: &mut Vec<u8>) -> Option<()> {
    match kind {
        Kind::Null | Kind::Boolean | Kind::Text => out.extend_from_slice(text),
        Kind::Integer => {
            let is_usual = text.len() <= INTEGER_BYTES_MAX && text != b"-0";
            out.extend_from_slice(is_usual.then_some(text)?);
        }
        Kind::Fraction => out.extend_from_slice(fraction(text)?),
        Kind::EscapedText => write_text(&unescaped(&text[1..text.len() - 1])?, out),
        Kind::Array => push_array(text, out)?,
        Kind::Object => push_object(text, out)?,
    }
    Some(())
}

/// Return the text of the double that a fraction without an exponent spells; None if only Python can find it.
fn fraction(text: &[u8]) -> Option<&[u8]> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (whole, behind) = (&text[..point], &text[point + 1..]);
    if !behind.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let used = behind.iter().rposition(|digit| *digit != b'0');
    let used = used.map_or(1, |last| last + 1);
    let whole = whole.strip_prefix(b"-").unwrap_or(whole);
    let zeros = behind[..used].iter().take_while(|digit| **digit == b'0');
    let is_small = whole == b"0" && used > 1 && zeros.count() > ZEROS_MAX;
    (whole.len() + used <= DIGITS_MAX && !is_small).then_some(&text[..point + 1 + used])
}

fn push_array(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut mark = b'[';
    elements(text, |element| {
        out.push(std::mem::replace(&mut mark, b','));
        push_value(element.text(), element.kind, out)
    })?;
    close(mark, b'[', b']', out);
    Some(())
}

fn push_object(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut names: Vec<&[u8]> = Vec::new();
    let mut mark = b'{';
    members(text, |name, value: Value<'_>| {
        if names.len() == FIELDS_MAX || names.contains(&name) {
            return None;
        }
        names.push(name);
        out.push(std::mem::replace(&mut mark, b','));
        push_name(name, out);
        push_value(value.text(), value.kind, out)
    })?;
    close(mark, b'{', b'}', out);
    Some(())
}

/// Append an object of these fields, whose values are written as they are.
pub fn push_fields<'a, 'f: 'a>(fields: impl IntoIterator<Item = &'a Field<'f>>, out: &mut Vec<u8>) {
    let mut mark = b'{';
    for field in fields {
        out.push(std::mem::replace(&mut mark, b','));
        push_name(field.name, out);
        out.extend_from_slice(field.value);
    }
    close(mark, b'{', b'}', out);
}

/// Append a name of the scanner, which has no escapes, and its colon.
pub fn push_name(name: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
}

/// Append the closing bracket, and the opening one if nothing came after which `mark` would have changed.
pub fn close(mark: u8, opening: u8, closing: u8, out: &mut Vec<u8>) {
    if mark == opening {
        out.push(opening);
    }
    out.push(closing);
}
