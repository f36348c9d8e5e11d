"""Formats: what the first one has written is read and gone on from, and what none knows is left as it is."""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event, read_event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import Headers, LogRecord
from sowline.commands.stored_format import FORMAT, UnknownFormat
from sowline.config.topic_definition import define_topic
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, progress_of
from sowline_materializer.store.integrity import verified
from sowline_materializer.store.rocksdb import RocksStore
from tests.memory_store import MemoryStore
from tests.property.world import World, dump

DATA = Path(__file__).parent / "data" / "format_1"
ORDERS = {"name": "orders", "key": "/id", "partitions": 2, "expiration": "enabled", "repeat_window": "1d"}
DEFINITION = define_topic(**ORDERS)
T = 1_790_000_000_000
"""The log time of the sample's first record; each is a second after the one before."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedPartition[RocksStore]]:
    """The sample's state, opened on a disk of the test's own."""
    shutil.copytree(DATA / "store", tmp_path / "store")
    store = RocksStore(tmp_path / "store", create=False)
    checkpoint = verified(store)[0]
    yield OpenedPartition(store, checkpoint, checkpoint.position)
    store.close()


def events() -> list[Event]:
    """Return the sample's changes and progress events."""
    lines = [json.loads(line) for line in (DATA / "changes.jsonl").read_text().splitlines()]
    return [
        read_event(key.encode(), value and value.encode(), [(name, text.encode()) for name, text in headers])
        for key, value, headers in lines
    ]


def test_state_of_the_first_format_opens(opened: OpenedPartition[RocksStore]) -> None:
    """Records, memories, due times, origins and limits are as they were left."""
    assert opened.checkpoint == Checkpoint(
        Position(0, 15),
        Position(0, 15),
        T + 15_000,
        {1: 43},
        DEFINITION.digest,
        "log-id-1",
        18,
        limits=Limits(expiration="enabled", repeat_window=2 * 86_400_000, records_max=1000),
        numbers_since=T + 14_000 - 86_400_000,
        records=5,
    )
    records = {record.key_text: record for record in dump(opened.store, 0, 10**15).values()}
    live = {text: record.body for text, record in records.items() if record.body is not None}
    assert live.keys() == {"2", "5", "11", "17", "18"}
    assert live["2"] == '{"id":2,"name":"Jürgen","qty":250}'.encode()
    assert live["5"] == b'{ "id" : 5, "price" : 1.50 }'
    assert records["2"].numbers == {"p": (1, 0, T), "q": (10, 0, T + 4000)}
    assert (records["5"].expires, records["5"].correlation) == (T + 3_601_000, "c-7")
    assert (records["6"].body, records["6"].numbers) == (None, {"p": (2, 1, T + 2000)})


def test_state_of_the_first_format_goes_on(opened: OpenedPartition[RocksStore]) -> None:
    """Repeats of what it has seen stay repeats, what is due expires, and it is committed in today's form."""
    partition = Partition(DEFINITION, 0, opened)
    assert [due.key_text for due in partition.due(T + 3_601_000)] == ["5"]
    batch: list[tuple[bytes | None, bytes | None, Headers]] = [
        (b'{"id":2,"qty":0}', None, [("sow.publisher", b"q"), ("sow.sequence", b"10")]),
        (b'{"id":6}', None, [("sow.publisher", b"p"), ("sow.sequence", b"2.1")]),
        (b'{"id":11}', None, [("sow.origin", b"log-id-1:1@43")]),
        (b'{"id":11,"qty":2}', None, [("sow.origin", b"log-id-1:1@44")]),
    ]
    log = [
        LogRecord(16 + n, T + 20_000, key, value, headers) for n, (value, key, headers) in enumerate(batch)
    ]
    prepared = partition.prepare(log, 20)
    assert prepared.step.outcomes == {"16": "repeat", "17": "repeat", "18": "repeat"}
    assert [change.body for change in prepared.step.changes] == [b'{"id":11,"qty":2}']
    partition.commit(prepared, 20)
    assert verified(opened.store)[0] == partition.checkpoint
    assert orjson.loads(opened.store.checkpoint() or b"")["format"] == FORMAT


def test_changes_of_the_first_format_load_to_the_same(opened: OpenedPartition[RocksStore]) -> None:
    """The second source leads to what the first one has."""
    store = MemoryStore()
    loader = ChangesLoader(store, DEFINITION)
    loader.load(events())
    loader.finish()
    assert dict(store.scan()) == dict(opened.store.scan())
    assert list(store.expiries()) == list(opened.store.expiries())
    assert loader.checkpoint(18) == Checkpoint.decode(
        Checkpoint(
            **{
                name: getattr(opened.checkpoint, name)
                for name in Checkpoint.__slots__
                if name != "stale_keys"
            },
            stale_keys=frozenset({PROGRESS_KEY}),
        ).encode()
    )


# what no version knows yet


@pytest.fixture
def worked() -> Iterator[World]:
    """A world whose partition has applied a record."""
    world = World(define_topic(name="orders", key="/id"))
    with ExitStack() as stack:
        for entered in world.patched():
            stack.enter_context(entered)
        world.write(0, b'{"id":1}', None, [])
        world.drain()
        world.crash(0)
        yield world


