"""Requests that write deltas to documents: the commands that they ask for, all of them checked first."""

from collections.abc import Mapping
from typing import Any

import msgspec

from query_service.asking import one_topic
from query_service.entitled import check_write
from query_service.publishing import Write
from query_service.rights import Rights
from query_service.state import State, TopicState
from query_service.writing import Writing, about_of, numbered, posted_about
from sowline.document.writable import DELTAS_MAX, check_delta, check_deltas
from sowline.errors import SowlineError
from sowline.wire import Request

KEY = "key"


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One delta of many that are for several documents."""

    key: str
    delta: str
    tags: str | tuple[str, ...] = ()
    change_id: str = ""


_read_line = msgspec.json.Decoder(_Line).decode
_read_text = msgspec.json.Decoder(str).decode


def delta_of(state: State, request: Request, rights: Rights) -> list[Writing]:
    """Return the command that a request for a delta asks for; raises the reason of whatever is wrong with it."""
    topic = one_topic(state, request.topic, rights.write)
    try:
        text = _read_text(request.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SowlineError(
            "bad request", f"expected the text of a delta as data, a JSON string: {error}"
        ) from error
    return [_writing(topic, request.key, check_delta(text), about_of(request), rights)]


def posted_deltas(
    state: State, topic_name: str, given: Mapping[str, str], body: bytes, rights: Rights
) -> list[Writing]:
    """Return the commands that a POST asks for with a delta, or a stream of them, for one document.

    Raises the reason of whatever is wrong with them, naming the delta of several.
    """
    topic = one_topic(state, topic_name, rights.write)
    deltas = check_deltas(_decoded(body))
    about = posted_about(given, len(deltas))
    return [_writing(topic, given.get(KEY, ""), delta, about, rights) for delta in deltas]


def posted_lines(
    state: State, topic_name: str, given: Mapping[str, str], lines: list[bytes], rights: Rights
) -> list[Writing]:
    """Return the commands that a POST asks for with a delta a line, each for the document that it names."""
    topic = one_topic(state, topic_name, rights.write)
    if KEY in given or "change_id" in given:
        raise SowlineError("bad request", "expected key and change_id in each line, got one beside the lines")
    if not 1 <= len(lines) <= DELTAS_MAX:
        raise SowlineError("too large", f"expected 1 to {DELTAS_MAX} lines, got {len(lines)}")
    about = posted_about(given, len(lines))
    return [
        numbered(number, len(lines), _of_line, topic, line, about, rights)
        for number, line in enumerate(lines, 1)
    ]


def _of_line(topic: TopicState, line: bytes, about: Mapping[str, Any], rights: Rights) -> Writing:
    try:
        read = _read_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SowlineError("bad request", f"expected an object with key and delta: {error}") from error
    own = {"tags": read.tags or about["tags"], "change_id": read.change_id or None}
    return _writing(topic, read.key, check_delta(read.delta), {**about, **own}, rights)


def _writing(topic: TopicState, key: str, delta: bytes, about: Mapping[str, Any], rights: Rights) -> Writing:
    write = Write.of_delta(topic.definition, key, delta, about)
    check_write(topic, write, about, rights)
    return Writing(topic, write, topic.size)


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise SowlineError("bad delta", f"expected UTF-8: {error}") from error
