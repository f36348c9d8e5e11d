"""Views of records: a mapping that is always whole, callbacks, and those who wait for something."""

import json
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sowline.client.record_view import Callbacks, RecordView, Saved, Waiting
from sowline.client.records import RecordSet
from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.subscriptions.taken import ServedRequest
from sowline.wire.client_message import Message


class Log:
    """Callbacks that note the arguments of their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.callbacks = Callbacks(
            lambda *arguments: self.calls.append(("insert", *arguments)),
            lambda *arguments: self.calls.append(("update", *arguments)),
            lambda *arguments: self.calls.append(("remove", *arguments)),
        )


class Shown(RecordView):
    """A view that a test keeps up to date."""

    def take(self, messages: Iterable[Message], shown: ServedRequest | None = None) -> None:
        """Let messages arrive."""
        self._take(list(messages), shown)

    def fail(self, error: SowlineError) -> None:
        """End it."""
        self._fail(error)

    def begin_to_wait(self, waiting: Waiting) -> None:
        """Wait for something."""
        self._begin_to_wait(waiting)

    def give_up(self, waiting: Waiting) -> None:
        """Wait no longer."""
        self._give_up(waiting)


def view(order_by: str = "", callbacks: Callbacks | None = None, **held: Any) -> Shown:
    """A view of records, by their keys without the first letter."""
    bodies = {key[1:]: json.dumps(record).encode() for key, record in held.items()}
    return Shown(
        "orders",
        RecordSet(bodies, PositionTracker("orders:0@0")),
        parse_order(order_by),
        callbacks or Callbacks(),
    )


def publish(key: str, record: Any, *, at: int = 1, more: bool = False) -> Message:
    """A record as it is now."""
    body = json.dumps(record).encode()
    return Message("publish", sow_key=key, body=body, bookmark=f"orders:0@{at}", more=more)


def oof(key: str, *, more: bool = False) -> Message:
    """A record that leaves."""
    return Message("oof", sow_key=key, body=b"{}", reason="deleted", more=more)


def group(**held: Any) -> list[Message]:
    """A group of records, by their keys without the first letter."""
    records = [Message("sow", sow_key=key[1:], body=json.dumps(held[key]).encode()) for key in held]
    return [Message("group_begin"), *records, Message("group_end", bookmark="orders:0@5")]


def waited_for(shown: Shown, condition: Callable[[], bool]) -> list[BaseException | None]:
    """Begin to wait; return where the answer will be."""
    answers: list[BaseException | None] = []
    shown.begin_to_wait(Waiting(condition, answers.append))
    return answers


def test_it_is_a_mapping_of_records() -> None:
    """By SOW key, in the order in which they came; equal to a dict of the same."""
    shown = view(k1={"a": 1}, k2={"a": 2})
    shown.take([publish("3", {"a": 3}), publish("1", {"a": 9}), oof("2")])
    assert (shown["1"], shown.get("2"), len(shown), "3" in shown) == ({"a": 9}, None, 2, True)
    assert list(shown) == list(shown.keys()) == ["1", "3"]
    assert list(shown.items()) == [("1", {"a": 9}), ("3", {"a": 3})]
    assert list(shown.values()) == [{"a": 9}, {"a": 3}]
    assert {"a": 3} in shown.values()
    assert {"a": 2} not in shown.values()
    assert ("1", {"a": 9}) in shown.items()
    assert shown == {"1": {"a": 9}, "3": {"a": 3}}
    assert repr(shown) == "<Shown of orders: 2 records>"
    with pytest.raises(KeyError):
        shown["2"]


def test_what_is_handed_out_is_the_callers_own() -> None:
    """Whatever is done to it, the view shows what it did, also to callbacks, and merges deltas into that."""
    log = Log()
    shown = view(callbacks=log.callbacks, k1={"a": {"b": [1]}})
    shown["1"]["a"]["b"].append(2)
    for record in [*shown.values(), *dict(shown.items()).values()]:
        record.clear()
    shown.saved().records.clear()
    assert shown == {"1": {"a": {"b": [1]}}}
    shown.take([Message("publish", sow_key="1", body=b'{"c":1}', delta=True)])
    assert log.calls == [("update", "1", {"a": {"b": [1]}, "c": 1}, {"a": {"b": [1]}})]
    log.calls[0][2].clear()
    assert shown["1"] == {"a": {"b": [1]}, "c": 1}


def test_numbers_out_of_range_can_be_read() -> None:
    """As what Python makes of them."""
    shown = RecordView("orders", RecordSet({"1": b'{"a":1e400}'}), parse_order(""), Callbacks())
    assert shown == {"1": {"a": float("inf")}}


def test_integers_beyond_64_bits_are_read_as_they_are() -> None:
    """By each reader of a record, and by callbacks."""
    log, long = Log(), 123456789012345678903
    shown = view(callbacks=log.callbacks)
    shown.take([publish("1", {"n": long}), publish("1", {"n": -long})])
    assert log.calls == [("insert", "1", {"n": long}), ("update", "1", {"n": -long}, {"n": long})]
    assert [shown["1"], *shown.values(), *dict(shown.items()).values()] == [{"n": -long}] * 3
    assert [type(record["n"]) for record in shown.values()] == [int]


def test_integers_beyond_64_bits_are_in_the_order_of_the_service() -> None:
    """It sorts by doubles: those that are equal then are in the order of their SOW keys."""
    shown = view("/n", k1={"n": 2**70 + 1}, k2={"n": 2**70}, k3={"n": 1})
    assert list(shown) == ["3", "1", "2"]


def test_an_iterator_sees_one_instant() -> None:
    """What happens meanwhile is not seen."""
    shown = view(k1={"a": 1}, k2={"a": 2}, k3={"a": 3})
    items, keys, values = iter(shown.items()), iter(shown), iter(shown.values())
    next(items), next(keys), next(values)
    shown.take([oof("2"), publish("3", {"a": 4}), publish("5", {})])
    assert list(items) == [("2", {"a": 2}), ("3", {"a": 3})]
    assert (list(keys), list(values)) == (["2", "3"], [{"a": 2}, {"a": 3}])


def test_with_an_order_it_iterates_in_that() -> None:
    """Through inserts, updates and removals; equal ones by SOW key, NULL first."""
    shown = view("/a DESC, /b", k2={"a": 1}, k1={"a": 1}, k3={"a": 5})
    assert list(shown) == ["3", "1", "2"]
    shown.take([publish("4", {"a": 3}), publish("3", {"a": 0}), oof("1"), publish("5", {})])
    assert list(shown) == ["4", "2", "3", "5"]
    assert list(shown.saved().records) == ["4", "2", "3", "5"]
    shown.take(group(k2={"a": 1}, k9={"a": 2}, k8={"a": 2, "b": 1}))
    assert [record["a"] for record in shown.values()] == [2, 2, 1]
    assert list(shown) == ["9", "8", "2"]


def test_a_replaced_subscription_brings_its_order_with_its_group() -> None:
    """Not before: until then the records are the previous ones."""
    shown = view("/a", k1={"a": 1, "b": 2}, k2={"a": 2, "b": 1})
    before, now = (
        ServedRequest(n, Ask("sow_and_subscribe", "orders", order_by=by)) for n, by in enumerate(["/a", "/b"])
    )
    rest = group(k3={"a": 0, "b": 0})[1:]
    seen: list[list[str]] = []
    waited_for(shown, lambda: bool(seen.append(list(shown))))  # type: ignore[func-returns-value]
    shown.take([publish("5", {}), oof("5")], before)
    leaving = [oof("2", more=True), Message("group_begin", replace=True), *rest]
    shown.take([publish("1", {"a": 3, "b": 0.5}), *leaving], now)
    assert seen == [["1", "2"], ["5", "1", "2"], ["1", "2"], ["2", "1"], ["3", "1"]]
    shown.take([publish("4", {"a": 9, "b": 1})], now)
    assert list(shown) == ["3", "1", "4"]


def test_callbacks_are_sent_what_differs() -> None:
    """In the order of the messages, each with the record; of what did not change, nothing."""
    log = Log()
    shown = view(callbacks=log.callbacks, k1={"a": 1})
    shown.take([publish("2", {"a": 2}), publish("2", {"a": 2}), publish("1", {"a": 3}), oof("2"), oof("7")])
    shown.take(group(k5={}))
    assert log.calls == [
        ("insert", "2", {"a": 2}),
        ("update", "1", {"a": 3}, {"a": 1}),
        ("remove", "2", {"a": 2}, "deleted"),
        ("remove", "1", {"a": 3}, "gone"),
        ("insert", "5", {}),
    ]


def test_callbacks_see_the_step_as_a_whole() -> None:
    """They are called once all of it is applied, and other threads may read meanwhile."""
    seen: list[tuple[str, list[str]]] = []

    def look(key: str, *_: object) -> None:
        reading = threading.Thread(target=lambda: seen.append((key, list(shown))))
        reading.start()
        reading.join(10)

    shown = view(callbacks=Callbacks(look, look, look), k1={})
    shown.take([oof("1", more=True), publish("2", {}, more=True), publish("3", {})])
    assert seen == [("1", ["2", "3"]), ("2", ["2", "3"]), ("3", ["2", "3"])]


def test_a_callback_that_fails_is_logged_and_changes_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """The view goes on, and so do the other callbacks."""
    log = Log()

    def fail(key: str, record: object) -> None:
        raise ValueError("mine")

    shown = view(callbacks=log.callbacks._replace(on_insert=fail))
    with caplog.at_level(logging.ERROR, "sowline"):
        shown.take([publish("1", {}), publish("1", {"a": 1})])
    assert (shown, [call[0] for call in log.calls]) == ({"1": {"a": 1}}, ["update"])
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert logged.getMessage() == "a callback of <Shown of orders: 1 records> failed"


def test_a_saved_copy_is_of_one_instant() -> None:
    """Bodies as they were sent, with the place that they are of; during a step, those before it."""
    shown = view()
    assert shown.bookmark == "orders:0@0"
    shown.take(
        [
            *group(k1={"a": 1}),
            publish("2", {}, at=6),
            publish("3", {}, at=6, more=True),
            Message("group_begin"),
        ],
    )
    assert shown.saved() == Saved("orders:0@6", {"1": b'{"a": 1}', "2": b"{}"})
    assert shown.bookmark == "orders:0@6"


def test_a_waiter_is_woken_by_the_step_that_makes_it_true() -> None:
    """Once its callbacks have been called; at once where it is true already."""
    log = Log()
    shown = view(callbacks=log.callbacks)
    counts: list[int] = []
    shown.begin_to_wait(Waiting(lambda: len(shown) == 2, lambda _: counts.append(len(log.calls))))
    shown.take([publish("1", {}), publish("2", {}, more=True)])
    assert counts == []
    shown.take([oof("1", more=True), publish("3", {}), publish("4", {})])
    assert counts == [4]
    assert len(shown) == 3
    assert waited_for(shown, lambda: len(shown) == 3) == [None]
    shown.take([oof("3"), publish("5", {}), oof("5")])
    assert counts == [4]


def test_a_wait_that_begins_during_callbacks_waits_for_their_end() -> None:
    """What is seen is told, too, before the wait is over."""
    answers: list[list[BaseException | None]] = []
    at_once: list[int] = []

    def wait(*_: object) -> None:
        answers.append(waited_for(shown, lambda: True))
        at_once.append(len(answers[0]))

    shown = view(callbacks=Callbacks(on_insert=wait))
    shown.take([publish("1", {})])
    assert (at_once, answers) == ([0], [[None]])


def test_a_condition_that_fails_fails_its_waiter_alone() -> None:
    """What it raises, whatever that is, goes to the caller that gave the condition."""

    def leave() -> bool:
        raise SystemExit(3)

    shown = view()
    failing = waited_for(shown, lambda: len(shown) > 0 and bool(shown["2"]))
    leaving = waited_for(shown, lambda: len(shown) > 0 and leave())
    other = waited_for(shown, lambda: "1" in shown)
    shown.take([publish("1", {"a": 1})])
    assert [type(answers[0]) for answers in (failing, leaving, other)] == [KeyError, SystemExit, type(None)]
    shown.take([publish("3", {})])
    assert ([len(answers) for answers in (failing, leaving, other)], shown.error) == ([1, 1, 1], None)


def test_a_view_that_ends_stays_readable_and_wakes_those_who_wait() -> None:
    """Its first error counts. What is true already can still be waited for."""
    shown = view(k1={})
    waiting, left = waited_for(shown, lambda: "2" in shown), list[BaseException | None]()
    leaving = Waiting(lambda: "2" in shown, left.append)
    shown.begin_to_wait(leaving)
    shown.give_up(leaving)
    assert shown.error is None
    shown.fail(SowlineError("gap", "first"))
    shown.fail(SowlineError("internal", "second"))
    assert waiting == [shown.error]
    assert (left, str(shown.error), shown) == ([], "first", {"1": {}})
    assert waited_for(shown, lambda: "1" in shown) == [None]
    assert waited_for(shown, lambda: "2" in shown) == [shown.error]


def test_threads_never_see_half_a_step() -> None:
    """Two records that always change together are always read together."""
    shown = view(k1={"n": 0}, k2={"n": 0})
    stop, torn = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            one, two = (record["n"] for record in shown.values())
            if one != two:
                torn.append((one, two))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(2000):
        shown.take([publish("1", {"n": number}, more=True), publish("2", {"n": number})])
    stop.set()
    for reader in readers:
        reader.join()
    assert torn == []
