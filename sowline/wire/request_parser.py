"""Parses requests: makes typed commands of the fields that a client sends. Pure.

This happens once, where a request enters a service. Nothing behind it parses a field again.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import msgspec

from sowline.errors import SowlineError
from sowline.language.expressions.order import Order, parse_order
from sowline.model.bookmark import EPOCH, parse_bookmark
from sowline.model.bookmark_range import BookmarkRange, parse_bookmark_range
from sowline.wire.acks import check_acks
from sowline.wire.options import Options, parse_options
from sowline.wire.request import (
    SUBSCRIPTIONS,
    Bookmark,
    DeltaPublish,
    DeltaRequest,
    Explain,
    Fetch,
    FlushRequest,
    Heartbeat,
    Logon,
    OfGateway,
    Outcome,
    OutcomeRequest,
    Pause,
    Publish,
    R,
    Read,
    ReadTimeline,
    Request,
    Resume,
    Sow,
    SowDelete,
    Unsubscribe,
    WatchOutcomes,
    Write,
)
from sowline.wire.request_fields import TIMELINE_LIMIT_MAX, RequestFields, read_fields, staleness_seconds

ACK_TYPE_CHARS_MAX = 1000

W = TypeVar("W", bound=Write)

Parse = Callable[[RequestFields, frozenset[str]], Request]

_read_outcome = msgspec.json.Decoder(OutcomeRequest).decode


def parse(fields: RequestFields, acks: frozenset[str] | None = None) -> Request:
    """Return the command that a request asks for, without the fields of other commands; raise why it is invalid.

    `acks` are what `acks_of` returns, if the caller has them already.
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
    if len(fields.ack_type) > ACK_TYPE_CHARS_MAX:
        raise SowlineError(
            "invalid ack type",
            f"expected at most {ACK_TYPE_CHARS_MAX} characters, got {len(fields.ack_type)}",
        )
    return _acks(fields.command, fields.ack_type)


@lru_cache(1024)
def _acks(command: str, ack_type: str) -> frozenset[str]:
    asked = frozenset(kind.strip() for kind in ack_type.split(",") if kind.strip())
    check_acks(command, asked)
    return asked


def _read(kind: type[Read]) -> Callable[[RequestFields, frozenset[str]], Read]:
    def parse_read(fields: RequestFields, acks: frozenset[str]) -> Read:
        return kind(
            command_id=fields.command_id,
            sub_id=fields.sub_id,
            query_id=fields.query_id,
            acks=acks,
            topic=fields.topic,
            batch_size=fields.batch_size,
            options=parse_options(fields.options) if fields.options else _NO_OPTIONS,
            bookmark=fields.bookmark,
            up_to=fields.up_to,
            bookmark_range=_range(fields.bookmark, fields.up_to),
            at_least=parse_bookmark(fields.at_least) if fields.at_least else {},
            staleness_seconds_max=_staleness(fields),
            filter=fields.filter,
            condition=fields.condition,
            options_text=fields.options,
            order=parse_order(fields.order_by) if fields.order_by else _NO_ORDER,
            order_text=fields.order_by,
            top_n=fields.top_n,
            skip_n=fields.skip_n,
            sow_keys=fields.sow_keys,
            of_gateway=_of_gateway(fields),
        )

    return parse_read


_NO_OPTIONS, _NO_ORDER, _NOW, _OF_CLIENT = Options(), Order(), BookmarkRange(), OfGateway()


def _range(bookmark: Bookmark, up_to: str) -> BookmarkRange:
    return parse_bookmark_range(bookmark, up_to) if bookmark or up_to or bookmark == () else _NOW


def _staleness(fields: RequestFields) -> float | None:
    return staleness_seconds(fields.max_staleness) if fields.max_staleness else None


def _of_gateway(fields: RequestFields) -> OfGateway:
    if not (
        fields.merges or fields.relays or fields.shares or fields.user or fields.sample_n or fields.replaces
    ):
        return _OF_CLIENT
    replaced = parse_request(Sow, bytes(fields.replaces)) if fields.replaces else None
    return OfGateway(
        merges=fields.merges,
        relays=fields.relays,
        shares=fields.shares,
        user=fields.user,
        sample_n=fields.sample_n,
        replaces=replaced,
    )


