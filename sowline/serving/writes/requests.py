"""Requests that write: reads and checks the commands that they ask for. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec

from sowline.commands.command import SOW_DELETE, split_keys
from sowline.commands.traceparent import TRACEPARENT, read_traceparent
from sowline.config.outgoing_command import check_writable
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.filter import ALL, compile_filter, require_deterministic
from sowline.serving.authorization.entitlements import Rights, chosen_topic, chosen_topics
from sowline.serving.refusal import no_sow
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.write_entitlements import RecordCheck, check_of, entitled_to_delete
from sowline.wire.request import Write

Definitions = Mapping[str, TopicDefinition]
"""The topics of a service, by name."""

P = ParamSpec("P")
T = TypeVar("T")


def fields_of(request: Write) -> dict[str, Any]:
    """Return the header fields of a request's command."""
    return {
        "expiration": request.expiration,
        "correlation": request.correlation_id or None,
        "filter": request.filter or None,
        "keys": request.sow_keys or None,
        "key": request.sow_key or None,
        "tags": request.tags,
        "change_id": request.change_id or None,
        "traceparent": read_traceparent(request.traceparent),
    }


def writes_of(topics: Definitions, request: Write, rights: Rights) -> list["RequestedCommand"]:
    """Return the checked commands of a request; a delete may have one for each of several topics.

    Raise if the request is invalid.
    """
    selectors = {"filter": request.filter, "sow_keys": request.sow_keys, "sow_key": request.sow_key}
    chosen = _topics_for(topics, request.topic, request.command, request.data, selectors, rights)
    body = bytes(request.data) or None
    return [_writing(topic, request.command, body, fields_of(request), rights) for topic in chosen]


def _writing(
    topic: TopicDefinition,
    command: str,
    data: bytes | None,
    fields: Mapping[str, Any],
    rights: Rights,
    *,
    is_typed: bool = False,
) -> "RequestedCommand":
    fields = entitled_to_delete(topic, fields, rights)
    write = CheckedCommand.of(topic, command, data, fields, is_typed=is_typed)
    return RequestedCommand(write, check_of(write, fields, rights), _may_see_all(topic.name, rights))


def _may_see_all(topic: str, rights: Rights) -> bool:
    return topic in rights.read and rights.read.of(topic).filter == ALL


def _topics_for(
    topics: Definitions,
    name: str,
    command: str,
    data: object,
    selectors: Mapping[str, object],
    rights: Rights,
) -> list[TopicDefinition]:
    """Return the topics of a command; for a delete only those with a SOW. Raise if data or a selector is wrong."""
    if command == SOW_DELETE:
        chosen = chosen_topics(name, topics, rights.write)
        # A pattern names what can be deleted from. A view's own name is refused (test_only_records_are_deleted).
        kept = [topics[each] for each in chosen if topics[each].has_sow and topics[each].view is None]
        if not kept:
            check_writable(topics[chosen[0]])
            raise no_sow(chosen[0])
        _check_selector(**selectors, data=data)
        return kept
    if not data:
        raise SowlineError("bad request", f"expected data to {command}, got none")
    topic = topics[chosen_topic(name, topics, rights.write)]
    # Before the records are read: as lines of a topic whose publishers give keys, they would lack their keys
    # (test_a_view_takes_no_commands).
    check_writable(topic)
    return [topic]


def _check_selector(**selectors: object) -> None:
    given = [name for name, selector in selectors.items() if selector]
    # Exactly one: without a selector, a forgotten parameter would delete the whole topic
    # (test_a_delete_names_what_it_deletes_once).
    if len(given) != 1 and given != ["sow_key", "data"]:
        raise SowlineError(
            "bad request",
            f"expected exactly one of {', '.join(selectors)} to select what to delete, got"
            f" {' and '.join(given) or 'none'}; the filter 1=1 selects every record",
        )
    if filter := selectors.get("filter"):
        require_deterministic(compile_filter(str(filter)), "the filter of a sow_delete")


SOW_KEY = "sow_key"
PARAMETERS = ("expiration", "correlation", "publisher", "sequence", "tags", "change_id", SOW_KEY)
OF_ONE = ("sequence", "change_id", SOW_KEY)
"""Parameters that several commands can't share."""

SELECTORS = ("filter", "keys")
FIELDS = "fields"
"""The parameter with the paths that a delta in the topic's message type changes."""


