"""A live mapping of SOW keys to records, with callbacks for its changes. No I/O; safe to read from any thread."""

import logging
import threading
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from typing import NamedTuple

import orjson
from sortedcontainers import SortedList

from sowline.client.html_table import ROWS_MAX, html_table
from sowline.client.records import Effect, Record, RecordSet, RowSlice, read_body
from sowline.errors import SowlineError
from sowline.language.expressions.order import Order, SortKey, parse_order
from sowline.model.key import hash_of
from sowline.subscriptions.taken import ServedRequest
from sowline.wire.client_message import Message

log = logging.getLogger("sowline")


OnInsert = Callable[[str, Record], object]
"""Called with the SOW key and the record."""

OnUpdate = Callable[[str, Record, Record], object]
"""Called with the SOW key, the record and the previous record."""

OnRemove = Callable[[str, Record, str], object]
"""Called with the SOW key, the record's last body, and the reason why it is gone."""


class Callbacks(NamedTuple):
    """The callbacks for each record that differs after a step."""

    on_insert: OnInsert | None = None
    on_update: OnUpdate | None = None
    on_remove: OnRemove | None = None


class Saved(NamedTuple):
    """A copy of a view: the records as JSON text by SOW key, and the bookmark of their state."""

    bookmark: str
    records: dict[str, bytes]


class Waiting(NamedTuple):
    """A caller that waits for a condition on a view."""

    condition: Callable[[], bool]
    answer: Callable[[BaseException | None], object]
    """Called once: with None when the condition holds, or with the error that ends the wait."""


