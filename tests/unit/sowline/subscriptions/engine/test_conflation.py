"""Conflation: what has happened to each record within an interval, as one message."""

import json
from itertools import pairwise
from typing import Any

import pytest

from sowline.changes.change import Change
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.model.difference import Keys
from sowline.model.path import parse_path
from sowline.model.position import Position
from sowline.model.select import parse_select
from sowline.subscriptions.engine.conflation import (
    AUTO_BACKLOG_BYTES,
    AUTO_MAX_MS,
    AUTO_STEP_MS,
    Conflation,
    adapted,
    by_values_of,
    pending_of,
)
from sowline.subscriptions.engine.delivery import Deltas, Form, Payload
from sowline.subscriptions.engine.subscription import ChangeView, Subscription
from sowline.wire.options import parse_options

KEYS = (("id",),)
DELTA = Form(delta=True)
Json = dict[str, Any]

START: Json = {"id": 99, "status": "open", "notes": "none", "xref": 82}


def text(body: Json | None) -> bytes | None:
    """Return a body as JSON."""
    return None if body is None else json.dumps(body, separators=(",", ":")).encode()


class Subscriber:
    """One subscription, and the interval that runs."""

    def __init__(
        self,
        form: Form = DELTA,
        *,
        filter: str = "",
        oof: bool = True,
        key: str = "",
        delta: bool | None = None,
    ) -> None:
        looks_for_deltas = form.delta if delta is None else delta
        self.subscription = Subscription(compile_filter(filter), oof, looks_for_deltas)
        self.conflation = Conflation(form, by_values_of((parse_path(key),)) if key else None)
        self.time = 0

    def see(self, *bodies: Json | None) -> list[tuple[Any, ...]]:
        """Let a record go through these states, the first of which was before; return what is told at the end."""
        self.change(*bodies)
        return self.received()

    def change(self, *bodies: Json | None) -> None:
        """Let a record go through these states, the first of which was before."""
        for before, now in pairwise(bodies):
            self.time += 1
            key = str((before or now or {})["id"]).encode()
            op, reason = ("publish", None) if now is not None else ("delete", "deleted")
            positions = Position(0, self.time), Position(0, self.time - 1)
            seen = ChangeView(Change(key, text(now), text(before), *positions, op, self.time, reason=reason))
            delivery = self.subscription.on_change(seen)
            if delivery is not None:
                self.conflation.take(key, delivery, Deltas(KEYS), self.time)

    def received(self) -> list[tuple[Any, ...]]:
        """End the interval; return each message: command, reason, removed fields (None: whole), body."""
        return [
            (message.command, message.reason, message.removed, json.loads(message.body))
            for message in self.conflation.flush()
        ]


def publish(body: Json, removed: tuple[str, ...] | None = None) -> tuple[Any, ...]:
    """What is told of a record that matches."""
    return ("publish", None, removed, body)


def test_the_chapters_record() -> None:
    """What changed and changed back is told; what never changed is not."""
    states = [
        START,
        START | {"status": "questioned"},
        START | {"status": "questioned", "notes": "jcarlo hold"},
        START | {"status": "cleared"},
        START,
    ]
    assert Subscriber().see(*states) == [publish({"id": 99, "status": "open", "notes": "none"}, ())]
    assert Subscriber(Form(delta=True, no_empties=True)).see(*states) == Subscriber().see(*states)
    assert Subscriber(Form()).see(*states) == [publish(START)]


@pytest.mark.parametrize(
    ("states", "received"),
    [
        # Update, then out: the record as it was told last.
        ([1, 2, 9], [("oof", "match", None, {"id": 1, "a": 1})]),
        ([1, 2, None], [("oof", "deleted", None, {"id": 1, "a": 1})]),
        ([1, 9, None], [("oof", "match", None, {"id": 1, "a": 1})]),
        # Out and back: where it is at the end, whole.
        ([1, 9, 2], [publish({"id": 1, "a": 2})]),
        ([1, None, 2, 3], [publish({"id": 1, "a": 3})]),
        ([1, 9, 2, 9], [("oof", "match", None, {"id": 1, "a": 1})]),
        # In and out: nothing.
        ([9, 1, 9], []),
        ([None, 1, None], []),
        ([None, 1, 2, None, 9, None], []),
        # In, and in again.
        ([9, 1, 9, 2], [publish({"id": 1, "a": 2})]),
        ([None, 1, 2], [publish({"id": 1, "a": 2})]),
        # Never in.
        ([9, 8, None], []),
    ],
)
def test_focus(states: list[int | None], received: list[tuple[Any, ...]]) -> None:
    """Of several steps into focus and out of it the outcome counts."""
    bodies = [None if state is None else {"id": 1, "a": state} for state in states]
    for form in (DELTA, Form()):
        subscriber = Subscriber(form, filter="/a < 5")
        subscriber.change(*bodies)
        assert bool(subscriber.conflation.bytes) is bool(received)
        assert subscriber.received() == received
        assert (len(subscriber.conflation), subscriber.conflation.bytes) == (0, 0)


def test_without_oof_the_last_state_that_matched_is_sent() -> None:
    """As it would be without conflation."""
    states = [{"id": 1, "a": a} for a in (1, 2, 3, 9)]
    assert Subscriber(Form(), filter="/a < 5", oof=False).see(*states) == [publish({"id": 1, "a": 3})]
    assert Subscriber(DELTA, filter="/a < 5", oof=False).see(*states) == [publish({"id": 1, "a": 3}, ())]
    back = [*states, {"id": 1, "a": 4}]
    assert Subscriber(DELTA, filter="/a < 5", oof=False).see(*back) == [publish({"id": 1, "a": 4})]


