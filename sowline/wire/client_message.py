"""Messages that a client receives: the wire format, and what the client libraries give to the caller."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from sowline.errors import SowlineError
from sowline.model.exact_numbers import read_exact
from sowline.wire.typed_frame import is_binary, split_typed


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a query or a subscription.

    - `command`: `group_begin`, `sow` (a record of the snapshot), `group_end`, `publish`, `oof` or `progress`.
      `progress` is sent for `AsyncClient.prove` only: `records` and `hash` describe what a subscriber holds at
      `bookmark`.
    - `body`: the record as it is stored, or in its topic's message type. In an `oof` it is the new record (`reason`
      match) or the previous one (deleted).
    - `bookmark`: the bookmark from which the subscriber can resume.
    - `reset`: True for a group that replaces all earlier records.
    - `replace`: True for a group that adds to them: the subscription was replaced, and records that it already held
      are not sent again.
    - `more`: True if the next message belongs to the same step of a page or of groups.
    - `delta`: True if `body` has only the key fields and the changed fields; `removed` has the paths of the deleted
      fields.
    - `intrinsics`: the metadata of a document, if requested.
    - `warnings`, in a `group_begin`: sentences about probable mistakes in the request, such as an unknown field.
    - `missing`, in a `group_begin` with the option `partial`: by topic, the partitions whose records are missing.
    - `correlation_id`: the text that came with the command that caused this `publish` or `oof`.
    - `rank`: with that option, the number of records before this one in the order, after the step.
    - `native`: True if `body` is in the message type of its topic, because the options have `format=native`.
    - `problem`: with `native`, why the record can't be written in that message type; `body` is empty then.
    """

    command: str
    topic: str = ""
    sow_key: str | None = None
    body: bytes = b""
    bookmark: str | None = None
    reason: str | None = None
    timestamp: str | None = None
    updated_at: str | None = None
    records: int | None = None
    hash: str | None = None
    reset: bool = False
    more: bool = False
    delta: bool = False
    removed: tuple[str, ...] = ()
    replace: bool = False
    intrinsics: dict[str, Any] | None = None
    correlation_id: str | None = None
    warnings: tuple[str, ...] = ()
    missing: dict[str, tuple[int, ...]] = {}
    native: bool = False
    problem: str = ""
    rank: int | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the message only advances the subscription's bookmark."""
        return self.command == "progress" and self.hash is None

    @property
    def data(self) -> Any:
        """The body as a dict, empty for messages without one; in the topic's message type as bytes.

        Integers are `int`, however large; other numbers are `float`.
        Raise `bad message` for a record that can't be written in that message type.
        """
        if self.problem:
            raise SowlineError("bad message", self.problem)
        if self.native:
            return self.body
        return read_exact(self.body) if self.body else {}


# A batch has thousands of these, which form no cycles: the collector need not look at them.
class _Record(msgspec.Struct, gc=False):
    data: msgspec.Raw = msgspec.Raw(b"")
    size: int | None = None
    problem: str = ""
    sow_key: str | None = None
    updated_at: str | None = None
    timestamp: str | None = None
    intrinsics: dict[str, Any] | None = None
    rank: int | None = None


Command = Literal[
    "ack", "group_begin", "sow", "group_end", "publish", "oof", "progress", "heartbeat", "explain", "timeline"
]
"""The kinds of a server's messages."""


# Unknown fields are not forbidden: clients outlive the services that they were written for, and newer ones may send
# more (test_fields_of_later_servers_do_not_matter).
class Received(msgspec.Struct):
    """One message of the server in its wire format."""

    command: Command
    command_id: str = ""
    ack_type: str = ""
    status: str = ""
    reason: str | None = None
    message: str = ""
    query_id: str = ""
    sub_id: str = ""
    sids: tuple[str, ...] = ()
    topic: str = ""
    sow_key: str | None = None
    bookmark: str | None = None
    up_to: str = ""
    timestamp: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"")
    size: int | None = None
    problem: str = ""
    records: list[_Record] | int | None = None
    hash: str | None = None
    reset: bool = False
    more: bool = False
    delta: bool = False
    removed: tuple[str, ...] = ()
    replace: bool = False
    intrinsics: dict[str, Any] | None = None
    correlation_id: str | None = None
    warnings: tuple[str, ...] = ()
    missing: dict[str, tuple[int, ...]] = {}
    rank: int | None = None
    rights: str = ""
    expires_in: float | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """The ids of the queries and subscriptions that the message is for."""
        return self.sids or (self.query_id or self.sub_id or self.command_id,)

    def messages(self) -> tuple[Message, ...]:
        """Return the messages for the caller: one for each record of a `sow` batch."""
        if self.command == "sow" and isinstance(self.records, list):
            return tuple(self._messages_of(self.records))
        return (self._message(),)

    def _messages_of(self, records: list[_Record]) -> Iterator[Message]:
        for record in records:
            # `bytes` copies: a `Raw` refers to its frame, which would stay in memory as long as the caller keeps one
            # record.
            yield Message(
                "sow",
                self.topic,
                record.sow_key,
                bytes(record.data),
                updated_at=record.updated_at,
                timestamp=record.timestamp,
                intrinsics=record.intrinsics,
                native=record.size is not None,
                problem=record.problem,
                rank=record.rank,
            )

    def _message(self) -> Message:
        return Message(
            self.command,
            self.topic,
            self.sow_key,
            bytes(self.data),
            self.bookmark,
            self.reason,
            self.timestamp,
            records=self.records if isinstance(self.records, int) else None,
            hash=self.hash,
            reset=self.reset,
            more=self.more,
            delta=self.delta,
            removed=self.removed,
            replace=self.replace,
            intrinsics=self.intrinsics,
            correlation_id=self.correlation_id,
            warnings=self.warnings,
            missing=self.missing,
            native=self.size is not None,
            problem=self.problem,
            rank=self.rank,
        )


_read_frame = msgspec.json.Decoder(list[Received] | Received).decode


def read_frame(frame: bytes) -> list[Received]:
    """Return the messages in a text or binary frame from the server; raise `bad message` for any other frame."""
    if is_binary(frame):
        text, bodies = split_typed(frame)
        return _with_bodies(_read_messages(text), bodies)
    return _read_messages(frame)


def _read_messages(text: bytes) -> list[Received]:
    try:
        received = _read_frame(text)
    except msgspec.DecodeError as error:
        raise SowlineError(
            "bad message", f"expected a message that docs/api.md describes, got {text[:200]!r}: {error}"
        ) from None
    return [received] if isinstance(received, Received) else received


def _with_bodies(messages: list[Received], bodies: bytes) -> list[Received]:
    """Return the messages of a binary frame, each with its bodies; raise `bad message` if the sizes don't fit."""
    start = 0
    for message in messages:
        for one in (message, *(message.records if isinstance(message.records, list) else ())):
            if one.size is not None:
                one.data = msgspec.Raw(bodies[start : start + one.size])
                start += one.size
    # With sizes that do not add up, a record could have got the bytes of another
    # (test_bodies_that_do_not_fit_are_refused).
    if start != len(bodies):
        raise SowlineError(
            "bad message", f"expected bodies of {start} bytes after the messages, got {len(bodies)}"
        )
    return messages
