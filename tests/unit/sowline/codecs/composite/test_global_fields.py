"""Message type `composite-global`: the fields of all parts in one object."""

import jsonschema_rs
import pytest

from sowline.codecs.composite import CompositeGlobalCodec
from sowline.codecs.schema import COMPOSITE_GLOBAL
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.composite.messages import GLOBAL, LOCAL, message, packed, read, schema


def test_fields_are_side_by_side() -> None:
    """`#parts` says which part has which; the values of JSON keep their text."""
    data = message(b'{"id":5,"x":1.50}', packed(b=b"1"), b"\0")
    body = b'{"id":5,"x":1.50,"b":{"$binary":"MQ=="},"data":"AA==","#parts":["*",["b"],["data"]]}'
    assert read(GLOBAL, data) == body
    assert GLOBAL.write(body) == data


def test_a_delta_of_all_fields_replaces_the_record() -> None:
    """`composite-global` has no deltas."""
    assert GLOBAL.merged(b'{"a":1,"#parts":["*",null,null]}', b'{"#parts":["*",null,null]}') == (
        b'{"#parts":["*",null,null]}'
    )


def test_fields_that_are_added_are_those_of_the_rest() -> None:
    """A record that enrichment has given a field can be written."""
    body = b'{"a":1,"data":"MQ==","new":2,"#parts":["*",null,["data"]]}'
    assert GLOBAL.write(body) == message(b'{"a":1,"new":2}', b"", b"1")
    assert GLOBAL.completed(b'{"a":1,"#parts":["*",null,null],"new":2}') == (
        b'{"a":1,"new":2,"#parts":["*",null,null]}'
    )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"[]", "expected a JSON object"),
        (b'{"a":1}', "expected #parts as an array of 3 entries"),
        (b'{"a":1,"#parts":["*",null]}', "expected #parts as"),
        (b'{"a":1,"#parts":["*","*",null]}', "expected #parts as"),
        (b'{"a":1,"#parts":["?",null,null]}', "expected #parts as"),
        (b'{"a":1,"#parts":[["a"],["a"],null]}', "expected #parts as"),
        (b'{"a":1,"#parts":[["b"],null,null]}', "expected #parts to list all fields"),
        (b'{"a":1,"#parts":["*",["b"],null]}', "expected the fields that #parts lists, got none called 'b'"),
        (b'{"a":1,"#parts":[null,null,"*"]}', "part 2: expected an object like"),
    ],
)
def test_other_json_is_not_written_as_fields(body: bytes, complaint: str) -> None:
    """It must be clear which part each field is of."""
    for write in (GLOBAL.write, GLOBAL.write_delta, GLOBAL.completed):
        with pytest.raises(SowlineError) as caught:
            write(body)
        assert caught.value.reason == "bad message"
        assert caught.value.message.startswith(complaint)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (
            (b'{"a":1}', packed(a=1), b""),
            "part 1: expected fields that no other part has, got 'a', which an earlier part also has",
        ),
        (
            (b'{"#parts":1}', b"", b""),
            "part 0: expected fields that no other part has, got '#parts', which is reserved",
        ),
    ],
)
def test_fields_in_common_are_refused(parts: tuple[bytes, ...], complaint: str) -> None:
    """One of them would be lost."""
    with pytest.raises(SowlineError) as caught:
        read(GLOBAL, message(*parts))
    assert caught.value.reason == "bad message"
    assert caught.value.message.startswith(complaint)
    assert LOCAL.write(read(LOCAL, message(*parts))) == message(*parts)


def test_the_description_requires_the_names_of_each_part() -> None:
    """One entry for each part: names, the rest, or nothing."""
    described = GLOBAL.described()
    assert described["required"] == ["#parts"]
    validator = jsonschema_rs.validator_for(described)
    assert validator.is_valid({"a": 1, "#parts": ["*", ["b"], None]})
    for wrong in (
        {"a": 1},
        {"#parts": ["*", None]},
        {"#parts": ["*", None, "?"]},
        {"#parts": ["*", [1], None]},
    ):
        assert not validator.is_valid(wrong)


def test_one_part_may_be_binary() -> None:
    """Two of them would both have the field `data`."""
    with pytest.raises(SowlineError, match="at most one part of type binary, got several") as refused:
        CompositeGlobalCodec(schema(COMPOSITE_GLOBAL, "binary", "json", "binary"))
    assert refused.value.reason == "bad schema"


def test_records_of_other_parts_are_not_read() -> None:
    """A record's fields are those of its parts."""
    GLOBAL.check_reads(schema(COMPOSITE_GLOBAL, "json", "msgpack", "binary"))
    with pytest.raises(SowlineError, match="expected the parts json, binary, as in") as refused:
        GLOBAL.check_reads(schema(COMPOSITE_GLOBAL, "json", "binary"))
    assert refused.value.reason == "incompatible schema"
