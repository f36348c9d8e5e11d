//! The record of a group whose states are plain: `sowline.language.groups.layout.Layout.body` after merges.

use pyo3::prelude::*;

use crate::json::{Kind, Value, elements, exact_elements};
use crate::number::push;
use crate::partials::spelled;
use crate::value::integer_of;

/// The longest integer that is read here, in characters: sums of such ones stay far within 128 bits.
const INTEGER_BYTES_MAX: usize = 36;

/// Whole numbers below this are doubles.
const WHOLE_MAX: u128 = 1 << 53;

/// What a record of a group is written from: `sowline.language.groups.layout.Layout.template`.
#[derive(FromPyObject)]
pub struct Template {
    /// The text around the fields, which is one more.
    pieces: Vec<Vec<u8>>,
    fields: Vec<FieldRule>,
    states: Vec<StateKind>,
    /// By how many values records are grouped.
    grouped_by: usize,
}

/// A field: a value that is grouped by, or a result of a state, with its number.
#[derive(FromPyObject)]
struct FieldRule {
    result: ResultKind,
    number: usize,
}

macro_rules! named {
    ($(#[$about:meta])* $kind:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum $kind { $($variant),* }

        impl<'py> FromPyObject<'_, 'py> for $kind {
            type Error = PyErr;

            fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let name: String = given.extract()?;
                match name.as_str() {
                    $($name => Ok($kind::$variant),)*
                    _ => Err(pyo3::exceptions::PyValueError::new_err(name)),
                }
            }
        }
    };
}

named! {
    /// A state: `sowline.language.groups.sums` and `ranks`.
    StateKind { Count = "Count", Sums = "Sums", Ordered = "OrderedValues" }
}

named! {
    /// A result of a state, or a value that is grouped by.
    ResultKind {
        Group = "group",
        Count = "COUNT",
        Sum = "SUM",
        Average = "AVG",
        Least = "MIN",
        Most = "MAX",
    }
}

/// A state that was merged.
enum Total<'a> {
    Count(i128),
    Sum {
        count: i128,
        doubles: i128,
        integers: i128,
    },
    Extremes(Option<(Value<'a>, Value<'a>)>),
}

/// Where a value stands in the order of MIN and MAX: `sowline.language.groups.ranks.rank`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank<'a> {
    Integer(i64),
    Text(&'a [u8]),
}

impl Template {
    /// Append the record of a group with these states to `out`; None if only Python can make it.
    pub fn write<'a>(
        &self,
        texts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut key = None;
        let mut totals: Vec<Total<'a>> = self.states.iter().map(|kind| kind.empty()).collect();
        for text in texts {
            let (mut at, mut states) = (0, None);
            exact_elements(text, |value| {
                match at {
                    0 => drop(key.get_or_insert(value)),
                    // Python refuses a group without records.
                    1 if integer_of(value.text()).is_none_or(|records| records < 1) => return None,
                    2 => states = Some(value.text()),
                    4.. => return None,
                    _ => {}
                }
                at += 1;
                Some(())
            })?;
            (at == 4).then_some(())?;
            let mut each = totals.iter_mut();
            exact_elements(states?, |value| each.next()?.merge(value))?;
            each.next().is_none().then_some(())?;
        }
        let key = spelled(key?)?;
        let mut group = Vec::with_capacity(4);
        elements(&key, |value| {
            group.push(value);
            Some(())
        })?;
        (group.len() == self.grouped_by).then_some(())?;
        let (first, rest) = self.pieces.split_first()?;
        out.extend_from_slice(first);
        for (field, piece) in self.fields.iter().zip(rest) {
            match field.result {
                ResultKind::Group => write_group(*group.get(field.number)?, out)?,
                result => totals.get(field.number)?.write(result, out)?,
            }
            out.extend_from_slice(piece);
        }
        Some(())
    }
}

impl StateKind {
    fn empty<'a>(self) -> Total<'a> {
        match self {
            StateKind::Count => Total::Count(0),
            StateKind::Sums => Total::Sum {
                count: 0,
                doubles: 0,
                integers: 0,
            },
            StateKind::Ordered => Total::Extremes(None),
        }
    }
}

