"""What a subscriber has taken, and from where it can resume."""

import pytest

from sowline.subscriptions.ask import Ask
from sowline.subscriptions.taken import Holding, Taken
from sowline.wire.client_message import Message

ASK = Ask("sow_and_subscribe", "orders")
CHANGES = Ask("subscribe", "orders")
RECORD = Message("sow", sow_key="1")
END = Message("group_end", bookmark="orders:0@5")
PROGRESS = Message("progress", bookmark="orders:0@9")


def change(offset: int, *, more: bool = False, reset: bool = False) -> Message:
    """Return a change at an offset."""
    return Message("publish", bookmark=f"orders:0@{offset}", more=more, reset=reset)


@pytest.fixture
def taken() -> Taken:
    """A group and a change that wait."""
    made = Taken(ASK)
    made.inbox.add([RECORD, END, change(6)], more=False)
    return made


def test_a_group_is_taken_up_to_its_end(taken: Taken) -> None:
    """From there the subscription can resume, and not before."""
    assert (taken.take(1), taken.holding, taken.bookmark) == ([RECORD], Holding.PART, None)
    assert (taken.take(10), taken.holding, taken.bookmark) == ([END], Holding.WHOLE, "orders:0@5")
    assert (taken.take(10), taken.bookmark) == ([change(6)], "orders:0@6")
    assert taken.shown == taken.served
    assert (taken.take(10), taken.is_whole) == ([], True)


def test_progress_moves_the_bookmark_alone(taken: Taken) -> None:
    """The subscriber does not get it, but what waits may end there."""
    taken.inbox.add([PROGRESS], more=False)
    assert taken.end_bookmark() == "orders:0@9"
    taken.take(10)
    assert (taken.take(10), taken.bookmark) == ([change(6)], "orders:0@9")


def test_changes_alone_begin_at_a_bookmark() -> None:
    """Nothing else is needed to resume."""
    taken = Taken(CHANGES)
    taken.begin_at("orders:0@3")
    assert (taken.bookmark, taken.is_whole) == ("orders:0@3", True)


def test_a_replacement_has_a_group_of_its_own(taken: Taken) -> None:
    """The end of one that waits is that of the previous request."""
    taken.take(10)
    taken.take(10)
    taken.inbox.add([RECORD, END], more=False)
    taken.replace(ASK)
    assert (taken.holding, taken.served.replacements) == (Holding.PART, 1)
    taken.take(10)
    assert taken.holding is Holding.PART
    taken.inbox.add([END], more=False)
    taken.take(10)
    assert (taken.holding, taken.shown) == (Holding.WHOLE, taken.served)


def test_a_replacement_without_a_group_goes_on(taken: Taken) -> None:
    """Unless what was taken is void."""
    taken.replace(CHANGES)
    assert taken.is_whole
    taken.drop_waiting(make_void=True)
    taken.replace(CHANGES)
    assert taken.is_void


def test_a_reset_makes_void_what_was_taken() -> None:
    """Until the group that it begins has ended."""
    taken = Taken(ASK)
    taken.begin_at("orders:0@3")
    taken.inbox.add([change(4, reset=True), END], more=False)
    taken.take(1)
    assert (taken.is_void, taken.bookmark) == (True, None)
    taken.take(1)
    assert taken.bookmark == "orders:0@5"


def test_a_renewed_group_replaces_everything(taken: Taken) -> None:
    """Its first message tells the subscriber so, and the end of an earlier one is none of it."""
    assert taken.begin_group([RECORD]) == [RECORD]
    taken.drop_waiting(make_void=True)
    taken.renew()
    taken.inbox.add([END], more=False)
    taken.take(10)
    assert taken.holding is Holding.RENEWED
    (first,) = taken.begin_group([RECORD])
    assert (first.reset, taken.holding) == (True, Holding.VOID)


def test_what_waits_can_be_dropped(taken: Taken) -> None:
    """The rest of a step stays, unless all is void."""
    taken.inbox.clear()
    taken.inbox.add([change(6, more=True), change(6), change(7)], more=False)
    taken.take(1)
    taken.drop_waiting(make_void=False)
    assert taken.take(10) == [change(6)]
