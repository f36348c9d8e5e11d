//! The inputs of a view's groups from its records: `sowline.language.groups.layout.Layout.read`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::group_body::may_be_number;
use crate::json::{Field, Kind, fields, member};
use crate::key::KeyRule;
use crate::value::{integer_of, unescaped};

/// A path of names.
type Path = Vec<String>;

/// An argument of aggregates: the value at a path, or an integer.
#[derive(FromPyObject)]
struct Argument {
    path: Path,
    constant: Option<i64>,
}

/// A condition of the filter: one of these texts is at a path. None of them spells a number.
#[derive(FromPyObject)]
struct Condition {
    path: Path,
    texts: Vec<String>,
}

/// The key fields of a joined topic, as paths of the source, and its key domain.
struct JoinKey(KeyRule);

impl<'py> FromPyObject<'_, 'py> for JoinKey {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (paths, domain): (Vec<Path>, Vec<u8>) = given.extract()?;
        Ok(JoinKey(KeyRule::new(paths, &domain)))
    }
}

/// Reads the inputs from the bodies of records.
#[derive(FromPyObject)]
pub struct Reader {
    grouping: Vec<Path>,
    arguments: Vec<Argument>,
    /// Which records count: all of these hold.
    conditions: Vec<Condition>,
    /// The fields that hold joined records.
    joined: Vec<String>,
    join_keys: Vec<JoinKey>,
}

/// The body of a record, and those of its joined records, None for no match.
#[derive(FromPyObject)]
pub struct Row<'py>(Bound<'py, PyBytes>, Vec<Option<Bound<'py, PyBytes>>>);

/// The inputs from a record: the key text of its group, and the arguments of the aggregates.
pub struct Input {
    pub key: Vec<u8>,
    pub arguments: Vec<Scalar>,
}

impl<'py> FromPyObject<'_, 'py> for Input {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (key, arguments): (Vec<u8>, Vec<Bound<'py, PyAny>>) = given.extract()?;
        Ok(Input {
            key,
            arguments: arguments.into_iter().map(Scalar::of).collect(),
        })
    }
}

/// An argument of an aggregate.
pub enum Scalar {
    Null,
    Integer(i64),
    /// A text that JSON holds as it is, and that spells no number.
    Text(String),
    /// Anything else.
    Other(Py<PyAny>),
}

/// What was read of a record.
pub enum Reading {
    Input(Input),
    /// The filter leaves it out.
    NotCounted,
    /// Only Python can read it.
    Left,
}

/// A value at a path: its text and kind; None if there is none.
type Found<'a> = Option<(&'a [u8], Kind)>;

impl Scalar {
    fn of(value: Bound<'_, PyAny>) -> Self {
        if value.is_none() {
            return Scalar::Null;
        }
        // A boolean is an integer, too, but another value.
        if value.is_exact_instance_of::<PyInt>()
            && let Ok(number) = value.extract()
        {
            return Scalar::Integer(number);
        }
        if let Ok(text) = value.cast::<PyString>()
            && let Ok(text) = text.to_str()
            && is_plain_text(text.as_bytes())
        {
            return Scalar::Text(text.to_owned());
        }
        Scalar::Other(value.unbind())
    }

    pub fn copied(&self, py: Python<'_>) -> Self {
        match self {
            Scalar::Null => Scalar::Null,
            Scalar::Integer(number) => Scalar::Integer(*number),
            Scalar::Text(text) => Scalar::Text(text.clone()),
            Scalar::Other(value) => Scalar::Other(value.clone_ref(py)),
        }
    }

    /// Whether it is equal and of one type.
    pub fn is_same(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        match (self, other) {
            (Scalar::Null, Scalar::Null) => Ok(true),
            (Scalar::Integer(one), Scalar::Integer(other)) => Ok(one == other),
            (Scalar::Text(one), Scalar::Text(other)) => Ok(one == other),
            (Scalar::Other(one), Scalar::Other(other)) => {
                let (one, other) = (one.bind(py), other.bind(py));
                Ok(one.get_type().is(other.get_type()) && one.eq(other)?)
            }
            _ => Ok(false),
        }
    }

    pub fn as_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Scalar::Null => py.None().into_bound(py),
            Scalar::Integer(number) => number.into_pyobject(py)?.into_any(),
            Scalar::Text(text) => PyString::new(py, text).into_any(),
            Scalar::Other(value) => value.bind(py).clone(),
        })
    }
}

/// Whether JSON holds a text as it is, and it spells no number. An empty one is NULL.
fn is_plain_text(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| *byte >= b' ' && !matches!(byte, b'"' | b'\\' | 0x7f);
    !text.is_empty() && text.iter().all(is_plain) && !may_be_number(text)
}

impl Reader {
    /// Return the inputs from a record.
    pub fn read(&self, row: &Row<'_>) -> Reading {
        match self.input(row) {
            None => Reading::Left,
            Some(None) => Reading::NotCounted,
            Some(Some(input)) => Reading::Input(input),
        }
    }

