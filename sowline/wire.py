"""The wire: requests as clients write them, and messages as the server writes them. No I/O.

A frame is one JSON message or an array of them. Bodies are spliced in as they are stored.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from sowline.errors import SowlineError
from sowline.options import Options, parse_options
from sowline.order import Order, parse_order
from sowline.span import Span, parse_span

ACK_TYPES = ("received", "processed", "completed", "persisted", "stats")
BATCH_SIZE_MAX = 10_000
SOW_KEYS_MAX = 100_000
COMMANDS = (
    "sow",
    "subscribe",
    "sow_and_subscribe",
    "delta_subscribe",
    "sow_and_delta_subscribe",
    "unsubscribe",
    "pause",
    "resume",
    "publish",
    "delta_publish",
    "delta",
    "sow_delete",
    "flush",
    "heartbeat",
    "explain",
    "timeline",
    "logon",
)


READS = (
    "sow",
    "subscribe",
    "sow_and_subscribe",
    "delta_subscribe",
    "sow_and_delta_subscribe",
    "explain",
)
"""Those of them that ask for records, or for what becomes of them."""


class SowKeys(tuple[str, ...]):
    """SOW keys as a request lists them: an array of texts, or one text with commas."""

    __slots__ = ()


class Request(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One command of a client, as it is on the wire."""

    command: str
    command_id: str = ""
    topic: str = ""
    filter: str = ""
    condition: str = ""
    options: str = ""
    sub_id: str = ""
    query_id: str = ""
    batch_size: int = 1
    bookmark: str | tuple[str, ...] = ""
    up_to: str = ""
    ack_type: str = ""
    order_by: str = ""
    top_n: int | None = None
    skip_n: int | None = None
    sow_keys: SowKeys = SowKeys()
    data: msgspec.Raw = msgspec.Raw(b"")
    expiration: float | None = None
    correlation_id: str = ""
    key: str = ""
    tags: str | tuple[str, ...] = ()
    change_id: str = ""
    limit: int = 100
    reversed: bool = True
    token: str = ""
    traceparent: str = ""

    @property
    def acks(self) -> frozenset[str]:
        """The kinds of acknowledgement that the client asks for; raises `invalid ack type`."""
        asked = frozenset(kind.strip() for kind in self.ack_type.split(",") if kind.strip())
        if unknown := asked.difference(ACK_TYPES):
            raise SowlineError(
                "invalid ack type",
                f"expected any of {', '.join(ACK_TYPES)}, got {', '.join(sorted(unknown))}",
            )
        return asked

    @property
    def parsed_options(self) -> Options:
        """The options of the command; raises `invalid options`."""
        return parse_options(self.options)

    @property
    def span(self) -> Span:
        """Where it begins and ends; raises `invalid bookmark`."""
        return parse_span(self.bookmark, self.up_to)

    @property
    def has_snapshot(self) -> bool:
        """Whether a subscription begins with the records as they are, unless it comes back with a bookmark."""
        return self.command in ("sow_and_subscribe", "sow_and_delta_subscribe")

    @property
    def is_delta(self) -> bool:
        """Whether a subscription is told what changed, where it holds the rest."""
        return self.command in ("delta_subscribe", "sow_and_delta_subscribe")

    @property
    def order(self) -> Order:
        """The order of the records; raises `invalid order by`."""
        return parse_order(self.order_by)

    @property
    def id_of_subscription(self) -> str:
        """`sub_id`, by default the command's id."""
        return self.sub_id or self.command_id

    @property
    def id_of_query(self) -> str:
        """`query_id`, by default the command's id."""
        return self.query_id or self.command_id


def _read_sow_keys(kind: type, given: Any) -> SowKeys:
    """Return the keys that a request gives, as msgspec read them."""
    assert kind is SowKeys
    keys = [key.strip() for key in given.split(",") if key.strip()] if isinstance(given, str) else given
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("Expected SOW keys as an array of strings, or as one string with commas")
    return SowKeys(keys)


_read_request = msgspec.json.Decoder(Request, dec_hook=_read_sow_keys).decode
_read_requests = msgspec.json.Decoder(list[msgspec.Raw]).decode


def split_frame(frame: bytes) -> list[bytes]:
    """Return the requests that a client's frame holds; raises `bad request` if it is neither JSON nor an array."""
    if not frame.lstrip().startswith(b"["):
        return [frame]
    try:
        return [bytes(part) for part in _read_requests(frame)]
    except (msgspec.DecodeError, RecursionError) as error:
        raise SowlineError("bad request", f"expected a JSON object or an array of them: {error}") from error


