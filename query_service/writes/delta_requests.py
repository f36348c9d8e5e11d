"""Requests that write deltas to documents: reads and checks their commands."""

from collections.abc import Mapping
from typing import Any

import msgspec

from query_service.query.read_request import one_topic
from query_service.topics.state import ServedTopics, TopicState
from query_service.writes.publishing import CheckedCommand
from query_service.writes.requests import SOW_KEY, RequestedCommand, fields_of, fields_of_parameters, numbered
from query_service.writes.write_entitlements import check_write
from sowline.emodb.writable import DELTAS_MAX, check_delta, check_deltas
from sowline.errors import SowlineError
from sowline.model.body import why_not_json
from sowline.protocol.request import Request
from sowline.serving.authorization.entitlements import Rights

KEY = "key"


class _DeltaLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line with a delta and the key of its document."""

    key: str
    delta: str
    tags: str | tuple[str, ...] = ()
    change_id: str = ""


_read_line = msgspec.json.Decoder(_DeltaLine).decode
_read_text = msgspec.json.Decoder(str).decode


def delta_of(state: ServedTopics, request: Request, rights: Rights) -> list[RequestedCommand]:
    """Return the checked command of a request; raise if the request is invalid."""
    topic = one_topic(state, request.topic, rights.write)
    try:
        text = _read_text(request.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "the text of a delta as data, a JSON string"
        raise SowlineError("bad request", why_not_json(bytes(request.data), error, expected)) from error
    key = _named(topic, request.key, request.sow_key)
    return [_writing(topic, key, check_delta(text), fields_of(request), rights)]


def posted_deltas(
    state: ServedTopics, topic_name: str, given: Mapping[str, str], body: bytes, rights: Rights
) -> list[RequestedCommand]:
    """Return the checked commands of a POST with one or several deltas for one document.

    Raise if one is invalid; the error names the delta if there are several.
    """
    topic = one_topic(state, topic_name, rights.write)
    deltas = check_deltas(_decoded(body))
    fields = fields_of_parameters(
        {name: text for name, text in given.items() if name != SOW_KEY}, len(deltas)
    )
    key = _named(topic, given.get(KEY, ""), given.get(SOW_KEY, ""))
    return [_writing(topic, key, delta, fields, rights) for delta in deltas]


def posted_lines(
    state: ServedTopics, topic_name: str, given: Mapping[str, str], lines: list[bytes], rights: Rights
) -> list[RequestedCommand]:
    """Return the checked commands of a POST with one delta per line, each for the document that it names."""
    topic = one_topic(state, topic_name, rights.write)
    if given.keys() & {KEY, SOW_KEY, "change_id"}:
        raise SowlineError("bad request", "expected key and change_id in each line, got one as a parameter")
    if not 1 <= len(lines) <= DELTAS_MAX:
        raise SowlineError("too large", f"expected 1 to {DELTAS_MAX} lines, got {len(lines)}")
    fields = fields_of_parameters(given, len(lines))
    return [
        numbered(number, len(lines), _of_line, topic, line, fields, rights)
        for number, line in enumerate(lines, 1)
    ]


def _of_line(topic: TopicState, line: bytes, fields: Mapping[str, Any], rights: Rights) -> RequestedCommand:
    try:
        read = _read_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SowlineError(
            "bad request", why_not_json(line, error, "an object with key and delta")
        ) from error
    own = {"tags": read.tags or fields["tags"], "change_id": read.change_id or None}
    return _writing(topic, read.key, check_delta(read.delta), {**fields, **own}, rights)


def _writing(
    topic: TopicState, key: str, delta: bytes, fields: Mapping[str, Any], rights: Rights
) -> RequestedCommand:
    write = CheckedCommand.of_delta(topic.definition, key, delta, fields)
    check_write(topic, write, fields, rights)
    return RequestedCommand(topic, write, topic.size)


def _named(topic: TopicState, key: str, sow_key: str) -> str:
    """Return the key text of a document, named by its key, or by its SOW key if publishers give the keys."""
    if not sow_key:
        return key
    if key or not topic.definition.has_sow or topic.definition.key_paths:
        raise SowlineError(
            "bad request",
            "expected the key of a document; sow_key is allowed only if publishers give the keys",
        )
    return sow_key


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise SowlineError("bad delta", f"expected UTF-8: {error}") from error
