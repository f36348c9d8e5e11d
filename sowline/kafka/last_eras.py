"""The last eras of deleted logs: a log that is created again under the same name goes on in the era after.

Clients keep bookmarks of a deleted topic, views the positions that they reflect, and fanouts those that they have
written. If the eras began at 0 again, the new positions would seem to be among these, and new records would be
skipped without an error.
"""

from collections.abc import Iterable
from contextlib import suppress

import orjson

from sowline.changes.ranking import NewestEvents
from sowline.config.kafka_names import LAST_ERAS, KafkaNames
from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range
from sowline.kafka.exact_output import ExactOutput
from sowline.kafka.messages import event_of

NEWEST_MAX = 1000
"""The newest events of a partition of changes that are read to find its era: a stalled owner of an ended era may have
written the last ones."""

NEVER_DELETED = -1
"""The last era of a log that was never deleted: the era after it is the first."""


def last_era(kafka: KafkaConfig, cluster: Cluster, log: str) -> int:
    """Return the era that a log of this name ended in when it was last deleted; `NEVER_DELETED` without one."""
    if LAST_ERAS not in cluster.topic_names():
        return NEVER_DELETED
    end = cluster.ends(LAST_ERAS, [0])[0]
    eras = [
        int(orjson.loads(message.value() or b"")["last_era"])
        for messages in read_range(kafka, LAST_ERAS, 0, 0, end)
        for message in messages
        if message.key() == log.encode()
    ]
    # Two of them may delete the same log at one time, and the slower one may have seen less.
    return max(eras, default=NEVER_DELETED)


def note_last_eras(
    kafka: KafkaConfig, deleted: Iterable[KafkaNames], kept: Iterable[KafkaNames] = ()
) -> None:
    """Store the eras of logs whose changes are about to be deleted, with the log or without; return once Kafka has
    them.
    """
    # A log that was defined again, but never opened, has no event. The era after its last one is still unused.
    cluster = Cluster(kafka)
    newest = {names.log: _newest_era(kafka, cluster, names.changes) for names in deleted}
    eras = {log: era for log, era in newest.items() if era > NEVER_DELETED}
    for names in kept:
        # A kept log gives the same changes at the same positions again, in the era that it begins with. In a later
        # era it did not begin with its first record.
        era = _newest_era(kafka, cluster, names.changes)
        if era > last_era(kafka, cluster, names.log) + 1:
            eras[names.log] = era
    if not eras:
        return
    cluster.ensure_compacted(LAST_ERAS)
    output = _LastEras(kafka)
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


class _LastEras(ExactOutput):
    """Writes the last eras."""

    def __init__(self, kafka: KafkaConfig) -> None:
        super().__init__(kafka, LAST_ERAS)

    def write(self, eras: dict[str, int]) -> None:
        """Write the eras by log, and wait until Kafka has them."""
        for log, era in eras.items():
            self._produce(0, orjson.dumps({"last_era": era}), log.encode(), [])
        self.flush(lambda: self._failed is not None)
        self.require_written()
