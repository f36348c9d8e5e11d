"""The fields of requests of the WebSocket and HTTP APIs, as a client sends them. No I/O.

A frame is one JSON request or an array of them. `request` makes typed commands of the fields.
"""

import json
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from sowline.commands.command import is_list_of_texts, split_keys
from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.model.body import why_not_json
from sowline.model.duration import parse_duration_ms

LARGE_BYTES = 512 * 1024
COMMAS_MAX = 300_000
"""The limit in a large request without data. Reading longer lists would delay other clients."""

BATCH_SIZE_MAX = 10_000
TIMELINE_LIMIT_MAX = 1000
"""The largest number of writes in one timeline."""

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

WATCH_OUTCOMES = "watch_outcomes"
"""Keeps the reports about commands to a topic that are written from now on, until `unsubscribe` with its query id."""

OUTCOME = "outcome"
"""Waits for the reports of some partitions about a command that is watched; `data` has an `OutcomeRequest`."""

FETCH = "fetch"
"""Lets a `sow` with `sample_n` send records: the `top_n` after the first `skip_n` that it has found."""

GATEWAY_COMMANDS = (WATCH_OUTCOMES, OUTCOME, FETCH)
"""The commands that only gateways send."""

_KNOWN = frozenset({*COMMANDS, *GATEWAY_COMMANDS})

SUBSCRIBES = ("subscribe", "sow_and_subscribe", "delta_subscribe", "sow_and_delta_subscribe")

READS = ("sow", *SUBSCRIBES, "explain")
"""The commands that request records or changes, and `explain`."""

FRESH = (*READS, "timeline")
"""The commands that may demand a fresh state."""

KEYED = ("publish", "delta_publish", "delta", "sow_delete")
"""The commands that may name one record by its SOW key."""


QUERY_FIELDS = (
    "bookmark",
    "filter",
    "condition",
    "options",
    "order_by",
    "top_n",
    "skip_n",
    "sow_keys",
    "at_least",
    "max_staleness",
)
"""The fields of a query that is sent by HTTP."""


class SowKeys(tuple[str, ...]):
    """The SOW keys in a request: an array of strings, or one string (comma-separated, or a JSON array)."""

    __slots__ = ()


NO_KEYS = SowKeys()


