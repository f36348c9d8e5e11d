"""Conflation: a subscriber gets one message for all changes of a record within an interval. Pure.

The interval starts with the first change that the subscriber would get, and is the same for all records. The messages
at its end move the subscriber's view from one instant of the topic to another.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import orjson
from msgspec.structs import replace

from sowline.errors import SowlineError
from sowline.model.body import trimmed_json
from sowline.model.difference import ChangeDelta, Keys, difference, union
from sowline.model.path import Path, reader
from sowline.subscriptions.engine.delivery import Deltas, Form, Payload, delta_payload, whole_payload
from sowline.subscriptions.engine.subscription import OOF, Delivery
from sowline.wire.options import Options

KeyOf = Callable[[bytes, Delivery], Hashable]
"""Returns a key for a message, given its SOW key; only the last of the messages with one key is sent."""

AUTO_STEP_MS = 10
AUTO_MAX_MS = 5_000
AUTO_BACKLOG_BYTES = 128 * 1024
"""If more bytes than this wait for a client, `auto` lengthens the interval."""


@dataclass(slots=True)
class _Pending:
    """The pending message of one record. `held` is the record that the subscriber holds, or None."""

    sow_key: bytes
    held: bytes | None
    time: int
    delivery: Delivery
    delta: ChangeDelta | None
    """All changes in the interval as one delta; None if the whole record must be sent."""

    @property
    def bytes(self) -> int:
        """The size of the bodies that are kept."""
        return len(self.delivery.body) + len(self.held or b"")


class Conflation:
    """The changes that one subscriber has not yet received."""

    def __init__(self, form: Form, key_of: KeyOf | None = None) -> None:
        self._form = form
        self._key_of = key_of
        self._pending: dict[Hashable, _Pending] = {}
        self._slots: dict[bytes, Hashable] = {}
        """The key of each record's pending message, if a conflation key is used."""
        self.bytes = 0
        """The size of the bodies that are kept."""

    def __len__(self) -> int:
        return len(self._pending)

    def take(self, sow_key: bytes, delivery: Delivery, deltas: Deltas, time: int) -> None:
        """Add the message of one change; `time` is the change's log time in ms."""
        slot = self._slot(sow_key, delivery)
        held = self._pending.get(slot)
        if held is not None and held.sow_key == sow_key:
            self._take_again(slot, held, delivery, deltas)
            return
        first = time
        # Another record has the same values of the conflation key: it replaces the pending one, which is never sent
        # (test_conflation_key).
        if held is not None:
            first = held.time
            self._drop(slot)
        delta = deltas.of(delivery, self._form)
        self._pending[slot] = _Pending(sow_key, delivery.previous, first, delivery, delta)
        self.bytes += self._pending[slot].bytes
        assert len(self._slots) in (0, len(self._pending)), "a record has one pending message"

    def _slot(self, sow_key: bytes, delivery: Delivery) -> Hashable:
        """Return the key for a message; drop an older message of the record under another key."""
        if self._key_of is None:
            return sow_key
        slot = self._key_of(sow_key, delivery)
        # With conflation_key=[/a], record 1 changes from a=2 to a=1, which are two slots. Both messages would be
        # sent, and the client would end with whichever came last (test_of_one_record_only_the_newest_is_sent).
        if self._slots.get(sow_key, slot) != slot:
            self._drop(self._slots[sow_key])
        self._slots[sow_key] = slot
        return slot

    def _drop(self, slot: Hashable) -> None:
        dropped = self._pending.pop(slot)
        self._slots.pop(dropped.sow_key, None)
        self.bytes -= dropped.bytes
        assert self._pending or self.bytes == 0, "where nothing is pending, no body is kept"

    def _take_again(self, slot: Hashable, held: _Pending, delivery: Delivery, deltas: Deltas) -> None:
        # The record entered and left focus within the interval, so the client never received it. An `oof` would name
        # a record that the client does not hold (test_focus).
        if delivery.command == OOF and held.held is None:
            self._drop(slot)
            return
        self.bytes -= held.bytes
        held.delta = self._since(held, delivery, deltas)
        held.delivery = delivery
        self.bytes += held.bytes
        assert self.bytes >= held.bytes, "a body that is kept is counted"

    def _since(self, held: _Pending, delivery: Delivery, deltas: Deltas) -> ChangeDelta | None:
        """Return all changes as one delta; None if one step can't be a delta, or the record left focus."""
        # None is kept for the rest of the interval. The record leaves, comes back, and changes one field: that last
        # step is a delta, but the client needs what changed while the record was out of focus (test_focus).
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
            assert held.held is not None, (
                "what leaves is at the subscriber: a record that came and left is dropped"
            )
            # The last state within the interval was never sent. Send the body that the client holds
            # (test_focus).
            return whole_payload(held.sow_key, replace(delivery, body=held.held), form, held.time)
        if form.no_empties and not self._is_changed(held):
            return None
        if delta is not None and not delta.whole:
            return delta_payload(held.sow_key, delivery, delta, held.time)
        return whole_payload(held.sow_key, delivery, form, held.time)

    def _is_changed(self, held: _Pending) -> bool:
        """Whether the message changes anything for a delta subscriber."""
        if held.delta is not None:
            return held.delta.changed
        if held.held is None or not self._form.delta:
            return True
        # A record that left focus and came back has no delta. Compare it with the body that the client holds, to
        # leave out a message that would be empty (test_no_empties).
        return difference(held.held, held.delivery.body, (), self._form.select).changed


def pending_of(options: Options, form: Form, keys: Keys, *, of_each: bool) -> Conflation:
    """Return an empty `Conflation`; `keys` are the fields that identify a record or group, empty if none do.

    Raise `invalid options` if the subscriber needs messages `of_each` record but the conflation key would merge
    several.
    """
    asked = options.conflation_key
    if not asked or set(asked) == {Path(names) for names in keys}:
        return Conflation(form)
    if of_each:
        named = ",".join(str(Path(names)) for names in keys)
        expected = f"conflation_key=[{named}], or none," if keys else "no conflation_key"
        raise SowlineError(
            "invalid options",
            f"expected {expected} with oof, deltas, pages and groups: these need a message for each record",
        )
    return Conflation(form, by_values_of(asked))


def by_values_of(paths: tuple[Path, ...]) -> KeyOf:
    """Return a function whose key is the values of these fields; an absent field is NULL."""
    readers = [reader(path) for path in paths]

    def values(sow_key: bytes, delivery: Delivery) -> bytes:
        document = orjson.loads(delivery.body)
        return trimmed_json([read(document) for read in readers])

    return values


def adapted(interval_ms: int, backlog_bytes: int) -> int:
    """Return the next interval of `auto` in ms, given the last one and the bytes that wait for the client."""
    if backlog_bytes > AUTO_BACKLOG_BYTES:
        return min(max(interval_ms * 2, AUTO_STEP_MS), AUTO_MAX_MS)
    if backlog_bytes == 0:
        return interval_ms // 2 if interval_ms > AUTO_STEP_MS else 0
    return interval_ms
