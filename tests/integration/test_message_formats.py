"""Topics of message types without schemas, over a real Kafka: consumers of a type get what its producers write."""

import base64
import json
import shutil
import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import bson
import msgspec
import pytest

from sowline import Client, SowlineError
from tests.integration.services import Service, System, headers_of, http_text, system
from tests.waiting import wait_for

SOH: Final = b"\x01"


def fix(*fields: str) -> bytes:
    """Return a FIX message of these fields, with the length and the checksum of its session."""
    body = b"".join(field.encode() + SOH for field in fields)
    message = b"8=FIX.4.4\x019=%d\x01" % len(body) + body
    return message + b"10=%03d\x01" % (sum(message) % 256)


def plain(*fields: str) -> bytes:
    """Return fields that each end in a separator."""
    return b"".join(field.encode() + SOH for field in fields)


def parts(*given: bytes) -> bytes:
    """Return a composite message."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in given)


def xml_order(price: str) -> bytes:
    """Return an order in XML."""
    inside = f'<Symbol>IBM</Symbol><Price ccy="USD">{price}</Price><Leg><Qty>5</Qty></Leg>'
    return f'<Order id="7" update="full">{inside}</Order>'.encode()


def base64_of(data: bytes) -> str:
    """Return bytes as canonical JSON has them."""
    return base64.b64encode(data).decode()


class Kind(NamedTuple):
    """A message type: its topic, a message with its JSON, a delta of it, and the JSON and message after the delta."""

    definition: dict[str, Any]
    key: str
    message: bytes
    record: dict[str, Any]
    delta: bytes
    after: dict[str, Any]
    after_message: bytes
    hostile: bytes


KINDS: Final = {
    "fix": Kind(
        {"key": "/11"},
        "A1",
        fix(
            "35=D",
            "49=DESK",
            "11=A1",
            "55=IBM",
            "54=1",
            "38=100",
            "44=9.50",
            "453=2",
            "448=X",
            "447=D",
            "448=Y",
        ),
        {
            "8": "FIX.4.4",
            "35": "D",
            "49": "DESK",
            "11": "A1",
            "55": "IBM",
            "54": "1",
            "38": "100",
            "44": "9.50",
            "453": [{"448": "X", "447": "D"}, {"448": "Y"}],
        },
        plain("11=A1", "38=250", "58=more"),
        {
            "8": "FIX.4.4",
            "35": "D",
            "49": "DESK",
            "11": "A1",
            "55": "IBM",
            "54": "1",
            "38": "250",
            "44": "9.50",
            "453": [{"448": "X", "447": "D"}, {"448": "Y"}],
            "58": "more",
        },
        fix(
            *("35=D", "49=DESK", "11=A1", "55=IBM", "54=1", "38=250", "44=9.50"),
            *("453=2", "448=X", "447=D", "448=Y", "58=more"),
        ),
        fix("35=D", "11=A2").replace(b"10=", b"10=9"),
    ),
    "nvfix": Kind(
        {"key": "/ExecID"},
        "E1",
        plain("ExecID=E1", "ClOrdID=A1", "LastQty=40", "LastPx=9.49"),
        {"ExecID": "E1", "ClOrdID": "A1", "LastQty": "40", "LastPx": "9.49"},
        plain("ExecID=E1", "LastQty=60"),
        {"ExecID": "E1", "ClOrdID": "A1", "LastQty": "60", "LastPx": "9.49"},
        plain("ExecID=E1", "ClOrdID=A1", "LastQty=60", "LastPx=9.49"),
        b"no field",
    ),
    "xml": Kind(
        {"key": "/Order/@id", "message_format": {"lists": ["/Order/Leg"]}},
        "7",
        xml_order("9.50"),
        {
            "Order": {
                "@id": "7",
                "@update": "full",
                "Symbol": "IBM",
                "Price": {"@ccy": "USD", "#text": "9.50"},
                "Leg": [{"Qty": "5"}],
            }
        },
        b'<Order id="7"><Price>9.75</Price></Order>',
        {
            "Order": {
                "@id": "7",
                "@update": "full",
                "Symbol": "IBM",
                "Price": {"@ccy": "USD", "#text": "9.75"},
                "Leg": [{"Qty": "5"}],
            }
        },
        xml_order("9.75"),
        b'<!DOCTYPE a [<!ENTITY b "c">]><Order id="8">&b;</Order>',
    ),
    "msgpack": Kind(
        {"key": "/id"},
        "3",
        msgspec.msgpack.encode({"id": 3, "note": "é", "price": 9.5, "raw": b"\x00\xff"}),
        {"id": 3, "note": "é", "price": 9.5, "raw": {"$binary": base64_of(b"\x00\xff")}},
        msgspec.msgpack.encode({"id": 3, "price": 10.0}),
        {"id": 3, "note": "é", "price": 10.0, "raw": {"$binary": base64_of(b"\x00\xff")}},
        msgspec.msgpack.encode({"id": 3, "note": "é", "price": 10.0, "raw": b"\x00\xff"}),
        b"\xdf\xff\xff\xff\xff",
    ),
    "bson": Kind(
        {"key": "/id"},
        "4",
        bson.encode({"id": 4, "by": bson.ObjectId(b"\x01" * 12), "price": bson.Decimal128("9.50")}),
        {"id": 4, "by": {"$oid": "01" * 12}, "price": {"$numberDecimal": "9.50"}},
        bson.encode({"id": 4, "price": bson.Decimal128("9.75")}),
        {"id": 4, "by": {"$oid": "01" * 12}, "price": {"$numberDecimal": "9.75"}},
        bson.encode({"id": 4, "by": bson.ObjectId(b"\x01" * 12), "price": bson.Decimal128("9.75")}),
        b"\xff\xff\xff\x7f\x00",
    ),
    "binary": Kind(
        {"key": {"from": "kafka_key"}},
        "b1",
        b"\x00\x01\xfe",
        {"data": base64_of(b"\x00\x01\xfe")},
        b"\x02",
        {"data": base64_of(b"\x02")},
        b"\x02",
        b"",
    ),
    "composite-local": Kind(
        {
            "key": "/0/id",
            "message_format": {"parts": [{"type": "json"}, {"type": "nvfix"}, {"type": "binary"}]},
        },
        "5",
        parts(b'{"id":5,"desk":"fx"}', plain("Symbol=EURUSD", "Qty=10"), b"\x00pdf"),
        {
            "0": {"id": 5, "desk": "fx"},
            "1": {"Symbol": "EURUSD", "Qty": "10"},
            "2": {"data": base64_of(b"\x00pdf")},
        },
        parts(b'{"id":5}', plain("Qty=20"), b""),
        {
            "0": {"id": 5, "desk": "fx"},
            "1": {"Symbol": "EURUSD", "Qty": "20"},
            "2": {"data": base64_of(b"\x00pdf")},
        },
        parts(b'{"id":5,"desk":"fx"}', plain("Symbol=EURUSD", "Qty=20"), b"\x00pdf"),
        parts(b'{"id":6}', b"", b"")[:-1],
    ),
    "composite-global": Kind(
        {"key": "/id", "message_format": {"parts": [{"type": "json"}, {"type": "nvfix"}]}},
        "6",
        parts(b'{"id":6,"desk":"fx"}', plain("Symbol=EURUSD")),
        {"id": 6, "desk": "fx", "Symbol": "EURUSD"},
        parts(b'{"id":6}', plain("Symbol=EURCHF")),
        {"id": 6, "Symbol": "EURCHF"},
        parts(b'{"id":6}', plain("Symbol=EURCHF")),
        parts(b'{"id":6}', plain("id=7")),
    ),
}
DELTAS: Final[dict[str, dict[str, Any]]] = {
    "fix": {"11": "A1", "38": "250", "58": "more"},
    "nvfix": {"ExecID": "E1", "LastQty": "60"},
    "xml": {"Order": {"@id": "7", "Price": {"#text": "9.75"}}},
    "msgpack": {"id": 3, "price": 10.0},
    "bson": {"id": 4, "price": {"$numberDecimal": "9.75"}},
    "composite-local": {"0": {"id": 5}, "1": {"Qty": "20"}},
}
"""The deltas as JSON, for the types that have deltas."""

kinds = pytest.mark.parametrize("kind", KINDS)


class Formats:
    """A topic of each type, and the services over them."""

    def __init__(self, made: System, names: dict[str, str], services: dict[str, Service]) -> None:
        self.system = made
        self.names = names
        self.services = services
        self.url = services["query_service"].url

    def client(self) -> Client:
        """Return a new client."""
        return Client(self.url, kafka=self.system.kafka)

    def write(self, kind: str, message: bytes, command: str = "publish", key: str = "") -> None:
        """Write a message of any producer to the log, and wait until clients can read what comes of it."""
        headers = [("sow.command", command.encode())]
        self.system.produce(self.names[kind], message, (key or KINDS[kind].key).encode(), 0, headers)
        self.system.wait_settled(self.url, self.names[kind])

    def records(self, kind: str, options: str = "") -> list[Any]:
        """Return the records of a topic."""
        with Client(self.url) as client:
            found = client.sow(self.names[kind], options=options)
            return [message.data for message in found if message.command == "sow"]


@pytest.fixture(scope="module")
def both(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Formats, Formats]]:
    """All services, and twice a topic of each type: the first of them is clients', the second has a fanout."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names, fanned = ({kind: f"{prefix}-{kind}{end}" for kind in KINDS} for end in ("", "-fanned"))
    topics = [
        {"name": those[kind], "message_type": kind, **KINDS[kind].definition}
        for those in (names, fanned)
        for kind in KINDS
    ]
    fanouts = [{"name": fanned[kind], "topic": fanned[kind], "as": kind, "options": "oof"} for kind in KINDS]
    with system(kafka, tmp_path_factory.mktemp("formats"), topics, fanouts) as made:
        services = {name: made.service(name).start() for name in ("materializer", "query_service", "fanout")}
        for service in services.values():
            service.wait_ready()
        yield Formats(made, names, services), Formats(made, fanned, services)


