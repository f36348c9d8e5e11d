"""Definitions that change while a worker runs: topics are added, opened again by new limits, or given back."""

from collections import deque
from collections.abc import Callable

from confluent_kafka import Consumer

from sowline.config.definition_changes import ChangeEffect, Followed
from sowline_materializer.standby.standby import Standby
from sowline_materializer.worker.assignment import Assignment
from sowline_materializer.worker.owned import OwnedPartitions


class Redefinitions:
    """The definitions that a worker has still to take. Its thread takes them between two batches."""

    def __init__(
        self,
        owned: OwnedPartitions,
        assignment: Assignment,
        standby: Standby | None,
        subscribe: Callable[[list[str]], object],
    ) -> None:
        """`subscribe` asks the group for the partitions of logs; those of other logs leave this worker."""
        self._owned = owned
        self._assignment = assignment
        self._standby = standby
        self._subscribe = subscribe
        self._waiting: deque[Followed] = deque()
        self._removed: set[str] = set()
        """The logs of topics that left the file, until the group has taken their partitions."""

    def put(self, followed: Followed) -> None:
        """Let the worker take these definitions in its next turn. Safe to call from any thread."""
        self._waiting.append(followed)

    def take(self, consumer: Consumer) -> None:
        """Take all definitions that were put, and forget topics that are gone."""
        while self._waiting:
            self._take(self._waiting.popleft(), consumer)
        if self._removed:
            self._forget_removed()

    def _take(self, followed: Followed, consumer: Consumer) -> None:
        definitions = self._owned.definitions
        wanted = {definition.log: definition for definition in followed.topics.topics}
        live = followed.topics_that_are(ChangeEffect.LIVE)
        changed = {log for log, definition in wanted.items() if definition.name in live}
        had = definitions.keys() - self._removed
        self._removed = (self._removed | had) - wanted.keys()
        if self._standby is not None:
            self._standby.end_copies(changed)
        definitions.update(wanted)
        # By their new limits: the owner appends them to the log as a `define` command, which holds for all readers.
        if reopened := self._owned.of_logs(changed):
            self._assignment.reopen(consumer, reopened)
        elif changed and self._standby is not None:
            # Opening begins the copies that were ended, and none of these topics is opened here: they would stay
            # ended (test_a_worker_without_partitions_of_the_topic_copies_it_again).
            self._standby.cover(self._owned.assigned)
        if had != wanted.keys():
            # The cooperative protocol moves only partitions of the topics that were added or removed.
            self._subscribe(list(wanted))

    def _forget_removed(self) -> None:
        """Forget removed topics of which this worker has no partition any more."""
        gone = {log for log in self._removed if not self._owned.of_logs({log})}
        if self._standby is not None:
            self._standby.end_copies(gone)
        for log in gone:
            del self._owned.definitions[log]
        self._removed -= gone
