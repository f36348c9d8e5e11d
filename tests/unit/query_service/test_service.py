"""What a query service makes of its settings."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline_query_service import service
from sowline_query_service.service import QueryService
from sowline_query_service.snapshots import snapshots
from sowline_query_service.snapshots.snapshots import Snapshots
from sowline_query_service.topics.state import ServedTopics

TOPICS = parse_topics("topics: [{name: orders, key: /id}]")


def test_the_memory_of_a_service_is_that_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """For recent changes, indexes, histories and timelines."""
    made: list[ServedTopics] = []

    def noted(*arguments: Any) -> ServedTopics:
        assert arguments[1:6] == (7, 8, 9, 10, 11)
        made.append(ServedTopics(*arguments))
        return made[-1]

    monkeypatch.setattr(service, "ServedTopics", noted)
    settings = Settings(
        core="python",
        ring_changes_max=7,
        index_bytes_max=8,
        ring_bytes_max=9,
        history_bytes_max=10,
        timeline_bytes_max=11,
    )
    QueryService(settings, TOPICS)
    (state,) = made
    assert state.topics["orders"].partitions.keys() == {0}


def test_snapshots_are_as_often_and_as_fast_as_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is given both."""
    given: list[Any] = []

    def noted(*arguments: Any) -> SimpleNamespace:
        given.extend(arguments[-2:])
        return SimpleNamespace(start=lambda: None, stop=lambda: None)

    monkeypatch.setattr(snapshots, "SnapshotWriter", noted)
    settings = Settings(snapshot_dir=tmp_path, snapshot_seconds=5, snapshot_bytes_per_second_max=2048)
    taken = Snapshots.open(settings, ServedTopics(TOPICS, ring_changes_max=10))
    taken.start(cast("Any", None))
    taken.stop()
    assert given == [5, 2048]
