"""Puts rows into indexes, and fills the columns of some paths from bodies with the native core.

Python is the specification: the native core gives the cells that `cells_of` makes of the values that `reader_of`
reads (tests/property/test_native_columns.py). It leaves values to Python that it cannot judge.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sowline.model.path import Path
from sowline.native import raise_unless_panic
from sowline_query_service.index.cells import Cells, cells_of
from sowline_query_service.index.column import Column, Rows
from sowline_query_service.index.dictionary import Dictionary
from sowline_query_service.index.hash_index import HashIndex
from sowline_query_service.index.read import Values, reader_of

NATIVE_BODIES_MAX = 4000
"""Bodies to read at once: that takes about as long as Python takes for 1,000."""

Bodies = Sequence[bytes | None]

Fill = Callable[[Sequence[Column], Rows, Bodies, int, int], None]
"""Sets rows of columns to the values in the bodies from a first to a last index; None for a body clears a row.

The columns are in the paths' order. A part of a long list is given by its indexes, because a copy costs time.
"""

_Read = Callable[[Bodies], Values]


def filler_of(paths: Sequence[Path], native: ModuleType) -> Fill:
    """Return a function that fills columns of these paths; best called for `NATIVE_BODIES_MAX` bodies at once.

    `native` is the module of the native core. Each body must be one that `orjson.loads` takes for an object.
    """
    in_python = partial(_fill_in_python, paths)
    try:
        reader = native.ColumnReader([(path.steps[0], path.steps[1:]) for path in paths])
    except UnicodeEncodeError:
        # Half of a surrogate pair in a name (test_a_name_that_no_body_can_have).
        return in_python
    return partial(_fill, reader, [_LazyReader(path) for path in paths], in_python)


def index_rows(
    native: ModuleType | None,
    rows: Rows,
    numbers: Sequence[int],
    bodies: Bodies,
    start: int,
    columns: Sequence[Column],
    hashes: Sequence[HashIndex],
) -> None:
    """Put rows, also given by their numbers, into memo indexes and hash indexes; their bodies begin at `start`."""
    stop = start + len(numbers)
    if native is not None and columns:
        _filler(tuple(column.path for column in columns), native)(columns, rows, bodies, start, stop)
        columns = ()
    # Each path once: a field that several indexes have is read from the bodies only once.
    paths = tuple(dict.fromkeys([c.path for c in columns] + [p for h in hashes for p in h.paths]))
    if not paths:
        return
    bodies = bodies[start:stop]
    values = dict(zip(paths, _reader(paths)(bodies), strict=True))
    for column in columns:
        column.put_rows(rows, values[column.path])
    for index in hashes:
        entries = zip(numbers, bodies, *(values[path] for path in index.paths), strict=True)
        for number, body, *fields in entries:
            if body is None:
                index.clear(number)
            else:
                index.put(number, fields)


@lru_cache(maxsize=64)
def _filler(paths: tuple[Path, ...], native: ModuleType) -> Fill:
    return filler_of(paths, native)


@lru_cache(maxsize=64)
def _reader(paths: tuple[Path, ...]) -> _Read:
    return reader_of(paths)


def _fill_in_python(
    paths: Sequence[Path], columns: Sequence[Column], rows: Rows, bodies: Bodies, start: int, stop: int
) -> None:
    for column, values in zip(columns, reader_of(paths)(bodies[start:stop]), strict=True):
        column.put_rows(rows, values)


def _fill(
    reader: Any,
    read_left: "Sequence[_LazyReader]",
    in_python: Fill,
    columns: Sequence[Column],
    rows: Rows,
    bodies: Bodies,
    start: int,
    stop: int,
) -> None:
    try:
        found = reader.read(bodies, start, stop)
    except BaseException as error:
        # The columns are as they were: Python fills them from the same bodies
        # (test_a_panic_leaves_the_chunk_to_python).
        raise_unless_panic(error, "memo indexes")
        in_python(columns, rows, bodies, start, stop)
        return
    filled: list[Cells] = []
    for column, read, given in zip(columns, read_left, found, strict=True):
        numbers, codes = given.numbers, given.codes
        left: list[int] = given.left
        cells = Cells(
            np.frombuffer(given.kinds, np.uint8),
            None if numbers is None else np.frombuffer(numbers),
            None
            if codes is None
            else _coded(np.frombuffer(codes, np.uint32), given.texts, column.dictionary),
        )
        # Each path has its own: a body may have one value that the native core knows, and one that it does not
        # (test_python_completes_what_the_native_core_leaves).
        if left:
            values = read([bodies[start + row] for row in left])
            cells = _completed(cells, left, cells_of(values, column.dictionary))
        filled.append(cells)
    for column, cells in zip(columns, filled, strict=True):
        column.put_cells(rows, cells)


class _LazyReader:
    """Reads the values of one path. The reader is made when first needed, because that takes longer than reading."""

    __slots__ = ("_path", "_read")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: _Read | None = None

    def __call__(self, bodies: Bodies) -> list[Any]:
        if self._read is None:
            self._read = reader_of([self._path])
        return self._read(bodies)[0]


def _coded(codes: NDArray[np.uint32], texts: list[str], dictionary: Dictionary) -> NDArray[np.uint32]:
    """Return the dictionary's codes for the codes of `texts`; new strings are added."""
    return np.fromiter(map(dictionary.codes.__getitem__, texts), np.uint32, len(texts)).take(codes)


def _completed(cells: Cells, rows: list[int], some: Cells) -> Cells:
    """Return the cells with those of these rows replaced by `some`."""
    assert isinstance(some.kinds, int) or len(some.kinds) == len(rows), "each of the rows has a cell"
    kinds = np.array(cells.kinds)
    kinds[rows] = some.kinds
    numbers, codes = cells.numbers, cells.codes
    if numbers is not None or some.numbers is not None:
        numbers = np.full(len(kinds), np.nan) if numbers is None else np.array(numbers)
        numbers[rows] = np.nan if some.numbers is None else some.numbers
    if codes is not None or some.codes is not None:
        codes = np.zeros(len(kinds), np.uint32) if codes is None else codes
        codes[rows] = 0 if some.codes is None else some.codes
    return Cells(kinds, numbers, codes)
