"""The facts about topics that writes need from a service: the interface between the two."""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from sowline.commands.command import Origin
from sowline.config.topic_definition import TopicDefinition
from sowline.language.emodb.template import Fields
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.outcome import OutcomeReports
from sowline.serving.writes.requests import Definitions
from sowline.serving.writes.write_entitlements import RecordCheck


class AwaitedReports(NamedTuple):
    """The reports of some partitions about one command."""

    topic: TopicDefinition
    origin: Origin
    partitions: Collection[int]


class OutcomeWatch(Protocol):
    """Keeps what is reported about the commands that are written after it began."""

    async def wait_reports(self, awaited: Iterable[AwaitedReports]) -> Sequence[OutcomeReports]:
        """Wait until the reports about the first command are there; return them, and those that directly follow.

        It may return fewer than are there, but never none, and takes no more of `awaited` than it needs.
        """

    def end(self) -> None:
        """Stop waiting."""


class WriteDestination(Protocol):
    """The topics as a service knows them."""

    @property
    def topics(self) -> Definitions:
        """The definitions of the topics, by name."""

    def require_ready(self, topics: Collection[str]) -> None:
        """Raise `not ready` if commands to these topics can't be followed yet."""

    def records(self, topic: str) -> int:
        """Return the number of a topic's records."""

    def era(self, topic: str, partition: int) -> int:
        """Return the current era of a partition."""

    def bodies_of(self, checks: Iterable[RecordCheck]) -> AsyncIterator[Sequence[bytes]]:
        """Yield, for each check, the bodies of the records that it names, as far as they exist."""

    def template(self, topic: str, key_text: str) -> Fields:
        """Return the template's fields with which a document of this key reads after a write."""

    def watch_now(self, writes: Sequence[CheckedCommand]) -> OutcomeWatch | None:
        """Begin to watch for the outcomes of commands that are about to be written; None if that takes time."""

    async def watch(self, writes: Sequence[CheckedCommand]) -> OutcomeWatch:
        """Begin to watch for the outcomes of commands that are about to be written."""
