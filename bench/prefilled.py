"""A topic whose changes are in Kafka before a measurement begins."""

from functools import partial
from pathlib import Path

from bench.merging import fill_with_orders
from bench.service import running, until
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import Cluster


class PrefilledTopic:
    """A topic of orders, and the environment of services."""

    def __init__(self, bootstrap: str, directory: Path, name: str, partitions: int) -> None:
        self._kafka = kafka_config(bootstrap)
        self._cluster = Cluster(self._kafka)
        self._definition = define_topic(name=name, key=("/order",), partitions=partitions)
        self._cluster.ensure_topic(self._definition)
        config = directory / f"{name}.yaml"
        config.write_text(f"topics:\n  - {{name: {name}, key: [/order], partitions: {partitions}}}\n")
        self.environment = {
            "SOWLINE_KAFKA": bootstrap,
            "SOWLINE_CONFIG": str(config),
            "SOWLINE_DATA_DIR": str(directory / "state"),
        }

    def fill(self, records: int) -> None:
        """Write orders to the log, and let a materializer write their changes."""
        definition = self._definition
        fill_with_orders(self._kafka, definition.log, records)
        ends = partial(self._cluster.ends, definition.changes, range(definition.partitions))
        with running("materializer", self.environment):
            # A query service waits until each partition has an event, even if it has no changes.
            until(lambda: sum(ends().values()) >= records and all(ends().values()))
