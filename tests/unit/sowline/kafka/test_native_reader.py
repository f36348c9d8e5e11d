"""Which settings the native reader takes; what it reads is compared in tests/integration/test_native_reader.py."""

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import REPORT_ENDS, plain_options
from sowline.kafka.native_reader import read_natively, refused_setting
from sowline.runtime.library_logs import LIBRDKAFKA

KAFKA = kafka_config("127.0.0.1:1")


def test_settings_of_librdkafka_are_taken() -> None:
    """TLS, SASL, and whatever else is a text, a number or a boolean."""
    options = {"security.protocol": "SASL_SSL", "sasl.password": "secret", "ssl.ca.location": "probe"}
    assert refused_setting(plain_options({**KAFKA, **options}, REPORT_ENDS)) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("oauth_cb", lambda config: ("token", 0.0)),
        ("error_cb", print),
        ("stats_cb", print),
        ("default.topic.config", {"auto.offset.reset": "error"}),
        ("logger", "a text"),
        ("sasl.oauthbearer.metadata.authentication.type", "aws_iam"),
    ],
)
def test_what_only_python_takes_is_left_to_python(name: str, value: Any) -> None:
    """And the log has its name, but no value."""
    native = Mock()
    with (
        patch("sowline.kafka.native_reader.read_range", return_value=iter([["message"]])),
        capture_logs() as logs,
    ):
        found = list(read_natively(native, {**KAFKA, name: value}, "orders.changes", 3, 5, 9))
    assert found == [["message"]]
    assert not native.KafkaReader.called
    assert [(line["event"], line["topic"], line["partition"]) for line in logs] == [
        ("Python reads a load", "orders.changes", 3)
    ]
    assert name in logs[0]["why"]


def test_a_client_that_shows_no_functions_is_left_to_python() -> None:
    """Of another version, or with a librdkafka that no other library can call."""
    native = Mock()
    native.KafkaReader.side_effect = OSError("the client's library shows no rd_kafka_assign")
    with patch("sowline.kafka.native_reader.read_range", return_value=iter([])), capture_logs() as logs:
        assert list(read_natively(native, KAFKA, "orders.changes", 0, 0, 9)) == []
    assert [line["why"] for line in logs] == ["the client's library shows no rd_kafka_assign"]


class Batch(list[str]):
    """A batch of a stand-in for the native reader."""

    def __init__(
        self, *messages: str, next_offset: int | None = None, failure: KafkaError | None = None
    ) -> None:
        super().__init__(messages)
        self.next_offset = next_offset
        self.lines = [(3, "FAIL [rdkafka#1] refused")]
        self.failures = [] if failure is None else [SimpleNamespace(error=lambda: failure)]


class Reader:
    """A stand-in for the native reader, with the batches that it returns one after the other."""

    def __init__(self, *batches: Batch) -> None:
        self._batches: Iterator[Batch] = iter(batches)
        self.is_closed = False

    def batch(self, messages_max: int, wait_ms: int, end: int) -> Batch:
        """Return the next batch."""
        return next(self._batches)

    def lines(self) -> list[tuple[int, str]]:
        """Return a line that no batch has."""
        return [(7, "TERMINATE [rdkafka#1] bye")]

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


def read(*batches: Batch) -> tuple[list[list[str]], Reader]:
    """Return what is read up to the offset 9, and the reader."""
    reader = Reader(*batches)
    native = SimpleNamespace(KafkaReader=lambda *given: reader)
    return list(map(list, read_natively(native, KAFKA, "orders.changes", 0, 0, 9))), reader  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "last",
    [
        Batch("b", next_offset=9),
        Batch("b", failure=KafkaError(KafkaError._PARTITION_EOF)),
        Batch("b", next_offset=12),
    ],
)
def test_it_ends_at_the_offset_or_with_the_partition(last: Batch) -> None:
    """The last offsets may be holes: markers of transactions, or records that were aborted."""
    transient = Batch(failure=KafkaError(KafkaError._TRANSPORT))
    found, reader = read(Batch(), Batch("a", next_offset=4), transient, last)
    assert (found, reader.is_closed) == ([["a"], ["b"]], True)


def test_it_tells_that_nothing_arrives() -> None:
    """For each batch without messages, but not for the one that has the end."""
    idle: list[str] = []
    batches = [
        Batch(),
        Batch("a", next_offset=4),
        Batch(),
        Batch(failure=KafkaError(KafkaError._PARTITION_EOF)),
    ]
    native: Any = SimpleNamespace(KafkaReader=lambda *given: Reader(*batches))
    found = read_natively(native, KAFKA, "orders.changes", 0, 0, 9, idle=lambda: idle.append("idle"))
    assert (list(map(list, found)), idle) == ([["a"]], ["idle"] * 2)


@pytest.mark.parametrize(
    "code",
    [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.TOPIC_AUTHORIZATION_FAILED],
)
def test_errors_that_do_not_pass_are_raised(code: int) -> None:
    """Those that Python's reader raises."""
    with pytest.raises(KafkaException) as error:
        read(Batch("a", next_offset=4), Batch(failure=KafkaError(code)))
    assert error.value.args[0].code() == code


def test_lines_of_the_client_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With the levels that Python's client gives them."""
    with caplog.at_level(logging.DEBUG, logger=LIBRDKAFKA):
        read(Batch("a", next_offset=9))
    assert caplog.record_tuples == [
        (LIBRDKAFKA, logging.ERROR, "FAIL [rdkafka#1] refused"),
        (LIBRDKAFKA, logging.DEBUG, "TERMINATE [rdkafka#1] bye"),
    ]
