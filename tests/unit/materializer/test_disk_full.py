"""A disk that takes no more: nothing that was committed is given up, and nothing is lost or done twice."""

import errno
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict
from structlog.testing import capture_logs

from sowline.changes.change import AGAIN
from sowline.config.settings import Settings
from sowline.config.topic_definition import define_topic
from sowline.config.topics import parse_topics
from sowline_materializer import service
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.service import Materializer
from sowline_materializer.store import rocksdb
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.disk_space import has_disk_space
from sowline_materializer.store.errors import DiskFull, judged
from sowline_materializer.store.interface import NO_EXPIRIES
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.worker.counts import Counts, WorkerStatistics
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.property.world import World, changes_of, dump, rocks_in_memory

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
PARTITIONS = 2
DEFINITION = define_topic(name="orders", key="/id", partitions=PARTITIONS)
FOREVER = 10**15


class FullAt:
    """Counts what is written to the disks; the `nth` finds them full, and so do some after it."""

    def __init__(self, nth: int, failing: int) -> None:
        self.writes = 0
        self.given_up: list[Path] = []
        """Finished stores that were made again."""
        self._fails = range(nth, nth + failing)

    def write(self) -> None:
        """Write something."""
        self.writes += 1
        if self.writes in self._fails:
            with judged("the store does not write"):
                raise NO_SPACE


def store_class(full: FullAt, disk: dict[Path, dict[str, Any]]) -> type:
    """Return a stand-in for `RocksStore`, which writes when it is opened, too."""
    memory: Any = rocks_in_memory(disk)

    class Store(memory):
        def __init__(self, path: Path, *, create: bool) -> None:
            full.given_up += [path] if create and self.exists(path) else []
            super().__init__(path, create=create)
            full.write()

        def commit(
            self,
            writes: Mapping[bytes, bytes | None],
            checksum: Checksum,
            checkpoint: bytes,
            expiries: Mapping[bytes, bool] = NO_EXPIRIES,
        ) -> None:
            full.write()
            super().commit(writes, checksum, checkpoint, expiries)

        def mark_finished(self) -> None:
            full.write()
            super().mark_finished()

    return Store


def run(nth: int, failing: int = 1) -> tuple[World, FullAt]:
    """Apply logs with something of everything on them to the end; a worker that finds the disk full begins again."""
    world, full = World(DEFINITION), FullAt(nth, failing)
    with ExitStack() as stack:
        for patch in world.patched():
            stack.enter_context(patch)
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr("sowline_materializer.partition.recovery.RocksStore", store_class(full, world.disk))
        for number in range(12):
            for partition in range(PARTITIONS):
                world.write(partition, b'{"id":%d,"n":%d}' % (number % 5, number), None, [])
        world.write(0, b"{", None, [])
        drain(world)
        world.write(1, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"/n < 9")])
        world.write(1, b'{"id":1,"d":1}', None, [("sow.command", b"delta_publish")])
        drain(world)
        return world, full


def drain(world: World) -> None:
    """Apply all, however often the disk is full."""
    while True:
        try:
            return world.drain(4)
        except DiskFull:
            for number in range(PARTITIONS):
                world.crash(number)


def bodies(world: World) -> dict[bytes, bytes]:
    """Return all records that there are."""
    stores = [world.store(number) for number in range(PARTITIONS)]
    records = {key: record.body for store in stores for key, record in dump(store, 0, FOREVER).items()}
    return {key: body for key, body in records.items() if body is not None}


def followed(world: World) -> dict[bytes, bytes | None]:
    """Return the records that a replica has which follows all changes from their begin; none may come twice."""
    rows = Rows()
    for number, changes in enumerate(world.changes):
        positions = [change.position for _, change in changes_of(changes.history) if change.op != AGAIN]
        assert len(positions) == len(set(positions))
        replica = PartitionReplica(number, rows, 1000)
        replica.loaded()
        replica.apply([EventAtOffset(message.at, message.event) for message in changes.history])
    return {key: rows.bodies[row] for key, row in rows.numbers.items()}


def test_every_write_in_turn() -> None:
    """Whichever write it is that fails, all ends as if it had not, and no store that was there is made again."""
    whole, counted = run(0)
    expected = bodies(whole)
    assert [len(dump(whole.store(number), 0, FOREVER)) for number in range(PARTITIONS)] != [0, 0]
    assert counted.writes > 12
    for nth in range(1, counted.writes + 1):
        for failing in (1, 3):
            world, full = run(nth, failing)
            assert bodies(world) == followed(world) == expected
            assert world.dead == whole.dead == [{(12, "not json")}, set()]
            assert full.given_up == []


