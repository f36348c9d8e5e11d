//! The cells of memo columns, read from bodies: `sowline_query_service.index.read` and `sowline_query_service.index.cells`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use rustc_hash::FxHashMap;

use crate::json::{Kind, Value, elements, leaves, members};
use crate::layout::{Layout, Numbers};
use crate::value::{double, integer, unescaped};

/// The kinds of cells, as in `sowline_query_service.index.cells`.
const NO_ROW: u8 = 0;
const NULL: u8 = 1;
const INTEGER: u8 = 2;
const DOUBLE: u8 = 3;
const BOOLEAN: u8 = 4;
const TEXT: u8 = 5;
const HARD: u8 = 6;

/// Up to here a double holds every integer.
const INTEGER_MAX: i64 = 1 << 53;

/// A step of a path: a field's name, or the number of an array's element.
#[derive(FromPyObject)]
enum Step {
    Name(String),
    Number(usize),
}

/// Kinds, numbers and codes as arrays of bytes, the strings by code, and the indexes of the bodies left to Python.
#[pyclass(frozen, get_all, module = "sowline_native")]
pub struct ColumnCells {
    kinds: Py<PyBytes>,
    numbers: Option<Py<PyBytes>>,
    codes: Option<Py<PyBytes>>,
    texts: Py<PyList>,
    left: Py<PyList>,
}

/// Reads the values of some paths from bodies, as cells of columns.
#[pyclass(module = "sowline_native", frozen)]
pub struct ColumnReader {
    /// The number of each name with which a path begins.
    names: Numbers,
    /// For each path, the number of its first name, and the steps that follow.
    paths: Vec<(usize, Vec<Step>)>,
}

#[pymethods]
impl ColumnReader {
    /// Make a reader of paths, each of which begins with a name.
    #[new]
    fn new(paths: Vec<(String, Vec<Step>)>) -> Self {
        let mut names = Numbers::default();
        let paths = paths
            .into_iter()
            .map(|(name, rest)| {
                let next = names.len();
                (*names.entry(name.into_bytes()).or_insert(next), rest)
            })
            .collect();
        ColumnReader { names, paths }
    }

    /// Return the cells of each path for the bodies from `start` to `stop`. `orjson` takes each for an object, or it is
    /// None.
    ///
    /// Codes are numbered from 1 in the order of first appearance; code 0 is no string. Numbers or codes are None if
    /// no row needs them. The rows of bodies that are left to Python are empty. Best called with some thousand bodies:
    /// a hash that their sender can guess finds their strings.
    fn read<'py>(
        &self,
        bodies: &Bound<'py, PyList>,
        start: usize,
        stop: usize,
    ) -> PyResult<Vec<ColumnCells>> {
        let py = bodies.py();
        let bodies: Vec<_> = (start..stop)
            .map(|row| bodies.get_item(row))
            .collect::<PyResult<_>>()?;
        let mut columns: Vec<Cells<'_>> = Vec::with_capacity(self.paths.len());
        columns.resize_with(self.paths.len(), || Cells::new(py, bodies.len()));
        let mut layout = Layout::new(&self.names);
        let mut found: Vec<Option<Value<'_>>> = vec![None; self.names.len()];
        for (row, body) in bodies.iter().enumerate() {
            if body.is_none() {
                continue;
            }
            found.fill(None);
            let is_read = body
                .cast::<PyBytes>()
                .ok()
                .and_then(|body| layout.find(body.as_bytes(), &mut found));
            for ((name, rest), cells) in self.paths.iter().zip(&mut columns) {
                let is_put = is_read.and_then(|()| match found[*name] {
                    None => cells.put_null(row),
                    Some(value) if rest.is_empty() => cells.put_member(row, value),
                    Some(value) => cells.put_deep(row, value, rest),
                });
                if is_put.is_none() {
                    cells.left.push(row);
                }
            }
        }
        columns.into_iter().map(Cells::finished).collect()
    }
}

