"""Places: where the reader of a subscription stands after each message."""

import pytest

from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message


def live(bookmark: str | None, command: str = "publish") -> Message:
    """A message with a bookmark."""
    return Message(command, bookmark=bookmark)


def after(tracker: PositionTracker, *messages: Message) -> str:
    """Where the messages lead to from a place."""
    for message in messages:
        tracker.note(message)
    return tracker.bookmark


def test_a_live_message_moves_its_own_partition() -> None:
    """What it says is laid over what is known of the others."""
    tracker = PositionTracker("orders:0@1,1@7;trades:0@2")
    assert after(tracker, live("orders:0@3"), live("trades:1@0", "oof")) == "orders:0@3,1@7;trades:0@2,1@0"
    assert after(tracker, live("orders:0@1/4.2")) == "orders:0@1/4.2,1@7;trades:0@2,1@0"


def test_of_messages_about_several_partitions_the_last_counts() -> None:
    """Whichever of them it names."""
    messages = [live("orders:0@1,1@1"), live("orders:1@2"), live("orders:0@3,1@3"), live("orders:0@4")]
    assert [after(PositionTracker(), *messages[:count]) for count in range(1, 5)] == [
        "orders:0@1,1@1",
        "orders:0@1,1@2",
        "orders:0@3,1@3",
        "orders:0@4,1@3",
    ]


def test_the_end_of_a_group_says_all() -> None:
    """What was known before does not count; its records and its beginning move nothing."""
    tracker = PositionTracker("orders:0@9,1@9")
    inside = [live("orders:0@1", "group_begin"), live("orders:0@1", "sow"), live(None)]
    assert after(tracker, live("orders:0@10"), *inside) == "orders:0@10,1@9"
    assert after(tracker, live("orders:0@1", "group_end")) == "orders:0@1"


@pytest.mark.parametrize("bookmark", [None, "", "epoch", "now", "0"])
def test_a_named_position_knows_no_partition(bookmark: str | None) -> None:
    """Nothing is known before the first message."""
    assert PositionTracker(bookmark).bookmark == "epoch"
    assert after(PositionTracker(bookmark), live("orders:1@3")) == "orders:1@3"


def test_a_copy_moves_by_itself() -> None:
    """The place that it was made of stays where it is."""
    tracker = PositionTracker("orders:0@1")
    tracker.note(live("orders:1@2"))
    copied = tracker.copy()
    assert after(copied, live("orders:1@3")) == "orders:0@1,1@3"
    assert tracker.bookmark == "orders:0@1,1@2"