impl<'a> Total<'a> {
    /// Add what another state exported; None if only Python can.
    fn merge(&mut self, exported: Value<'a>) -> Option<()> {
        match self {
            Total::Count(count) => *count = count.checked_add(long_integer(exported)?)?,
            Total::Sum {
                count,
                doubles,
                integers,
            } => {
                let (mut numbers, mut at) = ([0; 7], 0);
                exact_elements(exported.text(), |value| {
                    *numbers.get_mut(at)? = long_integer(value)?;
                    at += 1;
                    Some(())
                })?;
                // Not finite, or with a fraction.
                (at == 7 && numbers[3..] == [0; 4]).then_some(())?;
                *count = count.checked_add(numbers[0])?;
                *doubles = doubles.checked_add(numbers[1])?;
                *integers = integers.checked_add(numbers[2])?;
            }
            Total::Extremes(extremes) => elements(exported.text(), |value| {
                let ranking = rank(value)?;
                let (least, most) = extremes.get_or_insert((value, value));
                if ranking < rank(*least)? {
                    *least = value;
                }
                if ranking > rank(*most)? {
                    *most = value;
                }
                Some(())
            })?,
        }
        Some(())
    }

    /// Append a result as JSON; None if only Python can.
    fn write(&self, result: ResultKind, out: &mut Vec<u8>) -> Option<()> {
        match (self, result) {
            (Total::Count(count), ResultKind::Count) => {
                i64::try_from(*count).ok()?;
                push(*count, out);
            }
            (Total::Sum { count: 0, .. }, ResultKind::Sum | ResultKind::Average)
            | (Total::Extremes(None), ResultKind::Least | ResultKind::Most) => {
                out.extend_from_slice(b"null");
            }
            (
                Total::Sum {
                    doubles: 0,
                    integers,
                    ..
                },
                ResultKind::Sum,
            ) => {
                i64::try_from(*integers).ok()?;
                push(*integers, out);
            }
            (Total::Sum { integers, .. }, ResultKind::Sum) => write_ratio(*integers, 1, out)?,
            (
                Total::Sum {
                    count, integers, ..
                },
                ResultKind::Average,
            ) => write_ratio(*integers, *count, out)?,
            (Total::Extremes(Some((least, _))), ResultKind::Least) => {
                out.extend_from_slice(least.text());
            }
            (Total::Extremes(Some((_, most))), ResultKind::Most) => {
                out.extend_from_slice(most.text());
            }
            _ => return None,
        }
        Some(())
    }
}

/// Append the double nearest to a ratio, as `orjson` writes it; None if it may write it otherwise.
fn write_ratio(numerator: i128, divisor: i128, out: &mut Vec<u8>) -> Option<()> {
    let is_exact = numerator.unsigned_abs() < WHOLE_MAX && (1..1 << 53).contains(&divisor);
    // The one division of two exact doubles rounds correctly.
    let ratio = is_exact.then(|| numerator as f64 / divisor as f64)?;
    let is_plain = ratio == 0.0 || (1e-4..1e15).contains(&ratio.abs());
    is_plain.then(|| out.extend_from_slice(format!("{ratio:?}").as_bytes()))
}

/// Append a value that is grouped by.
fn write_group(value: Value<'_>, out: &mut Vec<u8>) -> Option<()> {
    let is_plain = match value.kind {
        Kind::Text => value.text().len() > 2,
        Kind::Integer => integer_of(value.text()).is_some(),
        Kind::Boolean | Kind::Null => true,
        _ => false,
    };
    is_plain.then(|| out.extend_from_slice(value.text()))
}

/// Return the rank of an integer, or of a text that spells no number and has no escapes; None of any other value.
fn rank(value: Value<'_>) -> Option<Rank<'_>> {
    match value.kind {
        Kind::Integer => integer_of(value.text()).map(Rank::Integer),
        Kind::Text if value.text().len() > 2 => {
            let inside = &value.text()[1..value.text().len() - 1];
            (!may_be_number(inside)).then_some(Rank::Text(inside))
        }
        _ => None,
    }
}

/// Whether a text has only characters of numbers, and may spell one.
pub fn may_be_number(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// Return an integer of the exported states.
fn long_integer(value: Value<'_>) -> Option<i128> {
    let text = value.text();
    let is_short = value.kind == Kind::Integer && text.len() <= INTEGER_BYTES_MAX;
    std::str::from_utf8(text)
        .ok()
        .filter(|_| is_short)?
        .parse()
        .ok()
}
