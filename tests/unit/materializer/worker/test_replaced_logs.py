"""Which partitions begin an era, and why some get no records."""

import logging
from types import SimpleNamespace
from typing import Any

from sowline.kafka.fetched_ids import FetchedIds
from sowline_materializer.topic_monitor import KnownEnd, MonitorAnswer
from sowline_materializer.worker.owned import OwnedPartitions
from sowline_materializer.worker.replaced_logs import ReplacedLogs

NONE: frozenset[Any] = frozenset()


def replaced_logs() -> tuple[OwnedPartitions, FetchedIds, ReplacedLogs]:
    """Return two partitions of one log, and one of another."""
    definitions: Any = {"orders": SimpleNamespace(partitions=2), "trades": SimpleNamespace(partitions=1)}
    owned, fetched = OwnedPartitions(definitions), FetchedIds({})
    for one, log_id in ((("orders", 0), "a"), (("orders", 1), "a"), (("trades", 0), "b")):
        partition: Any = SimpleNamespace(checkpoint=SimpleNamespace(log_id=log_id, next_offset=7))
        owned.partitions[one] = partition
    return owned, fetched, ReplacedLogs(owned, fetched)


def test_the_id_that_is_fetched_decides() -> None:
    """All partitions of the log are named until their states are of the new log."""
    owned, fetched, logs = replaced_logs()
    assert logs.take() == []
    fetched.log(logging.DEBUG, "%s %s %s", "METADATA", "", "Topic orders changed id from a to c")
    for _ in range(2):
        assert logs.take() == [("orders", 0), ("orders", 1)]
    owned.partitions["orders", 0].checkpoint.log_id = "c"  # type: ignore[misc]
    assert logs.take() == [("orders", 1)]


def test_what_a_look_or_the_consumer_finds_counts_once() -> None:
    """A partition that is not ours any more is nobody's here."""
    _, _, logs = replaced_logs()
    logs.note(MonitorAnswer({}, frozenset({("trades", 0), ("other", 0)}), NONE))
    logs.removed("orders", 1)
    assert logs.take() == [("orders", 1), ("trades", 0)]
    assert logs.take() == []


def test_a_log_that_is_gone() -> None:
    """Its partitions say what to do, until it is there again; also those that the group has taken away."""
    owned, _, logs = replaced_logs()
    del owned.partitions["orders", 1]
    logs.note(MonitorAnswer({}, NONE, frozenset({"orders", "trades.changes"})))
    assert list(logs.gone()) == [("orders", 0), ("orders", 1)]
    assert "the log orders was deleted: create it again" in logs.gone()["orders", 1]
    assert logs.take() == []
    logs.note(MonitorAnswer({}, NONE, NONE))
    assert logs.gone() == {}


def test_a_log_that_is_gone_may_leave_the_file() -> None:
    """Nothing waits for it any more, although the last look still had it; the others are named all the same."""
    owned, _, logs = replaced_logs()
    logs.note(MonitorAnswer({}, NONE, frozenset({"orders", "trades"})))
    del owned.definitions["orders"]
    assert list(logs.gone()) == [("trades", 0)]


def test_what_is_known_of_the_logs() -> None:
    """Their ids, and where they end at the least."""
    _, _, logs = replaced_logs()
    assert logs.known_ends()["trades", 0] == KnownEnd("b", 7, has_head=False)