def test_removed_fields() -> None:
    """What is gone at the end is named; what came back is a field that changed."""
    assert Subscriber().see({"id": 1, "a": 1, "b": 1}, {"id": 1, "a": 2}, {"id": 1, "a": 3}) == [
        publish({"id": 1, "a": 3}, ("/b",))
    ]
    assert Subscriber().see({"id": 1, "a": 1}, {"id": 1}, {"id": 1, "a": 1}) == [
        publish({"id": 1, "a": 1}, ())
    ]


def test_no_empties() -> None:
    """What changed nothing that is selected is not told, also if it was out of focus in between."""
    selected = Form(parse_select("[-/,+/id,+/a]"), delta=True, no_empties=True)
    assert Subscriber(DELTA).see({"id": 1}, {"id": 1}) == [publish({"id": 1}, ())]
    assert Subscriber(selected).see({"id": 1, "b": 1}, {"id": 1, "b": 2}, {"id": 1, "b": 2}) == []
    states = [{"id": 1, "a": 1, "b": b} for b in (1, 9, 2)]
    assert Subscriber(selected, filter="/b < 5").see(*states) == []
    states[-1]["a"] = 2
    assert Subscriber(selected, filter="/b < 5").see(*states) == [publish({"id": 1, "a": 2})]


def test_select() -> None:
    """Of every message."""
    form = Form(parse_select("[-/,+/id]"))
    assert Subscriber(form).see({"id": 1, "a": 1}, {"id": 1, "a": 2}) == [publish({"id": 1})]
    assert Subscriber(form).see({"id": 1, "a": 1}, None) == [("oof", "deleted", None, {"id": 1})]


def test_several_records() -> None:
    """Each is told by itself, once an interval, with the time of the first change in it."""
    subscriber = Subscriber(Form())
    subscriber.change(None, {"id": 1, "a": 1})
    subscriber.change(None, {"id": 2, "a": 1})
    subscriber.change({"id": 1, "a": 1}, {"id": 1, "a": 2})
    assert subscriber.conflation.flush() == [
        Payload(b"1", "publish", b'{"id":1,"a":2}', 1),
        Payload(b"2", "publish", b'{"id":2,"a":1}', 2),
    ]
    assert subscriber.received() == []


def test_conflation_key() -> None:
    """Records with equal values are one message: the last."""
    subscriber = Subscriber(Form(), oof=False, key="/a")
    for body in ({"id": 1, "a": 1}, {"id": 2, "a": 1}, {"id": 3}, {"id": 4, "a": None}, {"id": 5, "a": 2}):
        subscriber.change(None, body)
    assert subscriber.conflation.bytes == 14 + 17 + 14
    received = subscriber.received()
    assert [body["id"] for *_, body in received] == [2, 4, 5]
    assert subscriber.conflation.bytes == 0


def test_of_one_record_only_the_newest_is_sent() -> None:
    """Also where its values change."""
    subscriber = Subscriber(Form(), oof=False, key="/a")
    subscriber.change(*({"id": 1, "a": a} for a in (0, 2, 1, 2)))
    assert subscriber.conflation.bytes == len(b'{"id":1,"a":2}')
    subscriber.change({"id": 2}, {"id": 2, "a": 2})
    subscriber.change({"id": 2, "a": 2}, {"id": 2, "a": 3})
    assert subscriber.received() == [publish({"id": 2, "a": 3})]


def test_auto() -> None:
    """It slows while much is waiting, step by step, and recovers as soon as nothing is."""
    interval, slowing = 0, []
    for _ in range(12):
        interval = adapted(interval, AUTO_BACKLOG_BYTES + 1)
        slowing.append(interval)
    assert slowing[:3] == [AUTO_STEP_MS, 2 * AUTO_STEP_MS, 4 * AUTO_STEP_MS]
    assert slowing[-1] == AUTO_MAX_MS
    assert adapted(interval, 1) == interval
    recovering = []
    while interval:
        interval = adapted(interval, 0)
        recovering.append(interval)
    assert recovering[:2] == [AUTO_MAX_MS // 2, AUTO_MAX_MS // 4]
    assert adapted(0, 0) == 0


@pytest.mark.parametrize(
    ("options", "keys", "of_each", "is_refused"),
    [
        ("", KEYS, True, False),
        ("conflation=1s,conflation_key=[/id]", KEYS, True, False),
        ("conflation=1s,conflation_key=[/a]", KEYS, False, False),
        ("conflation=1s,conflation_key=[/a]", KEYS, True, True),
        ("conflation=1s,conflation_key=[/a]", (), True, True),
    ],
)
def test_a_conflation_key_may_merge_several_records(
    options: str, keys: Keys, of_each: bool, is_refused: bool
) -> None:
    """Not for a subscriber that needs a message for each; the refusal names the key that would do."""
    if not is_refused:
        assert not pending_of(parse_options(options), DELTA, keys, of_each=of_each)
        return
    named = r"conflation_key=\[/id\], or none" if keys else "no conflation_key"
    with pytest.raises(SowlineError, match=f"expected {named}"):
        pending_of(parse_options(options), DELTA, keys, of_each=of_each)
