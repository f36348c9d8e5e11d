"""The materializer as a process: what its workers get while they follow each other."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline_materializer import service
from sowline_materializer.service import Materializer

BEFORE = parse_topics("topics: [{name: orders, key: /id}]")
AFTER = parse_topics("topics: [{name: orders, key: /id}, {name: more, key: /id}]")


class HandedOver:
    """A lock whose next owner runs at once when it is released, as the scheduler may let it."""

    def __init__(self, waiting: Callable[[], None]) -> None:
        self._lock, self._waiting = threading.Lock(), [waiting]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        while self._waiting:
            self._waiting.pop()()


def test_definitions_that_wait_for_the_next_worker_reach_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They changed while the Kafka topics of those before were checked."""
    stop, workers = threading.Event(), list[Mock]()

    def worker(settings: Any, topics: Any, *_: Any) -> Mock:
        workers.append(Mock(topics=topics))
        workers[-1].run.side_effect = stop.set
        return workers[-1]

    def redefine() -> None:
        materializer.redefine(followed)

    followed = Mock(topics=AFTER)
    followed.topics_that_are.return_value = []
    for name in ("ensure_topics", "KafkaHealth", "DefinitionsFollower", "StartPhase", "Cluster"):
        monkeypatch.setattr(service, name, Mock())
    monkeypatch.setattr(service, "Worker", worker)
    monkeypatch.setattr(service, "threading", Mock(Lock=lambda: HandedOver(redefine)))
    materializer = Materializer(Settings(data_dir=tmp_path), BEFORE, stop)
    materializer.run()
    [only] = workers
    assert only.topics is BEFORE
    only.redefinitions.put.assert_called_once_with(followed)
