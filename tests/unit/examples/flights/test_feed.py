"""The feed of the demo: slices of facts as files that a watcher of the directory sees in order."""

import asyncio
import csv
import time
from itertools import pairwise
from pathlib import Path

import click
import pytest

from examples.flights.data import feed_of, line_of
from examples.flights.demo import read_speed
from examples.flights.feed import SLICE_S, Feed, SliceWriter, due_s, interval_s, slices
from tests.unit.examples.flights.test_data import DELAYED, NEVER_LEFT

FACTS = feed_of([DELAYED, NEVER_LEFT])


def test_slices_cover_the_feed() -> None:
    """Slices hold every fact once, in order, each before the moment at which its slice ends."""
    cut = list(slices(FACTS, 600))
    assert [fact for part in cut for fact in part.facts] == FACTS
    assert all(part.until - 600 <= fact.moment < part.until for part in cut for fact in part.facts)


def test_no_empty_slices() -> None:
    """An interval in which nothing becomes known has no slice."""
    assert all(part.facts for part in slices(FACTS, 60))


@pytest.mark.parametrize(("speed", "interval"), [(3600.0, 1800), (0.1, 1), (None, 86400)])
def test_interval(speed: float | None, interval: int) -> None:
    """A slice is half a second long at the feed's speed, and a day where it runs as fast as it can."""
    assert interval_s(speed) == interval


def test_due() -> None:
    """An hour is due a second after the start at speed 3600, and at once where there is no speed."""
    assert due_s(7200, 3600, 3600.0) == 1.0
    assert due_s(7200, 3600, None) == 0.0


def test_files(tmp_path: Path) -> None:
    """Files are numbered in order, hold the facts as lines, and nothing else is left in the directory."""
    writer = SliceWriter(tmp_path / "feed")
    paths = [writer.write(part.facts) for part in slices(FACTS, 3600)]
    assert [path.name for path in paths[:2]] == ["000001.csv", "000002.csv"]
    assert sorted(paths[0].parent.iterdir()) == paths
    lines = [tuple(line) for path in paths for line in csv.reader(path.read_text().splitlines())]
    assert lines == [line_of(fact) for fact in FACTS]


def test_modification_times_rise(tmp_path: Path) -> None:
    """Each file is at least a millisecond younger than the one before, however fast they are written."""
    writer = SliceWriter(tmp_path)
    times = [writer.write(FACTS[:1]).stat().st_mtime_ns // 1_000_000 for _ in range(50)]
    assert all(earlier < later for earlier, later in pairwise(times))


def test_used_directory(tmp_path: Path) -> None:
    """A feed does not begin in a directory that has slices already, whose numbers it would repeat."""
    SliceWriter(tmp_path).write(FACTS)
    with pytest.raises(FileExistsError, match="without slices"):
        SliceWriter(tmp_path)


async def test_feed_writes_all_slices(tmp_path: Path) -> None:
    """A feed as fast as it can writes every fact, and its clock ends behind the last."""
    feed = Feed(FACTS, SliceWriter(tmp_path), None)
    await feed.run(asyncio.Event(), lambda: True)
    assert feed.fed == len(FACTS)
    assert feed.clock > FACTS[-1].moment


async def test_feed_stops_at_a_slice(tmp_path: Path) -> None:
    """A feed that is told to stop has written whole slices, at least one, and knows how many facts they held."""
    feed = Feed(FACTS, SliceWriter(tmp_path), 7200.0)
    stop = asyncio.Event()
    stop.set()
    await feed.run(stop, lambda: True)
    (path,) = tmp_path.iterdir()
    assert 0 < feed.fed < len(FACTS)
    assert len(path.read_text().splitlines()) == feed.fed
    assert feed.reached == {fact.kind: fact.moment for fact in FACTS[: feed.fed]}


async def test_feed_waits_for_room(tmp_path: Path) -> None:
    """A feed writes a slice only when there is room for it."""
    asked: list[int] = []

    def has_room() -> bool:
        asked.append(len(list(tmp_path.iterdir())))
        return len(asked) > 3

    await Feed(FACTS, SliceWriter(tmp_path), None).run(asyncio.Event(), has_room)
    assert asked[:4] == [0, 0, 0, 0]


async def test_a_feed_that_waited_keeps_its_speed(tmp_path: Path) -> None:
    """After a wait for room, it does not catch up: the page says how much passes in a second."""
    facts = [FACTS[0]._replace(moment=moment) for moment in (0, 1000)]
    room_s = time.monotonic() + 1.2
    await Feed(facts, SliceWriter(tmp_path), 2000.0).run(asyncio.Event(), lambda: time.monotonic() > room_s)
    first, second = (path.stat().st_mtime for path in sorted(tmp_path.iterdir()))
    assert second - first > SLICE_S - 0.1


@pytest.mark.parametrize(("text", "speed"), [("3600", 3600.0), ("0.5", 0.5), ("max", None)])
def test_speed(text: str, speed: float | None) -> None:
    """A speed is a factor, or as fast as it can be."""
    assert read_speed(None, None, text) == speed


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan", "inf"])
def test_bad_speed(text: str) -> None:
    """A speed that is no number above 0 is refused with what was expected."""
    with pytest.raises(click.BadParameter, match="above 0, or max"):
        read_speed(None, None, text)
