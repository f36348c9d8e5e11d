"""Memo columns that the native core fills hold what those hold that Python fills."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.model.path import Path, parse_path
from sowline_query_service.index.column import SPARE_TEXTS, Column
from sowline_query_service.index.filling import filler_of
from sowline_query_service.index.read import reader_of
from tests.panics import panic
from tests.property.log_inputs import ODD_BODIES, VALUES, texts

native: Any = pytest.importorskip("sowline_native")

PATHS = [
    parse_path(text)
    for text in ("/a", "/b", "/id", "/o/a", "/a/b", "/a/b/c", "/a[0]", "/a[1]/b", "/o", "/é", "/o/é", '[/q"]')
]
NUMBERS = st.sampled_from(
    [
        *("0", "-0", "7", "-7", "12345678", "-12345678", "123456789", "9007199254740992", "9007199254740993"),
        *("-9007199254740993", "999999999999999999", "1000000000000000000", "9223372036854775808"),
        *(
            "18446744073709551616",
            "0.1",
            "-0.0",
            "0.5",
            "12345678.1234567",
            "123456789.5",
            "1.12345678",
            "4.35",
        ),
        *("0.30000000000000004", "2.5e3", "1E5", "1e-99", "5e99", "179769313486231570000000000000.0"),
    ]
)
STRINGS = st.sampled_from(
    [
        *('""', '"a"', '"b"', '"x y"', '"\\u0061"', '"\\ud83d\\ude00"', '"a\\u0000"', '"\\"a\\""', '"\\""'),
        *('"é"', '"😀"', '"\\/"', '"\\b\\f\\n\\r\\t\\\\"', '"😀😀😀"', '"😀😀😀😀"'),
        *('"fourteen chars"', '"fifteen chars.."', '"sixteen chars..."', '"fourteen char\\u0073"'),
    ]
) | st.text(max_size=20).map(json.dumps)
PLAIN = st.one_of(NUMBERS, STRINGS, VALUES.map(json.dumps))


@st.composite
def plain_bodies(draw: st.DrawFn) -> bytes:
    """Draw an object whose members come in the same order most often."""
    names = draw(st.sampled_from(["ab", "ab", "ab", "ba", "aab", "a", ""]))
    members = [f'"{name}":{draw(PLAIN)}' for name in names]
    text = "{" + draw(st.sampled_from([",", ",", " , "])).join(members) + "}"
    return text.encode("utf-8", "replace")


def is_read(body: bytes) -> bool:
    """Return whether orjson takes a body for an object, as it takes each body of a replica."""
    try:
        return isinstance(orjson.loads(body), dict)
    except orjson.JSONDecodeError:
        return False


BODIES = st.none() | plain_bodies() | plain_bodies() | texts() | ODD_BODIES
CHUNKS = st.lists(st.lists(BODIES.filter(lambda body: body is None or is_read(body)), max_size=8), max_size=4)


def rows_of(column: Column, rows: int) -> list[tuple[int, str, str]]:
    """Return the kind, the number and the text of each row."""
    column.reserve(rows)
    numbers = np.full(rows, np.nan) if column.numbers is None else column.numbers[:rows]
    codes = np.zeros(rows, int) if column.codes is None else column.codes[:rows]
    held = column.dictionary.texts
    return [
        (kind, repr(number), held[code])
        for kind, number, code in zip(
            column.kinds[:rows].tolist(), numbers.tolist(), codes.tolist(), strict=True
        )
    ]


def check_columns(columns: Sequence[Column], expected: Sequence[Column], rows: int) -> None:
    """Raise AssertionError if columns differ from what Python filled."""
    for column, other in zip(columns, expected, strict=True):
        assert rows_of(column, rows) == rows_of(other, rows), str(column.path)
        assert column.may_have_hard == other.may_have_hard
        assert column.is_blank == other.is_blank
        assert set(column.dictionary.texts) == set(other.dictionary.texts)


def check_bodies(paths: Sequence[Path], bodies: Sequence[bytes | None]) -> None:
    """Raise AssertionError if the native core and Python make different columns of bodies that orjson reads."""
    columns, expected = [Column(path) for path in paths], [Column(path) for path in paths]
    filler_of(paths, native)(columns, slice(0, len(bodies)), [None, *bodies, b"{}"], 1, len(bodies) + 1)
    fill_in_python(expected, slice(0, len(bodies)), bodies)
    check_columns(columns, expected, len(bodies))


def fill_in_python(columns: Sequence[Column], rows: Any, bodies: Sequence[bytes | None]) -> None:
    """Fill columns as a query service without the native core does."""
    for column, values in zip(columns, reader_of([column.path for column in columns])(bodies), strict=True):
        column.put_rows(rows, values)


@given(
    chunks=CHUNKS, paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=5, unique=True), data=st.data()
)
def test_native_columns_are_pythons(
    chunks: list[list[bytes | None]], paths: list[Path], data: st.DataObject
) -> None:
    """Chunk by chunk: rows that are new, that are replaced, and that are cleared."""
    columns, expected = [Column(path) for path in paths], [Column(path) for path in paths]
    fill, end = filler_of(paths, native), 0
    for bodies in filter(None, chunks):
        rows: Any = slice(end, end + len(bodies))
        if data.draw(st.booleans()):
            rows = np.array(
                data.draw(st.lists(st.integers(0, 9), min_size=len(bodies), max_size=len(bodies)))
            )
        end = max(end, rows.stop if isinstance(rows, slice) else int(rows.max()) + 1)
        fill(columns, rows, bodies, 0, len(bodies))
        fill_in_python(expected, rows, bodies)
        check_columns(columns, expected, end)


@given(bodies=st.lists(plain_bodies() | texts(), max_size=6), cut=st.integers(0, 200))
@example(bodies=[b'{"a":1{"b":2}'], cut=100)
@example(bodies=[b'{"a":1,"b":2}', b'{"a":1,}'], cut=100)
@example(bodies=[b'{"a":1}', b'{"a":1},"b":2}'], cut=100)
def test_a_damaged_body_harms_nothing(bodies: list[bytes], cut: int) -> None:
    """The native core takes nothing for an object that orjson does not: it leaves such bodies to Python."""
    cut_bodies = [body[:cut] if index % 2 else body[cut:] + body[:cut] for index, body in enumerate(bodies)]
    for some in (bodies, cut_bodies):
        (cells,) = native.ColumnReader([("a", ())]).read(some, 0, len(some))
        assert {index for index, body in enumerate(some) if not is_read(body)} <= set(cells.left)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":{"b":1},"a":2}',
        b'{"a":[{"b":1},{"b":2}]}',
        b'{"a":[{"b":1},[{"b":""}],3]}',
        b'{"a":[[],{}]}',
        b'{"a":[[[""]],{}]}',
        b'{"a":[ {"b" : [ 1 , 2 ] } ] }',
        b'{"\\u0061":1,"a":2}',
        b'{"a":{"\\u0062":1}}',
        b'{"a":"\\u0000"}',
        b'{"a":1,"b":"x"}   ',
        b'  {"a" : 12345678 }',
        b'{"a":12345678}',
        b'{"a":"fourteen chars","b":"fourteen char\\u0073"}',
    ],
)
def test_shapes_of_bodies(body: bytes) -> None:
    """Alone, and with others before and behind."""
    check_bodies(PATHS, [body])
    check_bodies(PATHS, [b'{"a":"x"}', body, None, b'{"b":1,"a":2}', body])


def test_codes_are_numbered_as_python_numbers_them() -> None:
    """In the order of first appearance, if nothing is left to Python."""
    path = parse_path("/a")
    columns = [Column(path)]
    fill = filler_of([path], native)
    bodies = [b'{"a":"%d"}' % (number // 2) for number in range(6)]
    for start in (0, 3):
        fill(columns, slice(start, start + 3), bodies, start, start + 3)
    assert columns[0].dictionary.texts == ["", "0", "1", "2"]
    assert columns[0].codes is not None
    assert columns[0].codes[:6].tolist() == [1, 1, 2, 2, 3, 3]


def test_dictionaries_are_rebuilt() -> None:
    """A field that is new in every change fills no memory: as in Python, also in what it counts."""
    path = parse_path("/a")
    column, other = Column(path), Column(path)
    fill = filler_of([path], native)
    for turn in range(6):
        bodies = [b'{"a":"turn %d text %d"}' % (turn, number) for number in range(SPARE_TEXTS)]
        fill([column], slice(0, SPARE_TEXTS), bodies, 0, SPARE_TEXTS)
        fill_in_python([other], slice(0, SPARE_TEXTS), bodies)
        check_columns([column], [other], SPARE_TEXTS)
        assert column.nbytes == other.nbytes
    assert column.dictionary.generation == other.dictionary.generation > 0


def test_a_panic_leaves_the_chunk_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost."""

    class Panicking:
        """A reader that fails."""

        def __init__(self, paths: object) -> None:
            pass

        read = panic

    path = parse_path("/a")
    column = Column(path)
    module: Any = type("Module", (), {"ColumnReader": Panicking})
    filler_of([path], module)([column], slice(0, 1), [b'{"a":7}'], 0, 1)
    assert rows_of(column, 1) == [(2, "7.0", "")]


def test_a_name_that_no_body_can_have() -> None:
    """Half of a surrogate pair is no UTF-8: the column is empty, as Python's is."""
    check_bodies([Path(("\ud800",))], [b'{"a":1}', None])
