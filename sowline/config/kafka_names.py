"""The names of a topic's Kafka topics: the only place that makes one of them from another."""

from typing import Final, NamedTuple

LAST_ERAS: Final = "_sowline.last-eras"
"""The Kafka topic of the eras that deleted logs ended in; only there once `sowline drop` has deleted a log."""


class KafkaNames(NamedTuple):
    """The Kafka topics of a topic. The `stem` begins the names of those that are not the log.

    No name tells whose it is: `x.partials` is the log of the view `x`, or that of a topic with this name. A reader
    of changes finds their topic among the names of all (`by_changes` of the definitions).
    """

    log: str
    stem: str

    @classmethod
    def of_log(cls, log: str) -> "KafkaNames":
        """Return the names for a topic that is published to."""
        return cls(log, log)

    @classmethod
    def of_view(cls, view: str) -> "KafkaNames":
        """Return the names for a view or a conflated topic, whose log has partial states."""
        stem = default_log(view)
        return cls(f"{stem}.partials", stem)

    @property
    def changes(self) -> str:
        """The Kafka topic of the changes."""
        return f"{self.stem}.changes"

    @property
    def dead(self) -> str:
        """The Kafka topic of the dead letters."""
        return f"{self.stem}.dead"

    @property
    def schema_log(self) -> str:
        """The Kafka topic of the schemas that messages name, for message types that have them."""
        return f"{self.log}.schemas"


def fanout_output(fanout: str) -> str:
    """Return the Kafka topic that a fanout writes to."""
    return f"fanout.{default_log(fanout)}"


def default_log(topic: str) -> str:
    """Return the log of a topic whose definition names none."""
    return topic.replace("/", ".")
