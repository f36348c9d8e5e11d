"""Records in the message type of their topic, from the log of a real Kafka to a client: what was written is read."""

import json
import uuid
from collections.abc import Iterator
from io import BytesIO
from typing import Any, cast

import fastavro
import httpx2
import pytest

from sowline import Client
from sowline.model.key import partition_of
from sowline.wire.media_types import NATIVE
from tests.integration.services import Service, System, system
from tests.unit.gateway.native import (
    AVRO,
    FRAMED,
    PROTO,
    SCHEMA_ID,
    decode_avro,
    decode_protobuf,
    order_message,
)

PARTITIONS = 2
COUNT = 50
ORDERS: list[dict[str, Any]] = [
    {"id": number, "qty": number * 7 % 100 - 3, "note": f"é{number}"} for number in range(1, COUNT + 1)
]


class Typed:
    """A system with a topic of Avro, whose messages have frames, and one of Protobuf, whose messages have none."""

    def __init__(self, made: System, names: dict[str, str], query: Service) -> None:
        self.names = names
        self.url = query.url
        self._system = made
        self._query = query

    def write(self, kind: str, *orders: dict[str, Any]) -> None:
        """Write messages as the libraries of their type do, and wait until clients can read them."""
        for order in orders:
            key = str(order["id"])
            self._system.produce(
                self.names[kind], ENCODERS[kind](order), key.encode(), partition_of(key, PARTITIONS)
            )
        self._system.wait_settled(self._query.url, self.names[kind])


def encode_avro(order: dict[str, Any]) -> bytes:
    """Return a message of a producer, with the id of its schema."""
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(AVRO), order)
    return FRAMED + data.getvalue()


def encode_protobuf(order: dict[str, Any]) -> bytes:
    """Return a message of a producer."""
    return cast("bytes", order_message()(**order).SerializeToString(deterministic=True))


ENCODERS = {"avro": encode_avro, "protobuf": encode_protobuf}
DECODERS = {"avro": decode_avro, "protobuf": decode_protobuf}
kinds = pytest.mark.parametrize("kind", ENCODERS)


@pytest.fixture(scope="module")
def typed(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """A materializer and a query service; no registry is needed, because the definitions have the schemas."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = {kind: f"{prefix}-{kind}" for kind in ENCODERS}
    given: dict[str, dict[str, Any]] = {
        "avro": {"reader_schema": {"text": json.dumps(AVRO), "id": SCHEMA_ID}},
        "protobuf": {"reader_schema": {"text": PROTO}, "framing": "none"},
    }
    given["avro"]["schemas"] = {SCHEMA_ID: {"text": json.dumps(AVRO)}}
    topics = [
        {"name": names[kind], "key": ["/id"], "partitions": PARTITIONS, "message_type": kind, **given[kind]}
        for kind in names
    ]
    with system(kafka, tmp_path_factory.mktemp("native"), topics) as made:
        materializer, query = made.service("materializer").start(), made.service("query_service").start()
        for service in (materializer, query):
            service.wait_ready()
        lent = Typed(made, names, query)
        for kind in names:
            lent.write(kind, *ORDERS)
        yield lent


@kinds
def test_what_was_written_is_read(typed: Typed, kind: str) -> None:
    """The bytes of each record are those that its producer wrote, and its library reads the same as JSON has."""
    with Client(typed.url) as client:
        native, plain = (
            [one.data for one in client.sow(typed.names[kind], order_by="/id", options=options) if one.body]
            for options in ("format=native", "")
        )
    assert plain == ORDERS
    assert native == [ENCODERS[kind](one) for one in ORDERS]
    assert list(map(DECODERS[kind], native)) == plain


@kinds
def test_a_subscription(typed: Typed, kind: str) -> None:
    """A group, then a change, as the producer wrote it."""
    changed = ORDERS[0] | {"note": "changed"}
    with Client(typed.url) as client:
        messages = client.sow_and_subscribe(typed.names[kind], options="format=native", filter="/id = 1")
        begin = [next(messages) for _ in range(3)]
        assert [one.command for one in begin] == ["group_begin", "sow", "group_end"]
        typed.write(kind, changed)
        assert next(messages).data == ENCODERS[kind](changed)
        typed.write(kind, ORDERS[0])
        assert next(messages).data == ENCODERS[kind](ORDERS[0])


@kinds
def test_over_http(typed: Typed, kind: str) -> None:
    """A stream of messages, and one by its key."""
    url = f"{typed.url}/v1/topics/{typed.names[kind]}"
    headers = {"accept": NATIVE}
    stream = httpx2.post(f"{url}/sow", json={"order_by": "/id"}, headers=headers).content
    messages = [ENCODERS[kind](one) for one in ORDERS]
    assert stream == b"".join(len(one).to_bytes(4, "big") + one for one in messages)
    assert httpx2.get(f"{url}/records/7", headers=headers).content == messages[6]
