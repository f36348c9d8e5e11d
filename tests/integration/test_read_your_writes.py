"""Writes that a client waits for, and the bookmark of their effect: read with it, they are seen at any service."""

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from sowline.client.client import Client
from sowline.errors import SowlineError
from sowline.model.bookmark import parse_bookmark
from tests.integration.services import ROOT, Service, System, system


class Two:
    """A materializer and two query services, over a topic whose keys are known after preprocessing only."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.plain, self.computed = (topic.name for topic in made.topics.topics)
        made.service("materializer").start().wait_ready()
        self.here, self.there = (made.service("query_service").start() for _ in range(2))
        for service in (self.here, self.there):
            service.wait_ready()

    def client(self, service: Service) -> Client:
        """Return a new client of one of the services."""
        return Client(service.url)


@pytest.fixture(scope="module")
def two(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """All of it."""
    name = f"t{uuid.uuid4().hex[:12]}"
    topics = [
        {"name": name, "key": "/id", "partitions": 3, "record_bytes_max": 200},
        {"name": f"{name}-made", "key": "/id", "partitions": 3, "preprocessing": ["CONCAT('k', /n) AS /id"]},
    ]
    with system(kafka, tmp_path_factory.mktemp("effects"), topics) as made:
        yield Two(made)


def test_a_record_is_seen_at_once_where_it_was_written(two: Two) -> None:
    """No read in between, no sleep: 50 times."""
    with two.client(two.here) as client:
        for number in range(50):
            effect = client.publish(two.plain, {"id": 1, "n": number}, wait=True)
            assert effect
            assert client.record(two.plain, "1") == {"id": 1, "n": number}
            client.delta_publish(two.plain, {"id": 1, "more": number}, wait=True)
            assert client.record(two.plain, "1") == {"id": 1, "n": number, "more": number}


def test_another_client_at_another_service_sees_it_too(two: Two) -> None:
    """With the bookmark of the effect, though its service was not running meanwhile."""
    with two.client(two.here) as writer, two.client(two.there) as reader:
        two.there.signal(signal.SIGSTOP)
        try:
            writer.publish(two.plain, {"id": 2, "n": 1}, wait=True)
            written = writer.publish_all(two.plain, [{"id": 2, "n": number} for number in range(1500)])
        finally:
            two.there.signal(signal.SIGCONT)
        assert (written.commands, written.outcomes) == (1500, {"applied": 1500})
        assert written.effect == writer.effect
        assert reader.record(two.plain, "2", at_least=writer.effect) == {"id": 2, "n": 1499}


def test_the_effect_of_writes_to_two_topics_is_demanded_of_each(two: Two) -> None:
    """A read waits for the part that concerns its topic."""
    with two.client(two.here) as writer, two.client(two.there) as reader:
        two.there.signal(signal.SIGSTOP)
        try:
            writer.publish(two.plain, {"id": 5, "n": 1}, wait=True)
            writer.publish(two.computed, {"n": 5}, wait=True)
        finally:
            two.there.signal(signal.SIGCONT)
        assert parse_bookmark(writer.effect).keys() == {two.plain, two.computed}
        assert reader.record(two.plain, "5", at_least=writer.effect) == {"id": 5, "n": 1}
        assert reader.record(two.computed, "k5", at_least=writer.effect) == {"n": 5, "id": "k5"}


def test_the_effect_follows_a_forwarded_command(two: Two) -> None:
    """A key that preprocessing makes is not known to the service: the command is forwarded to its owner."""
    with two.client(two.here) as writer, two.client(two.there) as reader:
        written = writer.publish_all(two.computed, [{"n": number} for number in range(40)])
        assert written.outcomes == {"applied": 40}
        (positions,) = parse_bookmark(written.effect).values()
        assert set(positions) == {0, 1, 2}
        two.there.signal(signal.SIGSTOP)
        try:
            effect = writer.publish(two.computed, {"n": 7, "new": True}, wait=True)
        finally:
            two.there.signal(signal.SIGCONT)
        assert reader.record(two.computed, "k7", at_least=effect or "") == {"n": 7, "new": True, "id": "k7"}


def test_the_effect_of_a_delete_is_in_all_partitions(two: Two) -> None:
    """It goes to each of them, and is read with that bookmark."""
    with two.client(two.here) as writer, two.client(two.there) as reader:
        writer.publish_all(two.plain, [{"id": f"gone {number}"} for number in range(30)])
        two.there.signal(signal.SIGSTOP)
        try:
            assert writer.sow_delete(two.plain, filter="/id BEGINS WITH ('gone')") == 30
        finally:
            two.there.signal(signal.SIGCONT)
        (positions,) = parse_bookmark(writer.effect).values()
        assert set(positions) == {0, 1, 2}
        found = reader.sow(two.plain, filter="/id BEGINS WITH ('gone')", at_least=writer.effect)
        assert [message.command for message in found] == ["group_begin", "group_end"]


def test_what_is_refused_is_raised(two: Two) -> None:
    """With the reason; of several, those before it are written."""
    with two.client(two.here) as client:
        with pytest.raises(SowlineError) as refused:
            client.publish(two.plain, {"id": 3, "text": "x" * 300}, wait=True)
        assert refused.value.reason == "too large"
        client.publish(two.plain, {"id": 4, "a": "x" * 120}, wait=True)
        with pytest.raises(SowlineError) as refused:
            client.delta_publish(two.plain, {"id": 4, "b": "x" * 120}, wait=True)
        assert refused.value.reason == "too large"
        assert client.publish_all(two.plain, []).commands == 0


def test_the_command_waits(two: Two) -> None:
    """`publish --wait` prints what became of the records once queries see them."""
    lines = "".join(json.dumps({"id": f"cli {number}"}) + "\n" for number in range(2500))
    command = [sys.executable, "-m", "sowline", "publish", "--wait", "--url", two.here.url, two.plain]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=ROOT, check=True)
    printed = json.loads(done.stdout)
    assert (printed["commands"], printed["outcomes"]) == (2500, {"applied": 2500})
    with two.client(two.there) as client:
        found = client.sow(two.plain, filter="/id BEGINS WITH ('cli')", at_least=printed["effect"])
        assert sum(message.command == "sow" for message in found) == 2500
    command[3] = "delta-publish"
    delta = [*command, '{"id": "cli 7", "n": 1}']
    done = subprocess.run(delta, capture_output=True, text=True, cwd=ROOT, check=True)
    assert json.loads(done.stdout)["outcomes"] == {"applied": 1}
