"""What a fanout does where Kafka has not taken what it wrote."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from sowline.changes.changes_reader import ChangesReader, ChangesReplaced
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError, fault_sentence
from sowline.registry.client import RegistryAway
from sowline_fanout.runner import FanoutRunner
from sowline_fanout.service import FanoutService
from sowline_fanout.typed_values import TypedValues

NO_MESSAGE: Any = None
SETTINGS = Settings(kafka="127.0.0.1:1")
TOPICS = parse_topics("{topics: [{name: t, key: /id}], fanouts: [{name: f, topic: t}]}")


@pytest.fixture
def runner() -> FanoutRunner:
    """One that has not begun."""
    return FanoutRunner(SETTINGS, TOPICS.fanouts[0], TOPICS.topics[0], threading.Event())


def _failing(runner: FanoutRunner) -> None:
    raise KeyError("no such")


def test_an_unexpected_error_stops_it_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its service is not ready, and says why; it does not end in silence."""
    service = FanoutService(SETTINGS, TOPICS, threading.Event())
    monkeypatch.setattr(FanoutRunner, "run", _failing)
    service.run_each(service.runners["f"])
    assert service.not_ready() == (
        "f: expected to write fanout f, got KeyError: 'no such'. This is a fault of Sowline: report it with the"
        " traceback in the log, and restart the fanout service with a version that has it mended"
    )


def test_an_unexpected_error_names_the_change(runner: FanoutRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the position in the changes topic."""

    def failing(*_: Any) -> None:
        raise KeyError("no such")

    monkeypatch.setattr(FanoutRunner, "_take", failing)
    runner._changes.readers["t.changes", 0] = ChangesReader("", 10)
    message: Any = SimpleNamespace(partition=lambda: 0, offset=lambda: 7)
    with pytest.raises(KeyError) as caught:
        runner._write([message])
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


def test_an_unknown_position_makes_it_begin_again(runner: FanoutRunner) -> None:
    """It is no new fanout then."""

    class Refused:
        error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)

    runner._changes.consumer = cast(Any, SimpleNamespace(committed=lambda partitions, timeout: [Refused()]))
    runner._cluster = cast(Any, SimpleNamespace(topic_id=lambda _: "this", starts=lambda *_: {0: 0}))
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        runner._opened([0])


def test_a_producer_that_has_come_to_its_end_makes_it_begin_again(runner: FanoutRunner) -> None:
    """As after a Kafka that was killed: a new one writes what was not committed."""
    runner._output.require_written()
    runner._output._on_delivery(None, NO_MESSAGE)
    runner._output.require_written()
    runner._output._on_error(KafkaError(KafkaError._TRANSPORT))
    runner._output.require_written()
    runner._output._on_error(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost", fatal=True))
    with pytest.raises(KafkaException, match="lost"):
        runner._output.require_written()


def test_a_message_that_is_refused_stops_it(runner: FanoutRunner) -> None:
    """Whatever the producer says because of it: it would be refused again."""
    runner._output._on_error(KafkaError(KafkaError._GAPLESS_GUARANTEE, "a gap", fatal=True))
    runner._output._on_delivery(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), NO_MESSAGE)
    runner._output._on_delivery(KafkaError(KafkaError._PURGE_QUEUE), NO_MESSAGE)
    with pytest.raises(SowlineError, match="too large") as error:
        runner._output.require_written()
    assert error.value.reason == "not written"


def test_a_topic_that_is_replaced_makes_it_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new runner loads the new topic: it does not stop as after other errors of its own."""
    service, stop = FanoutService(SETTINGS, TOPICS, threading.Event()), threading.Event()
    service._stop, runs = stop, iter([ChangesReplaced("t.changes"), None])

    def run(runner: FanoutRunner) -> None:
        if (error := next(runs)) is not None:
            raise error
        stop.set()

    monkeypatch.setattr("sowline.kafka.runner_service.PAUSE_SECONDS", 0)
    monkeypatch.setattr(FanoutRunner, "run", run)
    service.run_each(service.runners["f"])
    assert (service.not_ready(), next(runs, "over")) == (None, "over")
