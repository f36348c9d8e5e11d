"""The outbox of native subscriptions: what the client gets of messages in JSON."""

import json
from typing import Any

import orjson
import pytest

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.outbox.typed_outbox import TypedOutbox
from sowline.serving.typed_records.messages import TypedMessages, in_message_type
from sowline.wire.client_message import Message, read_frame
from sowline.wire.server_message import message, sow_batch, sow_record
from sowline.wire.typed_frame import is_binary, join_typed, split_typed

FIELDS: list[dict[str, Any]] = [{"name": "id", "type": "long"}, {"name": "qty", "type": "int"}]


def definition(name: str, fields: list[dict[str, Any]]) -> TopicDefinition:
    """Return a topic of Avro without frames."""
    text = json.dumps({"type": "record", "name": "Order", "fields": fields})
    given = {"key": "/id", "message_type": "avro", "framing": "none", "reader_schema": {"text": text}}
    return define_topic(**{"name": name, **given})


ORDERS = definition("orders", FIELDS)
RENAMED = definition("renamed", [FIELDS[0], {"name": "amount", "aliases": ["qty"], "type": "int"}])
DEFINITIONS = {"orders": ORDERS, "renamed": RENAMED, "plain": define_topic(name="plain", key=("/id",))}


@pytest.fixture
def outbox() -> Outbox:
    """The outbox of a client."""
    return Outbox(1 << 20)


@pytest.fixture
def native(outbox: Outbox) -> TypedOutbox:
    """That of its native subscriptions."""
    return TypedOutbox(outbox, TypedMessages(DEFINITIONS))


def publish(topic: str, body: bytes) -> bytes:
    """Return a message in JSON."""
    head = message("publish", sids=["1"], topic=topic, bookmark=f"{topic}:0@1")
    return b'%b,"data":%b}' % (head[:-1], body)


def received(outbox: Outbox) -> list[Message]:
    """Return what the client reads of all that waits."""
    frame = join_typed(outbox.take_now())
    return [one for received in read_frame(frame) for one in received.messages()]


async def test_records_are_written_in_the_type_of_their_topic(outbox: Outbox, native: TypedOutbox) -> None:
    """For a topic of JSON that is the JSON; the rest of a message is as it was."""
    for topic in ("orders", "plain"):
        native.put_behind(publish(topic, b'{"id":1,"qty":2}'), ["1"])
    first, second = received(outbox)
    assert (first.data, second.data) == (b"\2\4", b'{"id":1,"qty":2}')
    assert (first.native, first.topic, first.bookmark) == (True, "orders", "orders:0@1")


async def test_the_records_of_a_group(outbox: Outbox, native: TypedOutbox) -> None:
    """Each has its metadata, and its own bytes."""
    records = [
        sow_record(b"%d" % number, b"orders:0@1", b'{"id":%d,"qty":2}' % number) for number in range(3)
    ]
    native.put_in_group(message("group_begin", query_id='"records":[', topic="orders", bookmark="orders:0@1"))
    native.put_in_group(sow_batch('"records":[', "orders", records))
    begin, *found = received(outbox)
    assert (begin.command, begin.native) == ("group_begin", False)
    assert [one.sow_key for one in found] == ["0", "1", "2"]
    assert [one.body for one in found] == [
        in_message_type(ORDERS, b'{"id":%d,"qty":2}' % n) for n in range(3)
    ]


async def test_what_has_no_record_stays_as_it_is(outbox: Outbox, native: TypedOutbox) -> None:
    """Acknowledgements, the bounds of groups, and progress."""
    messages = [
        message("group_end", topic="orders", bookmark="b", records=3),
        message("progress", sids=["1"]),
    ]
    for one in messages:
        native.put_behind(one, ["1"])
    native.put(messages[0])
    taken = outbox.take_now()
    assert taken == [*messages, messages[0]]
    assert not any(map(is_binary, taken))
    assert outbox.has_binary


def test_a_record_of_an_earlier_reader_schema() -> None:
    """It is stored as it was written; the message has the fields of the schema that the topic has now."""
    assert in_message_type(RENAMED, b'{"id":1,"qty":2}') == in_message_type(RENAMED, b'{"id":1,"amount":2}')


async def test_a_record_that_can_not_be_written(outbox: Outbox, native: TypedOutbox) -> None:
    """The message says why, and the others come."""
    for body in (b'{"id":1}', b'{"id":1,"qty":2}'):
        native.put_behind(publish("orders", body), ["1"])
    first, second = received(outbox)
    assert "qty" in first.problem
    assert (first.body, second.data) == (b"", b"\2\4")


def test_a_record_is_written_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """All messages of a change have the same bytes, whatever else they have."""
    written = []

    def counted(topic: TopicDefinition, body: bytes) -> bytes:
        written.append(body)
        return b"x"

    monkeypatch.setattr("sowline.serving.typed_records.messages.typed_message", counted)
    messages, body = TypedMessages(DEFINITIONS), b'{"id":1,"qty":2}'
    for sid in (b"1", b"2"):
        made = messages.of(publish("orders", body).replace(b'"1"', b'"%b"' % sid))
        assert orjson.loads(split_typed(made).text)["sids"] == [sid.decode()]
    assert written == [body]
    messages.of(publish("orders", b"{}"))
    assert written == [body, b"{}"]


def test_it_leaves_only_what_the_client_is_sent_to_its_own_outbox() -> None:
    """It has no messages itself: what it inherits would look for them in vain."""
    inherited = {name for name in vars(Outbox) if name[0] != "_"} - vars(TypedOutbox).keys()
    assert inherited == {"close", "has_binary", "sent", "sent_bytes", "take", "take_now", "written_by"}


async def test_it_waits_for_the_client_as_its_own_outbox(outbox: Outbox, native: TypedOutbox) -> None:
    """There is one order of messages, one limit, and one group at a time."""
    assert (native.bytes_max, native.unsent_bytes, native.full) == (outbox.bytes_max, 0, False)
    async with native.group():
        native.put_in_group(message("group_begin"))
        outbox.put_behind(message("progress"), ["2"])
        assert outbox.unsent_bytes == native.unsent_bytes > 0
        assert (native.has_turn, native.is_blocked) == (outbox.has_turn, outbox.is_blocked) == (False, False)
        native.put_in_group(message("group_end"))
    assert native.has_turn
    await native.wait_drained()
    await native.wait_turn()
    await native.wait_room()
    assert [json.loads(one)["command"] for one in outbox.take_now()] == [
        "group_begin",
        "group_end",
        "progress",
    ]
