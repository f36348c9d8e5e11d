"""The client machine over any sequence of legal events: no group comes twice, nothing is acknowledged twice."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sowline.subscriptions.ask import Ask
from sowline.subscriptions.client_machine import ClientMachine
from sowline.subscriptions.lifecycle import (
    LEGAL,
    Accepted,
    Action,
    Again,
    Arrived,
    AskLater,
    ConnectionMade,
    Event,
    Fail,
    Give,
    NotProven,
    NotReplaced,
    Over,
    Refused,
    Replace,
    ReplaceBy,
    Replaced,
    Send,
    SendAsk,
    Settled,
    Signal,
    Started,
    Take,
)
from sowline.subscriptions.machine import Legal
from sowline.wire.client_message import Message

_OPTIONS = ["", "oof", "oof,reset", "pause"]
_COMMANDS = ["sow", "subscribe", "sow_and_subscribe", "sow_and_delta_subscribe"]
_asks = st.builds(
    Ask,
    st.sampled_from(_COMMANDS),
    st.just("orders"),
    options=st.sampled_from(_OPTIONS),
    bookmark=st.sampled_from(["", "orders:0@0"]),
    up_to=st.sampled_from(["", "now"]),
)
_reasons = st.sampled_from(["not ready", "behind", "shard unavailable", "bad filter", "bookmark_expired"])


def _arrived(command: str) -> st.SearchStrategy[Event]:
    message = st.builds(
        Message,
        st.just(command),
        bookmark=st.integers(1, 9).map("orders:0@{}".format),
        reset=st.booleans() if command == "group_begin" else st.just(False),
    )
    return message.map(lambda one: Arrived(command, (one,)))


_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(ConnectionMade, st.booleans()),
    st.builds(Again, st.integers(0, 2)),
    st.builds(Accepted, st.just("orders:0@1")),
    st.builds(Refused, _reasons),
    st.builds(Replaced, st.integers(1, 3)),
    st.builds(NotReplaced, st.integers(1, 3), _reasons, st.just("m"), st.booleans()),
    st.builds(NotProven, st.just("busy")),
    *map(_arrived, ("group_begin", "sow", "group_end", "publish", "oof", "progress")),
    st.builds(Take, st.integers(1, 5)),
    st.builds(Replace, st.fixed_dictionaries({"options": st.sampled_from(_OPTIONS)})),
    st.sampled_from([signal for signal in Signal if signal is not Signal.LEAVE]),
)


class Subscriber:
    """What a machine has sent, answered and given: each promise is kept once."""

    def __init__(self) -> None:
        self.counts: Counter[type[Any]] = Counter()
        self.groups_due = self.groups_whole = 0
        self._is_connected = False

    def note(self, event: Event, actions: list[Action]) -> None:
        """Note an event with what the machine does about it, and check that."""
        assert not self.counts[Over] or all(isinstance(action, Give) for action in actions), "it is over"
        self._is_connected = isinstance(event, ConnectionMade) or (
            self._is_connected and event is not Signal.LOST
        )
        kinds = Counter[type[Any]](type(action) for action in actions)
        self.counts += kinds + Counter([type(event)])
        assert self._is_connected or not kinds[SendAsk] + kinds[ReplaceBy] + kinds[Send]
        assert kinds[SendAsk] + kinds[AskLater] <= 1
        assert self.counts[Started] == self.counts[Accepted] <= self.counts[SendAsk]
        assert self.counts[Settled] <= self.counts[Replace]
        self.groups_due += kinds[SendAsk] + kinds[ReplaceBy] + (event.row == "group_begin")
        given = [message for action in actions if isinstance(action, Give) for message in action.messages]
        self.groups_whole += sum(message.command == "group_end" for message in given)
        assert self.groups_whole <= self.groups_due, "a group came twice"


@settings(max_examples=400, deadline=None)
@given(_asks, st.lists(_events, max_size=60), st.sampled_from([Signal.LEAVE, Fail("disconnected")]))
def test_any_legal_sequence(ask: Ask, events: list[Event], last: Event) -> None:
    """A group is whole once for each request, an answer is given once, a command has a connection, and it ends."""
    machine, subscriber = ClientMachine(ask), Subscriber()
    for event in [*events, last]:
        if LEGAL[event.row][machine.state] is Legal.ACTS:
            subscriber.note(event, machine.handle(event))
    assert machine.is_over
    assert subscriber.counts[Over] == 1
    assert subscriber.counts[Settled] == subscriber.counts[Replace], "each replacement has one answer"
