"""The Kafka topics of one topic: their names, and the limits for the size and the age of their records."""

from dataclasses import dataclass
from typing import Self

from sowline.config.declared_topic import JSON, DeclaredTopic
from sowline.config.kafka_names import KafkaNames
from sowline.model.limits import HEADROOM_BYTES, Limits


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """The names and the settings of a topic's Kafka topics. Sizes are in bytes."""

    dead: str
    """The Kafka topic of the dead letters."""
    schema_log: str
    """The Kafka topic of the schemas that messages name, for message types that have them."""
    names: tuple[str, ...]
    """All names: log, changes, dead letters, and schemas if there are any."""
    replication: int
    change_window_ms: int
    """The time for which every single change is kept, in ms."""
    log_bytes_max: int
    """The largest Kafka record of the log. It must also fit a body that is refused as too large, with headers.

    A change fits too: its body, the previous body and a delta. The limit includes the delta even if `delta` is
    False, so that the setting does not change which records fit (`test_what_fits_does_not_depend_on_deltas`).
    """

    @classmethod
    def of(cls, declared: DeclaredTopic, names: KafkaNames, limits: Limits, *, is_computed: bool) -> Self:
        """Return the Kafka topics of a topic with these names and limits."""
        typed = () if declared.message_type == JSON else (names.schema_log,)
        history = declared.history.window if declared.history is not None else 0
        return cls(
            dead=names.dead,
            schema_log=names.schema_log,
            names=(names.log, names.changes, names.dead, *typed),
            replication=declared.replication,
            # A service that starts reads histories and timelines from the changes.
            change_window_ms=max(
                declared.resume_window, history, declared.history_ttl if declared.documents else 0
            ),
            # A change of a view also has the states of the group.
            log_bytes_max=limits.log_bytes_max + (declared.record_bytes_max if is_computed else 0),
        )

    @property
    def dead_bytes_max(self) -> int:
        """The largest dead letter: a complete log record, and the reason for its refusal."""
        return self.log_bytes_max + HEADROOM_BYTES