def of_another_format(text: bytes) -> bytes:
    """Return JSON that a later version wrote."""
    given: dict[str, Any] = orjson.loads(text)
    return orjson.dumps(given | {"format": 7, "by": "9.1"})


def test_state_of_an_unknown_format_is_refused_and_left(worked: World) -> None:
    """Not even a tally that does not fit makes it damage: the store is as it was, and the changes are not loaded."""
    disk = worked.disk[Path("0")]
    disk["_checkpoint"] = of_another_format(disk["_checkpoint"])
    disk["_entries"][b"x"] = b"what only a later version can read"
    before = deepcopy(disk)
    with pytest.raises(
        UnknownFormat, match=r"expected state of format 1 to 3, got one of format 7.*Sowline 9\.1"
    ) as error:
        worked.owner(0)
    assert error.value.reason == "unknown format"
    assert worked.disk[Path("0")] == before


@pytest.mark.parametrize("store", ["whole", "gone"])
def test_a_progress_event_of_an_unknown_format_stops_the_partition(worked: World, store: str) -> None:
    """From either recovery source: what stands beyond it can't be known."""
    changes = worked.changes[0]
    last = changes.held[0]
    changes.held.append(last._replace(at=changes.end, body=of_another_format(last.body or b"")))
    changes.end += 1
    before = len(changes.held)
    if store == "gone":
        worked.disk.clear()
    with pytest.raises(UnknownFormat, match="expected a progress event of format 1 to 3"):
        worked.owner(0)
    assert len(changes.held) == before
    assert Path("0") not in worked.disk or store == "whole" or "finished" not in worked.disk[Path("0")]


@pytest.mark.parametrize("number", [0, 4, "1", None, True])
def test_a_change_of_an_unknown_format_is_refused(number: object) -> None:
    """A change without a number has the first form; none but that is read."""
    about = {"position": "5", "after": "4", "op": "publish", "time": 9}
    assert read_event(b"1", b"{}", [("sow", orjson.dumps(about | {"v": FORMAT}))]).position == Position(0, 5)
    with pytest.raises(UnknownFormat, match="expected a change of format 1"):
        read_event(b"1", b"{}", [("sow", orjson.dumps(about | {"v": number}))])


REVIEWS = define_topic(name="reviews", key="/id", documents=True, template={"type": "review"})
KNOWN_BEFORE = {"expiration", "record_bytes_max", "repeat_window", "records_max"}
"""The limits that a version without templates expects, no more and no less."""


@pytest.mark.parametrize("template", [REVIEWS.limits.template, None])
@pytest.mark.parametrize(("is_changed", "number"), [(False, 2), (True, 3)])
def test_a_version_that_knows_no_templates_refuses_the_state(
    template: str | None, is_changed: bool, number: int
) -> None:
    """It would refuse the `define` in the log; before there is one, it may continue from the state."""
    limits = dataclasses.replace(REVIEWS.limits, template=template, is_template_changed=is_changed)
    checkpoint = Checkpoint(definition=REVIEWS.digest_with(template), limits=limits)
    progress = progress_of(checkpoint, 0, {})
    decoded, read = Checkpoint.decode(checkpoint.encode()), read_event(progress.key, progress.value(), None)
    assert isinstance(read, Progress)
    assert (decoded, read) == (checkpoint, progress)
    assert decoded.limits.is_template_changed == read.limits.is_template_changed == is_changed
    written = orjson.loads(checkpoint.encode()), orjson.loads(progress.value())
    assert [one["format"] for one in written] == [number, number]
    if not is_changed:
        assert [set(one) for one in (written[0]["checkpoint"][9], written[1]["limits"])] == [KNOWN_BEFORE] * 2


def test_a_template_that_has_not_changed_is_no_obstacle() -> None:
    """A version without templates drops it when it commits; the next owner that knows it reads it from the file."""
    checkpoint = Checkpoint(definition=REVIEWS.digest, limits=REVIEWS.limits)
    given = orjson.loads(checkpoint.encode())
    assert given.pop("template") == REVIEWS.limits.template
    decoded = Checkpoint.decode(orjson.dumps(given))
    assert (decoded.limits.template, decoded.under(REVIEWS)) == (None, checkpoint)
    assert decoded.under(define_topic(name="reviews", key="/id", documents=True)) is None


def test_an_event_written_again_has_the_second_format() -> None:
    """A reader that knows only the first format refuses the event instead of giving it a wrong rank."""
    again = Change(b"1", b"{}", None, Position(0, 5), Position(0, 4), "again", 9, emitted_in=2)
    ((_, about),) = again.headers()
    assert about is not None
    assert (orjson.loads(about)["v"], orjson.loads(about)["emitted_in"]) == (2, 2)
    assert read_event(b"1", b"{}", [("sow", about)]) == again


def test_an_event_written_again_in_the_first_format_is_read() -> None:
    """`said_in` is what `emitted_in` was called."""
    about = {"position": "5", "after": "4", "op": "again", "time": 9, "said_in": 2}
    event = read_event(b"1", b"{}", [("sow", orjson.dumps(about))])
    assert isinstance(event, Change)
    assert event.rank == (2, Position(0, 5))