@pytest.fixture
def formats(both: tuple[Formats, Formats]) -> Formats:
    """The topics of clients: a test leaves at most the record that it knows."""
    return both[0]


@pytest.fixture
def fanned(both: tuple[Formats, Formats]) -> Formats:
    """The topics with a fanout in their own type: one test has each."""
    return both[1]


@kinds
def test_messages_deltas_and_what_is_no_message(fanned: Formats, kind: str) -> None:
    """A record is JSON to clients, and the producer's bytes to those who ask for them and to readers of a fanout.

    A message that can't be read is a dead letter, as it came. It does no harm to others.
    """
    given = KINDS[kind]
    fanned.write(kind, given.message)
    [record] = fanned.records(kind)
    assert _visible(record) == given.record
    assert fanned.records(kind, "format=native") == [given.message]
    fanned.write(kind, given.delta, "delta_publish")
    [record] = fanned.records(kind)
    assert _visible(record) == given.after
    assert fanned.records(kind, "format=native") == [given.after_message]
    if given.hostile:
        fanned.write(kind, given.hostile, key="other")
        [letter] = fanned.system.read(f"{fanned.names[kind]}.dead")
        assert headers_of(letter)["sow.reason"] == b"bad message"
        assert letter.value() == given.hostile
    output = next(one for one in fanned.system.topics.fanouts if one.topic == fanned.names[kind]).output
    messages = wait_for(
        lambda: (found := fanned.system.read(output))[1:] and found, "the fanout to write both states"
    )
    assert [message.value() for message in messages] == [given.message, given.after_message]
    assert [_visible(record) for record in fanned.records(kind)] == [given.after]


