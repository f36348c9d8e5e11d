"""What a fanout does where Kafka has not taken what it wrote."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesReplaced
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError, fault_sentence
from sowline.model.position import Position
from sowline.registry.client import RegistryAway
from sowline.subscriptions.engine.subscription import PUBLISH, Delivery
from sowline_fanout.output import FanoutOutput
from sowline_fanout.runner import FanoutRunner
from sowline_fanout.service import FanoutService
from sowline_fanout.typed_values import TypedValues
from tests.played_cluster import PlayedCluster

NO_MESSAGE: Any = None
BODY = b'{"id":1}'
CHANGE = Change(b"1", BODY, None, Position(0, 5), Position(0, 3), "publish", 1000)
SETTINGS = Settings(kafka="127.0.0.1:1")
TOPICS = parse_topics("{topics: [{name: t, key: /id, partitions: 1}], fanouts: [{name: f, topic: t}]}")


class Unreadable:
    """A message at offset 7 that nobody can read."""

    def error(self) -> None:
        """None: it is a message."""

    def partition(self) -> int:
        """Return the partition's number."""
        return 0

    def offset(self) -> int:
        """Return its offset."""
        return 7

    def key(self) -> bytes:
        """Fail."""
        raise KeyError("no such")


class Consumer:
    """A member that is given partition 0, for which its group has committed this, and reads messages."""

    def __init__(self, committed: Any, *messages: Any) -> None:
        self._committed = committed
        self._messages = list(messages)

    def subscribe(self, topics: list[str], on_assign: Any, **_: Any) -> None:
        """Join the group."""
        self._assign = on_assign

    def poll(self, seconds: float) -> Any:
        """Return the next message; the partition comes before the first one."""
        self._assign(self, [TopicPartition("t.changes", 0)])
        return self._messages.pop(0)

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[Any]:
        """Return what the group has committed."""
        return [self._committed]

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read partitions, too."""

    def assignment(self) -> list[TopicPartition]:
        """Return none, as no broker has to be woken."""
        return []

    def consume(self, count: int, seconds: float) -> list[Any]:
        """Return no more."""
        return []

    def close(self) -> None:
        """Leave the group."""


class Producer:
    """A producer whose Kafka says what a test lets it say."""

    def __init__(self, kafka: Any, error_cb: Callable[[KafkaError], None]) -> None:
        self.fail = error_cb

    def produce(self, *message: Any, headers: Any) -> None:
        """Take a message."""
        self.answer: Callable[[KafkaError | None, Any], None] = message[-1]

    def purge(self) -> None:
        """Drop what Kafka does not have yet."""


@pytest.fixture(autouse=True)
def producers(monkeypatch: pytest.MonkeyPatch) -> list[Producer]:
    """Those that were made."""
    made: list[Producer] = []

    def exact_producer(*given: Any, **more: Any) -> Producer:
        made.append(Producer(*given, **more))
        return made[-1]

    monkeypatch.setattr("sowline.kafka.exact_output.exact_producer", exact_producer)
    return made


def run(monkeypatch: pytest.MonkeyPatch, consumer: Consumer, partitions: int = 1) -> None:
    """Run a fanout with this consumer, and this many partitions of its output."""
    monkeypatch.setattr("sowline.kafka.runner.Cluster", lambda *_: PlayedCluster(9, partitions=partitions))
    monkeypatch.setattr("sowline.kafka.runner.member_consumer", lambda *_: consumer)
    FanoutRunner(SETTINGS, TOPICS.fanouts[0], TOPICS.topics[0], threading.Event()).run()


@pytest.fixture
def output() -> FanoutOutput:
    """One that has written a message, of which Kafka has said nothing."""
    output = FanoutOutput(SETTINGS.kafka_client, TOPICS.fanouts[0], TOPICS.topics[0])
    output.send(0, CHANGE, Delivery(PUBLISH, BODY))
    return output


def _failing(runner: FanoutRunner) -> None:
    raise KeyError("no such")


def test_an_unexpected_error_stops_it_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its service is not ready, and says why; it does not end in silence."""
    service = FanoutService(SETTINGS, TOPICS, threading.Event())
    monkeypatch.setattr(FanoutRunner, "run", _failing)
    service.run_each(service.runners["f"])
    assert service.not_ready() == (
        "f: expected to write fanout f, got KeyError: 'no such'. This is a fault of Sowline: report it with the"
        " traceback in the log, and restart the fanout service with a version that fixes it"
    )