/// The cells of one path.
struct Cells<'py> {
    kinds: Vec<u8>,
    numbers: Option<Vec<f64>>,
    codes: Option<Vec<u32>>,
    /// The codes of strings of up to 14 bytes, which are most: with its quotes, each is one number.
    short: FxHashMap<u128, u32>,
    /// The codes of the others.
    long: FxHashMap<Vec<u8>, u32>,
    texts: Vec<Bound<'py, PyString>>,
    left: Vec<usize>,
}

impl<'py> Cells<'py> {
    /// Make the cells of so many rows, all empty.
    fn new(py: Python<'py>, rows: usize) -> Self {
        Cells {
            kinds: vec![NO_ROW; rows],
            numbers: None,
            codes: None,
            short: FxHashMap::default(),
            long: FxHashMap::default(),
            texts: vec![PyString::new(py, "")],
            left: Vec::new(),
        }
    }

    fn all_numbers(&mut self) -> &mut Vec<f64> {
        let rows = self.kinds.len();
        self.numbers.get_or_insert_with(|| vec![f64::NAN; rows])
    }

    fn all_codes(&mut self) -> &mut Vec<u32> {
        let rows = self.kinds.len();
        self.codes.get_or_insert_with(|| vec![0; rows])
    }

    fn put_null(&mut self, row: usize) -> Option<()> {
        self.kinds[row] = NULL;
        Some(())
    }

    /// Put a member of a body. Python's column is blank until a member is anything but null: an empty text, array or
    /// object makes an array here, too.
    fn put_member(&mut self, row: usize, value: Value<'_>) -> Option<()> {
        match value.kind {
            Kind::Array | Kind::Object => drop(self.all_numbers()),
            Kind::Text | Kind::EscapedText => drop(self.all_codes()),
            _ => {}
        }
        self.put(row, value)
    }

    /// Put what a path finds in a member: nothing, one value, or an array of several.
    fn put_deep(&mut self, row: usize, value: Value<'_>, steps: &[Step]) -> Option<()> {
        let mut nodes = vec![value];
        for step in steps {
            let mut next = Vec::new();
            match step {
                Step::Name(name) => {
                    for node in nodes {
                        push_named(node, name.as_bytes(), &mut next)?;
                    }
                }
                Step::Number(number) => {
                    for node in nodes {
                        push_elements(node, &mut next)?;
                    }
                    next = next.get(*number).copied().into_iter().collect();
                }
            }
            nodes = next;
        }
        match nodes[..] {
            [] => self.put_null(row),
            [node] => self.put(row, node),
            _ => {
                let mut has_scalar = false;
                for node in nodes {
                    has_scalar |= holds_scalar(node)?;
                }
                self.kinds[row] = if has_scalar { HARD } else { NULL };
                Some(())
            }
        }
    }

    fn put(&mut self, row: usize, value: Value<'_>) -> Option<()> {
        self.kinds[row] = match value.kind {
            Kind::Null | Kind::Object => NULL,
            Kind::Array if holds_scalar(value)? => HARD,
            Kind::Array => NULL,
            Kind::Boolean => {
                self.all_numbers()[row] = f64::from(value.text() == b"true");
                BOOLEAN
            }
            Kind::Fraction => {
                self.all_numbers()[row] = double(value)?;
                DOUBLE
            }
            Kind::Integer => {
                let number = integer(value)?;
                let is_exact = number.abs() <= INTEGER_MAX;
                self.all_numbers()[row] = if is_exact { number as f64 } else { f64::NAN };
                if is_exact { INTEGER } else { HARD }
            }
            Kind::Text | Kind::EscapedText => match self.code(value)? {
                0 => NULL,
                code => {
                    self.all_codes()[row] = code;
                    TEXT
                }
            },
        };
        Some(())
    }

