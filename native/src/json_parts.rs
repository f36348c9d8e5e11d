//! Walks through the parts of objects and arrays.

use crate::json::{Field, Kind, Scanner, Value};

/// How many fields of an object are remembered: names are compared with each other.
pub const FIELDS_MAX: usize = 64;

/// Call `each` for every name and value of the object that `text` is, in order; a name may come again.
///
/// Returns None if it is not one, or one that only Python judges, such as one with an escape in a name, or if `each`
/// returns None.
pub fn members<'a>(
    text: &'a [u8],
    each: impl FnMut(&'a [u8], Value<'a>) -> Option<()>,
) -> Option<()> {
    members_of(Scanner::new(text), each)
}

/// Do the same for an object with the numbers of exact sums.
pub fn exact_members<'a>(
    text: &'a [u8],
    each: impl FnMut(&'a [u8], Value<'a>) -> Option<()>,
) -> Option<()> {
    members_of(Scanner::exact(text), each)
}

fn members_of<'a>(
    mut scanner: Scanner<'a>,
    each: impl FnMut(&'a [u8], Value<'a>) -> Option<()>,
) -> Option<()> {
    scanner.skip_space();
    scanner.take(b'{')?;
    members_behind(scanner, each)
}

/// Do the same for an object of which `text` is what follows the opening brace.
pub fn members_behind_brace<'a>(
    text: &'a [u8],
    each: impl FnMut(&'a [u8], Value<'a>) -> Option<()>,
) -> Option<()> {
    members_behind(Scanner::new(text), each)
}

fn members_behind<'a>(
    mut scanner: Scanner<'a>,
    mut each: impl FnMut(&'a [u8], Value<'a>) -> Option<()>,
) -> Option<()> {
    let mut is_first = true;
    while let Some(name) = scanner.name(is_first)? {
        is_first = false;
        each(name, scanner.spaced_value()?)?;
    }
    (scanner.at == scanner.text.len()).then_some(())
}

/// Return the last member with a name of the object that `text` is; an inner None if it has none.
///
/// Returns None where `members` does.
pub fn member_value<'a>(text: &'a [u8], name: &[u8]) -> Option<Option<Value<'a>>> {
    let mut found = None;
    members(text, |own, value| {
        if own == name {
            found = Some(value);
        }
        Some(())
    })?;
    Some(found)
}

/// Return the text and the kind of the last member with a name, as `member_value` finds it.
pub fn member<'a>(text: &'a [u8], name: &[u8]) -> Option<Option<(&'a [u8], Kind)>> {
    let found = member_value(text, name)?;
    Some(found.map(|value| (value.text(), value.kind)))
}

/// Collect the fields of the object that `text` is; of a repeated name the last value counts, in the first position.
///
/// Returns None if it is not one, or one that only Python judges: then `fields` has no meaning.
pub fn fields<'a>(text: &'a [u8], fields: &mut Vec<Field<'a>>) -> Option<()> {
    fields.clear();
    members(text, |name, value| {
        let field = Field {
            name,
            value: value.text(),
            kind: value.kind,
        };
        match fields.iter().position(|known| known.name == field.name) {
            Some(known) => fields[known] = field,
            None if fields.len() == FIELDS_MAX => return None,
            None => fields.push(field),
        }
        Some(())
    })
}

/// Call `each` for every element of the array that `text` is, in order.
///
/// Returns None if it is not one, or one that only Python judges, or if `each` returns None.
pub fn elements<'a>(text: &'a [u8], each: impl FnMut(Value<'a>) -> Option<()>) -> Option<()> {
    elements_of(Scanner::new(text), each)
}

/// Do the same for an array with the numbers of exact sums.
pub fn exact_elements<'a>(text: &'a [u8], each: impl FnMut(Value<'a>) -> Option<()>) -> Option<()> {
    elements_of(Scanner::exact(text), each)
}

fn elements_of<'a>(
    mut scanner: Scanner<'a>,
    mut each: impl FnMut(Value<'a>) -> Option<()>,
) -> Option<()> {
    scanner.take(b'[')?;
    scanner.skip_space();
    if scanner.take(b']').is_none() {
        loop {
            each(scanner.spaced_value()?)?;
            if scanner.take(b',').is_none() {
                break;
            }
        }
        scanner.take(b']')?;
    }
    (scanner.at == scanner.text.len()).then_some(())
}

/// Call `each` for every value in the array that `text` is, and in arrays inside it, that is no array itself.
///
/// The array was scanned before. Returns None as `elements` does.
pub fn leaves<'a>(text: &'a [u8], mut each: impl FnMut(Value<'a>) -> Option<()>) -> Option<()> {
    let mut scanner = Scanner::new(text);
    while let Some(byte) = scanner.peek() {
        match byte {
            b'[' | b']' | b',' | b' ' | b'\n' | b'\t' | b'\r' => scanner.at += 1,
            _ => each(scanner.spaced_value()?)?,
        }
    }
    Some(())
}
