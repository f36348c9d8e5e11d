"""Messages of the server as they are written."""

import json

import pytest

from sowline.errors import SowlineError
from sowline.model.log_time import TIME_MAX
from sowline.wire.server_message import (
    ack,
    change_prefix,
    change_suffix,
    failure,
    iso_time,
    join_frame,
    message,
    ms_of,
    one_line,
    sow_batch,
    sow_record,
    sow_records,
    timeline_batch,
)
from tests.property.keys import HOSTILE


def test_messages_leave_out_what_is_not_there() -> None:
    """None and empty text are left out; zero and false are not."""
    assert json.loads(message("x", a=None, b="", c=0, d=False)) == {"command": "x", "c": 0, "d": False}
    assert json.loads(ack("stats", "1", matches=0)) == {
        "command": "ack",
        "ack_type": "stats",
        "command_id": "1",
        "status": "success",
        "matches": 0,
    }
    assert json.loads(failure("1", SowlineError("code", "sentence"))) == {
        "command": "ack",
        "ack_type": "processed",
        "command_id": "1",
        "status": "failure",
        "reason": "code",
        "message": "sentence",
    }


@pytest.mark.parametrize("key", HOSTILE)
def test_sow_keys_are_escaped(key: str) -> None:
    """Those that publishers give may hold whatever ends a string in JSON."""
    raw = key.encode()
    records = sow_records("orders", [b"77", raw], [b"0@1", b"0@2"], [b"{}", b"{}"])
    assert [json.loads(record)["sow_key"] for record in records] == ["77", key]
    assert records[1] == sow_record(raw, b"orders:0@2", b"{}")
    prefix = change_prefix("publish", ["1"], None)
    assert json.loads(prefix + change_suffix("orders", raw, "orders:0@1", b"{}", None))["sow_key"] == key
    assert json.loads(timeline_batch("1", "orders", raw, key, []))["sow_key"] == key


def test_bodies_are_spliced_in_as_they_are() -> None:
    """The stored bytes go on the wire: numbers, spaces and all."""
    body = b'{"id": 1, "p": 1.50}'
    record = sow_record(b"77", b"orders:0@1", body)
    assert sow_records("orders", [b"77"], [b"0@1"], [body]) == [record]
    assert sow_record(b"77", None, b"{}") == b'{"sow_key":"77","data":{}}'
    assert record == b'{"sow_key":"77","updated_at":"orders:0@1","data":' + body + b"}"
    batch = json.loads(sow_batch('q"', "orders", [record, sow_record(None, b"orders:0@2", b"{}", 1)]))
    assert (batch["query_id"], len(batch["records"])) == ('q"', 2)
    assert batch["records"][1] == {"timestamp": iso_time(1), "updated_at": "orders:0@2", "data": {}}


def test_a_change_is_a_prefix_and_a_shared_suffix() -> None:
    """What differs between subscriptions comes first; the rest is encoded once."""
    prefix, suffix = (
        change_prefix("oof", ["a", "b"], "match"),
        change_suffix("orders", b"77", "orders:0@1", b"{}", None),
    )
    assert json.loads(prefix + suffix) == {
        "command": "oof",
        "sids": ["a", "b"],
        "reason": "match",
        "topic": "orders",
        "sow_key": "77",
        "bookmark": "orders:0@1",
        "data": {},
    }
    assert json.loads(change_prefix("oof", ["a"], None, more=True) + suffix)["more"] is True
    bare = json.loads(
        change_prefix("publish", ["a"], None) + change_suffix("orders", None, "orders:0@1", b"{}", 5)
    )
    assert "sow_key" not in bare
    assert bare["timestamp"] == "1970-01-01T00:00:00.005000Z"


def test_a_frame_of_one_is_no_array() -> None:
    """One message goes as it is, several as an array."""
    assert join_frame([b"{}"]) == b"{}"
    assert join_frame([b"{}", b"[]"]) == b"[{},[]]"


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (TIME_MAX, "9999-12-31T23:59:59.999000Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999000Z"),
        (-1, "1969-12-31T23:59:59.999000Z"),
        (-(2**63), "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_each_time_of_64_bits_is_written(time: int, text: str) -> None:
    """One that no date can express is the first or the last date, and is read back."""
    assert iso_time(time) == text
    assert iso_time(ms_of(text)) == text


def test_a_delta_is_marked() -> None:
    """With the paths of deleted fields, if there are any; `more` joins messages of one step."""
    plain, delta, removing = (
        change_prefix("publish", ["s"], None, removed=removed) for removed in (None, (), ("/a",))
    )
    assert [json.loads(prefix + b"}") for prefix in (plain, delta, removing)] == [
        {"command": "publish", "sids": ["s"]},
        {"command": "publish", "sids": ["s"], "delta": True},
        {"command": "publish", "sids": ["s"], "delta": True, "removed": ["/a"]},
    ]
    assert json.loads(change_prefix("oof", ["s"], "match", more=True) + b"}") == {
        "command": "oof",
        "sids": ["s"],
        "more": True,
        "reason": "match",
    }


@pytest.mark.parametrize(
    ("body", "line"),
    [(b'{"a":1}', b'{"a":1}\n'), (b'{\n"a":\r\n1}', b'{ "a":  1}\n')],
)
def test_a_body_is_one_line(body: bytes, line: bytes) -> None:
    """Only blanks between tokens change: texts have no raw line breaks."""
    assert one_line(body) == line
    assert json.loads(one_line(body)) == json.loads(body)


def test_a_gateway_gets_the_values_that_it_sorts_by() -> None:
    """One list for each record."""
    read = json.loads(sow_batch("q", "orders", [b'{"data":{}}'], [[5, "1"]]))
    assert (read["ordering"], read["records"]) == ([[5, "1"]], [{"data": {}}])
