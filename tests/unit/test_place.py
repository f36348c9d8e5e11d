"""Places: where the reader of a subscription stands after each message."""

import pytest

from sowline.message import Message
from sowline.place import Place


def live(bookmark: str | None, command: str = "publish") -> Message:
    """A message with a bookmark."""
    return Message(command, bookmark=bookmark)


def test_a_live_message_moves_its_own_partition() -> None:
    """What it says is laid over what is known of the others."""
    place = Place("orders:0@1,1@7;trades:0@2").after(live("orders:0@3")).after(live("trades:1@0", "oof"))
    assert place.bookmark == "orders:0@3,1@7;trades:0@2,1@0"


def test_the_end_of_a_group_says_all() -> None:
    """What was known before does not count; its records and its beginning move nothing."""
    place = Place("orders:0@9,1@9")
    assert place.after(live("orders:0@1", "group_begin")) is place.after(live("orders:0@1", "sow")) is place
    assert place.after(live("orders:0@1", "group_end")).bookmark == "orders:0@1"


@pytest.mark.parametrize("bookmark", [None, "", "epoch", "now", "0"])
def test_a_named_place_knows_no_partition(bookmark: str | None) -> None:
    """Nothing is known before the first message."""
    assert Place(bookmark).bookmark == "epoch"
    assert Place(bookmark).after(live("orders:1@3")).after(live(None)).bookmark == "orders:1@3"


def test_moving_on_leaves_the_place_before_as_it_was() -> None:
    """Whoever keeps a place keeps it."""
    place = Place("orders:0@1")
    place.after(live("orders:0@2"))
    assert place.bookmark == "orders:0@1"
