"""Partial states: the `views` service writes them to the log of a view, and the owner of its partition merges them.

A **source partition** is a partition of the topic that the view reads. Its owner keeps the groups of the records in
that partition. When a group changes, it writes the group's state to the log of the view, in the partition of the
group's key. The record of the group is made from the newest states of all source partitions.

A message covers a range of the source partition's changes: those after `after`, up to `up_to`. It has the state of
each group that these changes touched, each group once. A snapshot has the states of all groups as of `up_to`, in as
many messages as it needs; the last one `ends` it.

In a view with joins, the owner itself orders the changes of several topics. Its messages then also name the positions
that it has taken: its own position of the source, and the positions of all partitions of each joined topic.

Any owner may write, a stalled one too, and any message may be written again: the reader
(`sowline_materializer.core.views`) compares positions of the source, never offsets.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sowline.errors import SowlineError
from sowline.model.key import SUPPLIED_BYTES_MAX
from sowline.model.position import Position

NO_STATE: Final = msgspec.Raw(b"null")
"""The state of a group without records."""


class PartialState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The state of a group in one source partition.

    - `position`: the change of the source partition up to which it is true.
    - `key`: the key text of the group.
    - `state`: the export of `sowline.language.groups`, or the whole record in a view without groups; `NO_STATE` if
      the group has no records there.
    """

    position: str
    key: str
    state: msgspec.Raw


class Partials(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message in the log of a view.

    - `definition`: the digest of the definition that it was computed by.
    - `taken`: in a view with joins, a bookmark of the positions that the owner has taken of the source and the joined
      topics: those that moved since `after`, or all in a snapshot. Only a message that `ends` has it.
    """

    definition: str
    partition: int
    after: str
    up_to: str
    states: list[PartialState] = []
    is_snapshot: bool = False
    ends: bool = True
    taken: str = ""

    def encode(self) -> bytes:
        """Return the Kafka value."""
        assert self.ends or not self.taken, "the last message of several says what was taken"
        return _encode(self)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Partials).decode


def read_partials(value: bytes | None) -> Partials:
    """Return the message in a Kafka value; raise `bad message`."""
    try:
        message = _decode(value or b"")
    except (msgspec.DecodeError, ValueError) as error:
        raise SowlineError("bad message", f"expected partial states of a view: {error}") from error
    # A longer key could not be stored: its partition would stop, in the middle of a batch
    # (test_a_group_with_a_long_key_is_refused).
    if any(len(state.key.encode()) > SUPPLIED_BYTES_MAX for state in message.states):
        raise SowlineError(
            "bad message", f"expected keys of groups of at most {SUPPLIED_BYTES_MAX} bytes, got a longer one"
        )
    return message


class PartialsHead(msgspec.Struct, frozen=True, gc=False):
    """A message in the log of a view as `Partials`, with its states as received."""

    definition: str
    partition: int
    after: str
    up_to: str
    states: msgspec.Raw = msgspec.Raw(b"[]")
    is_snapshot: bool = False
    ends: bool = True
    taken: str = ""


_decode_head = msgspec.json.Decoder(PartialsHead).decode


def read_head(value: bytes | None) -> PartialsHead | None:
    """Return the message in a Kafka value, without reading its states; None for any other value."""
    try:
        return _decode_head(value or b"")
    except (msgspec.DecodeError, ValueError):
        return None


class HeldState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The state of a group in one source partition, as the record of the group keeps it."""

    position: str
    state: msgspec.Raw


HeldStates = dict[int, HeldState]
"""By source partition, the newest state of a group."""

_decode_held = msgspec.json.Decoder(dict[int, HeldState]).decode


def encode_held(states: HeldStates) -> bytes:
    """Return held states as JSON, in the order of their partitions."""
    assert min(states, default=0) >= 0, "partitions are numbered from 0"
    return _encode({number: states[number] for number in sorted(states)})


def read_held(data: bytes | None) -> HeldStates:
    """Return the held states in the JSON of `encode_held`; none if there is no text."""
    return {} if data is None else _decode_held(data)


def reflected_fields(
    reflected: Mapping[int, Position], taken: Mapping[int, str]
) -> dict[str, dict[str, str]]:
    """Return the positions that a view reflects and the bookmarks of joined topics, by source partition, for JSON.

    Empty fields are left out.
    """
    positions = {str(number): str(position) for number, position in sorted(reflected.items())}
    bookmarks = {str(number): bookmark for number, bookmark in sorted(taken.items())}
    fields = {"reflected": positions, "taken": bookmarks}
    return {name: texts for name, texts in fields.items() if texts}


def read_reflected(fields: Mapping[str, Any]) -> tuple[dict[int, Position], dict[int, str]]:
    """Return the positions and bookmarks that `reflected_fields` wrote."""
    positions, bookmarks = fields.get("reflected", {}), fields.get("taken", {})
    return (
        {int(number): Position.parse(text) for number, text in positions.items()},
        {int(number): text for number, text in bookmarks.items()},
    )
