"""Records as they are sent, read many at once."""

from typing import Any

import orjson
import pytest

from sowline.serving.tables.sow_records import Digits, FieldReader, read_sow_records, text_of

SENT = (
    b'{"sow_key":"1","updated_at":"orders:0@1","data":{"n": 18446744073709551616, "x": 0.10}}',
    b'{"sow_key":"2","data":{}}',
)


def test_whole_records() -> None:
    """Integers of any size are exact, and other numbers are doubles."""
    first, second = read_sow_records(SENT)
    assert (first.sow_key, first.data, second.sow_key, second.data) == ("1", {"n": 2**64, "x": 0.1}, "2", {})


@pytest.mark.parametrize("name", ["x", "é", "", "with space", 'a "quoted" one', "a\\b", "two\nlines", "\x7f"])
def test_some_fields(name: str) -> None:
    """Whatever their names are; a field that a record lacks is None."""
    written = orjson.dumps(name)
    sent = [b'{"sow_key":"1","data":{%b:0.10,"other":[1]}}' % written, b'{"sow_key":"2","data":{}}']
    reader = FieldReader([name, "n"])
    get, get_other = reader.getter(name), reader.getter("n")
    for keeps_digits in (False, True):
        first, second = reader.read(sent, keeps_digits=keeps_digits)
        value = get(first.data)
        assert (type(value), value) == ((Digits, "0.10") if keeps_digits else (float, 0.1))
        assert (get_other(first.data), get(second.data)) == (None, None)
        assert (first.sow_key, second.sow_key) == ("1", "2")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é", "é"),
        (True, "true"),
        (2**70, "1180591620717411303424"),
        (Digits("1.50e3"), "1.50e3"),
        ({"a": [Digits("0.10"), 2**64, None, "é"]}, '{"a":[0.10,18446744073709551616,null,"é"]}'),
        ([], "[]"),
    ],
)
def test_values_as_text(value: Any, text: str) -> None:
    """A string is its own text; anything else is JSON with the digits of its numbers."""
    assert text_of(value) == text
    assert type(text_of(value)) is str
