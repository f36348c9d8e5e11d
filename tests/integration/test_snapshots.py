"""A query service that starts from snapshots: exact after kill -9, and whatever is wrong with a snapshot."""

import asyncio
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from sowline.client.client import Client
from sowline.model.position import before_the_log
from sowline_query_service.snapshots.directory import SnapshotDirectory
from sowline_query_service.snapshots.manifest import Manifest
from tests.integration.load import check_sow, model_of
from tests.integration.services import Service, System, http_text, system
from tests.integration.test_full_disk import small_disk
from tests.waiting import wait_for

PARTITIONS = 2
KEYS = 500
TAKEN = "sowline_snapshot_taken_seconds"


@pytest.fixture
def snapshots(kafka: str, tmp_path: Path) -> Iterator[System]:
    """A topic with a materializer."""
    topics = [{"name": f"t{uuid.uuid4().hex[:12]}", "key": ["/id"], "partitions": PARTITIONS}]
    with system(kafka, tmp_path, topics) as made:
        made.service("materializer").start().wait_ready()
        yield made


def name_of(system: System) -> str:
    """Return the name of the only topic."""
    return system.topics.topics[0].name


def query_service(system: System, **settings: object) -> Service:
    """Return a query service that takes a snapshot each second."""
    given = {"snapshot_dir": system.directory / "snapshots", "snapshot_seconds": 0.1, **settings}
    return system.service("query_service", **given)


def change(system: System, url: str, count: int, seed: int) -> None:
    """Publish and delete random records, through a query service."""
    dice = random.Random(seed)
    with Client(url) as client:
        for number in range(count):
            key = dice.randrange(KEYS)
            if dice.random() < 0.2:
                client.sow_delete(name_of(system), data={"id": key})
            else:
                client.publish(name_of(system), {"id": key, "seed": seed, "n": number})
        client.flush()


def taken(query: Service) -> float:
    """Return when the newest snapshots were taken: the sum over all partitions."""
    return query.metric(TAKEN)


def wait_for_snapshots(query: Service) -> None:
    """Wait until each partition has a snapshot that began after this call."""
    before = time.time()

    def are_newer() -> bool:
        lines = http_text(f"{query.url}/metrics").splitlines()
        found = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(TAKEN + "{")]
        return len(found) == PARTITIONS and min(found) > before

    wait_for(are_newer, "a snapshot of each partition")


def check(system: System, query: Service) -> None:
    """Check that a query service answers what the log says."""
    query.wait_ready()
    system.wait_settled(query.url, name_of(system))
    asyncio.run(check_sow(model_of(system, name_of(system)), query.url, name_of(system)))


def prepared(system: System) -> Service:
    """Return a query service that was killed after a snapshot of some records."""
    query = query_service(system).start().wait_ready()
    system.write(name_of(system), *({"id": key, "seed": 0} for key in range(KEYS)))
    system.wait_settled(query.url, name_of(system))
    wait_for_snapshots(query)
    query.kill()
    return query


def manifests(system: System) -> dict[int, Manifest]:
    """Return the manifests of a service that does not run."""
    directory = SnapshotDirectory(system.directory / "snapshots")
    try:
        found = {n: directory.manifest(name_of(system), n) for n in range(PARTITIONS)}
    finally:
        directory.close()
    return {number: manifest for number, manifest in found.items() if manifest is not None}


def rewrite(system: System, manifest: Manifest, number: int = 0) -> None:
    """Replace the manifest of a partition."""
    directory = SnapshotDirectory(system.directory / "snapshots")
    directory.write_manifest(name_of(system), number, manifest)
    directory.close()