def read_request(text: bytes) -> Request:
    """Read one request; raises `bad request`, `unknown command`, or the reason of the field that is wrong."""
    try:
        request = _read_request(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SowlineError("bad request", f"expected a command as a JSON object: {error}") from error
    if request.command not in COMMANDS:
        raise SowlineError(
            "unknown command", f"expected one of {', '.join(COMMANDS)}, got {request.command!r}"
        )
    if not 1 <= request.batch_size <= BATCH_SIZE_MAX:
        raise SowlineError(
            "invalid batch size", f"expected a batch_size of 1 to {BATCH_SIZE_MAX}, got {request.batch_size}"
        )
    if request.condition and request.command not in READS:
        raise SowlineError(
            "bad request",
            f"expected a condition of {', '.join(READS)}, got one of {request.command}; a filter can have"
            " CONDITION('…') in it",
        )
    _check_page(request)
    if len(request.sow_keys) > SOW_KEYS_MAX:
        raise SowlineError(
            "too many keys", f"expected at most {SOW_KEYS_MAX} sow_keys, got {len(request.sow_keys)}"
        )
    return request


def _check_page(request: Request) -> None:
    """Raise `invalid order by`, `invalid top_n` or `invalid skip_n` if the request asks for no possible page."""
    if request.order_by:
        parse_order(request.order_by)
    if request.top_n is not None and request.top_n < 0:
        raise SowlineError("invalid top_n", f"expected a top_n of 0 or more, got {request.top_n}")
    if request.skip_n is None:
        return
    if request.skip_n < 0:
        raise SowlineError("invalid skip_n", f"expected a skip_n of 0 or more, got {request.skip_n}")
    if request.top_n is None:
        raise SowlineError("invalid skip_n", "expected a top_n together with skip_n, got none")


def command_id_of(text: bytes) -> str:
    """Return the `command_id` of a request that can't be read otherwise, so that its failure names it."""
    try:
        found = orjson.loads(text).get("command_id", "")
    except (orjson.JSONDecodeError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


# messages of the server


def message(command: str, **fields: Any) -> bytes:
    """Return a message without a body; fields that are None or an empty string are left out."""
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    return orjson.dumps({"command": command, **given})


def ack(kind: str, command_id: str, **fields: Any) -> bytes:
    """Return the acknowledgement of a command that went well."""
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
    """Return one record of a `sow` message; `timestamp` is the last update's log time in ms, if asked for.

    `updated_at` is the place of the last update; a group has none. `intrinsics` are a document's, as JSON, if asked
    for.
    """
    key = b'"sow_key":"%s",' % sow_key if sow_key is not None else b""
    when = b'"timestamp":"%s",' % iso_time(timestamp).encode() if timestamp is not None else b""
    place = b'"updated_at":"%s",' % updated_at if updated_at is not None else b""
    return b'{%s%s%s%s"data":%s}' % (key, when, place, _intrinsics(intrinsics), body)


def sow_records(log: str, records: Iterable[tuple[bytes, bytes, bytes]]) -> list[bytes]:
    """Return many records of `sow` messages, each given as SOW key, `partition@position` and body."""
    form = b'{"sow_key":"%%b","updated_at":"%b:%%b","data":%%b}' % log.encode()
    return [form % record for record in records]


def sow_batch(query_id: str, topic: str, records: Iterable[bytes]) -> bytes:
    """Return a `sow` message of several records."""
    head = orjson.dumps({"command": "sow", "query_id": query_id, "topic": topic})[:-1]
    return b'%s,"records":[%s]}' % (head, b",".join(records))


def timeline_batch(query_id: str, topic: str, sow_key: bytes, key: str, writes: Iterable[bytes]) -> bytes:
    """Return a `timeline` message of several writes to a document."""
    about = {"command": "timeline", "query_id": query_id, "topic": topic, "sow_key": sow_key.decode()}
    return b'%s,"writes":[%s]}' % (orjson.dumps({**about, "key": key})[:-1], b",".join(writes))


def change_head(
    command: str,
    sids: Sequence[str],
    reason: str | None,
    *,
    more: bool = False,
    removed: Sequence[str] | None = None,
) -> bytes:
    """Return the part of a `publish` or `oof` that differs between subscriptions.

    `more` says that the next message belongs to the same step: who goes on from a bookmark has both or none.
    `removed` makes it a delta: the paths of the fields that are gone, if any are.
    """
    about: dict[str, Any] = {"command": command, "sids": sids}
    if removed is not None:
        about["delta"] = True
    if removed:
        about["removed"] = removed
    if more:
        about["more"] = True
    if reason is not None:
        about["reason"] = reason
    return orjson.dumps(about)[:-1]


def change_tail(
    topic: str,
    sow_key: bytes | None,
    bookmark: str,
    body: bytes,
    timestamp: int | None,
    intrinsics: bytes | None = None,
) -> bytes:
    """Return the part of a `publish` or `oof` that is the same for all subscriptions."""
    key = b'"sow_key":"%s",' % sow_key if sow_key is not None else b""
    when = b'"timestamp":"%s",' % iso_time(timestamp).encode() if timestamp is not None else b""
    names = b'"topic":%s,%s%s"bookmark":"%s"' % (orjson.dumps(topic), key, when, bookmark.encode())
    return b',%s,%s"data":%s}' % (names, _intrinsics(intrinsics), body)


def _intrinsics(intrinsics: bytes | None) -> bytes:
    return b'"intrinsics":%s,' % intrinsics if intrinsics is not None else b""


def iso_time(milliseconds: int) -> str:
    """Write a time in ms since 1970 as ISO-8601 in UTC with microseconds."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def join_frame(messages: Sequence[bytes]) -> bytes:
    """Return the frame that holds the messages: one as it is, several as an array."""
    return messages[0] if len(messages) == 1 else b"[%s]" % b",".join(messages)


def one_line(body: bytes) -> bytes:
    """Return JSON as one line, with its end; strings hold no line breaks as they are, so blanks do as well."""
    if b"\n" in body or b"\r" in body:
        body = body.replace(b"\n", b" ").replace(b"\r", b" ")
    return body + b"\n"
