"""Requests that write to topics whose message type has a schema: JSON is checked, and a message is written."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from sowline.commands.command import read_command
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read, to_write
from sowline.serving.http.topics import described_definition
from sowline.serving.writes.http_api import _posted
from sowline.serving.writes.requests import Definitions, RequestedCommand, writes_of
from sowline.wire.media_types import NATIVE
from sowline.wire.request import Write
from sowline.wire.request_parser import parse_request
from tests.typed_orders import AVRO_SCHEMA, avro_message, avro_order, typed_topic

GIVEN = {"id": 1, "day": "2026-11-26", "price": "9.5", "qty": 2}
ORDER: dict[str, Any] = {
    "id": 1,
    "day": date(2026, 11, 26),
    "price": Decimal("9.50"),
    "qty": 2,
    "note": None,
}
TOPICS: Definitions = {"orders": typed_topic("avro")}
FEW = Entitlement("orders", compile_filter("/qty < 10 AND /price = '9.50'"))
CLERK = Rights(to_read(FEW), to_write(FEW))


def asked(command: str, rights: Rights = EVERYTHING, **fields: Any) -> RequestedCommand:
    """Return what a request over the WebSocket writes."""
    request = parse_request(Write, orjson.dumps({"command": command, "topic": "orders", **fields}))
    [command_of] = writes_of(TOPICS, request, rights)
    return command_of


def posted(
    command: str,
    body: bytes,
    type: str = "",
    given: Mapping[str, str] = MappingProxyType({}),
    rights: Rights = EVERYTHING,
) -> list[RequestedCommand]:
    """Return what a POST writes."""
    return _posted(TOPICS, "orders", command, given, body, type, rights)


def test_json_is_written_as_a_message() -> None:
    """By either API, one record or one a line."""
    lines = b"\n".join([orjson.dumps(GIVEN)] * 2)
    for one in (
        asked("publish", data=GIVEN),
        *posted("publish", orjson.dumps(GIVEN)),
        *posted("publish", lines, "application/x-ndjson"),
    ):
        assert avro_order(one.write.value or b"") == ORDER
        assert one.write.key == b"1"
        assert orjson.loads(one.write.body or b"")["price"] == "9.50"


def test_deltas_and_deletes() -> None:
    """A delta names its fields in a header; a delete names its record by the Kafka key, and is not for all."""
    for one in (
        asked("delta_publish", data={"id": 1, "qty": 3}),
        *posted("delta_publish", b'{"id":1,"qty":3}'),
    ):
        assert set(read_command(one.write.headers).fields or ()) == {"/id", "/qty"}
        assert avro_order(one.write.value or b"")["qty"] == 3
    for one in (asked("sow_delete", data={"id": 1}), *posted("sow_delete", b'{"id":1}')):
        assert (one.write.value, one.write.key, one.write.is_for_all) == (None, b"1", False)
    assert asked("sow_delete", filter="1=1").write.is_for_all


def test_a_message_is_written_as_it_came() -> None:
    """With the content type of native messages; the paths of a delta are a parameter."""
    message = avro_message(ORDER)
    [whole] = posted("publish", message, NATIVE)
    [delta] = posted("delta_publish", message, NATIVE, {"fields": "/id, /qty"})
    [delete] = posted("sow_delete", message, NATIVE)
    assert {one.write.value for one in (whole, delta, delete)} == {message}
    assert {one.write.key for one in (whole, delta, delete)} == {b"1"}
    assert read_command(delta.write.headers).fields == ("/id", "/qty")
    assert orjson.loads(delta.write.body or b"") == {"id": 1, "qty": 2}


def test_rights_are_checked_on_canonical_json() -> None:
    """What the JSON leaves to a default, or writes in another way, counts as the owner will read it."""
    for one in (
        asked("publish", CLERK, data={name: GIVEN[name] for name in ("id", "day", "price")}),
        *posted("publish", avro_message(ORDER), NATIVE, rights=CLERK),
    ):
        assert one.check is not None
        one.check.check(one.write, (), {})
    for one in (
        asked("publish", CLERK, data=GIVEN | {"qty": 10}),
        asked("publish", CLERK, data=GIVEN | {"price": "9.51"}),
        *posted("publish", avro_message(ORDER | {"qty": 10}), NATIVE, rights=CLERK),
    ):
        assert one.check is not None
        with pytest.raises(SowlineError, match="got one after which its record does not match"):
            one.check.check(one.write, (), {})
    delta = asked("delta_publish", CLERK, data={"id": 1, "qty": 11})
    assert delta.check is not None
    held = orjson.dumps({"id": 1, "day": "2026-11-26", "price": "9.50", "qty": 2, "note": None})
    with pytest.raises(SowlineError, match="got one after which its record does not match"):
        delta.check.check(delta.write, [held], {})


@pytest.mark.parametrize("key", [["/id"], {"from": "header"}])
def test_what_can_t_be_read_needs_the_right_to_all(key: Any) -> None:
    """The content of a message with an unknown schema is not known, even if its key is."""
    topics = {"orders": typed_topic("avro", key=key)}
    given: dict[str, str] = {} if key == ["/id"] else {"sow_key": "k"}
    message = avro_message(ORDER, 9)
    [free] = _posted(topics, "orders", "publish", given, message, NATIVE, EVERYTHING)
    assert (free.write.value, free.write.body, free.write.is_for_all) == (message, None, False)
    with pytest.raises(SowlineError, match="got a message whose schema is not known here") as error:
        _posted(topics, "orders", "publish", given, message, NATIVE, CLERK)
    assert error.value.reason == "not entitled"


@pytest.mark.parametrize(
    ("command", "body", "type", "given", "reason"),
    [
        ("publish", b"", NATIVE, {}, "bad request"),
        ("publish", b'{"id":1}', NATIVE, {}, "bad message"),
        ("publish", avro_message(ORDER), "", {}, "bad message"),
        ("delta_publish", b'{"id":1}', "", {"fields": "/id"}, "bad request"),
        ("delta_publish", avro_message(ORDER), NATIVE, {"fields": "/color"}, "bad header"),
        ("sow_delete", avro_message(ORDER), NATIVE, {"filter": "1=1"}, "bad request"),
    ],
)
def test_what_is_wrong_is_refused(
    command: str, body: bytes, type: str, given: dict[str, str], reason: str
) -> None:
    """Before anything is written."""
    with pytest.raises(SowlineError) as error:
        posted(command, body, type, given)
    assert error.value.reason == reason


def test_a_topic_is_described_with_its_schema() -> None:
    """As a publisher needs it; a user who may read only some fields does not see the others' names."""
    some = Rights(to_read(Entitlement("orders", select=parse_select("[-/,+/id]"))))
    writer = Rights(some.read, to_write(FEW))
    schema = {
        "text": AVRO_SCHEMA,
        "references": {},
        "message": "",
        "id": 7,
        "subject": "orders-value",
    }
    for rights, shown in ((EVERYTHING, schema), (writer, schema), (CLERK, schema), (some, None)):
        found = described_definition(TOPICS["orders"], rights)
        assert (found["message_type"], found["framing"], found["reader_schema"]) == (
            "avro",
            "confluent",
            shown,
        )
    gateway = Rights(is_gateway=True)
    assert described_definition(TOPICS["orders"], gateway)["reader_schema"] == schema
