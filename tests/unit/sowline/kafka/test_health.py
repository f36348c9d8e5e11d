"""Whether Kafka answers: said once when it does no more, and once when it does again."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from structlog.testing import capture_logs

from sowline.config.kafka_options import kafka_config
from sowline.config.topics import parse_topics
from sowline.kafka.admin import wait_for_topics
from sowline.kafka.health import KafkaHealth
from tests.waiting import wait_for

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT)
UNREACHABLE = kafka_config("127.0.0.1:1", {"socket.timeout.ms": "300"})


def test_a_kafka_that_answers_is_not_spoken_of() -> None:
    """There is nothing to say."""
    kafka_health = KafkaHealth(UNREACHABLE, "t.log")
    with capture_logs() as logs:
        kafka_health.note(time.monotonic())
    assert (kafka_health.lost(), kafka_health.away_seconds, logs) == (None, 0.0, [])


def test_one_that_goes_and_comes_is_reported_twice() -> None:
    """However often it was asked meanwhile; since when counts from the first question without an answer."""
    kafka_health = KafkaHealth(UNREACHABLE, "t.log")
    with capture_logs() as logs:
        for ago in (7.2, 5, 3):
            kafka_health.note(time.monotonic() - ago, "refused")
        assert (kafka_health.lost() or "").startswith(
            "Kafka at 127.0.0.1:1 has not answered for 7 s: waiting for it"
        )
        (metric,) = kafka_health.metrics()
        assert 7.2 <= metric.samples[0].value < 10
        kafka_health.note(time.monotonic())
    assert [(line["event"], line.get("why")) for line in logs] == [
        ("Kafka does not answer", "refused"),
        ("Kafka answers again", None),
    ]
    assert kafka_health.lost() is None


def test_the_reason_is_the_clients_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is refused is told as such, not as an answer that came too late."""
    monkeypatch.setattr("sowline.kafka.health.ANSWER_SECONDS_MAX", 0.3)
    kafka_health = KafkaHealth(UNREACHABLE, "t.log")
    with capture_logs() as logs:
        kafka_health.start()
        wait_for(lambda: kafka_health.lost() is not None, "Kafka to be lost")
        kafka_health.stop()
    assert "Connection refused" in logs[0]["why"]


class Client:
    """Answers each question with the next error, or without one."""

    def __init__(
        self, options: dict[str, Any], errors: Iterator[KafkaError | None], end: Callable[[], None]
    ) -> None:
        self._options = options
        self._errors = errors
        self._end = end

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> "dict[str, Future[None]]":
        """Fail with the next error; end at a timeout. A lost connection is the client's own error."""
        answer: Future[None] = Future()
        error = next(self._errors)
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(KafkaException(error))
            if error.code() == KafkaError._TIMED_OUT:
                self._end()
            elif error.code() == KafkaError._TRANSPORT:
                self._options["error_cb"](error)
        return {"t.log": answer}

    def poll(self, seconds: float) -> None:
        """Do nothing."""


def reasons(monkeypatch: pytest.MonkeyPatch, *codes: int | None) -> list[Any]:
    """Return the reasons of the logged lines after answers with these errors, and at last a timeout."""
    errors = iter([None if code is None else KafkaError(code, "refused") for code in codes] + [TIMED_OUT])
    health = KafkaHealth(UNREACHABLE, "t.log")
    monkeypatch.setattr(
        "sowline.kafka.health.AdminClient", lambda options: Client(options, errors, health.stop)
    )
    monkeypatch.setattr("sowline.kafka.health.ASK_SECONDS", 0.0)
    with capture_logs() as logs:
        health.start()
        wait_for(lambda: logs and logs[-1].get("why") == TIMED_OUT.str(), "the timeout")
    return [line.get("why") for line in logs]


def test_the_next_outage_has_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an error of the client, that reason is the one of the question."""
    assert reasons(monkeypatch, KafkaError._TRANSPORT, None) == ["refused", None, TIMED_OUT.str()]


def test_a_refusal_of_a_broker_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropped topic, or one that the service has no right to, is no outage."""
    refusals = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert reasons(monkeypatch, KafkaError._TRANSPORT, *refusals) == ["refused", None, TIMED_OUT.str()]


class Stop:
    """Is set at the second look after a wait."""

    def __init__(self) -> None:
        self.waits = 0

    def is_set(self) -> bool:
        """Tell whether it was waited for at least twice."""
        return self.waits >= 2

    def wait(self, timeout: float) -> bool:
        """Wait no time."""
        self.waits += 1
        return False


def test_topics_are_awaited_until_stopped() -> None:
    """A Kafka that is not there is no Kafka that refuses: the service waits for it, and says why."""
    with capture_logs() as logs:
        assert not wait_for_topics(UNREACHABLE, parse_topics("topics: [{name: t, key: /id}]"), Stop())  # type: ignore[arg-type]
    assert [line["event"] for line in logs] == ["waiting for Kafka"]
