"""The last eras of deleted logs: a log that is created again under the same name goes on in the era after.

Clients keep bookmarks of a deleted topic, views the positions that they reflect, and fanouts those that they have
written. If the eras began at 0 again, the new positions would seem to be among these, and new records would be
skipped without an error.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import Final

import orjson
from confluent_kafka import KafkaError, KafkaException

from sowline.changes.ranking import NewestEvents
from sowline.config.kafka_names import LAST_ERAS, KafkaNames
from sowline.config.kafka_options import KafkaConfig
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range
from sowline.kafka.exact_output import ExactOutput
from sowline.kafka.messages import event_of

NEWEST_MAX = 1000
"""The newest events of a partition of changes that are read to find its era: a stalled owner of an ended era may have
written the last ones."""

NEVER_DELETED = -1
"""The last era of a log that was never deleted: the era after it is the first."""


_NEEDED: Final = (
    f"expected the right to read the Kafka topic {LAST_ERAS}, which may have the era that {{log}} begins with. Allow"
    " Describe and Read on it, and start again"
)


class LastEras:
    """The eras that logs ended in when they were last deleted, as Kafka has them at the first question.

    Safe to use from any thread. Logs that are deleted afterwards need another one.
    """

    def __init__(self, kafka: KafkaConfig, cluster: Cluster) -> None:
        self._kafka = kafka
        self._cluster = cluster
        self._lock = threading.Lock()
        self._eras: dict[str, int] | None = None

    def of(self, log: str) -> int:
        """Return the last era of a log; `NEVER_DELETED` without one. Raise `bad topic` without the right to know."""
        with self._lock:
            if self._eras is None:
                self._eras = self._read(log)
            return self._eras.get(log, NEVER_DELETED)

    def _read(self, log: str) -> dict[str, int]:
        eras: dict[str, int] = {}
        try:
            # Not by a list of all topics: Kafka leaves out those that this client has no right to
            # (test_an_era_that_may_not_be_read).
            if not self._cluster.is_there(LAST_ERAS):
                return eras
            end = self._cluster.ends(LAST_ERAS, [0])[0]
            for message in chain.from_iterable(read_range(self._kafka, LAST_ERAS, 0, 0, end)):
                key, era = (message.key() or b"").decode(), orjson.loads(message.value() or b"")["last_era"]
                # Two processes may delete the same log at one time, and the slower one may have seen less.
                eras[key] = max(era, eras.get(key, NEVER_DELETED))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            raise SowlineError("bad topic", _NEEDED.format(log=log)) from error
        return eras


def note_last_eras(
    kafka: KafkaConfig, deleted: Iterable[KafkaNames], kept: Iterable[KafkaNames] = ()
) -> None:
    """Store the eras of logs whose changes are about to be deleted, with the log or without; return once Kafka has
    them.
    """
    # A log that was defined again, but never opened, has no event. The era after its last one is still unused.
    cluster = Cluster(kafka)
    last_eras = LastEras(kafka, cluster)
    newest = {names.log: _newest_era(kafka, cluster, names.changes) for names in deleted}
    eras = {log: era for log, era in newest.items() if era > NEVER_DELETED}
    for names in kept:
        # A kept log gives the same changes at the same positions again, in the era that it begins with. In a later
        # era it did not begin with its first record.
        era = _newest_era(kafka, cluster, names.changes)
        if era > last_eras.of(names.log) + 1:
            eras[names.log] = era
    if eras:
        _store(kafka, cluster, eras)


def note_begun_era(kafka: KafkaConfig, cluster: Cluster, log: str, era: int) -> None:
    """Store an era that a restored state begins with, as the last one of its log; return once Kafka has it.

    The changes topic of that state may be deleted without a `drop`. The next state must not begin in that era, too.
    """
    _store(kafka, cluster, {log: era})


def _store(kafka: KafkaConfig, cluster: Cluster, eras: dict[str, int]) -> None:
    cluster.ensure_compacted(LAST_ERAS)
    output = _Output(kafka)
    try:
        output.write(eras)
    finally:
        output.close()


def _newest_era(kafka: KafkaConfig, cluster: Cluster, changes: str) -> int:
    """Return the newest era of any partition of a changes topic; `NEVER_DELETED` if it has no event."""
    seen, has_event = NewestEvents(), False
    numbers = range(cluster.partitions(changes))
    starts, ends = cluster.starts(changes, numbers), cluster.ends(changes, numbers)
    for number, end in ends.items():
        for messages in read_range(kafka, changes, number, max(starts[number], end - NEWEST_MAX), end):
            for message in messages:
                # Anybody may have written a record that is no event.
                with suppress(ValueError, KeyError):
                    seen.saw(event_of(message))
                    has_event = True
    return seen.era if has_event else NEVER_DELETED


class _Output(ExactOutput):
    """Writes the last eras."""

    def __init__(self, kafka: KafkaConfig) -> None:
        super().__init__(kafka, LAST_ERAS)

    def write(self, eras: dict[str, int]) -> None:
        """Write the eras by log, and wait until Kafka has them."""
        for log, era in eras.items():
            self._produce(0, orjson.dumps({"last_era": era}), log.encode(), [])
        self.flush(lambda: self._failed is not None)
        self.require_written()