def _timeline(fields: RequestFields, acks: frozenset[str]) -> ReadTimeline:
    if not 1 <= fields.limit <= TIMELINE_LIMIT_MAX:
        raise SowlineError(
            "invalid limit", f"expected a limit of 1 to {TIMELINE_LIMIT_MAX}, got {fields.limit}"
        )
    return ReadTimeline(
        command_id=fields.command_id,
        query_id=fields.query_id,
        acks=acks,
        topic=fields.topic,
        batch_size=fields.batch_size,
        bookmark=fields.bookmark,
        up_to=fields.up_to,
        bookmark_range=parse_bookmark_range(fields.bookmark or EPOCH, fields.up_to),
        at_least=parse_bookmark(fields.at_least) if fields.at_least else {},
        staleness_seconds_max=_staleness(fields),
        key=fields.key,
        limit=fields.limit,
        reversed=fields.reversed,
    )


def _write(kind: type[W]) -> Callable[[RequestFields, frozenset[str]], W]:
    def parse_write(fields: RequestFields, acks: frozenset[str]) -> W:
        return kind(
            command_id=fields.command_id,
            acks=acks,
            topic=fields.topic,
            data=fields.data,
            filter=fields.filter,
            sow_keys=fields.sow_keys,
            expiration=fields.expiration,
            correlation_id=fields.correlation_id,
            sow_key=fields.sow_key,
            tags=fields.tags,
            change_id=fields.change_id,
            traceparent=fields.traceparent,
        )

    return parse_write


_parse_delta = _write(DeltaRequest)


def _delta(fields: RequestFields, acks: frozenset[str]) -> DeltaRequest:
    return msgspec.structs.replace(_parse_delta(fields, acks), key=fields.key)


def _plain(kind: type[Request]) -> Parse:
    return lambda fields, acks: kind(command_id=fields.command_id, acks=acks)


def _about_subscriptions(kind: type[Request]) -> Parse:
    return lambda fields, acks: kind(command_id=fields.command_id, sub_id=fields.sub_id, acks=acks)


def _unsubscribe(fields: RequestFields, acks: frozenset[str]) -> Unsubscribe:
    return Unsubscribe(
        command_id=fields.command_id, sub_id=fields.sub_id, query_id=fields.query_id, acks=acks
    )


def _logon(fields: RequestFields, acks: frozenset[str]) -> Logon:
    return Logon(command_id=fields.command_id, acks=acks, token=fields.token)


def _watch(fields: RequestFields, acks: frozenset[str]) -> WatchOutcomes:
    return WatchOutcomes(
        command_id=fields.command_id, query_id=fields.query_id, acks=acks, topic=fields.topic
    )


def _outcome(fields: RequestFields, acks: frozenset[str]) -> Outcome:
    try:
        asked = _read_outcome(fields.data)
    except msgspec.DecodeError as error:
        raise SowlineError("bad request", f"expected an origin and partitions as data: {error}") from error
    return Outcome(
        command_id=fields.command_id, query_id=fields.query_id, acks=acks, topic=fields.topic, asked=asked
    )


def _fetch(fields: RequestFields, acks: frozenset[str]) -> Fetch:
    return Fetch(
        command_id=fields.command_id,
        query_id=fields.query_id,
        acks=acks,
        top_n=fields.top_n,
        skip_n=fields.skip_n or 0,
    )


_READS: tuple[type[Read], ...] = (Sow, Explain, *SUBSCRIPTIONS)

_PARSERS: dict[str, Parse] = {
    **{kind.command: _read(kind) for kind in _READS},
    ReadTimeline.command: _timeline,
    **{kind.command: _write(kind) for kind in (Publish, DeltaPublish, SowDelete)},
    DeltaRequest.command: _delta,
    FlushRequest.command: _plain(FlushRequest),
    Unsubscribe.command: _unsubscribe,
    **{kind.command: _about_subscriptions(kind) for kind in (Pause, Resume, Heartbeat)},
    Logon.command: _logon,
    WatchOutcomes.command: _watch,
    Outcome.command: _outcome,
    Fetch.command: _fetch,
}
