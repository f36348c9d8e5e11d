"""Conflation: a subscriber receives the outcome of all changes of a record within an interval. Pure.

The interval starts with the first change that concerns the subscriber, and is the same for all records. The messages
at its end take the subscriber's view from one instant of the topic to another.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import orjson

from fanout.engine.delivery import Deltas, Form, Payload, delta_payload, whole_payload
from fanout.engine.subscription import OOF, Delivery
from sowline.model.difference import ChangeDelta, Keys, difference, union
from sowline.model.path import Path, reader

KeyOf = Callable[[bytes, Delivery], Hashable]
"""Groups messages of which only the last is sent, given a SOW key and the pending message."""

AUTO_STEP_MS = 10
AUTO_MAX_MS = 5_000
AUTO_BACKLOG_BYTES = 128 * 1024
"""Above so much that waits for a client, `auto` conflates more."""


@dataclass(slots=True)
class _Pending:
    """The pending message of one record. `held` is the record that the subscriber holds, or None."""

    sow_key: bytes
    held: bytes | None
    time: int
    delivery: Delivery
    delta: ChangeDelta | None
    """All changes since, if one delta can express them for a subscriber that holds the record."""

    @property
    def bytes(self) -> int:
        """Of the bodies."""
        return len(self.delivery.body) + len(self.held or b"")


class Conflation:
    """The changes that one subscriber has not yet received."""

    def __init__(self, form: Form, keys: Keys, key_of: KeyOf | None = None) -> None:
        self._form = form
        self._keys = keys
        self._key_of = key_of
        self._pending: dict[Hashable, _Pending] = {}
        self._slots: dict[bytes, Hashable] = {}
        """Where the message of a record waits, if not under its SOW key."""
        self.bytes = 0
        """Of the bodies that are kept."""

    def __len__(self) -> int:
        return len(self._pending)

    def take(self, sow_key: bytes, delivery: Delivery, deltas: Deltas, time: int) -> None:
        """Take what one change means; `time` is its log time in ms."""
        slot = self._slot(sow_key, delivery)
        held = self._pending.get(slot)
        if held is not None and held.sow_key == sow_key:
            self._take_again(slot, held, delivery, deltas)
            return
        first = time
        if held is not None:
            first = held.time
            self._drop(slot)
        delta = deltas.of(delivery, self._form)
        self._pending[slot] = _Pending(sow_key, delivery.previous, first, delivery, delta)
        self.bytes += self._pending[slot].bytes

    def _slot(self, sow_key: bytes, delivery: Delivery) -> Hashable:
        """Where a message waits; what waits of the record elsewhere is outdated."""
        if self._key_of is None:
            return sow_key
        slot = self._key_of(sow_key, delivery)
        if self._slots.get(sow_key, slot) != slot:
            self._drop(self._slots[sow_key])
        self._slots[sow_key] = slot
        return slot

    def _drop(self, slot: Hashable) -> None:
        dropped = self._pending.pop(slot)
        self._slots.pop(dropped.sow_key, None)
        self.bytes -= dropped.bytes

    def _take_again(self, slot: Hashable, held: _Pending, delivery: Delivery, deltas: Deltas) -> None:
        if delivery.command == OOF and held.held is None:
            self._drop(slot)
            return
        self.bytes -= held.bytes
        held.delta = self._since(held, delivery, deltas)
        held.delivery = delivery
        self.bytes += held.bytes

    def _since(self, held: _Pending, delivery: Delivery, deltas: Deltas) -> ChangeDelta | None:
        """All changes as one delta; None where the record was whole in between, or went."""
        now = deltas.of(delivery, self._form)
        if held.delta is None or now is None:
            return None
        return union(held.delta, now, delivery.body, self._form.select)

    def flush(self) -> list[Payload]:
        """Return the messages to send now, one for each record, and start a new interval."""
        messages = [
            message for held in self._pending.values() if (message := self._message(held)) is not None
        ]
        self._pending.clear()
        self._slots.clear()
        self.bytes = 0
        return messages

    def _message(self, held: _Pending) -> Payload | None:
        delivery, delta, form = held.delivery, held.delta, self._form
        if delivery.command == OOF:
            assert held.held is not None
            return whole_payload(held.sow_key, replace(delivery, body=held.held), form, held.time)
        if form.no_empties and not self._is_changed(held):
            return None
        if delta is not None and not delta.whole:
            return delta_payload(held.sow_key, delivery, delta, held.time)
        return whole_payload(held.sow_key, delivery, form, held.time)

    def _is_changed(self, held: _Pending) -> bool:
        """Whether a delta subscriber receives anything."""
        if held.delta is not None:
            return held.delta.changed
        if held.held is None or not self._form.delta:
            return True
        return difference(held.held, held.delivery.body, self._keys, self._form.select).changed


def by_values_of(paths: tuple[Path, ...]) -> KeyOf:
    """Messages whose records have equal values in these fields are one; a field that is absent is NULL."""
    readers = [reader(path) for path in paths]

    def values(sow_key: bytes, delivery: Delivery) -> bytes:
        document = orjson.loads(delivery.body)
        return orjson.dumps([read(document) for read in readers])

    return values


def adapted(interval: int, backlog: int) -> int:
    """Return the next interval of `auto`, in ms, given the last one and how many bytes wait for the client."""
    if backlog > AUTO_BACKLOG_BYTES:
        return min(max(interval * 2, AUTO_STEP_MS), AUTO_MAX_MS)
    if backlog == 0:
        return interval // 2 if interval > AUTO_STEP_MS else 0
    return interval