    fn input(&self, row: &Row<'_>) -> Option<Option<Input>> {
        let body = row.0.as_bytes();
        let mut own = Vec::with_capacity(16);
        std::str::from_utf8(body).ok()?;
        fields(body, &mut own)?;
        let mut joined = Vec::with_capacity(self.joined.len());
        for text in &row.1 {
            joined.push(match text {
                None => None,
                Some(text) => {
                    let mut found = Vec::with_capacity(16);
                    std::str::from_utf8(text.as_bytes()).ok()?;
                    fields(text.as_bytes(), &mut found)?;
                    Some(found)
                }
            });
        }
        let at = |path: &Path| self.find(&own, &joined, path);
        for condition in &self.conditions {
            if !holds(at(&condition.path)?, &condition.texts)? {
                return Some(None);
            }
        }
        let mut key = vec![b'['];
        for path in &self.grouping {
            if key.len() > 1 {
                key.push(b',');
            }
            key.extend_from_slice(grouped(at(path)?)?);
        }
        key.push(b']');
        let mut arguments = Vec::with_capacity(self.arguments.len());
        for argument in &self.arguments {
            arguments.push(match argument.constant {
                Some(number) => Scalar::Integer(number),
                None => scalar(row.0.py(), at(&argument.path)?)?,
            });
        }
        Some(Some(Input { key, arguments }))
    }

    /// Return the value at a path; None if only Python can find it.
    fn find<'a>(
        &self,
        own: &[Field<'a>],
        joined: &[Option<Vec<Field<'a>>>],
        path: &Path,
    ) -> Option<Found<'a>> {
        let (first, rest) = path.split_first()?;
        match self.joined.iter().position(|name| name == first) {
            None => below(own, first, rest),
            // A joined record is an object, which has no value.
            Some(number) => match (joined.get(number)?, rest.split_first()) {
                (Some(fields), Some((second, rest))) => below(fields, second, rest),
                _ => Some(None),
            },
        }
    }

    /// Return the join keys of a record of the source; None if only Python can make them.
    pub fn keys(&self, body: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut own = Vec::with_capacity(16);
        std::str::from_utf8(body).ok()?;
        fields(body, &mut own)?;
        let mut digits = itoa::Buffer::new();
        let keys = self.join_keys.iter().map(|JoinKey(rule)| {
            let (text, key) = rule.key_of(&own, b"")?;
            // An empty text is NULL, which matches nothing.
            let has_empty = text.windows(2).any(|two| two == b"\"\"");
            (!has_empty).then(|| key.bytes(&mut digits).to_vec())
        });
        keys.collect()
    }
}

/// Return the value at a path below some fields; None if only Python can find it.
fn below<'a>(own: &[Field<'a>], first: &str, rest: &[String]) -> Option<Found<'a>> {
    let Some(field) = own.iter().find(|field| field.name == first.as_bytes()) else {
        return Some(None);
    };
    let (mut text, mut kind) = (field.value, field.kind);
    for step in rest {
        match kind {
            Kind::Object => {}
            Kind::Array => return None,
            _ => return Some(None),
        }
        match member(text, step.as_bytes())? {
            None => return Some(None),
            Some(next) => (text, kind) = next,
        }
    }
    Some(Some((text, kind)))
}

/// Whether a condition holds; None if only Python can tell.
fn holds(found: Found<'_>, texts: &[String]) -> Option<bool> {
    match found {
        None
        | Some((_, Kind::Null | Kind::Object | Kind::Integer | Kind::Fraction | Kind::Boolean)) => {
            Some(false)
        }
        Some((text, Kind::Text)) => {
            let inside = &text[1..text.len() - 1];
            Some(texts.iter().any(|one| one.as_bytes() == inside))
        }
        Some((_, Kind::EscapedText | Kind::Array)) => None,
    }
}

/// Return a value that is grouped by as JSON: `grouped_value`.
fn grouped(found: Found<'_>) -> Option<&[u8]> {
    match found {
        None | Some((_, Kind::Null | Kind::Object) | (b"\"\"", _)) => Some(b"null"),
        Some((text, Kind::Text | Kind::Boolean)) => Some(text),
        Some((text, Kind::Integer)) => integer_of(text).map(|_| text),
        Some((_, Kind::EscapedText | Kind::Array | Kind::Fraction)) => None,
    }
}

/// Return an argument; None if only Python can read it.
fn scalar(py: Python<'_>, found: Found<'_>) -> Option<Scalar> {
    let Some((text, kind)) = found else {
        return Some(Scalar::Null);
    };
    let value = match kind {
        Kind::Null | Kind::Object => return Some(Scalar::Null),
        Kind::Integer => return integer_of(text).map(Scalar::Integer),
        Kind::Text => return Some(text_of(py, str::from_utf8(&text[1..text.len() - 1]).ok()?)),
        Kind::EscapedText => {
            let spelled = unescaped(&text[1..text.len() - 1])?;
            return Some(text_of(py, str::from_utf8(&spelled).ok()?));
        }
        Kind::Fraction => {
            let number: f64 = str::from_utf8(text).ok()?.parse().ok()?;
            PyFloat::new(py, number).into_any()
        }
        Kind::Boolean => PyBool::new(py, text == b"true").to_owned().into_any(),
        Kind::Array => return None,
    };
    Some(Scalar::Other(value.unbind()))
}

fn text_of(py: Python<'_>, text: &str) -> Scalar {
    if text.is_empty() {
        Scalar::Null
    } else if is_plain_text(text.as_bytes()) {
        Scalar::Text(text.to_owned())
    } else {
        Scalar::Other(PyString::new(py, text).into_any().unbind())
    }
}