def test_a_start_from_snapshots(snapshots: System) -> None:
    """After kill -9 and changes in the meantime, the records are those of the log, and a subscriber resumes."""
    query, name = query_service(snapshots).start().wait_ready(), name_of(snapshots)
    with Client(query.url) as client:
        stream = client.subscribe(name)
        snapshots.write(name, *({"id": key, "seed": 0} for key in range(KEYS)))
        seen = [message.data for message in islice(stream, KEYS // 2)]
        bookmark = stream.bookmark
        assert bookmark is not None
    change(snapshots, query.url, 300, 1)
    wait_for_snapshots(query)
    query.kill()
    other = snapshots.service("query_service").start().wait_ready()
    change(snapshots, other.url, 300, 2)
    query.start()
    check(snapshots, query)
    assert query.metric("sowline_snapshots_restored") == PARTITIONS
    assert query.metric("sowline_snapshots_discarded_total") == 0
    assert query.log.count('"event": "snapshot restored"') == PARTITIONS
    # The bookmark is older than the snapshot: the changes in between come from the changes topic.
    with Client(query.url) as client, Client(other.url) as reference:
        mine, theirs = (
            [message.data for message in islice(each.subscribe(name, bookmark=bookmark), KEYS // 2 + 200)]
            for each in (client, reference)
        )
    assert sorted(map(str, mine)) == sorted(map(str, theirs))
    assert len({str(one) for one in [*seen, *mine[: KEYS // 2]]}) >= KEYS // 2
    change(snapshots, query.url, 100, 3)
    check(snapshots, query)


def test_the_next_start_continues(snapshots: System) -> None:
    """A restored service takes snapshots in turn, and the next one starts from those."""
    query = prepared(snapshots)
    first = manifests(snapshots)
    query.start().wait_ready()
    change(snapshots, query.url, 200, 1)
    wait_for_snapshots(query)
    assert query.stop() == 0
    second = manifests(snapshots)
    assert all(second[n].head.position > first[n].head.position for n in range(PARTITIONS))
    query.start()
    check(snapshots, query)
    assert query.metric("sowline_snapshots_restored") == PARTITIONS


def test_a_damaged_snapshot_is_discarded(snapshots: System) -> None:
    """Only its partition is loaded from the changes topic; the log says why."""
    query = prepared(snapshots)
    manifest = manifests(snapshots)[1]
    path = snapshots.directory / "snapshots" / "topics" / name_of(snapshots) / manifest.data
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    query.start()
    check(snapshots, query)
    assert query.metric("sowline_snapshots_restored") == PARTITIONS - 1
    assert query.metric('sowline_snapshots_discarded_total{reason="damaged"}') == 1
    assert "of its data is damaged" in query.log


def test_a_gap_behind_a_snapshot_discards_it(snapshots: System) -> None:
    """The changes that follow are not those that come next: the partition is loaded, and nothing is left over."""
    query = prepared(snapshots)
    manifest = manifests(snapshots)[0]
    rewrite(snapshots, replace(manifest, head=manifest.head._replace(position=before_the_log())))
    other = snapshots.service("query_service").start().wait_ready()
    change(snapshots, other.url, 300, 1)
    query.start()
    check(snapshots, query)
    assert query.metric('sowline_snapshots_discarded_total{reason="gap"}') == 1
    change(snapshots, query.url, 100, 2)
    check(snapshots, query)


def test_a_changes_topic_that_was_replaced(snapshots: System) -> None:
    """The snapshot is of the topic that was deleted."""
    query = prepared(snapshots)
    for number, manifest in manifests(snapshots).items():
        rewrite(snapshots, replace(manifest, topic_id="another"), number)
    query.start()
    check(snapshots, query)
    assert query.metric("sowline_snapshots_restored") == 0
    assert query.metric('sowline_snapshots_discarded_total{reason="topic"}') == PARTITIONS
    assert "the changes topic was deleted and created again since" in query.log


def test_a_directory_for_one_service(snapshots: System) -> None:
    """A second service over the same directory has no snapshots; it answers all the same."""
    query_service(snapshots).start().wait_ready()
    second = query_service(snapshots).start()
    snapshots.write(name_of(snapshots), {"id": 1})
    check(snapshots, second)
    assert "Give each its own SOWLINE_SNAPSHOT_DIR" in second.log
    assert taken(second) == 0


@pytest.mark.needs("mount")
def test_a_full_disk_skips_snapshots(snapshots: System, tmp_path: Path) -> None:
    """The service goes on, and the next snapshot is taken once there is room."""
    with small_disk(tmp_path / "disk", 1):
        query = query_service(snapshots, snapshot_dir=tmp_path / "disk" / "snapshots").start().wait_ready()
        snapshots.write(name_of(snapshots), *({"id": key, "text": "x" * 5000} for key in range(KEYS)))
        wait_for(lambda: query.metric("sowline_snapshots_failed_total") > 0, "a full disk")
        assert "No space left on device" in query.log
        check(snapshots, query)
        snapshots.write(name_of(snapshots), *({"id": key} for key in range(KEYS)))
        snapshots.wait_settled(query.url, name_of(snapshots))
        wait_for_snapshots(query)
        query.kill()
        query.start()
        check(snapshots, query)
        assert query.metric("sowline_snapshots_restored") == PARTITIONS
        query.kill()
