"""A broker that loses power, and with it the ends of partitions that it had acknowledged but not yet written to disk.

A stand-in: the broker is killed, the end of the last segments is cut off, and it starts again. One loss of power cuts
the topics of several cases, each in its own way.
"""

import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest

from sowline.kafka.admin import ensure_topics
from sowline.kafka.clients import exact_producer
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline.runtime.local_kafka import LocalKafka
from sowline_materializer.service import Materializer
from tests.integration.recovery_rig import PARTITIONS, Rig
from tests.integration.test_mirrored import ids
from tests.waiting import SECONDS_MAX, wait_for

RECORDS = 80
KEPT_SHARE = 0.5
"""Of the last segment's bytes."""

LOG, CHANGES, BOTH = ("",), (".changes",), (".changes", "")


class Loss(NamedTuple):
    """The topics that are cut, by the ends of their names, and how many records are written afterwards."""

    endings: tuple[str, ...]
    later: int

    def __str__(self) -> str:
        return f"{''.join(self.endings) or 'log'}-{self.later}"


LOSSES = [Loss(endings, later) for later in (0, 5, 200) for endings in (LOG, CHANGES, BOTH)]
UNDER_A_MATERIALIZER = [Loss(LOG, 200), Loss(CHANGES, 200), Loss(BOTH, 200), Loss(LOG, 0)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker of this module's own."""
    with LocalKafka(tmp_path_factory.mktemp("power") / "kafka") as running:
        yield running


def applied(broker: LocalKafka, directory: Path) -> Rig:
    """Return a topic whose log is applied."""
    rig = Rig(broker.bootstrap, f"t{uuid.uuid4().hex[:12]}-power", directory)
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


def lose_power(broker: LocalKafka, losses: Iterable[tuple[Rig, Loss]]) -> None:
    """Kill the broker, cut the end of partition 0 of these topics, within a batch, and start it again."""
    broker.kill()
    for rig, loss in losses:
        for ending in loss.endings:
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


class Lost(NamedTuple):
    """A topic after the loss, and what its log held before."""

    rig: Rig
    before: set[int]


@pytest.fixture(scope="module")
def lost(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Loss, Lost]:
    """A topic for each loss, after all of them; no materializer runs."""
    found = {loss: applied(broker, tmp_path_factory.mktemp("sow")) for loss in LOSSES}
    before = {loss: logged(rig) for loss, rig in found.items()}
    lose_power(broker, [(rig, loss) for loss, rig in found.items()])
    return {loss: Lost(rig, before[loss]) for loss, rig in found.items()}


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_state_keeps_what_the_broker_has_lost(lost: Mapping[Loss, Lost], loss: Loss) -> None:
    """What was applied stays, and what is written later is applied, also where it takes the lost records' offsets."""
    rig, before = lost[loss]
    is_cut = "" in loss.endings
    assert (logged(rig) < before) == is_cut
    write(rig, 1000, loss.later)
    assert rig.work().stopped == {}
    check_state(rig, loss)


def check_state(rig: Rig, loss: Loss) -> None:
    """The state has what was applied before and what was written later; only a log that was cut began an era."""
    assert ids(rig) == {*range(RECORDS), *range(1000, 1000 + loss.later)}
    assert rig.state(0)[1].position.era == int("" in loss.endings)
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
    ends = rig.cluster.newest_ends(rig.topic.log, range(PARTITIONS))
    found = {
        topic_partition[1]: Position.parse(text).offset + 1 for topic_partition, text in positions.items()
    }
    return found == ends


@pytest.fixture(scope="module")
def served_meanwhile(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Loss, Rig]:
    """A topic for each loss, with a materializer that runs until all that was written after the loss is applied."""
    rigs = {loss: applied(broker, tmp_path_factory.mktemp("sow")) for loss in UNDER_A_MATERIALIZER}
    with ExitStack() as running:
        working = {loss: running.enter_context(served(rig)) for loss, rig in rigs.items()}

        def are_level() -> bool:
            return all(is_level(rig, working[loss]) for loss, rig in rigs.items())

        wait_for(are_level, "all to be applied")
        lose_power(broker, [(rig, loss) for loss, rig in rigs.items()])
        for loss, rig in rigs.items():
            write(rig, 1000, loss.later)
        wait_for(are_level, "all to be applied after the power loss")
    return rigs


@pytest.mark.parametrize("loss", UNDER_A_MATERIALIZER, ids=str)
def test_a_materializer_that_works_meanwhile_goes_on(
    served_meanwhile: Mapping[Loss, Rig], loss: Loss
) -> None:
    """It neither goes on in the old log nor writes behind the lost end of the changes, and needs no restart."""
    check_state(served_meanwhile[loss], loss)


def test_without_a_state_the_log_and_the_changes_are_all_that_there_is(
    broker: LocalKafka, tmp_path: Path
) -> None:
    """Both lost their ends, and the local state is gone: what the changes still had stays, the log adds its own."""
    rig = applied(broker, tmp_path / "sow")
    lose_power(broker, [(rig, Loss(BOTH, 200))])
    shutil.rmtree(rig.settings.data_dir)
    write(rig, 1000, 200)
    left = logged(rig)
    assert rig.work().stopped == {}
    assert left <= ids(rig) <= {*range(RECORDS), *range(1000, 1200)}
    check_changes(rig)
