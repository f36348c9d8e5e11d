"""Messages that a subscriber has not taken yet."""

from sowline.subscriptions.inbox import Inbox
from sowline.wire.client_message import Message

ONE, TWO, THREE = (Message("publish", sow_key=key) for key in "123")
FIRST = Message("publish", sow_key="f", more=True)


def test_a_step_can_be_taken_once_it_is_whole() -> None:
    """Its messages stay together, in their order."""
    inbox = Inbox()
    inbox.add([ONE], more=True)
    inbox.add([TWO], more=True)
    assert (list(inbox), len(inbox)) == ([], 0)
    inbox.add([THREE], more=False)
    assert (list(inbox), len(inbox)) == ([ONE, TWO, THREE], 3)


def test_a_message_of_no_step_comes_before_an_unfinished_one() -> None:
    """The step is sent again if it never becomes whole."""
    inbox = Inbox()
    inbox.add([ONE], more=True)
    inbox.insert(TWO)
    inbox.drop_unfinished()
    inbox.add([THREE], more=False)
    assert list(inbox) == [TWO, THREE]


def test_the_rest_of_a_step_is_kept() -> None:
    """Its subscriber has taken a part of it, and is to get it whole."""
    inbox = Inbox()
    inbox.add([FIRST, ONE, TWO], more=False)
    inbox.drop()
    assert list(inbox) == []
    inbox.add([FIRST, FIRST, ONE, TWO], more=False)
    inbox.waiting.popleft()
    inbox.is_in_step = True
    inbox.drop()
    assert list(inbox) == [FIRST, ONE]


def test_everything_can_be_dropped() -> None:
    """Also the rest of a step, and one that is not whole."""
    inbox = Inbox()
    inbox.add([FIRST, ONE], more=False)
    inbox.add([TWO], more=True)
    inbox.is_in_step = True
    inbox.clear()
    inbox.add([THREE], more=False)
    assert (list(inbox), inbox.is_in_step) == ([THREE], False)
