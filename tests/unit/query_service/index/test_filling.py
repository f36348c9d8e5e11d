"""How rows get into columns and hash indexes: by Python alone, or with cells that the native core has read.

A stand-in reads the bodies here. The real core is compared with Python in tests/property/test_native_columns.py.
"""

from array import array
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest

from sowline.language.filter import compile_filter
from sowline.model.path import Path, parse_path
from sowline_query_service.index.cells import DOUBLE, HARD, INTEGER, NO_ROW, NULL, TEXT
from sowline_query_service.index.column import Column
from sowline_query_service.index.filling import filler_of, index_rows
from sowline_query_service.index.hash_index import HashIndex
from tests.panics import panic

A, B = parse_path("/a"), parse_path("/b")


class StandInReader:
    """Reads texts and small integers of one name each; all other values are left to Python."""

    def __init__(self, paths: Sequence[tuple[str, Sequence[str | int]]]) -> None:
        for name, _ in paths:
            name.encode()
        self._names = [name for name, _ in paths]

    def read(self, bodies: Sequence[bytes | None], start: int, stop: int) -> list[SimpleNamespace]:
        """Return the cells of each path."""
        read = [orjson.loads(body) if body else None for body in bodies[start:stop]]
        return [
            _cells([{} if one is None else {"value": one.get(name)} for one in read]) for name in self._names
        ]


def _cells(values: Sequence[dict[str, Any]]) -> SimpleNamespace:
    """Return the cells of one path. Code 0 is no text, and a row that is left to Python is empty."""
    kinds, numbers, codes = bytearray(), array("d"), array("I")
    texts, left = [""], []
    for row, value in enumerate(values):
        kind, number, code = NULL if value else NO_ROW, float("nan"), 0
        match value.get("value"):
            case str(text) if text:
                texts += [] if text in texts else [text]
                kind, code = TEXT, texts.index(text)
            case int(small) if small < 100:
                kind, number = INTEGER, float(small)
            case None:
                pass
            case _:
                kind = NO_ROW
                left.append(row)
        kinds.append(kind)
        numbers.append(number)
        codes.append(code)
    return SimpleNamespace(
        kinds=bytes(kinds),
        numbers=numbers.tobytes() if INTEGER in kinds else None,
        codes=codes.tobytes() if TEXT in kinds else None,
        texts=texts,
        left=left,
    )


class StandInCore:
    """A stand-in for the module of the native core, which is hashed, as modules are."""

    ColumnReader = StandInReader


CORE: Any = StandInCore


@pytest.fixture(params=["python", "native"])
def core(request: pytest.FixtureRequest) -> Any:
    """Return the native core, or None."""
    return CORE if request.param == "native" else None


def filled(core: Any, bodies: Sequence[bytes | None], path: Path = A) -> Column:
    """Return a column with the values of bodies, from row 0 on."""
    column = Column(path)
    index_rows(core, slice(0, len(bodies)), range(len(bodies)), bodies, 0, [column], [])
    return column


def kinds(column: Column, rows: int) -> list[int]:
    """Return the kinds of the first rows."""
    return [int(kind) for kind in column.kinds[:rows]]


def texts(column: Column, rows: int) -> list[str]:
    """Return the texts of the first rows."""
    assert column.codes is not None
    return [column.dictionary.texts[code] for code in column.codes[:rows]]


def test_each_row_gets_the_value_in_its_body(core: Any) -> None:
    """None for a body clears the row."""
    column = filled(core, [b'{"a":"x"}', b'{"a":7}', None, b"{}", b'{"a":"x"}'])
    assert kinds(column, 5) == [TEXT, INTEGER, NO_ROW, NULL, TEXT]
    assert texts(column, 5) == ["x", "", "", "", "x"]
    assert column.numbers is not None
    assert np.array_equal(column.numbers[:2], [np.nan, 7], equal_nan=True)


def test_a_part_of_the_bodies_is_given_by_where_it_starts(core: Any) -> None:
    """A copy of a long list would cost time. The rows may be any."""
    column = Column(A)
    bodies = [b'{"a":"%d"}' % number for number in range(6)]
    index_rows(core, np.array([9, 2]), [9, 2], bodies, 3, [column], [])
    assert texts(column, 10) == ["", "", "4", "", "", "", "", "", "", "3"]


