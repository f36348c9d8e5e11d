"""The publisher: what it writes, and what it refuses before it is written."""

from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError

from sowline.client.publisher import Publisher
from sowline.client.write_options import DeliveryReport
from sowline.commands.command import read_command
from sowline.config.topic_definition import define_topic
from sowline.config.topics import Topics, parse_topics
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.model.nesting import NESTING_MAX

TOPICS = parse_topics("topics: [{name: eu/orders, key: /id, record_bytes_max: 2000}]")


class FakeProducer:
    """Takes what is produced; `full` and `error` make it refuse."""

    def __init__(self) -> None:
        self.produced: list[tuple[Any, ...]] = []
        self.partitions: list[int] = []
        self.full = 0
        self.left = 0
        self.reports: list[Any] = []

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, on_delivery: Any, headers: Any
    ) -> None:
        """Take a message."""
        if self.full:
            self.full -= 1
            raise BufferError
        self.produced.append((topic, value, key, read_command(headers)))
        self.partitions.append(partition)
        self.reports.append(on_delivery)

    def poll(self, seconds: float) -> int:
        """Report nothing."""
        return 0

    def flush(self, seconds: float) -> int:
        """Return how many messages are left."""
        return self.left


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    """The producer that a publisher gets."""
    producer = FakeProducer()
    monkeypatch.setattr("sowline.client.publisher.exact_producer", lambda *_, **__: producer)
    return producer


@pytest.fixture
def publisher(producer: FakeProducer) -> Publisher:
    """A publisher over the fake producer."""
    return Publisher({}, TOPICS, publisher="p")


def test_commands_go_to_the_log_with_key_and_number(publisher: Publisher, producer: FakeProducer) -> None:
    """Each command carries the publisher's rising number; records carry their key text as Kafka key."""
    publisher.publish("eu/orders", {"id": 1}, correlation="c")
    publisher.delta_publish("eu/orders", b'{ "id": "1" }')
    publisher.sow_delete("eu/orders", data='{"id":true}')
    publisher.sow_delete("eu/orders", filter="1=1")
    publisher.sow_delete("eu/orders", keys=["7", "8"])
    assert [(topic, value, key) for topic, value, key, _ in producer.produced] == [
        ("eu.orders", b'{"id":1}', b"1"),
        ("eu.orders", b'{ "id": "1" }', b"1"),
        ("eu.orders", b'{"id":true}', b"true"),
        ("eu.orders", None, None),
        ("eu.orders", None, None),
    ]
    commands = [command for *_, command in producer.produced]
    assert [command.command for command in commands] == ["publish", "delta_publish"] + ["sow_delete"] * 3
    assert {command.publisher for command in commands} == {"p"}
    assert [command.sequence for command in commands] == [(n, 0) for n in range(1, 6)]
    assert (commands[0].correlation, commands[3].filter, commands[4].keys) == ("c", "1=1", ("7", "8"))


def test_a_lifetime_goes_with_the_command(publisher: Publisher, producer: FakeProducer) -> None:
    """In seconds; none is not none for ever, which is 0."""
    publisher.publish("eu/orders", {"id": 1}, expiration=2.5)
    publisher.delta_publish("eu/orders", {"id": 1}, expiration=0)
    publisher.publish("eu/orders", {"id": 1})
    assert [command.expiration for *_, command in producer.produced] == [2.5, 0, None]
    with pytest.raises(SowlineError, match="expected a lifetime"):
        publisher.publish("eu/orders", {"id": 1}, expiration=-1)
    assert len(producer.produced) == 3


REVIEWS = define_topic(name="reviews", key=("/id",), documents=True, record_bytes_max=100)


def test_deltas_go_to_the_log_as_they_were_written(producer: FakeProducer) -> None:
    """Named by the key text, numbered like all commands, with tags and the id of the change."""
    publisher = Publisher({}, Topics(topics=(REVIEWS.declared,)), publisher="p")
    publisher.delta("reviews", "k", '{..,"a" :1}', tags=["b", "a"], change_id="c", correlation="x")
    publisher.deltas("reviews", "k", "~ {}", tags="t", expiration=2)
    publisher.publish("reviews", {"id": 1}, tags=["t"])
    publisher.sow_delete("reviews", filter="1=1", tags=["t"], change_id="d")
    assert [(value, key) for _, value, key, _ in producer.produced] == [
        (b'{..,"a" :1}', b"k"),
        (b"~", b"k"),
        (b"{}", b"k"),
        (b'{"id":1}', b"1"),
        (None, None),
    ]
    commands = [command for *_, command in producer.produced]
    assert [command.command for command in commands] == ["delta"] * 3 + ["publish", "sow_delete"]
    assert [command.sequence for command in commands] == [(n, 0) for n in range(1, 6)]
    assert [command.tags for command in commands] == [("a", "b"), *[("t",)] * 4]
    assert [command.change_id for command in commands] == ["c", None, None, None, "d"]
    assert (commands[0].correlation, commands[1].expiration) == ("x", 2)


