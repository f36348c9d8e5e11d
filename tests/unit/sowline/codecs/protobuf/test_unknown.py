"""Unknown fields of a message come back as the bytes that they were, by field number."""

from base64 import b64encode
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import Int32Value
from hypothesis import given
from hypothesis import strategies as st

from sowline.codecs.protobuf.scalars import UnfitValueError
from sowline.codecs.protobuf.unknown import FIELD_NUMBER_MAX, is_field_number, read_unknown, write_unknown

NUMBERS = st.integers(2, FIELD_NUMBER_MAX)


def _varint(number: int) -> bytes:
    content = bytearray()
    while number >= 128:
        content.append(number & 127 | 128)
        number >>= 7
    return bytes([*content, number])


def _tagged(number: int, kind: int, content: bytes) -> bytes:
    return _varint(number << 3 | kind) + content


def _group(number: int, content: bytes) -> bytes:
    return _tagged(number, 3, content) + _varint(number << 3 | 4)


LEAVES = st.one_of(
    st.builds(_tagged, NUMBERS, st.just(0), st.integers(0, 2**64 - 1).map(_varint)),
    st.builds(_tagged, NUMBERS, st.just(1), st.binary(min_size=8, max_size=8)),
    st.builds(_tagged, NUMBERS, st.just(5), st.binary(min_size=4, max_size=4)),
    st.builds(_tagged, NUMBERS, st.just(2), st.binary().map(lambda data: _varint(len(data)) + data)),
)
FIELDS = st.recursive(
    LEAVES, lambda below: st.builds(_group, NUMBERS, st.lists(below, max_size=3).map(b"".join)), max_leaves=8
)


def _message(data: bytes) -> Int32Value:
    message = Int32Value()
    message.MergeFromString(data)
    return message


def _json(number: int, data: bytes) -> dict[str, str]:
    return {str(number): b64encode(data).decode()}


@given(st.lists(FIELDS, max_size=4).map(b"".join), st.integers(0, 5))
def test_unknown_fields_come_back(data: bytes, value: int) -> None:
    """Groups in groups, too; the field that the type has is none of them."""
    read = read_unknown(_message(data + Int32Value(value=value).SerializeToString()))
    written = Int32Value()
    write_unknown(written, read)
    assert read_unknown(written) == read
    assert written.value == 0
    assert list(read) == sorted(read, key=int)
    assert bool(read) is bool(data)


def test_all_occurrences_of_a_field_are_together() -> None:
    """In the order of the message."""
    first, other, second = _tagged(9, 0, b"\x01"), _tagged(5, 0, b"\x07"), _tagged(9, 0, b"\x02")
    assert read_unknown(_message(first + other + second)) == _json(5, other) | _json(9, first + second)


def test_a_group_ends_where_it_began() -> None:
    """Not at the end of a group within it."""
    group = _group(7, _group(7, _tagged(2, 0, b"\x01")) + _tagged(3, 5, b"four"))
    assert read_unknown(_message(group)) == _json(7, group)


def test_the_number_0_is_refused() -> None:
    """The library takes it in a type without fields."""
    empty = Empty()
    empty.MergeFromString(b"\x00\x01")
    if len(empty.SerializeToString()) == 0:
        pytest.skip("this version of the library drops it")
    with pytest.raises(UnfitValueError, match="field numbers from 1"):
        read_unknown(empty)


def test_null_adds_nothing() -> None:
    """For all fields, or for one."""
    message = Int32Value()
    write_unknown(message, None)
    write_unknown(message, {"5": None})
    assert message.SerializeToString() == b""


@pytest.mark.parametrize(
    ("value", "below"),
    [
        ("AQ==", "/@unknown"),
        ({"0": "AQ=="}, "/@unknown"),
        ({"05": "AQ=="}, "/@unknown"),
        ({str(FIELD_NUMBER_MAX + 1): "AQ=="}, "/@unknown"),
        ({"5": 1}, "/@unknown/5"),
        ({"5": "?"}, "/@unknown/5"),
        ({"5": ""}, "/@unknown/5"),
        ({"5": "KA=="}, "/@unknown/5"),
        (_json(5, _tagged(6, 0, b"\x01")), "/@unknown/5"),
        (_json(5, _tagged(5, 0, b"\x01") + _tagged(6, 0, b"\x01")), "/@unknown/5"),
    ],
    ids=str,
)
def test_what_is_no_unknown_field_is_refused(value: Any, below: str) -> None:
    """With the path within the message."""
    with pytest.raises(UnfitValueError) as caught:
        write_unknown(Int32Value(), value)
    assert caught.value.below == below


@given(st.integers(1, FIELD_NUMBER_MAX))
def test_a_field_number_has_one_text(number: int) -> None:
    """Without zeros before it."""
    assert is_field_number(str(number))
    assert not is_field_number(f"0{number}")
    assert not is_field_number(str(number + FIELD_NUMBER_MAX))
