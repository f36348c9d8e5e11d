"""A record of the State of the World as a partition keeps it, and its form in the store."""

from struct import Struct, error
from typing import Final

import msgspec
import orjson

from sowline.changes.change import Change, Numbers
from sowline.language.emodb.writes import Writes
from sowline.model.position import Position, position_of
from sowline_materializer.core.errors import StoreDamaged

_HEADER = Struct("<BIqIqqHI")
_TEXT_AT = _HEADER.size
_EXPIRES = Struct("<q")
# After B, I, q, I and q, without padding: a due time is read without decoding the record.
_EXPIRES_AT = 25
assert Struct("<BIqIq").size == _EXPIRES_AT, "a due time is where encode_record puts it"
assert _EXPIRES_AT + _EXPIRES.size <= _TEXT_AT, "a due time lies in the header"
_LIVE, _DELETED = 1, 0
_NEVER = -1
_encode = msgspec.json.Encoder().encode
_BEFORE_STATES = b"[null,null,null,null,"


class Record(msgspec.Struct, frozen=True, gc=False):
    """The latest state of one SOW key.

    A `body` of None is a deleted record. It is kept for its `numbers`, so that repeats are still recognized. A
    deleted document is kept permanently, for the metadata of its `writes`. `position` is that of the last update,
    `time` the time of that update in ms: its producer's, if it is later than log time, but log time
    for a record that is kept for its numbers. `schema_id` is the schema that its message named. `states` are those of
    a group of a view. A group is kept without a body while the view's `having` does not match it.
    """

    body: bytes | None
    key_text: str
    position: Position
    time: int
    expires: int | None = None
    numbers: Numbers | None = None
    correlation: str | None = None
    writes: Writes | None = None
    schema_id: int | None = None
    states: bytes | None = None

    @property
    def is_live(self) -> bool:
        """Whether it is a record, or a group that `having` hides: what a reset must end."""
        return self.body is not None or self.states is not None

    @property
    def is_forgettable(self) -> bool:
        """Whether a deleted record is kept for its numbers only."""
        return self.body is None and self.writes is None and self.states is None


def record_after(change: Change, key_text: str, time: int) -> Record:
    """Return the entry of a record after a change; `time` is the one that it is kept with."""
    assert change.body is not None or change.expires is None, "what is deleted is never due"
    return Record(
        body=change.body,
        key_text=key_text,
        position=change.position,
        time=time,
        expires=change.expires,
        numbers=change.numbers,
        correlation=None if change.body is None else change.correlation,
        writes=change.writes,
        schema_id=change.schema_id,
        states=change.states,
    )


def encode_record(record: Record) -> bytes:
    """Return the record's bytes in the store: a fixed header, key text, the rare fields as JSON, the body."""
    assert record.expires != _NEVER, "a due time is not the number that stands for none"
    rare = b""
    if record.states is not None:
        assert record.numbers is None, "the record of a group has states only"
        assert record.writes is None, "the record of a group has states only"
        rare = _encode([None, None, None, None, msgspec.Raw(record.states)])
    elif record.schema_id is not None:
        rare = _encode([record.numbers, record.correlation, record.writes, record.schema_id])
    elif record.writes is not None:
        rare = _encode([record.numbers, record.correlation, record.writes])
    elif record.numbers is not None or record.correlation is not None:
        rare = orjson.dumps([record.numbers, record.correlation])
    text = record.key_text.encode()
    era, offset, index = record.position
    expires = _NEVER if record.expires is None else record.expires
    kind = _DELETED if record.body is None else _LIVE
    header = _HEADER.pack(kind, era, offset, index, record.time, expires, len(text), len(rare))
    return b"".join((header, text, rare, record.body or b""))


def decode_record(data: bytes) -> Record:
    """Read the bytes of `encode_record`; raise `StoreDamaged` if they are anything else."""
    try:
        kind, era, offset, index, time, expires, text_bytes, rare_bytes = _HEADER.unpack_from(data)
        rare_at = _TEXT_AT + text_bytes
        body_at = rare_at + rare_bytes
        # A slice beyond the end is shorter, and no error (test_a_record_that_is_cut_off_is_damage).
        if kind not in (_LIVE, _DELETED) or body_at > len(data):
            raise ValueError("neither a live nor a deleted one, or cut off")
        numbers, correlation, writes, schema_id, states = (
            _decoded_rare(data[rare_at:body_at]) if rare_bytes else _NOTHING_RARE
        )
        return Record(
            body=data[body_at:] if kind == _LIVE else None,
            key_text=data[_TEXT_AT:rare_at].decode(),
            position=position_of((era, offset, index)),
            time=time,
            expires=None if expires == _NEVER else expires,
            numbers=numbers,
            correlation=correlation,
            writes=writes,
            schema_id=schema_id,
            states=states,
        )
    except (error, ValueError, TypeError, AttributeError) as wrong:
        raise StoreDamaged(f"expected a record, got {data[:60]!r}: {wrong}") from wrong


_Rare = tuple[Numbers | None, str | None, Writes | None, int | None, bytes | None]
_NOTHING_RARE: Final[_Rare] = (None, None, None, None, None)
_decode_states = msgspec.json.Decoder(tuple[None, None, None, None, msgspec.Raw]).decode


def _decoded_rare(data: bytes) -> _Rare:
    # Only the record of a group has states, and nothing else. Its exact sums have integers that orjson can't read.
    if data.startswith(_BEFORE_STATES):
        return None, None, None, None, bytes(_decode_states(data)[4])
    numbers, correlation, *more = orjson.loads(data)
    if numbers is not None:
        numbers = {name: (n, m, at) for name, (n, m, at) in numbers.items()}
    writes = msgspec.convert(more[0], Writes) if more and more[0] is not None else None
    return numbers, correlation, writes, more[1] if len(more) > 1 else None, None


def due_time(data: bytes | None) -> int | None:
    """Return the time at which a stored record is due, in ms of log time, without decoding the rest."""
    if data is None:
        return None
    expires: int = _EXPIRES.unpack_from(data, _EXPIRES_AT)[0]
    return None if expires == _NEVER else expires
