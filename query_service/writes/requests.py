"""Requests that write: the commands that they ask for, and their outcomes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import msgspec

from query_service.query.read_request import no_sow, one_topic, topics_of
from query_service.replica.outcomes import CommandOutcome
from query_service.topics.state import ServedTopics, TopicState
from query_service.writes.publishing import CheckedCommand, PendingCommand, Publishing
from query_service.writes.write_entitlements import check_write, entitled_to_delete
from sowline.errors import SowlineError
from sowline.filter import ALL, compile_filter, require_deterministic
from sowline.model.bookmark import Positions, format_bookmark
from sowline.model.position import Position
from sowline.protocol.command import SOW_DELETE, split_keys
from sowline.protocol.request import Request
from sowline.protocol.traceparent import TRACEPARENT, read_traceparent
from sowline.serving.authorization.entitlements import Rights

TURN_COMMANDS = 200
"""Commands of one request to write before other tasks of the event loop run."""

P = ParamSpec("P")
T = TypeVar("T")


def fields_of(request: Request) -> dict[str, Any]:
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


def writes_of(state: ServedTopics, request: Request, rights: Rights) -> list["RequestedCommand"]:
    """Return the checked commands of a request; a delete may have one for each of several topics.

    Raise if the request is invalid.
    """
    selectors = {"filter": request.filter, "sow_keys": request.sow_keys, "sow_key": request.sow_key}
    topics = _topics_for(state, request.topic, request.command, request.data, selectors, rights)
    body = bytes(request.data) or None
    return [_writing(topic, request.command, body, fields_of(request), rights) for topic in topics]


def _writing(
    topic: TopicState, command: str, body: bytes | None, fields: Mapping[str, Any], rights: Rights
) -> "RequestedCommand":
    fields = entitled_to_delete(topic, fields, rights)
    write = CheckedCommand.of(topic.definition, command, body, fields)
    check_write(topic, write, fields, rights)
    return RequestedCommand(topic, write, topic.size if _may_see_all(topic.definition.name, rights) else None)


def _may_see_all(topic: str, rights: Rights) -> bool:
    return topic in rights.read and rights.read.of(topic).filter == ALL


def _topics_for(
    state: ServedTopics,
    name: str,
    command: str,
    data: object,
    selectors: Mapping[str, object],
    rights: Rights,
) -> list[TopicState]:
    """Return the topics of a command; for a delete only those with a SOW. Raise if data or a selector is wrong."""
    if command == SOW_DELETE:
        topics = topics_of(state, name, rights.write)
        kept = [topic for topic in topics if topic.definition.has_sow]
        if not kept:
            raise no_sow(topics[0])
        _check_selector(**selectors, data=data)
        return kept
    if not data:
        raise SowlineError("bad request", f"expected data to {command}, got none")
    return [one_topic(state, name, rights.write)]


def _check_selector(**selectors: object) -> None:
    given = [name for name, selector in selectors.items() if selector]
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


class _KeyedLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line with a record and its key, for a topic whose keys publishers give; also a line that `sow` returns."""

    sow_key: str
    data: msgspec.Raw = msgspec.Raw(b"")
    updated_at: str = ""


_read_line = msgspec.json.Decoder(_KeyedLine).decode


def posted_writes(
    state: ServedTopics,
    topic_name: str,
    command: str,
    given: Mapping[str, str],
    bodies: Sequence[bytes],
    rights: Rights,
    *,
    are_lines: bool = False,
) -> list["RequestedCommand"]:
    """Return the checked commands of a POST; `given` are its query parameters.

    If publishers give the keys of the topic, and the parameters have none, each line is `{"sow_key": …, "data": …}`.
    Raise if the request is invalid; the error names the record if there are several.
    """
    selectors = {name: given.get(name) for name in (*SELECTORS, SOW_KEY)}
    topics = _topics_for(state, topic_name, command, bodies, selectors, rights)
    fields = fields_of_parameters(given, len(bodies))
    keyed = are_lines and SOW_KEY not in given
    return [
        numbered(number, len(bodies), _of_body(topic, keyed), topic, command, body, fields, rights)
        for topic in topics
        for number, body in enumerate(bodies or (None,), 1)
    ]


def _of_body(topic: TopicState, keyed: bool) -> "Callable[..., RequestedCommand]":
    """Return the function that reads a body: as a line with a key, if lines have keys, or as a record."""
    definition = topic.definition
    return _of_line if keyed and definition.has_sow and definition.key_rule.is_supplied else _writing


def _of_line(
    topic: TopicState, command: str, line: bytes | None, fields: Mapping[str, Any], rights: Rights
) -> "RequestedCommand":
    if line is None:
        return _writing(topic, command, line, fields, rights)
    try:
        read = _read_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SowlineError(
            "bad request",
            f"expected an object with sow_key and data, because publishers give the keys: {error}",
        ) from error
    body = bytes(read.data) or None
    if body is None and command != SOW_DELETE:
        raise SowlineError("bad request", f"expected data to {command}, got none")
    return _writing(topic, command, body, {**fields, "key": read.sow_key}, rights)


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
        **texts,
    }


