"""A changes topic that was deleted and is filled again: readers that start then wait, and then hold all of it."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import read_event
from sowline.config.kafka_options import kafka_config
from tests.integration.services import Service, http_refusal, http_text, system
from tests.integration.test_fanout_runner import PARTITIONS, Fanout, copy_of
from tests.waiting import wait_for

RECORDS = 400
WAITS = "it is empty, or its owner is still filling it again"


@pytest.fixture
def lost(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fanout]:
    """A system with a fanout of all records."""
    name = f"t{uuid.uuid4().hex[:12]}-lost"
    topics = [{"name": name, "key": ["/id"], "partitions": PARTITIONS}]
    every = {"name": f"{name}-every", "topic": name, "filter": "/n >= 0", "options": "oof"}
    with system(kafka, tmp_path_factory.mktemp("lost"), topics, [every]) as made:
        yield Fanout(made)


def newest(fanout: Fanout) -> list[tuple[int, Change]]:
    """Return the newest change of each record, with its partition."""
    found: dict[tuple[int, bytes], Change] = {}
    for message in fanout.system.read(f"{fanout.topic}.changes"):
        event = read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]
        if isinstance(event, Change):
            found[message.partition() or 0, event.sow_key] = event
    return [(partition, change) for (partition, _), change in found.items()]


def write_again(fanout: Fanout, changes: list[tuple[int, Change]]) -> None:
    """Write changes once more, as an owner does that fills a changes topic."""
    for partition, change in changes:
        again = replace(change, op=AGAIN, after=change.position, previous=None)
        fanout.system.produce(
            f"{fanout.topic}.changes", again.body, again.sow_key, partition, again.headers()
        )


def held(query: Service, topic: str) -> int:
    """Return how many records a query service answers with."""
    return len(http_text(f"{query.url}/v1/topics/{topic}/sow", b"").splitlines())


def lose_changes(fanout: Fanout) -> None:
    """Stop what writes and what reads, and delete the changes topic."""
    for service in (fanout.fanout, fanout.query, fanout.materializer):
        if service.running:
            service.stop()
    fanout.system.cluster.delete_topics([f"{fanout.topic}.changes"])


def start_readers(fanout: Fanout) -> tuple[Service, Service]:
    """Start a query service and a fanout at the empty topic, and wait until both say that they wait."""
    readers = fanout.query.start(), fanout.fanout.start()
    for reader in readers:
        wait_for(lambda reader=reader: WAITS in http_refusal(f"{reader.url}/readyz"), "a reader to wait")
    return readers


def wait_for_view(fanout: Fanout, expected: list[dict[str, int]]) -> None:
    """Wait until readers of the fanout hold these records."""
    wanted = sorted(map(json.dumps, expected))
    wait_for(
        lambda: sorted(map(json.dumps, copy_of(fanout, 0).records.values())) == wanted,
        "readers of the fanout to hold everything",
    )


@pytest.mark.parametrize("started_before", [True, False])
def test_readers_that_start_during_a_refill(lost: Fanout, started_before: bool) -> None:
    """While the topic is empty or partly filled they are not ready, and say so. Afterwards nothing is missing."""
    lost.system.write(lost.topic, *({"id": n, "n": n} for n in range(RECORDS)))
    lost.system.wait_settled(lost.query.url, lost.topic)
    if started_before:
        lost.fanout.start().wait_ready()
        wait_for(lambda: lost.count() == RECORDS, "the fanout to write the SOW")
    changes = newest(lost)
    lose_changes(lost)
    readers = start_readers(lost)
    write_again(lost, changes[: RECORDS // 2])
    for reader in readers:
        assert WAITS in http_refusal(f"{reader.url}/readyz")

    lost.materializer.start().wait_ready()
    for reader in readers:
        reader.wait_ready()
    assert held(lost.query, lost.topic) == RECORDS
    lost.system.write(lost.topic, {"id": 1, "n": -1}, {"id": RECORDS, "n": RECORDS})
    wait_for_view(lost, [{"id": n, "n": n} for n in range(RECORDS + 1) if n != 1])
    assert lost.fanout.running
    assert lost.query.running


def test_a_topic_that_is_replaced_under_running_readers(lost: Fanout) -> None:
    """A query service ends, and loads the new topic when it is started again; a fanout goes on by itself."""
    lost.system.write(lost.topic, *({"id": n, "n": n} for n in range(RECORDS)))
    lost.system.wait_settled(lost.query.url, lost.topic)
    lost.fanout.start().wait_ready()
    wait_for(lambda: lost.count() == RECORDS, "the fanout to write the SOW")
    lost.materializer.stop()
    lost.system.cluster.delete_topics([f"{lost.topic}.changes"])
    lost.materializer.start().wait_ready()
    wait_for(lambda: not lost.query.running, "the query service to end")
    lost.query.start().wait_ready()
    assert held(lost.query, lost.topic) == RECORDS
    lost.system.write(lost.topic, {"id": 1, "n": -1}, {"id": RECORDS, "n": RECORDS})
    wait_for_view(lost, [{"id": n, "n": n} for n in range(RECORDS + 1) if n != 1])
    assert lost.fanout.running


def test_a_restore_next_to_running_readers(lost: Fanout, tmp_path: Path) -> None:
    """Readers wait for the whole backup; a fanout that was further waits until the log was applied up to there."""
    lost.fanout.start().wait_ready()
    lost.system.write(lost.topic, *({"id": n, "n": n} for n in range(RECORDS)))
    lost.system.wait_settled(lost.query.url, lost.topic)
    operate(lost, "backup", str(tmp_path / "backup"))
    lost.system.write(lost.topic, {"id": 1, "n": -1}, {"id": RECORDS, "n": RECORDS})
    wait_for_view(lost, expected := [{"id": n, "n": n} for n in range(RECORDS + 1) if n != 1])
    lose_changes(lost)
    query, fanout = start_readers(lost)

    operate(lost, "restore", str(tmp_path / "backup"))
    query.wait_ready()
    assert held(query, lost.topic) == RECORDS
    # The owner's own state is newer, so it writes again what the backup lacks. A reader that has the backup takes
    # such an event for a gap: it ends, and loads everything at its next start.
    query.stop()
    assert WAITS in http_refusal(f"{fanout.url}/readyz")
    lost.materializer.start().wait_ready()
    fanout.wait_ready()
    wait_for_view(lost, expected)
    query.start().wait_ready()
    assert held(query, lost.topic) == RECORDS + 1


def operate(fanout: Fanout, command: str, directory: str) -> None:
    """Run a command for operators on the topic."""
    given = {"kafka": fanout.system.kafka, "config": fanout.system.config, "group": fanout.system.group}
    settings = {f"SOWLINE_{name.upper()}": str(value) for name, value in given.items()}
    line = [sys.executable, "-m", "sowline", command, fanout.topic, directory]
    subprocess.run(line, env=os.environ | settings, check=True, capture_output=True)


def cut_head(fanout: Fanout) -> None:
    """Let Kafka delete the older half of the changes, as a retention does that was added to the topic."""
    changes = f"{fanout.topic}.changes"
    admin = AdminClient({**kafka_config(fanout.system.kafka)})
    policy = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, changes, incremental_configs=[policy])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    ends = fanout.system.cluster.ends(changes, range(PARTITIONS))
    heads = [TopicPartition(changes, number, end // 2) for number, end in ends.items()]
    for deleted in admin.delete_records(heads).values():
        deleted.result()


def test_a_changes_topic_that_lost_its_head(lost: Fanout) -> None:
    """Readers that start wait until its owner has written everything again; those that run notice nothing."""
    lost.system.write(lost.topic, *({"id": n, "n": n} for n in range(RECORDS)))
    lost.system.wait_settled(lost.query.url, lost.topic)
    lost.fanout.start().wait_ready()
    wait_for(lambda: lost.count() == RECORDS, "the fanout to write the SOW")
    lost.materializer.stop()
    cut_head(lost)
    other = lost.system.service("query_service").start()
    wait_for(lambda: WAITS in http_refusal(f"{other.url}/readyz"), "a reader to wait")

    lost.materializer.start().wait_ready()
    other.wait_ready()
    assert held(other, lost.topic) == RECORDS
    assert lost.system.cluster.settings(f"{lost.topic}.changes")["cleanup.policy"] == "compact"

    cut_head(lost)
    other.stop()
    other.start().wait_ready()
    assert held(other, lost.topic) == RECORDS
    lost.system.write(lost.topic, {"id": 1, "n": -1}, {"id": RECORDS, "n": RECORDS})
    wait_for_view(lost, [{"id": n, "n": n} for n in range(RECORDS + 1) if n != 1])
    for reader in (lost.query, other):
        lost.system.wait_settled(reader.url, lost.topic)
        assert held(reader, lost.topic) == RECORDS + 1
        assert reader.running
