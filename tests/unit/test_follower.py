"""What the follower's thread hands to the loop, and when it says that a partition is loaded."""

from typing import Any

import pytest

from query_service.follower import Follower, Place
from sowline.change import AGAIN, Change, Event, Progress
from sowline.position import Position
from sowline.topics import TopicDefinition
from tests.property.world import Written, written

PLACE = ("orders.changes", 0)


class Message(Written):
    """A record of the changes of `orders`."""

    def topic(self) -> str:
        """Return the topic's name."""
        return PLACE[0]

    def partition(self) -> int:
        """Return the partition's number."""
        return PLACE[1]


def message(at: int, event: Event) -> Any:
    """Return the event as Kafka hands it over."""
    return Message(*written(at, event))


def again(offset: int) -> Change:
    """A record of that offset, written once more."""
    place = Position(0, offset)
    return Change(b"%d" % offset, b"{}", None, place, place, AGAIN, 1000)


def progress(offset: int) -> Progress:
    """A partition's word that it stands there."""
    place = Position(0, offset)
    return Progress(place, place, offset + 1, {}, "digest", "log", 1000, {})


@pytest.fixture
def loaded() -> list[Place]:
    """What was said to be loaded."""
    return []


def follower_of(loaded: list[Place], monkeypatch: pytest.MonkeyPatch, **definition: Any) -> Follower:
    """A follower of one topic, which ended at offset 2 when it began."""
    topic = TopicDefinition.model_validate({"name": "orders", **(definition or {"key": "/id"})})
    follower = Follower({}, [topic], lambda batches: None, loaded.extend, lambda error: None)
    monkeypatch.setattr(follower, "_call", lambda function, *arguments: function(*arguments))
    follower._loading[PLACE] = 2
    return follower


def read(follower: Follower, *messages: Any) -> None:
    """Let messages arrive."""
    follower._hand_over(list(messages))
    follower._report_loaded(list(messages))


def test_loaded_at_the_end(loaded: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition is loaded where it ended when the follower began."""
    follower = follower_of(loaded, monkeypatch)
    read(follower, message(0, progress(3)))
    assert loaded == []
    read(follower, message(1, again(2)))
    assert loaded == [PLACE]


def test_changes_that_are_being_written_again(loaded: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a changes topic that was lost, the word of where the partition stands comes last."""
    follower = follower_of(loaded, monkeypatch)
    read(follower, message(0, again(7)), message(1, again(3)))
    follower._on_end(*PLACE, 2)
    follower._report_loaded([])
    assert loaded == []
    read(follower, message(2, again(5)), message(3, progress(7)))
    assert loaded == [PLACE]


def test_an_empty_partition(loaded: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was written, there is nothing to wait for."""
    follower = follower_of(loaded, monkeypatch)
    follower._on_end(*PLACE, 0)
    follower._report_loaded([])
    assert loaded == [PLACE]


def test_a_topic_without_a_sow(loaded: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """There nothing lacks: its changes are deleted by their age, and with them what says where it stands."""
    follower = follower_of(loaded, monkeypatch, sow=False)
    read(follower, message(1, again(7)))
    assert loaded == [PLACE]