@pytest.mark.parametrize(
    ("topic", "key", "delta", "about", "reason"),
    [
        ("reviews", "", "~", {}, "key missing"),
        ("reviews", "\ud800", "~", {}, "bad key"),
        ("reviews", "k", "~~", {}, "bad delta"),
        ("reviews", "k", "[1]", {}, "not an object"),
        ("reviews", "k", '{"a":"%s"}' % ("x" * 100), {}, "too large"),
        ("reviews", "k", "~", {"tags": ["a,b"]}, "bad header"),
        ("reviews", "k", "~", {"tags": ["a" * 101]}, "bad header"),
        ("reviews", "k", "~", {"change_id": "c" * 251}, "bad header"),
        ("orders", "k", "~", {}, "no documents"),
    ],
)
def test_a_delta_that_would_be_refused_is_not_written(
    producer: FakeProducer, topic: str, key: str, delta: str, about: Any, reason: str
) -> None:
    """Nor any other of its stream."""
    orders = define_topic(name="orders", key=("/id",))
    publisher = Publisher({}, Topics(topics=(REVIEWS.declared, orders.declared)))
    for write in (publisher.delta, publisher.deltas):
        with pytest.raises(SowlineError) as error:
            write(topic, key, delta, **about)
        assert error.value.reason == reason
    with pytest.raises(SowlineError):
        publisher.deltas(topic, key, f"[{{}},{delta}]", **about)
    assert producer.produced == []


def test_tags_are_for_documents(publisher: Publisher, producer: FakeProducer) -> None:
    """A topic of other records has no use for them, and several deltas none for one id."""
    with pytest.raises(SowlineError, match="for tags and change_id") as error:
        publisher.publish("eu/orders", {"id": 1}, tags=["t"])
    assert error.value.reason == "no documents"
    documents = Publisher({}, Topics(topics=(REVIEWS.declared,)))
    with pytest.raises(SowlineError, match="one delta with a change_id, got 2"):
        documents.deltas("reviews", "k", "~ ~", change_id="c")
    assert producer.produced == []


COALESCED = ["COALESCE(/id, CONCAT(/region, '-', /number)) AS /id"]
KNOWN = ["CONCAT(TOPIC_NAME(), ' ', MESSAGE_SIZE(), ' ', COALESCE(CORRELATION_ID(), 'none')) AS /id"]


@pytest.mark.parametrize(
    ("fields", "data", "correlation", "key"),
    [
        (COALESCED, '{ "region": "eu",  "number": 7 }', None, b"eu-7"),
        (COALESCED, {"id": "eu-7", "qty": 3}, None, b"eu-7"),
        (["UPPER(/id) AS /id"], {"id": "eu-7"}, None, b"EU-7"),
        (["/a AS /id HINT SET_CURRENT", "/id AS /b"], {"a": 5}, None, b"5"),
        (KNOWN, b'{ "a" : 1 }', None, b"made 11 none"),
        (KNOWN, '{"a":"\u00e9"}', "c", b"made 10 c"),
    ],
)
def test_the_kafka_key_is_the_one_that_preprocessing_makes(
    producer: FakeProducer, fields: list[str], data: Any, correlation: str | None, key: bytes
) -> None:
    """It is computed as the materializer will compute it; the body goes to the log as it was given."""
    definition = define_topic(name="made", key=("/id",), preprocessing=tuple(fields))
    publisher = Publisher({}, Topics(topics=(definition.declared,)))
    publisher.publish("made", data, correlation=correlation)
    publisher.delta_publish("made", data, correlation=correlation)
    publisher.sow_delete("made", data=data, correlation=correlation)
    body = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else orjson.dumps(data)
    assert [(value, written) for _, value, written, _ in producer.produced] == [(body, key)] * 3


