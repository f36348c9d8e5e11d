"""Commands, to a producer that the test owns."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from sowline.config.kafka_options import kafka_config
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.command_writer import CommandWriter
from sowline.serving.writes.pending_commands import PendingCommands, WriteService
from sowline.serving.writes.requests import RequestedCommand

TOPIC = parse_topics("topics: [{name: orders, key: /id}]").topics[0]
COMMAND = CheckedCommand(TOPIC, "publish", b"{}", b"1", 0, [], b"{}")
FATAL = KafkaError(KafkaError._FATAL, "the sequence is out of order", fatal=True)
INVALID = KafkaError(KafkaError._INVALID_ARG, "the header is invalid")


class Producer:
    """Refuses commands with its error, if it has one."""

    def __init__(self, error: KafkaError | None) -> None:
        self._error = error
        self.is_flushed = False

    def produce(self, *message: Any, **more: Any) -> None:
        """Take a command, and do nothing with it."""
        if self._error is not None:
            raise KafkaException(self._error)

    def poll(self, seconds: float) -> None:
        """Report nothing."""

    def flush(self, seconds: float) -> None:
        """Note it."""
        self.is_flushed = True


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Producer]]:
    """Create the producers that have these errors, and lend them one after the other."""

    def lend(*errors: KafkaError | None) -> list[Producer]:
        created = [Producer(error) for error in errors]
        left = iter(created)
        monkeypatch.setattr(
            "sowline.serving.writes.command_writer.exact_producer", lambda *given, **more: next(left)
        )
        return created

    return lend


async def test_a_producer_that_failed_for_good_is_replaced(producers: Callable[..., list[Producer]]) -> None:
    """The client learns that its command is not written; the next command goes to a new producer."""
    created = producers(FATAL, None)
    writer = CommandWriter(kafka_config("127.0.0.1:1"), [TOPIC])
    with pytest.raises(SowlineError, match="the sequence is out of order") as error:
        writer.write(COMMAND)
    assert error.value.reason == "not written"
    assert not writer.write(COMMAND).done()
    await writer.close()
    # The failed one still reports the commands that it has taken before.
    assert [producer.is_flushed for producer in created] == [True, True]


async def test_a_producer_that_refuses_one_command_stays(producers: Callable[..., list[Producer]]) -> None:
    """There is no second one here."""
    producers(INVALID)
    writer = CommandWriter(kafka_config("127.0.0.1:1"), [TOPIC])
    for _ in range(2):
        with pytest.raises(SowlineError, match="the header is invalid"):
            writer.write(COMMAND)
    await writer.close()


@pytest.mark.parametrize("failure", [SowlineError("busy", "full"), ValueError("odd")], ids=["busy", "odd"])
def test_outcomes_are_not_kept_after_a_failed_write(failure: Exception) -> None:
    """Nobody waits for them, whatever the error is."""

    def fail(command: CheckedCommand) -> None:
        raise failure

    ended: list[bool] = []
    service = SimpleNamespace(
        writer=SimpleNamespace(write=fail), destination=SimpleNamespace(records=lambda topic: 0)
    )
    watch = SimpleNamespace(end=lambda: ended.append(True))
    requested = [RequestedCommand(COMMAND, None, may_see_all=True)]
    pending = PendingCommands(cast("WriteService", service), requested, cast("Any", watch))
    with pytest.raises(type(failure)):
        pending.write()
    assert ended == [True]


async def test_a_topic_with_larger_commands_gets_a_new_producer(
    producers: Callable[..., list[Producer]],
) -> None:
    """What the previous one was given is still written; a topic with smaller ones changes nothing."""
    created = producers(None, None)
    writer = CommandWriter(kafka_config("kafka:9092"), [TOPIC])
    writer.write(COMMAND)
    writer.allow([TOPIC])
    writer.write(COMMAND)
    larger = parse_topics("topics: [{name: trades, key: /id, record_bytes_max: 9000000}]").topics
    writer.allow([TOPIC, *larger])
    writer.write(COMMAND)
    await writer.close()
    assert [one.is_flushed for one in created] == [True, True]