class RecordView(Mapping[str, Record]):
    """The records that a subscription shows, by SOW key; each returned record belongs to the caller.

    It iterates in the order of the subscription, if it has one, else in the order in which the records arrived. An
    iteration, also over `items()` and `values()`, shows one instant, even if the view changes in the meantime.
    """

    def __init__(self, topic: str, records: RecordSet, order: Order, callbacks: Callbacks) -> None:
        self._topic = topic
        self._records = records
        self._callbacks = callbacks
        # Reentrant: the condition of a waiter runs under the lock, and reads the view.
        self._lock = threading.RLock()
        self._in_callbacks = False
        self._shown: ServedRequest | None = None
        self._waiting: list[Waiting] = []
        self._steps = 0
        self._error: SowlineError | None = None
        self._proofs: list[bool | SowlineError] = []
        """The results of the service's checks: whether the view was correct, or why there was no check."""
        self._set_order(order)

    # what a caller reads

    def __getitem__(self, key: str) -> Record:
        with self._lock:
            body = self._records.bodies[key]
        # Without the lock: bodies are replaced, never changed, and a large one takes long to parse.
        return read_body(body)

    def __len__(self) -> int:
        with self._lock:
            return len(self._records.bodies)

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._records.bodies

    def __iter__(self) -> Iterator[str]:
        return iter([key for key, _ in self._bodies_in_order()])

    def keys(self) -> KeysView[str]:
        """Return the SOW keys."""
        return KeysView(self)

    def items(self) -> ItemsView[str, Record]:
        """Return the SOW keys with their records."""
        return _Items(self)

    def values(self) -> ValuesView[Record]:
        """Return the records."""
        return _Values(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._topic}: {len(self)} records>"

    def _repr_html_(self) -> str:
        """Return the first records as a table, which notebooks show."""
        with self._lock:
            first = [(key, read_body(body)) for key, body in self._bodies_in_order(stop=ROWS_MAX)]
            ended = "" if self._error is None else f"; no longer kept up to date: {self._error.reason}"
            return html_table(f"{type(self).__name__} of {self._topic}", first, len(self), ended)

    @property
    def bookmark(self) -> str:
        """The bookmark to resume from, which continues after the state of the view."""
        with self._lock:
            return self._records.position.bookmark

    @property
    def error(self) -> SowlineError | None:
        """Why the view is no longer kept up to date; None while it is."""
        return self._error

    def saved(self) -> Saved:
        """Return the bookmark and the bodies of one instant, to start from later."""
        with self._lock:
            return Saved(self.bookmark, dict(self._bodies_in_order()))

    def rows(self, first: int, count: int) -> RowSlice:
        """Return up to `count` records from an index on, in the order of the view, as they are at one instant."""
        with self._lock:
            ended = "" if self._error is None else self._error.reason
            return RowSlice(self._bodies_in_order(first, first + count), len(self), ended, self._steps)

    def _bodies_in_order(self, start: int = 0, stop: int | None = None) -> list[tuple[str, bytes]]:
        with self._lock:
            bodies = self._records.bodies
            if not self._order.terms:
                return list(islice(bodies.items(), start, stop))
            keys = (sort_key[-1].decode() for sort_key in self._sorted.islice(start, stop))
            # A list, because a generator would see what changes later (test_an_iterator_sees_one_instant).
            return [(key, bodies[key]) for key in keys]

    def wake_after(self, steps: int, wake: Callable[[], object]) -> None:
        """Call `wake` once: after more steps than `steps`, or when the view is no longer kept up to date."""

        def answer(error: BaseException | None) -> None:
            wake()

        self._begin_to_wait(Waiting(lambda: self._steps > steps, answer))

    # called by the thread or task that keeps the view up to date

    def _take(self, batch: list[Message], shown: ServedRequest | None) -> None:
        """Apply messages, and call the callbacks for each step that they complete.

        `shown` is the request that the view shows after the last message.
        """
        for number, message in enumerate(batch, 1):
            if message.command == "progress":
                self._compare(message)
                continue
            with self._lock:
                effects = self._records.take(message)
                if effects is None:
                    continue
                self._arrange(effects)
                self._steps += 1
                if number == len(batch):
                    self._show(shown)
                self._in_callbacks = True
            # Without the lock: other threads can read the view while a callback takes its time.
            for effect in effects:
                self._tell(effect)
            with self._lock:
                self._in_callbacks = False
                self._answer()

    def _compare(self, proof: Message) -> None:
        """Compare the SOW keys with the service's count and hash."""
        with self._lock:
            if proof.hash:
                keys = self._records.bodies.keys()
                is_right = (len(keys), f"{hash_of(map(str.encode, keys)):016x}") == (
                    proof.records,
                    proof.hash,
                )
                self._proofs.append(is_right)
            else:
                reason = proof.reason or "internal"
                self._proofs.append(
                    SowlineError(reason, f"the service did not report what {self!r} should hold")
                )
            self._answer()

    def _outcome(self, number: int) -> bool:
        """Return the result of the check with this number."""
        outcome = self._proofs[number]
        if isinstance(outcome, SowlineError):
            raise outcome
        return outcome

    def _show(self, shown: ServedRequest | None) -> None:
        """Take the stream's position; a replaced subscription may have another order."""
        if shown is not None and shown is not self._shown:
            order = parse_order(shown.ask.order_by)
            if order != self._order:
                self._set_order(order)
        self._shown = shown

    def _fail(self, error: SowlineError) -> None:
        """Keep the records, and report to all waiting callers that no more changes will arrive."""
        with self._lock:
            self._error = self._error or error
            # A callback that ended the program left its step open: those who begin to wait would wait for its end
            # forever.
            self._in_callbacks = False
            self._answer()

    def _begin_to_wait(self, waiting: Waiting) -> None:
        """Answer once the condition holds after a step and all callbacks of that step have run; perhaps at once."""
        with self._lock:
            if self._in_callbacks or not self._answered(waiting):
                self._waiting.append(waiting)

    def _give_up(self, waiting: Waiting) -> None:
        """Stop waiting, if there was no answer yet."""
        with self._lock:
            self._waiting = [one for one in self._waiting if one is not waiting]

    def _answer(self) -> None:
        self._waiting = [one for one in self._waiting if not self._answered(one)]

    def _answered(self, waiting: Waiting) -> bool:
        """Answer, if the wait is over."""
        error: BaseException | None = None
        try:
            if not waiting.condition():
                error = self._error
                if error is None:
                    return False
        except (
            BaseException
        ) as raised:  # The error belongs to the caller that gave the condition, and to no other.
            error = raised
        waiting.answer(error)
        return True

    def _tell(self, effect: Effect) -> None:
        """Call a callback for a record; if it fails, the error is logged and nothing else changes."""
        key, before, now, reason = effect
        on_insert, on_update, on_remove = self._callbacks
        try:
            if now is None:
                if on_remove is not None and before is not None:
                    on_remove(key, read_body(before), reason)
            elif before is None:
                if on_insert is not None:
                    on_insert(key, read_body(now))
            elif on_update is not None:
                on_update(key, read_body(now), read_body(before))
        except Exception:
            log.exception("a callback of %r failed", self)

    # the order

    def _set_order(self, order: Order) -> None:
        self._order = order
        bodies = self._records.bodies if order.terms else {}
        self._sort_keys: dict[str, SortKey] = {key: self._sort_key(key, body) for key, body in bodies.items()}
        self._sorted = SortedList(self._sort_keys.values())

    def _sort_key(self, key: str, body: bytes) -> SortKey:
        # Services sort integers beyond 64 bits as doubles, with those that are equal then by SOW key
        # (test_integers_beyond_64_bits_are_in_the_order_of_the_service).
        return self._order.key(read_body(body, orjson.loads), key.encode())

    def _arrange(self, effects: list[Effect]) -> None:
        if not self._order.terms:
            return
        placed: list[SortKey] = []
        for key, _, now, _ in effects:
            # By its previous key: the body that it was made from is no longer held.
            if key in self._sort_keys:
                self._sorted.remove(self._sort_keys.pop(key))
            if now is not None:
                self._sort_keys[key] = self._sort_key(key, now)
                placed.append(self._sort_keys[key])
        self._sorted.update(placed)


class _Items(ItemsView[str, Record]):
    _mapping: RecordView

    def __iter__(self) -> Iterator[tuple[str, Record]]:
        return ((key, read_body(body)) for key, body in self._mapping._bodies_in_order())


class _Values(ValuesView[Record]):
    _mapping: RecordView

    def __iter__(self) -> Iterator[Record]:
        return (read_body(body) for _, body in self._mapping._bodies_in_order())

    def __contains__(self, value: object) -> bool:
        return any(value == record for record in self)