def numbered(number: int, of: int, read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call `read` for one record; an error names the record if there are several."""
    try:
        return read(*given, **named)
    except SowlineError as error:
        if of <= 1:
            raise
        raise _of_one(number, of, error) from error


def _of_one(number: int, of: int, error: SowlineError) -> SowlineError:
    """Return the error with the number of its record."""
    return SowlineError(error.reason, f"record {number} of {of}: {error.message}")


@dataclass(slots=True)
class RequestedCommand:
    """One command of a request: its destination, and the number of records before it.

    `records` is None if the user may not see all records of the topic.
    """

    topic: TopicState
    write: CheckedCommand
    records: int | None


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """The outcomes of a request's commands."""

    each: Sequence[str]
    """The outcome of each command."""
    deleted: int
    records: int
    effect: str
    """The bookmark of the effect: a replica that has reached it shows what the commands did."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """The number of commands with each outcome."""
        return Counter(self.each)

    @property
    def stats(self) -> dict[str, int]:
        """The counts of a `stats` acknowledgement."""
        return {
            "topic_matches": self.records,
            "matches": self.deleted,
            "records_returned": 0,
            "records_deleted": self.deleted,
        }


class PendingCommands:
    """Commands being written, in order. Call `end`: until then, their outcomes are kept."""

    def __init__(self, publishing: Publishing, writings: Sequence[RequestedCommand]) -> None:
        self._writings = writings
        self._written: list[PendingCommand] = []
        self._publishing = publishing

    def begin(self) -> None:
        """Write all commands in one step; if one fails, the commands after it are not written."""
        for _ in self._portions():
            continue

    async def begin_with_turns(self) -> None:
        """Write all commands; other tasks run in between."""
        for _ in self._portions():
            await asyncio.sleep(0)

    def _portions(self) -> Iterator[None]:
        try:
            for number, writing in enumerate(self._writings, 1):
                self._written.append(self._publishing.write(writing.write))
                if number % TURN_COMMANDS == 0:
                    yield
        except SowlineError:
            self.end()
            raise

    def end(self) -> None:
        """Stop waiting for the outcomes."""
        ended, self._written = self._written, []
        for written in ended:
            written.end()

    async def persisted(self) -> str:
        """Wait until Kafka has all commands; return the bookmark after them."""
        positions_by_log: dict[str, dict[int, Position]] = {}
        for number, (writing, written) in enumerate(zip(self._writings, self._written, strict=True), 1):
            partition, offset = await written.persisted()
            era = writing.topic.partitions[partition].held.era
            positions = positions_by_log.setdefault(writing.topic.definition.log, {})
            positions[partition] = max(Position(era, offset), positions.get(partition, Position(era, -1)))
            await _turn(number)
        return format_bookmark(positions_by_log)

    async def summary(self) -> WriteSummary:
        """Wait for all outcomes; raise the error of the first command that was refused."""
        outcomes: list[CommandOutcome] = []
        for number, written in enumerate(self._written, 1):
            try:
                outcomes.append(await written.outcome())
            except SowlineError as error:
                if len(self._written) == 1:
                    raise
                raise _of_one(number, len(self._written), error) from error
            await _turn(number)
        each = [outcome.outcome for outcome in outcomes]
        deleted = [outcome.deleted for outcome in outcomes]
        effect = _effect_of(self._writings, outcomes)
        return WriteSummary(each, sum(deleted), compared(self._writings, deleted), effect)


def _effect_of(writings: Sequence[RequestedCommand], outcomes: Sequence[CommandOutcome]) -> str:
    """Return the bookmark from which the effects of all commands are visible."""
    positions_by_log: dict[str, Positions] = {}
    for writing, outcome in zip(writings, outcomes, strict=True):
        positions = positions_by_log.setdefault(writing.topic.definition.log, {})
        for partition, position in outcome.effect.items():
            positions[partition] = max(position, positions.get(partition, position))
    return format_bookmark(positions_by_log)


def compared(writings: Sequence[RequestedCommand], deleted: Sequence[int]) -> int:
    """Return the number of records that the commands were compared with: all records of each topic.

    If the user may not see all records of a topic, count only the deleted ones.
    """
    whole = {one.topic.definition.name: one.records for one in writings if one.records is not None}
    hidden = (count for one, count in zip(writings, deleted, strict=True) if one.records is None)
    return sum(whole.values()) + sum(hidden)


async def _turn(number: int) -> None:
    """Let other tasks run after every `TURN_COMMANDS` commands."""
    if number % TURN_COMMANDS == 0:
        await asyncio.sleep(0)
