"""`sowline bench`: which topics it takes, what it writes, and what it makes of its measurements."""

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from sowline.cli.bench import BenchArrivals, BenchRun, bench_run, delays
from sowline.client.writing import topics_of
from sowline.commands.command import PUBLISH
from sowline.config.outgoing_body import outgoing_body
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.http.topics import described_definition
from sowline.wire.client_message import Message
from tests.typed_orders import typed_topic


def answer(topic: TopicDefinition) -> dict[str, Any]:
    """Return what a service answers about its only topic."""
    described = orjson.loads(orjson.dumps(described_definition(topic, EVERYTHING)))
    return {"topics": [described], "kafka": "k:9092"}


@pytest.mark.parametrize(
    ("paths", "record"),
    [
        (("/id",), {"id": "KEY"}),
        (("/client/id", "/client/desk", "/day"), {"client": {"id": "KEY", "desk": "KEY"}, "day": "KEY"}),
    ],
)
def test_keys_begin_with_the_id_of_the_run(paths: tuple[str, ...], record: dict[str, Any]) -> None:
    """Its filter matches its own records only; a publisher accepts them."""
    topic = define_topic(name="scratch", key=paths)
    run, other = (bench_run(answer(topic), "scratch") for _ in range(2))
    made = run.record(7)
    body = orjson.dumps(made)
    outgoing = outgoing_body(topics_of(answer(topic)).named("scratch"), PUBLISH, body)
    assert (outgoing.key or "").count(f"{run.id}-7") == len(paths)
    assert [compile_filter(each.filter).matches(made) for each in (run, other)] == [True, False]
    own = {name: value for name, value in made.items() if not name.startswith("bench_")}
    assert orjson.dumps(own).decode().replace(f"{run.id}-7", "KEY") == orjson.dumps(record).decode()


@pytest.mark.parametrize(
    "topic",
    [
        define_topic(name="orders", key={"from": "kafka_key"}),
        define_topic(name="orders", sow=False),
        define_topic(name="orders", key=("/id",), preprocessing=("/a AS /id",)),
        typed_topic("avro"),
    ],
)
def test_a_topic_that_can_t_be_measured(topic: TopicDefinition) -> None:
    """No record can be made for it, or none whose key is known."""
    with pytest.raises(SowlineError, match="whose keys are fields") as error:
        bench_run(answer(topic), "orders")
    assert error.value.reason == "not supported"
    with pytest.raises(SowlineError) as error:
        bench_run(answer(topic), "none")
    assert error.value.reason == "invalid topic"


def test_delays_are_milliseconds() -> None:
    """The percentiles are measured values."""
    seconds = [number / 1000 for number in range(200, 0, -1)]
    assert delays("visible", seconds) == {
        "measured": "visible",
        "count": 200,
        "p50_ms": 100.0,
        "p99_ms": 198.0,
        "max_ms": 200.0,
    }
    assert delays("filter", [0.5]) == {
        "measured": "filter",
        "count": 1,
        "p50_ms": 500.0,
        "p99_ms": 500.0,
        "max_ms": 500.0,
    }


def arriving(run: BenchRun, count: int, error: SowlineError | None = None) -> Iterator[Message]:
    """Yield the changes of so many records, and then the end of the subscription."""
    for number in range(count):
        yield Message(
            command="publish", topic="t", sow_key=str(number), body=orjson.dumps(run.record(number))
        )
    if error is not None:
        raise error


RUN = BenchRun("t", (("id",),), "bench-1")


def test_arrivals_are_waited_for() -> None:
    """Each with the time since its publish, and its SOW key."""
    arrivals = BenchArrivals(arriving(RUN, 3))
    arrivals.wait(3)
    assert len(arrivals.seconds) == 3
    assert min(arrivals.seconds) >= 0
    assert arrivals.sow_keys == {"0", "1", "2"}


def test_arrivals_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends with the reason: of the subscription, or that nothing arrives any more."""
    arrivals = BenchArrivals(arriving(RUN, 1, SowlineError("disconnected", "expected a service")))
    with pytest.raises(SowlineError) as error:
        arrivals.wait(2)
    assert error.value.reason == "disconnected"
    monkeypatch.setattr(sys.modules[BenchArrivals.__module__], "SILENCE_SECONDS_MAX", 0)
    silent = BenchArrivals(arriving(RUN, 0))
    with pytest.raises(SowlineError, match=r"to receive 2 changes, got 0") as error:
        silent.wait(2)
    assert error.value.reason == "behind"
