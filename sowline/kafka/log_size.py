"""The size of a topic's log, for an estimate of how long a rebuild takes."""

from typing import NamedTuple, Self

from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range

SAMPLE = 100
"""The records that are read at the end of each partition, to know their size."""


class LogSize(NamedTuple):
    """The records that a log has, and about how many bytes they take uncompressed."""

    records: int
    nbytes: int

    @classmethod
    def of(cls, kafka: KafkaConfig, log: str) -> Self:
        """Return the size of a log, from its offsets and its last records."""
        cluster = Cluster(kafka)
        numbers = range(cluster.partitions(log))
        starts, ends = cluster.starts(log, numbers), cluster.ends(log, numbers)
        sizes: list[int] = []
        for number, end in ends.items():
            for messages in read_range(kafka, log, number, max(starts[number], end - SAMPLE), end):
                sizes += [len(one.value() or b"") + len(one.key() or b"") for one in messages]
        records = sum(end - starts[number] for number, end in ends.items())
        return cls(records, records * sum(sizes) // max(1, len(sizes)))