def test_a_row_that_is_filled_again_has_its_last_value(core: Any) -> None:
    """Of a text nothing is left under a number, nor the other way round."""
    column = filled(core, [b'{"a":"x"}', b'{"a":7}'])
    index_rows(core, slice(0, 2), range(2), [b'{"a":7}', b'{"a":"y"}'], 0, [column], [])
    assert (kinds(column, 2), texts(column, 2)) == ([INTEGER, TEXT], ["", "y"])


def test_columns_and_hash_indexes_get_the_same_rows(core: Any) -> None:
    """A field that both have is read from the bodies once."""
    column, index = Column(A), HashIndex([A, B])
    bodies = [b'{"a":"x","b":"1"}', b'{"a":"x","b":"2"}', b'{"a":"y","b":"1"}']
    index_rows(core, slice(0, 3), range(3), bodies, 0, [column], [index])
    assert texts(column, 3) == ["x", "x", "y"]
    assert index.lookup(compile_filter("/a = 'x' AND /b = '2'").tree) == [1]
    index_rows(core, slice(1, 2), [1], [None], 0, [column], [index])
    assert index.lookup(compile_filter("/a = 'x' AND /b = '2'").tree) == []
    assert kinds(column, 3) == [TEXT, NO_ROW, TEXT]


def test_without_indexes_no_body_is_read() -> None:
    """Not even one that could not be read."""
    index_rows(None, slice(0, 1), [0], [b"{"], 0, [], [])
    index_rows(CORE, slice(0, 1), [0], [b"{"], 0, [], [])


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ([b'{"a":1.5}', b'{"a":"x"}'], [DOUBLE, TEXT]),
        ([b'{"a":1.5}', b'{"a":2}'], [DOUBLE, INTEGER]),
        ([b'{"a":[1,2]}', b'{"a":"x"}'], [HARD, TEXT]),
        ([b'{"a":[1,2]}', b'{"a":2}'], [HARD, INTEGER]),
        ([b'{"a":["x"]}', None], [HARD, NO_ROW]),
        ([b'{"a":9007199254740993}', b'{"a":[]}', b'{"a":2}'], [HARD, NULL, INTEGER]),
    ],
)
def test_python_completes_what_the_native_core_leaves(
    bodies: list[bytes | None], expected: list[int]
) -> None:
    """Those rows get the cells that Python makes, the others keep theirs."""
    column, python = filled(CORE, bodies), filled(None, bodies)
    assert kinds(column, len(bodies)) == kinds(python, len(bodies)) == expected
    for mine, theirs in ((column.numbers, python.numbers), (column.codes, python.codes)):
        assert (mine is None) is (theirs is None)
        if mine is not None and theirs is not None:
            assert np.array_equal(mine[: len(bodies)], theirs[: len(bodies)], equal_nan=True)


def test_rows_are_left_to_python_in_several_chunks() -> None:
    """Python's reader of a path is made when it is first needed, and used again."""
    column = Column(A)
    fill = filler_of([A], CORE)
    for row, body in enumerate([b'{"a":1.5}', b'{"a":"x"}', b'{"a":2.5}']):
        fill([column], slice(row, row + 1), [body], 0, 1)
    assert kinds(column, 3) == [DOUBLE, TEXT, DOUBLE]


def test_after_a_panic_python_fills_the_chunk() -> None:
    """The columns are as they were before."""
    module: Any = SimpleNamespace(ColumnReader=lambda paths: SimpleNamespace(read=panic))
    column = Column(A)
    filler_of([A], module)([column], slice(0, 2), [b'{"a":7}', None], 0, 2)
    assert kinds(column, 2) == [INTEGER, NO_ROW]


def test_another_error_of_the_native_core_is_raised() -> None:
    """It is no panic: hiding it would hide a fault of ours."""

    def refuse(*given: object) -> None:
        raise TypeError("expected a list")

    module: Any = SimpleNamespace(ColumnReader=lambda paths: SimpleNamespace(read=refuse))
    with pytest.raises(TypeError, match="expected a list"):
        filler_of([A], module)([Column(A)], slice(0, 1), [b'{"a":7}'], 0, 1)


def test_a_name_that_is_no_utf_8_is_pythons() -> None:
    """Half of a surrogate pair: no body has it, and the native core can't be asked for it."""
    path = Path(("\ud800",))
    column = Column(path)
    filler_of([path], CORE)([column], slice(0, 2), [b'{"a":1}', None], 0, 2)
    assert (kinds(column, 2), column.is_blank) == ([NULL, NO_ROW], True)