class _KeyedLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line with a record and its key, for a topic whose keys publishers give; also a line that `sow` returns."""

    sow_key: str
    data: msgspec.Raw = msgspec.Raw(b"")
    updated_at: str = ""


_read_line = msgspec.json.Decoder(_KeyedLine).decode
_read_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def posted_writes(
    topics: Definitions,
    topic_name: str,
    command: str,
    given: Mapping[str, str],
    bodies: Sequence[bytes],
    rights: Rights,
    *,
    are_lines: bool = False,
    is_typed: bool = False,
) -> list["RequestedCommand"]:
    """Return the checked commands of a POST; `given` are its query parameters.

    The bodies are JSON, or with `is_typed` the one body is a message in the topic's message type.
    If publishers give the keys of the topic, and the parameters have none, each line is `{"sow_key": …, "data": …}`.
    Raise if the request is invalid; the error names the record if there are several.
    """
    selectors = {name: given.get(name) for name in (*SELECTORS, SOW_KEY)}
    chosen = _topics_for(topics, topic_name, command, bodies, selectors, rights)
    fields = fields_of_parameters(given, len(bodies))
    keyed = are_lines and SOW_KEY not in given
    return [
        numbered(number, len(bodies), _of_body(topic, keyed, is_typed), topic, command, body, fields, rights)
        for topic in chosen
        for number, body in enumerate(bodies or (None,), 1)
    ]


def _of_body(topic: TopicDefinition, keyed: bool, is_typed: bool) -> "Callable[..., RequestedCommand]":
    """Return the function that reads a body: as a line with a key, if lines have keys, or as a record."""
    if is_typed:
        return partial(_writing, is_typed=True)
    return _of_line if keyed and topic.has_sow and topic.key_rule.is_supplied else _writing


def _of_line(
    topic: TopicDefinition, command: str, line: bytes | None, fields: Mapping[str, Any], rights: Rights
) -> "RequestedCommand":
    if line is None:
        return _writing(topic, command, line, fields, rights)
    try:
        read = _read_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if _lacks_key(line):
            raise SowlineError(
                "key missing",
                "expected a SOW key from the publisher, as sow_key next to the data, got a line without sow_key",
            ) from None
        raise SowlineError(
            "bad request",
            f"expected an object with sow_key and data, because publishers give the keys: {error}",
        ) from error
    body = bytes(read.data) or None
    if body is None and command != SOW_DELETE:
        raise SowlineError("bad request", f"expected data to {command}, got none")
    return _writing(topic, command, body, {**fields, "key": read.sow_key}, rights)


def _lacks_key(line: bytes) -> bool:
    """Return whether a line is an object without a key, such as a record that is sent without its key."""
    try:
        return SOW_KEY not in _read_names(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def fields_of_parameters(given: Mapping[str, str], commands: int) -> dict[str, Any]:
    """Return the command fields from the query parameters of a request; raise `bad request`."""
    if commands > 1 and (single := [name for name in OF_ONE if name in given]):
        raise SowlineError("bad request", f"expected one command with a {single[0]}, got {commands}")
    return _fields_of(given)


def _fields_of(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        expiration = float(given["expiration"]) if "expiration" in given else None
    except ValueError:
        raise SowlineError(
            "bad request", f"expected an expiration in seconds, got {given['expiration']!r}"
        ) from None
    try:
        keys = split_keys(given.get("keys", ""))
    except ValueError as error:
        raise SowlineError("bad request", str(error)) from None
    texts = {
        name: given.get(name)
        for name in ("correlation", "publisher", "sequence", "filter", "change_id", TRACEPARENT)
    }
    return {
        "expiration": expiration,
        "keys": keys or None,
        "key": given.get(SOW_KEY),
        "tags": given.get("tags", ()),
        "fields": _paths_in(given.get(FIELDS, "")),
        **texts,
    }


def _paths_in(text: str) -> tuple[str, ...]:
    return tuple(path.strip() for path in text.split(",")) if text else ()


def numbered(number: int, of: int, read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call `read` for one record; an error names the record if there are several."""
    try:
        return read(*given, **named)
    except SowlineError as error:
        if of <= 1:
            raise
        raise of_one(number, of, error) from error


def of_one(number: int, of: int, error: SowlineError) -> SowlineError:
    """Return the error with the number of its record."""
    return SowlineError(error.reason, f"record {number} of {of}: {error.message}")


@dataclass(frozen=True, slots=True)
class RequestedCommand:
    """One command of a request.

    `check` is what must be checked against records first, if anything. `may_see_all` is whether the user may see all
    records of the topic.
    """

    write: CheckedCommand
    check: RecordCheck | None
    may_see_all: bool
