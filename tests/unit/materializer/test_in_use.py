"""A store that somebody else has open: it is left alone, and taken once it is free."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sowline.changes.progress import Progress
from sowline.config.settings import Settings
from sowline.config.topic_definition import define_topic
from sowline.config.topics import parse_topics
from sowline.model.position import Position
from sowline_materializer import service
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.kafka_partition import KafkaExtent
from sowline_materializer.partition.recovery import Recovery
from sowline_materializer.service import Materializer
from sowline_materializer.standby.warm_copy import ReadEvent, WarmCopy
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.errors import StoreInUse
from sowline_materializer.store.rocksdb import RocksStore, delete_store, is_in_use
from sowline_materializer.worker.counts import Counts, WorkerStatistics

DEFINITION = define_topic(name="orders", key="/id")
EXTENT = KafkaExtent("log", 0, 0, 0, 0, "a")
HOLDER = """
import sys
from pathlib import Path
from sowline_materializer.store.rocksdb import RocksStore
store = RocksStore(Path(sys.argv[1]), create=False)
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process have a store open."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        yield holder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a store that nobody has open: finished, and empty but for its head."""
    store = RocksStore(tmp_path / "0", create=True)
    start = Position(0, -1)
    checkpoint = Checkpoint(start, start, definition=DEFINITION.digest, log_id="log", changes_id="a")
    store.commit({}, Checksum(), checkpoint.encode())
    store.mark_finished()
    store.close()
    return tmp_path / "0"


def files(path: Path) -> dict[str, bytes]:
    """Return all files of a store but RocksDB's own log."""
    found = (one for one in path.rglob("*") if one.is_file() and not one.name.startswith("LOG"))
    return {str(one.relative_to(path)): one.read_bytes() for one in found}


def opened(path: Path) -> RocksStore:
    """Open a partition from whichever recovery source there is."""
    return Recovery({}, DEFINITION, 0, path, EXTENT).open().store


def loaded_copy(path: Path) -> WarmCopy:
    """Return a copy that takes the place of what lies at the path, as soon as it is loaded."""
    copy = WarmCopy(DEFINITION, 0, path, lambda topic: "a")
    copy.begin(discard=True)
    start = Position(0, -1)
    event = Progress(start, start, 0, {}, DEFINITION.digest, "log", 1, {}, changes_id="a")
    try:
        copy.take([ReadEvent(0, event)], 1)
    except BaseException:
        copy.close()
        raise
    return copy


def test_what_another_process_has_open_is_let_be(path: Path) -> None:
    """It is not taken for damaged: it is neither opened, nor made again, nor replaced by a copy, until it is free."""
    with held_elsewhere(path) as holder:
        before = files(path)
        for attempt in (opened, lambda path: RocksStore(path, create=True), delete_store, loaded_copy):
            with pytest.raises(StoreInUse, match=f"{path}.*LOCK") as refused:
                attempt(path)
            assert refused.value.path == path
        assert is_in_use(path)
        assert files(path) == before
        holder.kill()
    assert not is_in_use(path)
    opened(path).close()
    loaded_copy(path).close()


def test_what_is_half_made_is_in_use_too(path: Path) -> None:
    """A store that another process is loading has no mark yet, and is not begun again under its hands."""
    (path / "INITIALISED").unlink()
    with held_elsewhere(path) as holder:
        before = files(path)
        with pytest.raises(StoreInUse):
            opened(path)
        assert files(path) == before
        holder.kill()
    opened(path).close()


def test_a_handle_of_this_process_counts_as_well(path: Path) -> None:
    """A second handle is refused, the first goes on, and once it is closed the store opens."""
    first = RocksStore(path, create=False)
    for create in (False, True):
        with pytest.raises(StoreInUse):
            RocksStore(path, create=create)
    first.commit({b"1": b"x"}, Checksum(1, 2), b"head")
    first.close()
    again = RocksStore(path, create=False)
    assert (list(again.scan()), again.checksum()) == ([(b"1", b"x")], Checksum(1, 2))
    again.close()


def test_a_store_closes_while_it_is_read(path: Path) -> None:
    """A walk that was left where it stood, or failed, keeps no file open: the next one opens the store."""
    store = RocksStore(path, create=False)
    store.commit({b"1": b"x", b"2": b"y"}, Checksum(), b"head")
    scan = store.scan()
    assert next(scan) == (b"1", b"x")
    store.close()
    again = RocksStore(path, create=False)
    again.close()


def test_there_is_nothing_to_delete_where_nothing_is(tmp_path: Path) -> None:
    """A store that is not there is in nobody's use, and is deleted in silence, as is what is no store."""
    assert not is_in_use(tmp_path / "0")
    delete_store(tmp_path / "0")
    (tmp_path / "0" / "db").mkdir(parents=True)
    (tmp_path / "0" / "db" / "CURRENT").write_text("nonsense")
    delete_store(tmp_path / "0")
    assert list(tmp_path.iterdir()) == []


class Stops(threading.Event):
    """Is never waited for; what it is asked to wait for happens at the second time."""

    def __init__(self, one: list[Materializer], holder: subprocess.Popen[bytes]) -> None:
        super().__init__()
        self.reasons: list[str | None] = []
        self._one = one
        self._holder = holder

    def wait(self, timeout: float | None = None) -> bool:
        """Note why it is not ready meanwhile."""
        self.reasons.append(self._one[0].not_ready())
        if len(self.reasons) == 2:
            self._holder.kill()
            self._holder.wait()
        return self.is_set()


def test_a_worker_waits_until_its_state_is_free(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """It leaves the group, says why in its log and its health, looks each second, and begins again once it can."""
    begun: list[object] = []

    class Owner:
        assigned = True

        def __init__(self, *_: object) -> None:
            begun.append(self)

        def run(self) -> None:
            opened(path).close()
            stop.set()

        def statistics(self) -> WorkerStatistics:
            return WorkerStatistics(Counts(), {}, {}, {}, [])

    monkeypatch.setattr(service, "Worker", Owner)
    monkeypatch.setattr(service, "ensure_topics", lambda *_: None)
    monkeypatch.setattr(service, "StartPhase", lambda *_: None)
    made: list[Materializer] = []
    with held_elsewhere(path) as holder, capture_logs() as logs:
        stop = Stops(made, holder)
        topics = parse_topics("topics: [{name: orders, key: /id}]")
        made.append(Materializer(Settings(data_dir=path.parent), topics, stop))
        made[0].run()
    assert len(begun) == 2
    assert [line["event"] for line in logs] == ["state in use", "state is no longer in use"]
    assert made[0].not_ready() is None
    (reason,) = set(stop.reasons)
    assert reason is not None
    assert reason.startswith(f"another process uses the state in {path} (")
    assert reason.endswith(
        "end it, or give each its own SOWLINE_DATA_DIR; nothing was deleted, and the worker continues once the"
        " state is free"
    )
