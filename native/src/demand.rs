//! What filters demand of single fields, and whether a value meets it: `sowline.subscriptions.engine.matching.terms`.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::columns::holds_scalar;
use crate::json::{Kind, Value};
use crate::value::{double, integer, unescaped};

/// Up to here a double holds every integer, so that comparing doubles compares the numbers.
const EXACT_INTEGER_MAX: i128 = 1 << 53;

/// Whole numbers below this are kept as integers: no number of 64 bits is beyond.
const WHOLE_MAX: f64 = 1e30;

/// A text of more digits than these spells no integer of 64 bits.
const DIGITS_MAX: usize = 20;

/// A number, whether it was written as an integer or as a double: equal numbers are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    Whole(i128),
    /// The bits of a double that is not whole, or is beyond `WHOLE_MAX`.
    Double(u64),
}

impl Number {
    pub fn of(double: f64) -> Self {
        if double.fract() == 0.0 && double.abs() < WHOLE_MAX {
            Number::Whole(double as i128)
        } else {
            Number::Double(double.to_bits())
        }
    }

    /// Return the double that compares as this number does; None if only exact arithmetic can tell.
    fn comparable(self) -> Option<f64> {
        match self {
            Number::Whole(number) if number.abs() > EXACT_INTEGER_MAX => None,
            Number::Whole(number) => Some(number as f64),
            Number::Double(bits) => Some(f64::from_bits(bits)),
        }
    }
}

/// Where literal and value meet: a text; a number; or a value's text and a literal number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Text(Vec<u8>),
    Number(Number),
    Spelled(Number),
}

impl<'py> FromPyObject<'_, 'py> for Key {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = given.cast::<PyString>() {
            return Ok(Key::Text(text.to_str()?.as_bytes().to_vec()));
        }
        if let Ok((number,)) = given.extract::<(Bound<'py, PyAny>,)>() {
            return Ok(Key::Spelled(number_of(&number)?));
        }
        Ok(Key::Number(number_of(&given.to_owned())?))
    }
}

/// Return a literal number; a boolean is 0 or 1, as in Python.
fn number_of(given: &Bound<'_, PyAny>) -> PyResult<Number> {
    if let Ok(number) = given.extract::<i64>() {
        return Ok(Number::Whole(number.into()));
    }
    if let Ok(number) = given.extract::<u64>() {
        return Ok(Number::Whole(number.into()));
    }
    match given.extract::<f64>() {
        Ok(number) => Ok(Number::of(number)),
        Err(_) => Err(PyTypeError::new_err(format!(
            "expected a number of 64 bits, got {given}"
        ))),
    }
}

/// A value as the filter language reads it.
#[derive(Clone, Debug)]
pub enum Found<'a> {
    /// Nothing, null, an object, an empty text, or an empty array.
    Null,
    Text(Cow<'a, [u8]>),
    Number(Number),
}

impl<'a> Found<'a> {
    /// Read a value; None if only Python can, such as an array of several.
    pub fn read(value: Option<Value<'a>>) -> Option<Self> {
        let Some(value) = value else {
            return Some(Found::Null);
        };
        let text = value.text();
        Some(match value.kind {
            Kind::Null | Kind::Object => Found::Null,
            Kind::Array => return (!holds_scalar(value)?).then_some(Found::Null),
            Kind::Boolean => Found::Number(Number::Whole((text == b"true").into())),
            Kind::Integer => Found::Number(Number::Whole(integer(value)?.into())),
            Kind::Fraction => Found::Number(Number::of(double(value)?)),
            Kind::Text if text.len() == 2 => Found::Null,
            Kind::Text => Found::Text(Cow::Borrowed(&text[1..text.len() - 1])),
            Kind::EscapedText => Found::Text(Cow::Owned(unescaped(&text[1..text.len() - 1])?)),
        })
    }

    /// Return whether the value has one of the keys.
    pub fn has(&self, keys: &[Key]) -> bool {
        match self {
            Found::Null => false,
            Found::Number(number) => keys.contains(&Key::Number(*number)),
            Found::Text(text) => {
                let spelled = spelled(text).map(Key::Spelled);
                keys.iter().any(|key| match key {
                    Key::Text(literal) => literal[..] == text[..],
                    other => spelled.as_ref() == Some(other),
                })
            }
        }
    }

    /// Return the number by which ranges judge the value: `RangeColumn.judge`. None if only Python can.
    pub fn ranked(&self) -> Option<Ranked> {
        match self {
            Found::Null => Some(Ranked::Nowhere),
            Found::Number(number) => Some(Ranked::At(number.comparable()?)),
            Found::Text(text) => Some(match spelled(text) {
                None => Ranked::AboveAll,
                Some(number) => Ranked::At(number.comparable()?),
            }),
        }
    }
}

/// Where a value stands among the numbers.
#[derive(Clone, Copy)]
pub enum Ranked {
    /// It is NULL, and in no range.
    Nowhere,
    At(f64),
    /// A text that spells no number.
    AboveAll,
}

impl Ranked {
    pub fn is_within(self, low: f64, high: f64) -> bool {
        match self {
            Ranked::Nowhere => false,
            Ranked::At(number) => low <= number && number <= high,
            Ranked::AboveAll => high == f64::INFINITY,
        }
    }
}

/// Return the number that a text represents as a whole: `parse_number`.
pub fn spelled(text: &[u8]) -> Option<Number> {
    if !matches!(text.first()?, b'0'..=b'9' | b'+' | b'-' | b'.') {
        return None;
    }
    let unsigned = match text[0] {
        b'+' | b'-' => &text[1..],
        _ => text,
    };
    let is_integer = unsigned.iter().all(u8::is_ascii_digit);
    if !(is_integer && !unsigned.is_empty() || is_decimal(unsigned)) {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    let digits = text.trim_start_matches(['+', '-', '0']);
    if !is_integer || digits.len() > DIGITS_MAX {
        return Some(Number::of(text.parse().ok()?));
    }
    let magnitude: i128 = if digits.is_empty() {
        0
    } else {
        digits.parse().ok()?
    };
    let number = if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    };
    let is_narrow = (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number);
    Some(if is_narrow {
        Number::Whole(number)
    } else {
        Number::of(number as f64)
    })
}

/// Return whether a text is digits with a point among or around them, and perhaps an exponent.
fn is_decimal(text: &[u8]) -> bool {
    let mantissa_end = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match mantissa_end {
        None => (text, None),
        Some(at) => (&text[..at], Some(&text[at + 1..])),
    };
    let points = mantissa.iter().filter(|byte| **byte == b'.').count();
    let digits = mantissa.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_exponent = |text: &[u8]| {
        let digits = match text.first() {
            Some(b'+' | b'-') => &text[1..],
            _ => text,
        };
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    };
    points <= 1
        && digits > 0
        && points + digits == mantissa.len()
        && exponent.is_none_or(is_exponent)
}
