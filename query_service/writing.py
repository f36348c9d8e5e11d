"""Requests that write: the commands that they ask for, and what is said of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from query_service.asking import no_sow, topics_of
from query_service.outcomes import Outcome
from query_service.publishing import Publishing, Write, Written
from query_service.state import State, TopicState
from sowline.bookmark import format_bookmark
from sowline.command import SOW_DELETE
from sowline.errors import SowlineError
from sowline.filter import compile_filter, require_deterministic
from sowline.position import Position
from sowline.topics import TopicDefinition
from sowline.wire import Request


def about_of(request: Request) -> dict[str, Any]:
    """Return what the headers of a request's command say."""
    return {
        "expiration": request.expiration,
        "correlation": request.correlation_id or None,
        "filter": request.filter or None,
        "keys": request.sow_keys or None,
    }


def writes_of(state: State, request: Request) -> list["Writing"]:
    """Return the commands that a request asks for, checked: a delete may be for several topics.

    Raises the reason of whatever is wrong with them.
    """
    selectors = {"filter": request.filter, "sow_keys": request.sow_keys}
    topics = _topics_for(state, request.topic, request.command, request.data, selectors)
    body = bytes(request.data) or None
    return [
        Writing(topic, Write.of(topic.definition, request.command, body, about_of(request)), topic.size)
        for topic in topics
    ]


def _topics_for(
    state: State, name: str, command: str, data: object, selectors: Mapping[str, object]
) -> list[TopicState]:
    """Return the topics that a command is for: only records can be deleted. Raises what it lacks or has too much."""
    topics = topics_of(state, name)
    if command == SOW_DELETE:
        kept = [topic for topic in topics if topic.definition.has_sow]
        if not kept:
            raise no_sow(topics[0])
        _check_selector(**selectors, data=data)
        return kept
    if name.startswith("^"):
        raise SowlineError("regex topic not supported", f"expected one topic by its name to {command} to")
    if not data:
        raise SowlineError("bad request", f"expected data to {command}, got none")
    return topics


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


PARAMETERS = ("expiration", "correlation", "publisher", "sequence")
SELECTORS = ("filter", "keys")


def posted_writes(
    state: State, topic_name: str, command: str, given: Mapping[str, str], bodies: Sequence[bytes]
) -> list["Writing"]:
    """Return the commands that a POST asks for, all of them checked; `given` are its query parameters.

    Raises the reason of whatever is wrong with them, naming the record of several.
    """
    selectors = {name: given.get(name) for name in SELECTORS}
    topics = _topics_for(state, topic_name, command, bodies, selectors)
    if "sequence" in given and len(bodies) > 1:
        raise SowlineError("bad request", f"expected one record with a sequence, got {len(bodies)}")
    about = _posted_about(given)
    return [
        Writing(topic, _numbered(topic.definition, command, body, about, number, len(bodies)), topic.size)
        for topic in topics
        for number, body in enumerate(bodies or (None,), 1)
    ]


def _posted_about(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        expiration = float(given["expiration"]) if "expiration" in given else None
    except ValueError:
        raise SowlineError(
            "bad request", f"expected an expiration in seconds, got {given['expiration']!r}"
        ) from None
    keys = tuple(key.strip() for key in given.get("keys", "").split(",") if key.strip())
    texts = {name: given.get(name) for name in ("correlation", "publisher", "sequence", "filter")}
    return {"expiration": expiration, "keys": keys or None, **texts}


def _numbered(
    topic: TopicDefinition, command: str, body: bytes | None, about: Mapping[str, Any], number: int, of: int
) -> Write:
    try:
        return Write.of(topic, command, body, about)
    except SowlineError as error:
        if of == 1:
            raise
        raise SowlineError(error.reason, f"record {number} of {of}: {error.message}") from error


@dataclass(slots=True)
class Writing:
    """One command of a request: where it goes, and how many records were there before."""

    topic: TopicState
    write: Write
    records: int


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a request's commands."""

    outcomes: Mapping[str, int]
    """How many commands had each outcome."""
    deleted: int
    records: int

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
        try:
            for writing in writings:
                self._written.append(publishing.write(writing.write))
        except SowlineError:
            self.end()
            raise

    def end(self) -> None:
        """Say that nobody waits for them any more."""
        for written in self._written:
            written.end()

    async def persisted(self) -> str:
        """Wait until Kafka has them all; return the bookmark behind them."""
        places: dict[str, dict[int, Position]] = {}
        for writing, written in zip(self._writings, self._written, strict=True):
            partition, offset = await written.persisted()
            era = writing.topic.partitions[partition].held.era
            positions = places.setdefault(writing.topic.definition.log, {})
            positions[partition] = max(Position(era, offset), positions.get(partition, Position(era, -1)))
        return format_bookmark(places)

    async def told(self) -> Told:
        """Wait for what became of them all; raises the reason of the first that was refused."""
        outcomes: list[Outcome] = [await written.outcome() for written in self._written]
        said = Counter(outcome.said for outcome in outcomes)
        records = {writing.topic.definition.name: writing.records for writing in self._writings}
        return Told(said, sum(outcome.deleted for outcome in outcomes), sum(records.values()))