@pytest.mark.parametrize(
    ("field", "data", "reason"),
    [
        ("/a AS /id", {"id": 1}, "key null"),
        ("/a AS /id HINT OPTIONAL", {"id": 1}, "key missing"),
        ("/a + 0.5 AS /id", {"id": 1, "a": 1}, "bad key"),
    ],
)
def test_a_body_of_which_no_key_is_made_is_not_written(
    producer: FakeProducer, field: str, data: Any, reason: str
) -> None:
    """The caller hears at once that preprocessing leaves nothing that can be a key."""
    definition = define_topic(name="made", key=("/id",), preprocessing=(field,))
    publisher = Publisher({}, Topics(topics=(definition.declared,)))
    for write in (publisher.publish, publisher.delta_publish):
        with pytest.raises(SowlineError) as error:
            write("made", data)
        assert error.value.reason == reason
    assert producer.produced == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "not json"),
        ("[]", "not an object"),
        ({}, "key missing"),
        ({"id": None}, "key null"),
        ({"id": ""}, "key empty"),
        ({"id": 1.5}, "bad key"),
        ({"id": 1, "a": "x" * 2000}, "too large"),
        (b'{"id":1,"a":' + b"[" * NESTING_MAX + b"]" * NESTING_MAX + b"}", "too deep"),
    ],
)
def test_what_the_materializer_would_refuse_is_not_written(
    publisher: Publisher, producer: FakeProducer, data: Any, reason: str
) -> None:
    """The caller hears at once what would otherwise be a dead letter."""
    for write in (publisher.publish, publisher.delta_publish):
        with pytest.raises(SowlineError) as error:
            write("eu/orders", data)
        assert error.value.reason == reason
    assert producer.produced == []


@pytest.mark.parametrize(
    "selectors",
    [
        {},
        {"filter": "1=1", "keys": ["1"]},
        {"data": {"id": 1}, "filter": "1=1"},
        {"keys": []},
        {"filter": " "},
    ],
)
def test_a_delete_has_exactly_one_selector(
    publisher: Publisher, producer: FakeProducer, selectors: dict[str, Any]
) -> None:
    """None, two or an empty one are refused: nothing is deleted by accident."""
    with pytest.raises(SowlineError) as error:
        publisher.sow_delete("eu/orders", **selectors)
    assert error.value.reason == "bad request"
    assert producer.produced == []


def test_an_unknown_topic_is_refused(publisher: Publisher) -> None:
    """The error lists the topics there are."""
    with pytest.raises(SowlineError, match="eu/orders") as error:
        publisher.publish("orders", {"id": 1})
    assert error.value.reason == "invalid topic"


def test_a_full_queue_is_waited_for(publisher: Publisher, producer: FakeProducer) -> None:
    """Nothing is dropped where the producer has no room for the moment."""
    producer.full = 3
    publisher.publish("eu/orders", {"id": 1})
    assert len(producer.produced) == 1


def test_what_kafka_did_not_take_is_raised_once(publisher: Publisher, producer: FakeProducer) -> None:
    """The next call says that an earlier command was not written; after that it may be tried again."""
    publisher.publish("eu/orders", {"id": 1})
    producer.reports[0](KafkaError(KafkaError._MSG_TIMED_OUT), None)
    with pytest.raises(SowlineError) as error:
        publisher.flush()
    assert error.value.reason == "not written"
    publisher.flush()


class FakeMessage:
    """What Kafka has accepted."""

    def partition(self) -> int:
        """Return its partition."""
        return 3

    def offset(self) -> int:
        """Return its offset."""
        return 41


REFUSED = KafkaError(KafkaError._MSG_TIMED_OUT)


def test_each_command_has_a_delivery_report(publisher: Publisher, producer: FakeProducer) -> None:
    """With the position, or with the error that flush raises as well; called once."""
    reports: list[DeliveryReport] = []
    publisher.publish("eu/orders", {"id": 1}, on_delivery=reports.append)
    publisher.delta_publish("eu/orders", {"id": 1}, on_delivery=reports.append)
    publisher.sow_delete("eu/orders", data={"id": 1}, on_delivery=reports.append)
    publisher.publish("eu/orders", {"id": 2})
    for report, error in zip(producer.reports, (None, REFUSED, None, None), strict=True):
        report(error, FakeMessage())
    assert reports == [], "a write holds the lock while Kafka's client reports"
    with pytest.raises(SowlineError, match="an earlier command"):
        publisher.flush()
    publisher.flush()
    assert [report[:3] for report in reports] == [
        ("eu/orders", 3, 41),
        ("eu/orders", None, None),
        ("eu/orders", 3, 41),
    ]
    [refusal] = [report.error for report in reports if report.error is not None]
    assert (refusal.reason, "did not accept the command" in refusal.message) == ("not written", True)


def test_each_delta_has_a_delivery_report(producer: FakeProducer) -> None:
    """Also each of a stream; the next write calls back."""
    publisher = Publisher({}, Topics(topics=(REVIEWS.declared,)))
    reports: list[DeliveryReport] = []
    publisher.delta("reviews", "k", "{}", on_delivery=reports.append)
    publisher.deltas("reviews", "k", "{} ~", on_delivery=reports.append)
    for report in producer.reports:
        report(None, FakeMessage())
    publisher.delta("reviews", "k", "{}")
    assert reports == [DeliveryReport("reviews", 3, 41, None)] * 3


