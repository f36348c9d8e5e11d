"""A broker that loses power, and with it the ends of partitions that it had acknowledged but not yet written to disk.

A stand-in: the broker is killed, the end of the last segments is cut off, and it starts again.
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from sowline.kafka.admin import ensure_topics
from sowline.kafka.clients import exact_producer
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline.runtime.local_kafka import LocalKafka
from sowline_materializer.service import Materializer
from tests.integration.services import SECONDS_MAX, wait_for
from tests.integration.test_mirrored import ids
from tests.integration.test_recovery import PARTITIONS, Rig

RECORDS = 80
KEPT_SHARE = 0.5
"""Of the last segment's bytes."""

BOTH = (".changes", "")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker of this module's own."""
    with LocalKafka(tmp_path_factory.mktemp("power") / "kafka") as running:
        yield running


@pytest.fixture
def rig(broker: LocalKafka, prefix: str, tmp_path: Path) -> Rig:
    """A topic whose log is applied."""
    rig = Rig(broker.bootstrap, f"{prefix}power", tmp_path / "sow")
    ensure_topics(rig.settings.kafka_client, rig.topics)
    write(rig, 0, RECORDS)
    rig.work()
    assert ids(rig) == set(range(RECORDS))
    return rig


def write(rig: Rig, start: int, count: int) -> None:
    """Write records to the partitions that they belong in, in small batches of Kafka's."""
    producer = exact_producer(rig.settings.kafka_client)
    for id in range(start, start + count):
        producer.produce(rig.topic.log, orjson.dumps({"id": id}), None, partition_of(str(id), PARTITIONS))
        if id % 4 == 0:
            assert producer.flush(SECONDS_MAX) == 0
    assert producer.flush(SECONDS_MAX) == 0


def lose_power(broker: LocalKafka, rig: Rig, endings: tuple[str, ...]) -> None:
    """Kill the broker, cut the end of partition 0 of these topics, within a batch, and start it again."""
    broker.kill()
    for ending in endings:
        directory = broker.data_dir / "data" / f"{rig.topic.log}{ending}-0"
        segment = max(directory.glob("*.log"))
        with segment.open("r+b") as file:
            file.truncate(int(segment.stat().st_size * KEPT_SHARE))
    broker.start()


def logged(rig: Rig) -> set[int]:
    """Return the records that the log holds now."""
    return {
        orjson.loads(record.value or b"")["id"] for number in range(PARTITIONS) for record in rig.log(number)
    }


def check_changes(rig: Rig) -> None:
    """The changes load to what the stores hold."""
    for partition in range(PARTITIONS):
        assert rig.compacted(partition) == rig.state(partition)[0]


@pytest.mark.parametrize("endings", [("",), (".changes",), BOTH], ids=["log", "changes", "both"])
@pytest.mark.parametrize("later", [0, 5, 200], ids=["nothing", "less", "more"])
def test_a_state_keeps_what_the_broker_has_lost(
    broker: LocalKafka, rig: Rig, endings: tuple[str, ...], later: int
) -> None:
    """What was applied stays, and what is written later is applied, also where it takes the lost records' offsets."""
    before = logged(rig)
    lose_power(broker, rig, endings)
    is_cut = "" in endings
    assert (logged(rig) < before) == is_cut
    write(rig, 1000, later)
    assert rig.work().stopped == {}
    assert ids(rig) == {*range(RECORDS), *range(1000, 1000 + later)}
    assert rig.state(0)[1].position.era == int(is_cut)
    check_changes(rig)


@contextmanager
def served(rig: Rig) -> Iterator[Materializer]:
    """Run a whole materializer, which must not end by itself."""
    stop = threading.Event()
    materializer = Materializer(rig.settings, rig.topics, stop)
    thread = threading.Thread(target=materializer.run)
    thread.start()
    try:
        yield materializer
        assert thread.is_alive(), "it goes on by itself"
    finally:
        stop.set()
        thread.join(SECONDS_MAX)


def is_level(rig: Rig, materializer: Materializer) -> bool:
    """Tell whether all partitions are open, and all that the log holds is applied."""
    worker = materializer._worker
    positions = {} if worker is None else worker.statistics().positions
    ends = rig.cluster.ends(rig.topic.log, range(PARTITIONS))
    found = {
        topic_partition[1]: Position.parse(text).offset + 1 for topic_partition, text in positions.items()
    }
    return found == ends


@pytest.mark.parametrize(
    ("endings", "later"),
    [(("",), 200), ((".changes",), 200), (BOTH, 200), (("",), 0)],
    ids=["log", "changes", "both", "log, and nothing later"],
)
def test_a_materializer_that_works_meanwhile_goes_on(
    broker: LocalKafka, rig: Rig, endings: tuple[str, ...], later: int
) -> None:
    """It neither goes on in the old log nor writes behind the lost end of the changes, and needs no restart."""
    with served(rig) as materializer:
        wait_for(lambda: is_level(rig, materializer), "all to be applied")
        lose_power(broker, rig, endings)
        write(rig, 1000, later)
        wait_for(lambda: is_level(rig, materializer), "all to be applied after the power loss")
    assert ids(rig) == {*range(RECORDS), *range(1000, 1000 + later)}
    assert rig.state(0)[1].position.era == int("" in endings)
    check_changes(rig)


def test_without_a_state_the_log_and_the_changes_are_all_that_there_is(broker: LocalKafka, rig: Rig) -> None:
    """Both lost their ends, and the local state is gone: what the changes still had stays, the log adds its own."""
    lose_power(broker, rig, BOTH)
    shutil.rmtree(rig.settings.data_dir)
    write(rig, 1000, 200)
    left = logged(rig)
    assert rig.work().stopped == {}
    assert left <= ids(rig) <= {*range(RECORDS), *range(1000, 1200)}
    check_changes(rig)
