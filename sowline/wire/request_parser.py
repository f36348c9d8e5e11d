"""Parses requests: makes typed commands from the fields that a client sends. Pure.

This happens once, where a request enters a service. No later code parses a field again.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from sowline.errors import SowlineError
from sowline.language.expressions.order import Order, parse_order
from sowline.model.bookmark import EPOCH, PositionsByLog, parse_bookmark
from sowline.model.bookmark_range import BookmarkRange, parse_bookmark_range
from sowline.model.key import check_key_size
from sowline.wire.acks import check_acks
from sowline.wire.options import Options, parse_options
from sowline.wire.request import (
    SUBSCRIPTIONS,
    WRITES,
    Explain,
    Fetch,
    FlushRequest,
    Heartbeat,
    Logon,
    OfGateway,
    Outcome,
    OutcomeRequest,
    Pause,
    R,
    Read,
    ReadTimeline,
    Request,
    Resume,
    Sow,
    Unsubscribe,
    WatchOutcomes,
)
from sowline.wire.request_fields import TIMELINE_LIMIT_MAX, RequestFields, read_fields, staleness_seconds

ACK_TYPE_CHARS_MAX = 1000

Parse = Callable[[RequestFields, frozenset[str]], Request]

_read_outcome = msgspec.json.Decoder(OutcomeRequest).decode
_NO_OPTIONS, _NO_ORDER, _NOW, _OF_CLIENT = Options(), Order(), BookmarkRange(), OfGateway()


def parse(fields: RequestFields, acks: frozenset[str] | None = None) -> Request:
    """Return the command that a request asks for, without the fields of other commands; raise why it is invalid.

    `acks` is the result of `acks_of`, if the caller has it already.
    """
    given = acks_of(fields) if acks is None else acks
    return _PARSERS[fields.command](fields, given)


def parse_request(kind: type[R], text: bytes) -> R:
    """Return the command in a text; raise why it is invalid, or `bad request` if it is not of this kind."""
    request = parse(read_fields(text))
    if not isinstance(request, kind):
        raise SowlineError("bad request", f"expected a {kind.__name__}, got the command {request.command}")
    return request


def acks_of(fields: RequestFields) -> frozenset[str]:
    """Return the acknowledgements that a client requests; raise `invalid ack type`."""
    return _acks(fields.command, fields.ack_type)


@lru_cache(1024)
def _acks(command: str, ack_type: str) -> frozenset[str]:
    # The cache keeps its arguments, but not those of calls that raise: without the limit, clients could fill it with
    # a thousand texts of megabytes.
    if len(ack_type) > ACK_TYPE_CHARS_MAX:
        raise SowlineError(
            "invalid ack type", f"expected at most {ACK_TYPE_CHARS_MAX} characters, got {len(ack_type)}"
        )
    asked = frozenset(kind.strip() for kind in ack_type.split(",") if kind.strip())
    check_acks(command, asked)
    return asked


def _limit(fields: RequestFields) -> int:
    if not 1 <= fields.limit <= TIMELINE_LIMIT_MAX:
        raise SowlineError(
            "invalid limit", f"expected a limit of 1 to {TIMELINE_LIMIT_MAX}, got {fields.limit}"
        )
    return fields.limit


def _key(fields: RequestFields) -> str:
    # A key names its partition by a hash, which took half a second for one of 4 MiB (bench turns).
    check_key_size(fields.key)
    return fields.key


def _options(fields: RequestFields) -> Options:
    return parse_options(fields.options) if fields.options else _NO_OPTIONS


def _range(fields: RequestFields) -> BookmarkRange:
    bookmark = fields.bookmark
    if fields.command == ReadTimeline.command:
        bookmark = bookmark or EPOCH
    return parse_bookmark_range(bookmark, fields.up_to) if bookmark != "" or fields.up_to else _NOW


def _at_least(fields: RequestFields) -> PositionsByLog:
    return parse_bookmark(fields.at_least) if fields.at_least else {}


def _staleness(fields: RequestFields) -> float | None:
    return staleness_seconds(fields.max_staleness) if fields.max_staleness else None


def _order(fields: RequestFields) -> Order:
    return parse_order(fields.order_by) if fields.order_by else _NO_ORDER


_demands_of = attrgetter(*OfGateway.__struct_fields__)
_NO_DEMANDS = _demands_of(RequestFields(command=""))


def _of_gateway(fields: RequestFields) -> OfGateway:
    # One comparison for requests of clients, which are nearly all: they share one object.
    if (demands := _demands_of(fields)) == _NO_DEMANDS:
        return _OF_CLIENT
    replaced = parse_request(Sow, bytes(fields.replaces)) if fields.replaces else None
    return msgspec.structs.replace(OfGateway(*demands), replaces=replaced)


_PARSED: dict[str, Callable[[RequestFields], Any]] = {
    "key": _key,
    "limit": _limit,
    "options": _options,
    "bookmark_range": _range,
    "at_least": _at_least,
    "staleness_seconds_max": _staleness,
    "order": _order,
    "of_gateway": _of_gateway,
}
"""How fields of commands are parsed, in this order."""

_SENT_AS = {"options_text": "options", "order_text": "order_by", **dict.fromkeys(_PARSED, "command")}
"""The request's field of another name that has the value of a command's field.

For a field that is parsed, it is any field: `made` replaces its value with the result.
"""


def _maker(kind: type[Request]) -> Parse:
    """Return the function that makes a command of this kind, with its fields in the order of the values."""
    names = kind.__struct_fields__
    assert names[0] == "acks"
    sent = attrgetter(*(_SENT_AS.get(name, name) for name in names[1:]))
    parsed = [(names.index(name), parse_field) for name, parse_field in _PARSED.items() if name in names]

    def taken(fields: RequestFields, acks: frozenset[str]) -> Request:
        return kind(*((acks,) + sent(fields)))  # noqa: RUF005 - each publish passes here: this is the fastest way

    def made(fields: RequestFields, acks: frozenset[str]) -> Request:
        values: list[Any] = [acks, *sent(fields)]
        for position, parse_field in parsed:
            values[position] = parse_field(fields)
        return _with_ranks(kind(*values))

    return made if parsed else taken


def _with_ranks(request: Request) -> Request:
    """Return the request; raise `invalid options` if it asks for ranks of records that have no order."""
    if isinstance(request, Read) and request.options.rank and not request.is_sorted:
        raise SowlineError(
            "invalid options",
            "expected rank with a sow that has order_by or top_n, or a subscription to a page (skip_n and top_n)",
        )
    return request


def _flush(fields: RequestFields, acks: frozenset[str]) -> FlushRequest:
    return FlushRequest(acks, fields.command_id)


def _outcome(fields: RequestFields, acks: frozenset[str]) -> Outcome:
    try:
        asked = _read_outcome(fields.data)
    except msgspec.DecodeError as error:
        raise SowlineError("bad request", f"expected an origin and partitions as data: {error}") from error
    return Outcome(acks, fields.command_id, fields.topic, query_id=fields.query_id, asked=asked)


_MADE: tuple[type[Request], ...] = (
    *(Sow, Explain, *SUBSCRIPTIONS, ReadTimeline),
    *WRITES,
    *(Unsubscribe, Pause, Resume, Heartbeat, Logon, WatchOutcomes, Fetch),
)

_PARSERS: dict[str, Parse] = {
    **{kind.command: _maker(kind) for kind in _MADE},
    FlushRequest.command: _flush,
    Outcome.command: _outcome,
}
