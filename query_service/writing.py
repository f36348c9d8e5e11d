"""Requests that write: the commands that they ask for, and what is said of them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from query_service.asking import no_sow, one_topic, topics_of
from query_service.entitled import check_write, entitled_to_delete
from query_service.outcomes import Outcome
from query_service.publishing import Publishing, Write, Written
from query_service.rights import Rights
from query_service.state import State, TopicState
from sowline.bookmark import format_bookmark
from sowline.command import SOW_DELETE
from sowline.errors import SowlineError
from sowline.filter import compile_filter, require_deterministic
from sowline.position import Position
from sowline.traceparent import TRACEPARENT, read_traceparent
from sowline.wire import Request

TURN_COMMANDS = 200
"""Of one request, before others in the event loop get a turn."""

P = ParamSpec("P")
T = TypeVar("T")


def about_of(request: Request) -> dict[str, Any]:
    """Return what the headers of a request's command say."""
    return {
        "expiration": request.expiration,
        "correlation": request.correlation_id or None,
        "filter": request.filter or None,
        "keys": request.sow_keys or None,
        "tags": request.tags,
        "change_id": request.change_id or None,
        "traceparent": read_traceparent(request.traceparent),
    }


def writes_of(state: State, request: Request, rights: Rights) -> list["Writing"]:
    """Return the commands that a request asks for, checked: a delete may be for several topics.

    Raises the reason of whatever is wrong with them.
    """
    selectors = {"filter": request.filter, "sow_keys": request.sow_keys}
    topics = _topics_for(state, request.topic, request.command, request.data, selectors, rights)
    body = bytes(request.data) or None
    return [_writing(topic, request.command, body, about_of(request), rights) for topic in topics]


def _writing(
    topic: TopicState, command: str, body: bytes | None, about: Mapping[str, Any], rights: Rights
) -> "Writing":
    about = entitled_to_delete(topic, about, rights)
    write = Write.of(topic.definition, command, body, about)
    check_write(topic, write, about, rights)
    return Writing(topic, write, topic.size)


def _topics_for(
    state: State, name: str, command: str, data: object, selectors: Mapping[str, object], rights: Rights
) -> list[TopicState]:
    """Return the topics that a command is for: only records can be deleted. Raises what it lacks or has too much."""
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
    if len(given) != 1:
        raise SowlineError(
            "bad request",
            f"expected exactly one of {', '.join(selectors)} to delete by (filter 1=1: every record), got"
            f" {' and '.join(given) or 'none'}",
        )
    if filter := selectors.get("filter"):
        require_deterministic(compile_filter(str(filter)), "the filter of a sow_delete")


PARAMETERS = ("expiration", "correlation", "publisher", "sequence", "tags", "change_id")
OF_ONE = ("sequence", "change_id")
"""Parameters of one command, of which several can't have the same."""

SELECTORS = ("filter", "keys")


def posted_writes(
    state: State,
    topic_name: str,
    command: str,
    given: Mapping[str, str],
    bodies: Sequence[bytes],
    rights: Rights,
) -> list["Writing"]:
    """Return the commands that a POST asks for, all of them checked; `given` are its query parameters.

    Raises the reason of whatever is wrong with them, naming the record of several.
    """
    selectors = {name: given.get(name) for name in SELECTORS}
    topics = _topics_for(state, topic_name, command, bodies, selectors, rights)
    about = posted_about(given, len(bodies))
    return [
        numbered(number, len(bodies), _writing, topic, command, body, about, rights)
        for topic in topics
        for number, body in enumerate(bodies or (None,), 1)
    ]


def posted_about(given: Mapping[str, str], commands: int) -> dict[str, Any]:
    """Return what the query parameters say of a number of commands; raises `bad request`."""
    if commands > 1 and (single := [name for name in OF_ONE if name in given]):
        raise SowlineError("bad request", f"expected one command with a {single[0]}, got {commands}")
    return _read_about(given)


def _read_about(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        expiration = float(given["expiration"]) if "expiration" in given else None
    except ValueError:
        raise SowlineError(
            "bad request", f"expected an expiration in seconds, got {given['expiration']!r}"
        ) from None
    keys = tuple(key.strip() for key in given.get("keys", "").split(",") if key.strip())
    texts = {
        name: given.get(name)
        for name in ("correlation", "publisher", "sequence", "filter", "change_id", TRACEPARENT)
    }
    return {"expiration": expiration, "keys": keys or None, "tags": given.get("tags", ()), **texts}


def numbered(number: int, of: int, read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return what is read of one record; an error says which one of several it is."""
    try:
        return read(*given, **named)
    except SowlineError as error:
        if of <= 1:
            raise
        raise _of_one(number, of, error) from error


def _of_one(number: int, of: int, error: SowlineError) -> SowlineError:
    """Return an error that says which one of several records it is about."""
    return SowlineError(error.reason, f"record {number} of {of}: {error.message}")


@dataclass(slots=True)
class Writing:
    """One command of a request: where it goes, and how many records were there before."""

    topic: TopicState
    write: Write
    records: int


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a request's commands."""

    each: Sequence[str]
    """The outcome of each command."""
    deleted: int
    records: int

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many commands had each outcome."""
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


class Way:
    """Commands on their way, in the order written. What becomes of them is kept until `end`, which must be called."""

    def __init__(self, publishing: Publishing, writings: Sequence[Writing]) -> None:
        self._writings = writings
        self._written: list[Written] = []
        self._publishing = publishing

    def begin(self) -> None:
        """Write them all at once; where that can't be, those that were not written are not."""
        for _ in self._portions():
            continue

    async def begin_with_turns(self) -> None:
        """Write them, and let others have turns in between."""
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
        """Say that nobody waits for them any more."""
        ended, self._written = self._written, []
        for written in ended:
            written.end()

    async def persisted(self) -> str:
        """Wait until Kafka has them all; return the bookmark behind them."""
        places: dict[str, dict[int, Position]] = {}
        for number, (writing, written) in enumerate(zip(self._writings, self._written, strict=True), 1):
            partition, offset = await written.persisted()
            era = writing.topic.partitions[partition].held.era
            positions = places.setdefault(writing.topic.definition.log, {})
            positions[partition] = max(Position(era, offset), positions.get(partition, Position(era, -1)))
            await _turn(number)
        return format_bookmark(places)

    async def told(self) -> Told:
        """Wait for what became of them all; raises the reason of the first that was refused."""
        outcomes: list[Outcome] = []
        for number, written in enumerate(self._written, 1):
            try:
                outcomes.append(await written.outcome())
            except SowlineError as error:
                if len(self._written) == 1:
                    raise
                raise _of_one(number, len(self._written), error) from error
            await _turn(number)
        said = [outcome.said for outcome in outcomes]
        records = {writing.topic.definition.name: writing.records for writing in self._writings}
        return Told(said, sum(outcome.deleted for outcome in outcomes), sum(records.values()))


async def _turn(number: int) -> None:
    """Let others have a turn after every so many commands."""
    if number % TURN_COMMANDS == 0:
        await asyncio.sleep(0)