def test_an_unexpected_error_names_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the position in the changes topic."""
    with pytest.raises(KeyError) as caught:
        run(monkeypatch, Consumer(TopicPartition("t.changes", 0), Unreadable()))
    assert "KeyError: 'no such' (t.changes [0] at offset 7). This is" in fault_sentence(
        "it", caught.value, "it"
    )


def test_a_registry_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service says so, counts as started, and goes on when the registry answers."""
    stop = threading.Event()
    service = FanoutService(SETTINGS, TOPICS, stop)
    answers = iter([RegistryAway("nobody answers"), RegistryAway("nobody answers"), None])
    reported: list[str | None] = []

    def look(self: TypedValues, *_: Any) -> None:
        reported.append(service.not_started() or service.not_ready())
        if (answer := next(answers)) is not None:
            raise answer

    monkeypatch.setattr("sowline.kafka.runner_service.PAUSE_SECONDS", 0)
    monkeypatch.setattr(TypedValues, "of", look)
    monkeypatch.setattr(FanoutRunner, "run", lambda runner: stop.set())
    service.run_each(service.runners["f"])
    sentence = "f: waiting for the schema registry: nobody answers"
    assert reported == ["waiting for partitions: f", sentence, sentence]
    assert service.not_ready() is None


def test_a_source_that_has_fewer_partitions_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers would keep the records of the others for ever: it writes nothing, and says what to drop."""
    with pytest.raises(SowlineError, match=r"found some in partition 1: .* Drop fanout f too") as refused:
        run(monkeypatch, Consumer(TopicPartition("t.changes", 0)), partitions=2)
    assert refused.value.reason == "bad topic"


def test_an_unknown_position_makes_it_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no new fanout then."""
    refused = SimpleNamespace(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        run(monkeypatch, Consumer(refused))


def test_a_producer_that_has_come_to_its_end_makes_it_begin_again(
    output: FanoutOutput, producers: list[Producer]
) -> None:
    """As after a Kafka that was killed: a new one writes what was not committed."""
    output.require_written()
    producers[0].answer(None, NO_MESSAGE)
    output.require_written()
    producers[0].fail(KafkaError(KafkaError._TRANSPORT))
    output.require_written()
    producers[0].fail(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost", fatal=True))
    with pytest.raises(KafkaException, match="lost"):
        output.require_written()


def test_a_message_that_is_refused_stops_it(output: FanoutOutput, producers: list[Producer]) -> None:
    """Whatever the producer says because of it: it would be refused again."""
    producers[0].fail(KafkaError(KafkaError._GAPLESS_GUARANTEE, "a gap", fatal=True))
    producers[0].answer(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), NO_MESSAGE)
    producers[0].answer(KafkaError(KafkaError._PURGE_QUEUE), NO_MESSAGE)
    with pytest.raises(SowlineError, match="too large") as error:
        output.require_written()
    assert error.value.reason == "not written"


def test_a_topic_that_is_replaced_makes_it_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new runner loads the new topic: it does not stop as after other errors of its own."""
    stop = threading.Event()
    service, runs = FanoutService(SETTINGS, TOPICS, stop), iter([ChangesReplaced("t.changes"), None])

    def run(runner: FanoutRunner) -> None:
        if (error := next(runs)) is not None:
            raise error
        stop.set()

    monkeypatch.setattr("sowline.kafka.runner_service.PAUSE_SECONDS", 0)
    monkeypatch.setattr(FanoutRunner, "run", run)
    service.run_each(service.runners["f"])
    assert (service.not_ready(), next(runs, "over")) == (None, "over")
