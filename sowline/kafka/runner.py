"""The common base of runners of fanouts and views: each follows a source's changes as a member of a group."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from confluent_kafka import Message

from sowline.config.settings import Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.admin import Cluster
from sowline.kafka.changes_driver import AlsoNeeded, MemberChanges, nothing_else
from sowline.kafka.clients import member_consumer
from sowline.kafka.exact_output import ExactOutput
from sowline.kafka.leaderless import Leaderless

BATCH_MAX = 1000


Output = TypeVar("Output", bound=ExactOutput)


class Runner(ABC, Generic[Output]):
    """Writes the output for the changes of `source` until the service stops. Its output is closed with it."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        source: TopicDefinition,
        output: Output,
        stop: threading.Event,
        also_needed: AlsoNeeded = nothing_else,
    ) -> None:
        """Prepare a member of the consumer group whose name ends in `group`."""
        self._source = source
        self._output = output
        self._stop = stop
        self._cluster = Cluster(settings.kafka_client, stop)
        consumer = member_consumer(
            settings.kafka_client, f"{settings.group}{group}", settings.session_timeout_ms
        )
        self._changes = MemberChanges(consumer, self._cluster, source, stop, also_needed)

    def run(self) -> None:
        """Follow the changes until the service stops.

        After one of the `RESTART_ERRORS`, a new runner can continue. After any other error, none can.
        """
        self._changes.join(self._opened, self._closed)
        try:
            while not self._stop.is_set():
                # Not between a poll and the work on its events: a load would count as complete although its last
                # events are not applied yet.
                self._changes.look()
                self._open_awaited()
                self._turn()
        finally:
            self._close()

    def _open_awaited(self) -> None:
        """Open the partitions whose leaders have come back."""
        if numbers := self._changes.come():
            self._opened(numbers)
            self._changes.read(numbers)

    @abstractmethod
    def _turn(self) -> None:
        """Take the changes that have arrived, and write the resulting output."""

    @abstractmethod
    def _opened(self, numbers: Sequence[int]) -> None:
        """Create the readers of added partitions."""

    @abstractmethod
    def _closed(self, number: int) -> None:
        """Forget a removed partition."""

    def _poll(self, seconds: float) -> list[Message]:
        return self._changes.poll(BATCH_MAX, seconds)

    def _close(self) -> None:
        # In this order: as soon as the consumer has left its group, another member writes what follows the last
        # commit. What waits in this producer would come as a second copy.
        self._output.close()
        self._changes.close()

    # the state that services report

    @property
    def assigned(self) -> bool:
        """Whether the group has assigned its partitions, which may be none."""
        return self._changes.is_member

    @property
    def written(self) -> int:
        """The number of messages of a fanout, or of states of a view, that it has written."""
        return self._output.written

    @property
    def behind(self) -> int | None:
        """The number of events in its partitions that were not processed yet; None while that is unknown."""
        return self._changes.total_behind

    @property
    def leaderless(self) -> Leaderless:
        """The partitions of Kafka that it needs and that have no leader."""
        return self._changes.leaderless

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet; None if there are none."""
        return self._changes.waiting()
