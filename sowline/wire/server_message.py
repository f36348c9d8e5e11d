"""Writes the server's messages by joining bytes. No I/O.

A frame is one JSON message or an array of them. Bodies are copied in unchanged, as they are stored.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from sowline.errors import SowlineError
from sowline.model.body import trimmed_json
from sowline.model.log_time import TIME_MAX

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - all times here are UTC
_FIRST_MS: Final = -62_135_596_800_000


def message(command: str, **fields: Any) -> bytes:
    """Return a message without a body; fields that are None or an empty string are left out."""
    # Zero and False stay: that a group has no records is an answer (test_messages_leave_out_what_is_not_there).
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    return trimmed_json({"command": command, **given})


def ack(kind: str, command_id: str, **fields: Any) -> bytes:
    """Return the acknowledgement of a command that succeeded."""
    return message("ack", ack_type=kind, command_id=command_id, status="success", **fields)


def failure(command_id: str, error: SowlineError, kind: str = "processed", **fields: Any) -> bytes:
    """Return the acknowledgement of a command that failed, with its reason code and sentence."""
    return message(
        "ack",
        ack_type=kind,
        command_id=command_id,
        status="failure",
        reason=error.reason,
        message=error.message,
        **fields,
    )


def sow_record(
    sow_key: bytes | None,
    updated_at: bytes | None,
    body: bytes,
    timestamp: int | None = None,
    intrinsics: bytes | None = None,
) -> bytes:
    """Return one record of a `sow` message.

    `updated_at` is the bookmark of the last update; a group of an aggregation has none. If requested, `timestamp` is
    the log time of the last update in ms, and `intrinsics` are a document's intrinsics as JSON.
    """
    # Joined, because an encoder would change the body: its spaces, and the digits of its numbers
    # (test_bodies_are_spliced_in_as_they_are).
    key = b'"sow_key":"%s",' % escaped(sow_key) if sow_key is not None else b""
    time_field = b'"timestamp":"%s",' % iso_time(timestamp).encode() if timestamp is not None else b""
    bookmark = b'"updated_at":"%s",' % updated_at if updated_at is not None else b""
    return b'{%s%s%s%s"data":%s}' % (key, time_field, bookmark, _intrinsics(intrinsics), body)


def sow_records(
    log: str, keys: Sequence[bytes], locations: Iterable[bytes], bodies: Iterable[bytes]
) -> list[bytes]:
    """Return many records of `sow` messages, each made from a SOW key, its `partition@position` and its body."""
    # Formatted twice, the second time for each record: the name of a Kafka topic has no `%`.
    form = b'{"sow_key":"%%b","updated_at":"%b:%%b","data":%%b}' % log.encode()
    # One look at all keys costs less than one at each.
    if not b"".join(keys).isalnum():
        keys = [escaped(key) for key in keys]
    return [form % record for record in zip(keys, locations, bodies, strict=True)]


def escaped(sow_key: bytes) -> bytes:
    """Return a SOW key escaped for a JSON string; a key from a publisher may contain quotes."""
    # Of bytes, `isalnum` accepts only ASCII letters and digits, which need no escapes. Most keys are numbers, and a
    # snapshot has one for each record.
    return sow_key if sow_key.isalnum() else orjson.dumps(sow_key.decode())[1:-1]


def with_rank(message: bytes, rank: int) -> bytes:
    """Return a message or a record with its rank."""
    # In front: services write the data last.
    return b'{"rank":%d,%b' % (rank, message[1:])


def with_ranks(records: Sequence[bytes], first: int) -> list[bytes]:
    """Return the records of `sow` messages with their ranks, which begin with `first`."""
    return [with_rank(record, rank) for rank, record in enumerate(records, first)]


def sow_batch(
    query_id: str, topic: str, records: Iterable[bytes], ordering: Sequence[Sequence[Any]] | None = None
) -> bytes:
    """Return a `sow` message of several records; with `ordering`, also the values that a gateway sorts them by."""
    fields: dict[str, Any] = {"command": "sow", "query_id": query_id, "topic": topic}
    if ordering is not None:
        fields["ordering"] = ordering
    return b'%s,"records":[%s]}' % (orjson.dumps(fields)[:-1], b",".join(records))


def timeline_batch(query_id: str, topic: str, sow_key: bytes, key: str, writes: Iterable[bytes]) -> bytes:
    """Return a `timeline` message of several writes to a document."""
    fields = {"command": "timeline", "query_id": query_id, "topic": topic, "sow_key": sow_key.decode()}
    return b'%s,"writes":[%s]}' % (orjson.dumps({**fields, "key": key})[:-1], b",".join(writes))


def change_prefix(
    command: str,
    sids: Sequence[str],
    reason: str | None,
    *,
    more: bool = False,
    removed: Sequence[str] | None = None,
) -> bytes:
    """Return the part of a `publish` or `oof` that differs between subscriptions.

    `more` marks that the next message belongs to the same step: a client that resumes from a bookmark gets both or
    neither. `removed` (possibly empty) makes the message a delta and has the paths of its deleted fields.
    """
    fields: dict[str, Any] = {"command": command, "sids": sids}
    if removed is not None:
        fields["delta"] = True
    if removed:
        fields["removed"] = removed
    if more:
        fields["more"] = True
    if reason is not None:
        fields["reason"] = reason
    return orjson.dumps(fields)[:-1]


def change_suffix(
    topic: str,
    sow_key: bytes | None,
    bookmark: str,
    body: bytes,
    timestamp: int | None,
    intrinsics: bytes | None = None,
    correlation: str | None = None,
) -> bytes:
    """Return the part of a `publish` or `oof` that is the same for all subscriptions."""
    key = b'"sow_key":"%s",' % escaped(sow_key) if sow_key is not None else b""
    time_field = b'"timestamp":"%s",' % iso_time(timestamp).encode() if timestamp is not None else b""
    fields = b'"topic":%s,%s%s"bookmark":"%s"' % (orjson.dumps(topic), key, time_field, bookmark.encode())
    if correlation is not None:
        fields += b',"correlation_id":%s' % orjson.dumps(correlation)
    return b',%s,%s"data":%s}' % (fields, _intrinsics(intrinsics), body)


def _intrinsics(intrinsics: bytes | None) -> bytes:
    return b'"intrinsics":%s,' % intrinsics if intrinsics is not None else b""


def iso_time(milliseconds: int) -> str:
    """Write a time in ms since 1970 as ISO-8601 in UTC with microseconds.

    A time that no date can express, before the year 1 or beyond 9999, is written as the first or the last one.
    """
    moment = _EPOCH + timedelta(milliseconds=max(_FIRST_MS, min(milliseconds, TIME_MAX)))
    return f"{moment.isoformat(timespec='microseconds')}Z"


def ms_of(time: str) -> int:
    """Return the ms since 1970 in a time that `iso_time` wrote."""
    # As a double, a time in seconds may be just below its millisecond: cut off, 70125483352049 would become
    # 70125483352048.
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def join_frame(messages: Sequence[bytes]) -> bytes:
    """Return a frame with the messages: one message unchanged, several as an array."""
    return messages[0] if len(messages) == 1 else b"[%s]" % b",".join(messages)


def one_line(body: bytes) -> bytes:
    """Return JSON as one line that ends in a line break.

    Line breaks become spaces: JSON strings contain no raw line breaks, so only whitespace between tokens changes.
    """
    if b"\n" in body or b"\r" in body:
        body = body.replace(b"\n", b" ").replace(b"\r", b" ")
    return body + b"\n"
