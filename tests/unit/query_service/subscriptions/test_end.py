"""The end of a subscription at a time: which records precede it is asked of Kafka until it answers."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from sowline_query_service.subscriptions import end
from sowline_query_service.subscriptions.end import EndTime


def test_kafka_is_asked_again_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal is logged; then the end is known."""
    refusals = [KafkaException(KafkaError(KafkaError._TRANSPORT))] * 2

    def offsets(*asked: Any) -> dict[int, tuple[int, int]]:
        if refusals:
            raise refusals.pop()
        return {}

    monkeypatch.setattr(end, "ASK_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(end, "log_offsets_at", offsets)
    topic = SimpleNamespace(definition=SimpleNamespace(name="orders", log="orders"), partitions=[None])
    ending = EndTime(cast("Any", SimpleNamespace(kafka={})), cast("Any", topic), 0)
    assert not ending.is_reached(0)
    with capture_logs() as logs:
        asyncio.run(ending.settle())
    assert [one["event"] for one in logs] == ["Kafka did not return the offset of a time"] * 2
    assert all("_TRANSPORT" in one["why"] and one["topic"] == "orders" for one in logs)
    assert ending.is_reached(0)


def test_what_is_no_refusal_of_kafka_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of the service's own is not tried again."""

    def offsets(*asked: Any) -> dict[int, tuple[int, int]]:
        raise ZeroDivisionError

    monkeypatch.setattr(end, "log_offsets_at", offsets)
    topic = SimpleNamespace(definition=SimpleNamespace(name="orders", log="orders"), partitions=[None])
    with pytest.raises(ZeroDivisionError):
        asyncio.run(EndTime(cast("Any", SimpleNamespace(kafka={})), cast("Any", topic), 0).settle())