def _visible(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what only the way back to the message needs."""
    return {name: value for name, value in record.items() if name != "#parts"}


@kinds
def test_clients_write_json_and_messages(formats: Formats, kind: str) -> None:
    """What a client writes as JSON goes to the log in the topic's type; a message goes there as it is."""
    given, topic = KINDS[kind], formats.names[kind]
    is_keyed = given.definition["key"] == {"from": "kafka_key"}
    key: dict[str, Any] = {"key": given.key} if is_keyed else {}
    formats.write(kind, given.message)
    [record] = formats.records(kind)
    with formats.client() as client:
        client.publish(topic, given.after_message, wait=True, **key)
        assert _visible(formats.records(kind)[0]) == given.after
        client.publish(topic, record, wait=True, **key)
        assert formats.records(kind) == [record]
        client.delta_publish(topic, given.delta, wait=True, **key)
        assert formats.records(kind, "format=native") == [given.after_message]
        client.publish(topic, record, **key)
        client.flush()
        if kind in DELTAS:
            client.delta_publish(topic, DELTAS[kind])
            client.flush()
            formats.system.wait_settled(formats.url, topic)
            assert formats.records(kind, "format=native") == [given.after_message]
        with pytest.raises(SowlineError) as error:
            client.publish(topic, {"a": {"b": {"c": None}}, "d": [[1]]}, wait=True, **key)
        assert error.value.reason == ("key missing" if kind in ("msgpack", "bson") else "bad message")
        assert (
            client.sow_delete(topic, data=record, **key) if not is_keyed else client.sow_delete(topic, **key)
        )
    assert formats.records(kind) == []
    written = [message.value() for message in formats.system.read(topic)]
    assert written.count(given.message) >= 3


def test_everything_is_made_again_of_the_log(formats: Formats) -> None:
    """A replay, a rebuild and a check read messages as they were read first, without state and changes."""
    for kind in KINDS:
        formats.write(kind, KINDS[kind].message)
        formats.write(kind, KINDS[kind].delta, "delta_publish")
    before = {kind: formats.records(kind) for kind in KINDS}
    assert [[_visible(one) for one in before[kind]] for kind in KINDS] == [
        [KINDS[kind].after] for kind in KINDS
    ]
    for name in ("query_service", "materializer"):
        formats.services[name].kill()
    shutil.rmtree(formats.system.directory / "sow")
    formats.system.cluster.delete_topics([f"{name}.changes" for name in formats.names.values()])
    for name in ("materializer", "query_service"):
        formats.services[name].start()
    for name in ("materializer", "query_service"):
        formats.services[name].wait_ready()
    for name in formats.names.values():
        formats.system.wait_settled(formats.url, name)
    assert {kind: formats.records(kind) for kind in KINDS} == before


def test_topics_are_described_with_their_options(formats: Formats) -> None:
    """As the protocol description has it; a publisher needs no more."""
    topics = json.loads(http_text(f"{formats.url}/v1/topics"))["topics"]
    assert {topic["message_type"]: topic["message_format"] for topic in topics} == {
        kind: KINDS[kind].definition.get("message_format", {}) for kind in KINDS
    }