def test_a_callback_that_fails_is_logged(
    publisher: Publisher, producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    """The publisher continues, and so do the other callbacks."""
    reports: list[DeliveryReport] = []
    publisher.publish("eu/orders", {"id": 1}, on_delivery=lambda _: 1 / 0)
    publisher.publish("eu/orders", {"id": 1}, on_delivery=reports.append)
    for report in producer.reports:
        report(None, FakeMessage())
    publisher.flush()
    assert len(reports) == 1
    [logged] = caplog.records
    assert (logged.name, logged.getMessage()) == (
        "sowline",
        "on_delivery of a command for eu/orders failed",
    )
    assert logged.exc_info is not None


def test_a_flush_that_runs_out_of_time_says_what_is_left(
    publisher: Publisher, producer: FakeProducer
) -> None:
    """Commands that are still on their way are counted in the error."""
    producer.left = 2
    with pytest.raises(SowlineError, match="2 commands") as error:
        publisher.flush(0)
    assert error.value.reason == "not written"


def test_each_publisher_has_an_id_of_its_own(producer: FakeProducer) -> None:
    """Without an id given, no two publishers can take each other's numbers for repeats."""
    assert Publisher({}, TOPICS).id != Publisher({}, TOPICS).id


def keyed(producer: FakeProducer, key: Any, partitions: int = 7) -> Publisher:
    """Return a publisher of a topic whose keys are not made of fields."""
    topic = {"name": "orders", "key": key, "partitions": partitions, "documents": True}
    return Publisher({}, Topics(topics=(define_topic(**topic).declared,)), publisher="p")


@pytest.mark.parametrize(("source", "in_header"), [("kafka_key", None), ("header", "a/b")])
def test_a_key_that_publishers_give(producer: FakeProducer, source: str, in_header: str | None) -> None:
    """It is the Kafka key, and where the topic says so in the header, too; the body says nothing of it."""
    publisher = keyed(producer, {"from": source})
    publisher.publish("orders", {"id": 1}, key="a/b")
    publisher.delta_publish("orders", {}, key="a/b", expiration=1)
    publisher.sow_delete("orders", key="a/b")
    publisher.sow_delete("orders", key="a/b", data={"id": 1})
    assert [(key, command.key) for _, _, key, command in producer.produced] == [(b"a/b", in_header)] * 4
    assert [value for _, value, _, _ in producer.produced] == [b'{"id":1}', b"{}", None, b'{"id":1}']
    assert set(producer.partitions) == {-1}
    publisher.delta("orders", "a/b", "{}")
    assert producer.produced[-1][2] == b"a/b"


@pytest.mark.parametrize(
    ("source", "key", "reason"),
    [
        ("kafka_key", None, "key missing"),
        ("kafka_key", "", "key missing"),
        ("kafka_key", "\n", "bad key"),
        ("kafka_key", "x" * 256, "bad key"),
        ("header", None, "key missing"),
        ("header", "a b", "bad key"),
    ],
)
def test_a_key_is_needed(producer: FakeProducer, source: str, key: str | None, reason: str) -> None:
    """Where publishers give it, nothing is written without one."""
    publisher = keyed(producer, {"from": source})
    for write in (publisher.publish, publisher.delta_publish):
        with pytest.raises(SowlineError, match="expected") as error:
            write("orders", {"id": 1}, key=key)
        assert error.value.reason == reason
    with pytest.raises(SowlineError, match="expected") as error:
        publisher.sow_delete("orders", data={"id": 1}, key=key)
    assert error.value.reason == reason
    assert producer.produced == []


def test_a_key_that_is_not_wanted(publisher: Publisher, producer: FakeProducer) -> None:
    """Where fields make it, none is taken."""
    some: dict[str, Any] = {"data": {"id": 1}}
    for given in (some, {}):
        with pytest.raises(SowlineError, match="makes its keys from /id") as error:
            publisher.sow_delete("eu/orders", key="1", **given)
        assert error.value.reason == "bad request"
    with pytest.raises(SowlineError, match="makes its keys from /id"):
        publisher.publish("eu/orders", {"id": 1}, key="1")
    with pytest.raises(SowlineError, match="exactly one"):
        publisher.sow_delete("eu/orders", key="1", keys=["1"])
    assert producer.produced == []


def test_a_key_that_is_known_later(producer: FakeProducer) -> None:
    """Without the generator all goes to one partition, by the publisher's id, so that it stays in order."""
    publisher = keyed(producer, {"generator": "not-here"})
    publisher.publish("orders", {"id": 1})
    publisher.delta_publish("orders", {"id": 2})
    assert [key for _, _, key, _ in producer.produced] == [None, None]
    assert producer.partitions == [partition_of("p", 7)] * 2
    publisher.delta("orders", "1", "{}")
    assert (producer.produced[-1][2], producer.partitions[-1]) == (b"1", -1)