# Unknown fields are forbidden: a request with `filters` for `filter` would otherwise select every record
# (test_a_bad_request_has_a_reason).
class RequestFields(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One command of a client, as it is on the wire: some fields belong to other commands.

    The docstrings of the fields become the table of docs/api.md and the comments of generated types
    (`python -m contract`).
    """

    command: str
    """The command."""
    command_id: str = ""
    """Identifies the command in acknowledgements; the default for `sub_id` and `query_id`."""
    topic: str = ""
    """The topic's name, or `^` and a pattern: [several topics](#several-topics)."""
    filter: str = ""
    """Selects records: [filters](filters.md). Empty by default, which selects every record."""
    condition: str = ""
    """Selects records by a [document condition](emodb.md#reading-documents), in addition to `filter`."""
    options: str = ""
    """[Options](#options), separated by commas."""
    sub_id: str = ""
    """The subscription's name; defaults to the `command_id`. `unsubscribe`, `pause` and `resume` take one, a
    comma-separated list, or `all`. If any of them doesn't exist, the command fails with `invalid subid` and has
    no effect. A `heartbeat` with a `sub_id` requests the [checksum of its view](bookmarks.md#checksum-of-a-view)."""
    query_id: str = ""
    """The query's name; defaults to the `command_id`. `unsubscribe` takes the name of a query to abort."""
    # Only described, here and for the other numbers: with `ge` and `le` msgspec would refuse them, and clients would
    # get `bad request` instead of reasons such as `invalid batch size`.
    batch_size: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": BATCH_SIZE_MAX})] = 1
    """The number of records in one `sow` message, or of writes in one `timeline` message: 1 (the default) to
    10,000."""
    bookmark: str | tuple[str, ...] = ""
    """Where a subscription begins, or the bookmark at which a `sow` or `explain` reads: [positions, a time, a
    list or a range](bookmarks.md)."""
    up_to: str = ""
    """Where a subscription [ends](bookmarks.md#ends): positions, a time or `now`."""
    at_least: str = ""
    """The positions that the result of a read must reflect: [fresh reads](#fresh-reads)."""
    max_staleness: str = ""
    """How far behind the log the result of a read may be, such as `500ms`: [fresh reads](#fresh-reads)."""
    ack_type: str = ""
    """The [acknowledgements](#acknowledgements) to send, separated by commas: `received`, `processed`,
    `completed`, `persisted`, `stats`. Failures are always sent."""
    order_by: str = ""
    """The [order](#order) of the records in a message group."""
    top_n: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    """The maximum number of records in the result, 0 or more. Without an `order_by`, the service sends the
    first records by SOW key."""
    skip_n: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    """The number of records to skip before the `top_n` records, 0 or more; requires `top_n`. In a
    `sow_and_subscribe`, it requests a [page](#pages-and-groups)."""
    sow_keys: SowKeys = NO_KEYS
    """Selects records by up to 100,000 SOW keys, in addition to `filter`: an array of strings, or one string
    [with commas or as a JSON array](kafka.md#lists-of-sow-keys). The list also applies to live messages. An
    empty list selects by `filter` alone. Keys without a record are ignored."""
    data: msgspec.Raw = msgspec.Raw(b"")
    """The record that a command [writes](#writing), or the text of a `delta`."""
    expiration: Annotated[float, Meta(extra_json_schema={"minimum": 0})] | None = None
    """The lifetime in seconds of a record that a command [writes](#writing). With 0, the record never expires."""
    correlation_id: str = ""
    """Text that a [write](#writing) passes to subscribers."""
    key: str = ""
    """The key text of the document that a [`delta`](#deltas-of-documents) changes, or of the record that a
    [`timeline`](#timeline) is for."""
    sow_key: str = ""
    """The SOW key of the record to write, on a topic whose [publishers supply the
    keys](#keys-supplied-by-publishers). Reads take `sow_keys`."""
    tags: str | tuple[str, ...] = ()
    """The [tags](emodb.md#tags-and-change-ids) of a write to a document: an array of strings, or one
    comma-separated string."""
    change_id: str = ""
    """The writer's own [id](emodb.md#tags-and-change-ids) for a write to a document."""
    limit: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": TIMELINE_LIMIT_MAX})] = 100
    """The maximum number of writes in a [`timeline`](#timeline): 1 to 1,000; the default is 100."""
    reversed: bool = True
    """Whether a [`timeline`](#timeline) lists the newest write first; `true` by default."""
    token: str = ""
    """The token of a [`logon`](#logon)."""
    traceparent: str = ""
    """The span of a [trace](traces.md) that a write belongs to."""
    merges: bool = False
    """Whether the request is from a gateway that merges the answer with those of other query services."""
    relays: bool = False
    """Whether the request is from a gateway that makes the messages of the client's subscription itself."""
    shares: bool = False
    """Whether the request is from a gateway that passes the subscription's messages on to several clients."""
    user: str = ""
    """The user, or the address, of the client that a gateway asks for: its live views count as those of this user."""
    sample_n: int = 0
    """If not 0, a gateway requests a deep page: each `sample_n`-th of the skipped records is a sample.

    The service first sends the samples' sort values, then waits for `fetch`.
    """
    replaces: msgspec.Raw = msgspec.Raw(b"")
    """The `sow` at a bookmark that finds the records that a gateway's client holds. The answer is the difference."""


def _read_sow_keys(kind: type, given: Any) -> SowKeys:
    """Return the SOW keys of a request from the value that msgspec has decoded."""
    assert kind is SowKeys
    # `read_fields` refuses too many keys. Read only enough of them to notice: more would delay other clients.
    if isinstance(given, str):
        many = given.count(",") > SOW_KEYS_MAX
        return SowKeys(given.split(",", SOW_KEYS_MAX + 1) if many else split_keys(given))
    keys = _elements(given)
    if keys is not None and len(keys) > SOW_KEYS_MAX:
        return SowKeys(map(str, keys[: SOW_KEYS_MAX + 1]))
    if keys is None or not is_list_of_texts(keys):
        raise ValueError(
            "Expected SOW keys as an array of strings, as a comma-separated string, or as a string with a JSON array,"
            f" got {str(given)[:60]}"
        )
    return SowKeys(keys)


def _elements(given: Any) -> list[object] | None:
    return cast("list[object]", given) if isinstance(given, list) else None


class _CommandAndId(msgspec.Struct):
    """The command and id of a request; all other fields are skipped."""

    command: str = ""
    command_id: str = ""


_read_command_and_id = msgspec.json.Decoder(_CommandAndId).decode
_decode_fields = msgspec.json.Decoder(RequestFields, dec_hook=_read_sow_keys).decode
_read_requests = msgspec.json.Decoder(list[msgspec.Raw]).decode


def split_frame(frame: bytes) -> list[bytes]:
    """Return the requests in a frame; raise `bad request` if a frame that starts with `[` is not a JSON array."""
    if not frame.lstrip().startswith(b"["):
        return [frame]
    try:
        return [bytes(one) for one in _read_requests(frame)]
    # `[[[[…` is small and nested deeper than the parser goes, for which it raises RecursionError
    # (test_an_array_that_is_none_is_refused).
    except (msgspec.DecodeError, RecursionError) as error:
        raise SowlineError(
            "bad request", why_not_json(frame, error, "a JSON object or an array of them")
        ) from error


def read_fields(text: bytes) -> RequestFields:
    """Return the fields of a request; raise `bad request`, `unknown command`, or the reason of an invalid field."""
    try:
        if len(text) > LARGE_BYTES:
            _check_commas(text)
        request = _decode_fields(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SowlineError("bad request", why_not_json(text, error, "a command as a JSON object")) from error
    if request.command not in _KNOWN:
        raise SowlineError(
            "unknown command", f"expected one of {', '.join(COMMANDS)}, got {request.command!r}"
        )
    if not 1 <= request.batch_size <= BATCH_SIZE_MAX:
        raise SowlineError(
            "invalid batch size", f"expected a batch_size of 1 to {BATCH_SIZE_MAX}, got {request.batch_size}"
        )
    # Most requests have none of these fields: a publish is parsed for each record.
    if request.condition or request.sow_key or request.at_least or request.max_staleness:
        _check_command(request)
    if request.order_by or request.top_n is not None or request.skip_n is not None or request.sample_n:
        _check_page(request)
    if request.sow_keys and len(request.sow_keys) > SOW_KEYS_MAX:
        raise SowlineError(
            "too many keys", f"expected at most {SOW_KEYS_MAX} sow_keys, got {len(request.sow_keys)}"
        )
    return request


def staleness_seconds(max_staleness: str) -> float:
    """Return a `max_staleness` in seconds; raise `bad request` if it is not a duration."""
    try:
        return parse_duration_ms(max_staleness) / 1000
    except ValueError as error:
        raise SowlineError("bad request", f"max_staleness: {error}") from error


def _check_commas(text: bytes) -> None:
    """Raise `bad request` for long lists outside of data. `publish` and `delta_publish` are not checked."""
    if (
        _read_command_and_id(text).command not in ("publish", "delta_publish")
        and text.count(b",") > COMMAS_MAX
    ):
        raise SowlineError(
            "bad request", f"expected at most {COMMAS_MAX} commas in a request without data, got more"
        )


def _check_command(request: RequestFields) -> None:
    """Raise `bad request` if the command does not take a field that only some take, or if its value is invalid."""
    if request.condition and request.command not in READS:
        raise SowlineError(
            "bad request",
            f"expected a condition only on {', '.join(READS)}, got one on {request.command}; use CONDITION('…') in"
            " a filter",
        )
    if request.sow_key and request.command not in KEYED:
        raise SowlineError(
            "bad request",
            f"expected a sow_key only on {', '.join(KEYED)}, got one on {request.command}; use sow_keys",
        )
    if (request.at_least or request.max_staleness) and request.command not in FRESH:
        raise SowlineError(
            "bad request",
            f"expected at_least and max_staleness only on {', '.join(FRESH)}, got one on {request.command}",
        )
    if request.max_staleness:
        staleness_seconds(request.max_staleness)


def _check_page(request: RequestFields) -> None:
    """Raise `invalid order by`, `invalid top_n` or `invalid skip_n` if the request does not name a valid page."""
    if request.order_by:
        parse_order(request.order_by)
    if request.top_n is not None and request.top_n < 0:
        raise SowlineError("invalid top_n", f"expected a top_n of 0 or more, got {request.top_n}")
    if request.sample_n < 0:
        raise SowlineError("bad request", f"expected a sample_n of 0 or more, got {request.sample_n}")
    if request.skip_n is None:
        return
    if request.skip_n < 0:
        raise SowlineError("invalid skip_n", f"expected a skip_n of 0 or more, got {request.skip_n}")
    if request.top_n is None:
        raise SowlineError("invalid skip_n", "expected a top_n together with skip_n, got none")


def command_id_of(text: bytes) -> str:
    """Return the `command_id` of a request that was refused, for its acknowledgement; an empty text if unreadable."""
    if len(text) > LARGE_BYTES:
        # Reading all of a large request would delay other clients.
        return _command_id_of_large(text)
    try:
        # This parser also reads half of a surrogate pair, for which the request may have been refused.
        found = json.loads(text).get("command_id", "").encode().decode()
    except (ValueError, RecursionError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def _command_id_of_large(text: bytes) -> str:
    try:
        return _read_command_and_id(text).command_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
