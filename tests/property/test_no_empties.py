"""`no_empties` leaves out what changes nothing, and only that: who follows the deltas holds the record."""

import json
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.language.filter import ALL
from sowline.model.merge import merge, take_out
from sowline.model.position import Position
from sowline.model.select import Select, parse_select
from sowline.subscriptions.engine.conflation import Conflation
from sowline.subscriptions.engine.delivery import Deltas, Form, Payload, payload_of
from sowline.subscriptions.engine.subscription import ChangeView, Subscription

KEYS = (("id",), ("o", "id"))
SUBSCRIPTION = Subscription(ALL, delta=True)

spellings = st.sampled_from([1, "1", None])
"""Two values of one key, and none: a document need not have the fields of its key."""


def body_of(id: object, inner: object, rest: int) -> bytes:
    """Return a record; None leaves a key field out."""
    fields = {"id": id, "o": {"id": inner, "a": rest // 2}, "n": rest % 2}
    fields["o"] = {name: value for name, value in fields["o"].items() if value is not None}  # type: ignore[attr-defined]
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


bodies = st.builds(body_of, spellings, spellings, st.integers(0, 3))
selects = st.sampled_from([None, "[-/id]", "[-/,+/id]", "[-/,+/o/id]", "[-/o]", "[-/,+/n]"]).map(
    lambda text: None if text is None else parse_select(text)
)


class Follower:
    """A subscriber that merges what it is sent."""

    def __init__(self, select: Select | None, first: bytes) -> None:
        self.form = Form(select, delta=True, no_empties=True)
        self.select = select
        self.held = self.selected(first)
        self.conflation = Conflation(self.form)

    def selected(self, body: bytes) -> bytes:
        """What it selects of a body."""
        return body if self.select is None else self.select.apply(body)

    def take(self, payload: Payload | None) -> None:
        """Apply a message."""
        if payload is not None and payload.removed is not None:
            self.held = take_out(merge(self.held, payload.body), payload.removed)
        elif payload is not None:
            self.held = payload.body

    def holds(self, body: bytes) -> bool:
        """Whether it holds what it selects of a body."""
        return bool(json.loads(self.held) == json.loads(self.selected(body)))


@given(st.lists(bodies, min_size=2, max_size=6), selects, st.sets(st.integers(0, 5)))
@example([body_of(1, 1, 0), body_of("1", 1, 0)], None, set())
@example([body_of(None, 1, 0), body_of(1, 1, 0)], None, set())
@example([body_of(1, 1, 0), body_of("1", 1, 0), body_of(1, 1, 0)], None, set())
def test_no_change_is_swallowed(states: list[bytes], select: Select | None, ends: set[int]) -> None:
    """Live after each change, conflated at the end of each interval; and no message says nothing."""
    live, conflated = Follower(select, states[0]), Follower(select, states[0])
    since = states[0]
    for number, (before, now) in enumerate(pairwise(states)):
        change = Change(b"1", now, before, Position(0, number + 1), Position(0, number), "publish", number)
        delivery = SUBSCRIPTION.on_change(ChangeView(change))
        assert delivery is not None
        payload = payload_of(b"1", delivery, live.form, Deltas(KEYS), None)
        live.take(payload)
        assert live.holds(now)
        assert (payload is None) == (json.loads(live.selected(before)) == json.loads(live.selected(now)))
        conflated.conflation.take(b"1", delivery, Deltas(KEYS), number)
        if number in ends or number == len(states) - 2:
            messages = conflated.conflation.flush()
            for message in messages:
                conflated.take(message)
            assert conflated.holds(now)
            assert messages or json.loads(live.selected(since)) == json.loads(live.selected(now))
            since = now