def test_what_is_no_want_of_room_is_damage() -> None:
    """A store that does not write for another reason is looked at more closely."""
    with pytest.raises(DiskFull, match="No space left"), judged("it is so"):
        raise NO_SPACE
    with pytest.raises(DiskFull), judged("it is so"):
        raise Exception("IO error: Disk quota exceeded: While appending to file")  # noqa: TRY002 - as RocksDB does
    with pytest.raises(StoreDamaged, match="it is so: Corruption"), judged("it is so"):
        raise Exception("Corruption: block checksum mismatch")  # noqa: TRY002 - as RocksDB does


def test_a_store_that_can_not_be_closed_in_order_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the disk says then, the other partitions are closed, too, and the worker begins again."""

    class Failing:
        def __init__(self, *given: Any) -> None:
            self._database = Rdict(*given)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._database, name)

        def close(self) -> None:
            self._database.close()
            raise Exception("IO error: Writer has previous error.")  # noqa: TRY002 - as RocksDB does

    monkeypatch.setattr(rocksdb, "Rdict", Failing)
    store = RocksStore(tmp_path / "s", create=True)
    with capture_logs() as logs:
        store.close()
    assert [(line["event"], line["why"]) for line in logs] == [
        ("store closed with an error", "IO error: Writer has previous error.")
    ]


def test_room_is_found_by_taking_it(tmp_path: Path) -> None:
    """A disk that takes a file has room, one that does not has none; nothing of the try is left."""
    assert has_disk_space(tmp_path, 1 << 16)
    assert not has_disk_space(tmp_path, 1 << 60)
    assert not has_disk_space(tmp_path / "gone", 1)
    assert list(tmp_path.iterdir()) == []


class Stops(threading.Event):
    """Is set when it was waited for so often; each wait is told of first."""

    def __init__(self, waits: int, on_wait: Callable[[], None]) -> None:
        super().__init__()
        self._waits = waits
        self._on_wait = on_wait

    def wait(self, timeout: float | None = None) -> bool:
        """Wait no time at all."""
        self._on_wait()
        self._waits -= 1
        if self._waits < 0:
            self.set()
        return self.is_set()


def test_a_worker_waits_for_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says so in its log, its health and its metrics, tries each second, and begins again when there is some."""
    looks: list[tuple[str | None, float]] = []
    begun: list[object] = []

    class FullDisk:
        assigned = True

        def __init__(self, *_: object) -> None:
            begun.append(self)

        def run(self) -> None:
            if len(begun) == 2:
                stop.set()
                return
            with judged("the store does not write"):
                raise NO_SPACE

        def statistics(self) -> WorkerStatistics:
            return WorkerStatistics(Counts(), {}, {}, {}, [])

    def look() -> None:
        metrics = {metric.name: metric.samples for metric in one.metrics()}
        looks.append((one.not_ready(), metrics["sowline_disk_full"][0].value))

    room = iter([False, True])
    monkeypatch.setattr(service, "Worker", FullDisk)
    monkeypatch.setattr(service, "ensure_topics", lambda *_: None)
    monkeypatch.setattr(service, "has_disk_space", lambda directory: next(room))
    monkeypatch.setattr(service, "StartPhase", lambda *_: None)
    stop = Stops(5, look)
    one = Materializer(Settings(data_dir=tmp_path), parse_topics("topics: [{name: t, key: /id}]"), stop)
    with capture_logs() as logs:
        one.run()
    assert len(begun) == 2
    why = "the store does not write: [Errno 28] No space left on device"
    sentence = (
        f"the disk of {tmp_path} is full ({why}): free at least 64 MiB; the worker then continues from its"
        " committed state"
    )
    assert looks == [(sentence, 1), (sentence, 1)]
    assert one.not_ready() is None
    assert [line["event"] for line in logs] == ["disk full", "disk has space again"]


def test_too_few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service stays out of the group for a while, says why, and tries again; no store is taken for damaged."""
    looks: list[str | None] = []
    begun: list[object] = []

    class Hungry:
        assigned = False

        def __init__(self, *_: object) -> None:
            begun.append(self)

        def run(self) -> None:
            if len(begun) == 2:
                stop.set()
                return
            with judged("the store does not open"):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        def statistics(self) -> WorkerStatistics:
            return WorkerStatistics(Counts(), {}, {}, {}, [])

    monkeypatch.setattr(service, "Worker", Hungry)
    monkeypatch.setattr(service, "ensure_topics", lambda *_: None)
    monkeypatch.setattr(service, "StartPhase", lambda *_: None)
    stop = Stops(5, lambda: looks.append(one.not_started()))
    one = Materializer(Settings(data_dir=tmp_path), parse_topics("topics: [{name: t, key: /id}]"), stop)
    with capture_logs() as logs:
        one.run()
    assert len(begun) == 2
    [reason] = looks
    assert "too few for its partitions (the store does not open: [Errno 24] Too many open files)" in (
        reason or ""
    )
    assert one.not_started() == "waiting for partitions from the group"
    assert [line["event"] for line in logs] == ["too few descriptors"]