    /// Return the code of a string, a new one for a new string, or 0 for an empty one; None if it is not UTF-8.
    fn code(&mut self, value: Value<'_>) -> Option<u32> {
        let text = value.text();
        let inside = &text[1..text.len() - 1];
        if value.kind == Kind::EscapedText {
            let spelled = unescaped(inside)?;
            let quoted = [b"\"", &spelled[..], b"\""].concat();
            return match Value::of(&quoted).word() {
                None => self.code_of_long(&spelled),
                Some(word) => self.code_of_short(word, &spelled),
            };
        }
        match value.word() {
            _ if inside.is_empty() => Some(0),
            None => self.code_of_long(inside),
            Some(word) => self.code_of_short(word, inside),
        }
    }

    fn code_of_short(&mut self, word: u128, text: &[u8]) -> Option<u32> {
        if let Some(code) = self.short.get(&word) {
            return Some(*code);
        }
        let code = self.add(text)?;
        self.short.insert(word, code);
        Some(code)
    }

    fn code_of_long(&mut self, text: &[u8]) -> Option<u32> {
        if let Some(code) = self.long.get(text) {
            return Some(*code);
        }
        let code = self.add(text)?;
        self.long.insert(text.to_vec(), code);
        Some(code)
    }

    fn add(&mut self, text: &[u8]) -> Option<u32> {
        let code = u32::try_from(self.texts.len()).ok()?;
        let py = self.texts[0].py();
        self.texts
            .push(PyString::new(py, str::from_utf8(text).ok()?));
        Some(code)
    }

    fn finished(self) -> PyResult<ColumnCells> {
        let py = self.texts[0].py();
        let numbers = self.numbers.map(|numbers| {
            PyBytes::new_with(py, numbers.len() * 8, |bytes| {
                let (chunks, _) = bytes.as_chunks_mut::<8>();
                for (chunk, number) in chunks.iter_mut().zip(numbers) {
                    *chunk = number.to_ne_bytes();
                }
                Ok(())
            })
        });
        let codes = self.codes.map(|codes| {
            PyBytes::new_with(py, codes.len() * 4, |bytes| {
                let (chunks, _) = bytes.as_chunks_mut::<4>();
                for (chunk, code) in chunks.iter_mut().zip(codes) {
                    *chunk = code.to_ne_bytes();
                }
                Ok(())
            })
        });
        Ok(ColumnCells {
            kinds: PyBytes::new(py, &self.kinds).unbind(),
            numbers: numbers.transpose()?.map(Bound::unbind),
            codes: codes.transpose()?.map(Bound::unbind),
            texts: PyList::new(py, self.texts)?.unbind(),
            left: PyList::new(py, self.left)?.unbind(),
        })
    }
}

/// Append the fields called `name` of a node, or of all objects inside an array.
fn push_named<'a>(value: Value<'a>, name: &[u8], out: &mut Vec<Value<'a>>) -> Option<()> {
    match value.kind {
        Kind::Object => {
            let mut found = None;
            members(value.text(), |known, value| {
                if known == name {
                    found = Some(value);
                }
                Some(())
            })?;
            out.extend(found);
        }
        Kind::Array => {
            leaves(value.text(), |leaf| match leaf.kind {
                Kind::Object => push_named(leaf, name, out),
                _ => Some(()),
            })?;
        }
        _ => {}
    }
    Some(())
}

/// Append the elements of an array; a node that is none counts as one element.
fn push_elements<'a>(value: Value<'a>, out: &mut Vec<Value<'a>>) -> Option<()> {
    if value.kind != Kind::Array {
        out.push(value);
        return Some(());
    }
    elements(value.text(), |element| {
        out.push(element);
        Some(())
    })
}

/// Return whether a node is a scalar, or an array with one at any depth.
pub fn holds_scalar(value: Value<'_>) -> Option<bool> {
    if value.kind != Kind::Array {
        return Some(value.kind != Kind::Object);
    }
    let mut found = false;
    leaves(value.text(), |leaf| {
        found |= leaf.kind != Kind::Object;
        Some(())
    })?;
    Some(found)
}
