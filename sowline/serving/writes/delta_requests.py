"""Requests that write deltas to documents: reads and checks their commands. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.emodb.writable import DELTAS_MAX, check_delta, check_deltas
from sowline.model.body import why_not_json
from sowline.serving.authorization.entitlements import Rights, chosen_topic
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.requests import (
    SOW_KEY,
    Definitions,
    RequestedCommand,
    fields_of,
    fields_of_parameters,
    numbered,
)
from sowline.serving.writes.write_entitlements import check_of
from sowline.wire.request import DeltaRequest

KEY = "key"


class _DeltaLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line with a delta and the key of its document."""

    key: str
    delta: str
    tags: str | tuple[str, ...] = ()
    change_id: str = ""


_read_line = msgspec.json.Decoder(_DeltaLine).decode
_read_text = msgspec.json.Decoder(str).decode


def delta_of(topics: Definitions, request: DeltaRequest, rights: Rights) -> list[RequestedCommand]:
    """Return the checked command of a request; raise if the request is invalid."""
    topic = topics[chosen_topic(request.topic, topics, rights.write)]
    try:
        text = _read_text(request.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "the text of a delta as data, a JSON string"
        raise SowlineError("bad request", why_not_json(bytes(request.data), error, expected)) from error
    key = _named(topic, request.key, request.sow_key)
    return [_writing(topic, key, check_delta(text), fields_of(request), rights)]


def posted_deltas(
    topics: Definitions, topic_name: str, given: Mapping[str, str], body: bytes, rights: Rights
) -> list[RequestedCommand]:
    """Return the checked commands of a POST with one or several deltas for one document.

    Raise if one is invalid; the error names the delta if there are several.
    """
    topic = topics[chosen_topic(topic_name, topics, rights.write)]
    deltas = check_deltas(_decoded(body))
    fields = fields_of_parameters(
        {name: text for name, text in given.items() if name != SOW_KEY}, len(deltas)
    )
    key = _named(topic, given.get(KEY, ""), given.get(SOW_KEY, ""))
    return [_writing(topic, key, delta, fields, rights) for delta in deltas]


def posted_lines(
    topics: Definitions, topic_name: str, given: Mapping[str, str], lines: list[bytes], rights: Rights
) -> list[RequestedCommand]:
    """Return the checked commands of a POST with one delta per line, each for the document that it names."""
    topic = topics[chosen_topic(topic_name, topics, rights.write)]
    if given.keys() & {KEY, SOW_KEY, "change_id"}:
        raise SowlineError("bad request", "expected key and change_id in each line, got one as a parameter")
    if not 1 <= len(lines) <= DELTAS_MAX:
        raise SowlineError("too large", f"expected 1 to {DELTAS_MAX} lines, got {len(lines)}")
    fields = fields_of_parameters(given, len(lines))
    return [
        numbered(number, len(lines), _of_line, topic, line, fields, rights)
        for number, line in enumerate(lines, 1)
    ]


def _of_line(
    topic: TopicDefinition, line: bytes, fields: Mapping[str, Any], rights: Rights
) -> RequestedCommand:
    try:
        read = _read_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SowlineError(
            "bad request", why_not_json(line, error, "an object with key and delta")
        ) from error
    own = {"tags": read.tags or fields["tags"], "change_id": read.change_id or None}
    return _writing(topic, read.key, check_delta(read.delta), {**fields, **own}, rights)


def _writing(
    topic: TopicDefinition, key: str, delta: bytes, fields: Mapping[str, Any], rights: Rights
) -> RequestedCommand:
    write = CheckedCommand.of_delta(topic, key, delta, fields)
    # `check_of` refuses users who may not read all records: a delta can test what a document holds.
    return RequestedCommand(write, check_of(write, fields, rights), may_see_all=True)


def _named(topic: TopicDefinition, key: str, sow_key: str) -> str:
    """Return the key text of a document, named by its key, or by its SOW key if publishers give the keys."""
    if not sow_key:
        return key
    if key or not topic.has_sow or topic.key_paths:
        raise SowlineError(
            "bad request",
            f"expected the key of a document of {topic.name}, got a sow_key, which is allowed only if publishers"
            f" give the keys",
        )
    return sow_key


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise SowlineError("bad delta", f"expected UTF-8: {error}") from error
