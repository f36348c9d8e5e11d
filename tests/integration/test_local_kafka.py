"""A local broker keeps what it was given, is found again at its address, and leaves nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sowline.errors import SowlineError
from sowline.runtime.local_kafka import LocalKafka
from sowline.runtime.ports import HOST, free_port, is_listening
from tests.waiting import wait_for

SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker that goes on running: for tests that do not stop it."""
    with LocalKafka(tmp_path_factory.mktemp("running")) as broker:
        yield broker


def write(bootstrap: str, value: bytes) -> None:
    """Create the topic `kept` and write one record."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic("kept", 1, 1)])["kept"].result(SECONDS_MAX)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce("kept", value)
    assert producer.flush(SECONDS_MAX) == 0


def read(bootstrap: str) -> bytes:
    """Return the value of the first record of `kept`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition("kept", 0, 0)])
    try:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        assert message.error() is None
        return message.value() or b""
    finally:
        consumer.close()


def is_alive(pid: int) -> bool:
    """Return whether process `pid` exists and is not a zombie."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not re.search(r"^State:\s+Z", status, re.MULTILINE)


@pytest.mark.long
def test_data_and_address_survive(tmp_path: Path) -> None:
    """What was acknowledged is there after a kill and after a stop, at the same address unless another is wanted.

    A broker that finds data it can't use says why, with the end of its log.
    """
    directory = tmp_path / "a broker"
    first = LocalKafka(directory)
    with first:
        write(first.bootstrap, b"1")
        first.kill()
        assert first.pid is None
    with LocalKafka(directory) as again:
        assert again.bootstrap == first.bootstrap
        assert read(again.bootstrap) == b"1"
        again.stop()
        assert again.pid is None
        (directory / "data" / "meta.properties").rename(tmp_path / "meta")
        (directory / "data" / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n")
        with pytest.raises(SowlineError, match=r"(?s)ended before it answered; the end of .*node"):
            again.start()
        (tmp_path / "meta").rename(directory / "data" / "meta.properties")
    port = free_port()
    with LocalKafka(directory, port) as moved:
        assert moved.bootstrap == f"{HOST}:{port}"
        assert read(moved.bootstrap) == b"1"


def test_no_topic_by_accident(running: LocalKafka) -> None:
    """A topic that nobody created does not come to be by being asked for."""
    client = AdminClient({"bootstrap.servers": running.bootstrap})
    assert client.list_topics("never-made", timeout=SECONDS_MAX).topics["never-made"].error is not None
    assert "never-made" not in client.list_topics(timeout=SECONDS_MAX).topics


def test_taken_port(running: LocalKafka, tmp_path: Path) -> None:
    """A wanted port that is taken is refused at once, also if it is a Kafka that answers there."""
    port = int(running.bootstrap.split(":")[1])
    with pytest.raises(SowlineError, match=f"expected port {port} for Kafka, but it is taken"):
        LocalKafka(tmp_path / "other", port).start()


def test_lost_port(running: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chosen port that another process takes first is given up for a new one, and never mistaken for ours."""
    taken = int(running.bootstrap.split(":")[1])
    choices = iter([taken, free_port(), free_port(), free_port()])
    monkeypatch.setattr("sowline.runtime.local_kafka.free_port", lambda: next(choices))
    with LocalKafka(tmp_path / "other") as other:
        assert other.bootstrap != running.bootstrap


@pytest.fixture
def command(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """`sowline kafka` once it is up, and the line that it printed."""
    arguments = [sys.executable, "-m", "sowline", "kafka", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_stops(number: int, command: tuple[subprocess.Popen[str], dict[str, object]]) -> None:
    """The command prints where the broker is; SIGINT and SIGTERM end both, with exit code 0."""
    process, line = command
    assert is_listening(int(str(line["kafka"]).split(":")[1]))
    process.send_signal(number)
    assert process.wait(SECONDS_MAX) == 0
    assert not is_alive(int(str(line["pid"])))


def test_broker_that_ends_by_itself(command: tuple[subprocess.Popen[str], dict[str, object]]) -> None:
    """The command does not outlive its broker, and its exit code tells."""
    process, line = command
    os.kill(int(str(line["pid"])), signal.SIGKILL)
    assert process.wait(SECONDS_MAX) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
def test_killed_parent(command: tuple[subprocess.Popen[str], dict[str, object]]) -> None:
    """A kill -9 of the parent takes the broker with it."""
    process, line = command
    process.kill()
    wait_for(lambda: not is_alive(int(str(line["pid"]))), "the broker to end")


def test_a_start_uses_the_classes_of_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first broker on a machine archives them at its end; what it has stored is found by the next one."""
    monkeypatch.setattr("sowline.runtime.class_archive.cache_directory", lambda: tmp_path / "cache")
    broker = LocalKafka(tmp_path / "data")
    with broker:
        write(broker.bootstrap, b"kept")
    with broker:
        mapped = Path(f"/proc/{broker.pid}/maps").read_text()
        assert re.search(r"classes/kafka\.Kafka-\w+\.jsa$", mapped, re.MULTILINE)
        assert read(broker.bootstrap) == b"kept"
