"""The records that a subscription shows, kept up to date by its messages. Pure: messages in, effects out.

Messages that belong together are applied together: the messages with `more` and the one after them, and a group from
its `group_begin` to its `group_end`. Records are held as the exact text that was sent.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Unpack

import msgspec
import orjson

from sowline.errors import SowlineError
from sowline.model.difference import difference
from sowline.model.exact_numbers import read_exact
from sowline.model.merge import merge, take_out
from sowline.subscriptions.ask import Ask, Reading
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message
from sowline.wire.options import parse_options

GONE = "gone"
"""The reason for the removal of a record that a new group lacks; its own fate is unknown."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


Record = dict[str, Any]


def record_of(message: Message) -> Record:
    """Return the record of a `sow` as a dict, with the intrinsics of a document if they were asked for."""
    record: Record = message.data
    return record | (message.intrinsics or {})


def asked_records(topic: str, **reading: Unpack[Reading]) -> Ask:
    """Return the query for records as dicts; raise `invalid options` for records in another form."""
    ask = Ask("sow", topic, **reading)
    if parse_options(ask.options).is_typed:
        raise SowlineError(
            "invalid options", "expected options without format=native: records are dicts here"
        )
    return ask


def read_body(body: bytes, read: Callable[[bytes], Record] = read_exact) -> Record:
    """Return a body as a dict."""
    try:
        record = read(body)
    except orjson.JSONDecodeError:  # a number that is out of its range
        record = json.loads(body)
    return record


class RowSlice(NamedTuple):
    """Records of a view that follow each other, as they are at one instant."""

    bodies: list[tuple[str, bytes]]
    """SOW keys and bodies, in the order of the view."""
    total: int
    """The number of all records of the view."""
    ended: str
    """The reason why the view is no longer kept up to date; empty while it is."""
    steps: int
    """How many steps the view had taken."""


class Effect(NamedTuple):
    """The effect of a step on one record: without `before` an insert; without `now` a removal, with its reason."""

    key: str
    before: bytes | None
    now: bytes | None
    reason: str = ""


class RecordSet:
    """Bodies by SOW key, in the order in which they arrived, and the bookmark of their state."""

    def __init__(
        self, bodies: Mapping[str, bytes] | None = None, position: PositionTracker | None = None
    ) -> None:
        """Start with a copy of the bodies; raise `not an object` if one of them is not a JSON object."""
        self.bodies: dict[str, bytes] = dict(bodies or {})
        for key, body in self.bodies.items():
            _check(key, body)
        self.position = position or PositionTracker()
        self._step: list[Message] = []
        self._sent: int | None = None
        """The records of the group that is being sent; None outside of a group."""

    def take(self, message: Message) -> list[Effect] | None:
        """Apply the next message; return the effects of the step that it completes, None if the step is incomplete.

        The records after a `group_begin` are all that is held. After one with `replace`, they are added instead.
        A step or group that breaks off, because its stream starts again, is discarded.
        A record that is sent again unchanged has no effect. Raise `gap` if something is missing.
        """
        self._count(message)
        self._step.append(message)
        if self._sent is not None or message.more:
            return None
        step, self._step = self._step, []
        return self._apply(step)

    def _count(self, message: Message) -> None:
        """Note which group a message belongs to; raise `gap` if the group is not whole."""
        if message.command == "group_begin":
            if self._sent is not None or not message.replace:
                self._step = []
            self._sent = 0
        elif message.command == "sow":
            if self._sent is None:
                raise SowlineError("gap", "expected a group_begin before a record of a group, got none")
            self._sent += 1
        elif message.command == "group_end":
            if self._sent is None or message.records not in (None, self._sent):
                got = "no group" if self._sent is None else self._sent
                raise SowlineError("gap", f"expected a group of {message.records} records, got {got}")
            self._sent = None
        elif self._sent is not None:
            # A live message within a group shows that the group broke off: applied as a whole group, its part would
            # remove all other records (test_a_live_message_during_a_group_says_that_the_group_broke_off).
            self._step, self._sent = [], None

    def _apply(self, step: list[Message]) -> list[Effect]:
        bodies = self._outcome(step)
        reasons = {message.sow_key: message.reason for message in step if message.command == "oof"}
        effects: list[Effect] = []
        for key, body in bodies.items():
            before = self.bodies.get(key)
            # Also if the value is the same: the text that came last is kept
            # (test_what_is_sent_once_more_has_no_effect).
            if body is not None:
                self.bodies[key] = body
            elif before is not None:
                del self.bodies[key]
            if not _same(before, body):
                reason = "" if body is not None else reasons.get(key) or GONE
                effects.append(Effect(key, before, body, reason))
        # Only after the whole step: a view saved within one would resume after messages that it had not applied.
        for message in step:
            self.position.note(message)
        return effects

    def _outcome(self, step: list[Message]) -> dict[str, bytes | None]:
        """Return the bodies of all records that the step changes; None for those that are no longer held."""
        bodies: dict[str, bytes | None] = {}
        is_whole = False
        for message in step:
            key = message.sow_key
            if message.command in ("group_begin", "group_end"):
                is_whole = is_whole or (message.command == "group_begin" and not message.replace)
            elif key is None:
                raise SowlineError(
                    "no sow",
                    f"expected a {message.command} with a SOW key, got none: a topic without a SOW has no view",
                )
            elif message.command == "oof":
                bodies[key] = None
            else:
                bodies[key] = updated(bodies[key] if key in bodies else self.bodies.get(key), message)
        if is_whole:
            return {**{key: None for key in self.bodies if key not in bodies}, **bodies}
        return bodies


def _check(key: str, body: object) -> None:
    try:
        if isinstance(body, bytes):
            _fields(body)
            return
    except msgspec.DecodeError:
        pass
    raise SowlineError(
        "not an object", f"expected record {key!r} as the bytes of a JSON object, got {body!r:.60}"
    )


def updated(held: bytes | None, message: Message) -> bytes:
    """Return a record's body after a message; raise `gap` for a delta of a record that is not held."""
    if not message.delta:
        return message.body
    if held is None:
        raise SowlineError("gap", f"expected a delta of a record that is held, got one of {message.sow_key}")
    return take_out(merge(held, message.body), message.removed)


def _same(before: bytes | None, now: bytes | None) -> bool:
    """Whether two bodies are the same value, or both None."""
    if before is None or now is None or before == now:
        return before == now
    return not difference(before, now, ()).changed
