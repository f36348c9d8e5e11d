"""The bookmark after any of the messages that were taken together."""

from sowline.client.taken_batch import TakenBatch
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message


def changes(*offsets: int) -> list[Message]:
    """Return a message about each of these offsets."""
    return [Message("publish", "orders", bookmark=f"orders:0@{offset}") for offset in offsets]


def test_each_message_moves_the_bookmark() -> None:
    """It may be asked for again, and for more of them later."""
    batch = TakenBatch(changes(3, 4, 7), PositionTracker("orders:0@1"))
    found = [batch.bookmark_after(count) for count in (0, 1, 1, 3)]
    assert found == ["orders:0@1", "orders:0@3", "orders:0@3", "orders:0@7"]


def test_without_a_position_there_is_no_bookmark() -> None:
    """Messages of a query, for example: nothing could resume from it."""
    assert TakenBatch(changes(3), None).bookmark_after(1) is None


def test_a_group_of_another_state_has_no_bookmark() -> None:
    """Its records replace all: until it ends, nothing could resume from the middle."""
    batch = TakenBatch([*changes(3), Message("group_begin", reset=True)], PositionTracker(None))
    assert [batch.bookmark_after(count) for count in (1, 2)] == ["orders:0@3", None]
