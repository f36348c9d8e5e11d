"""The Kafka topics of a SOW topic: their partitions and settings, and what suits an existing one. No I/O."""

from sowline.config.topic_definition import TopicDefinition

COMPACTION_LAG_MS_MIN = 10 * 60_000

TOMBSTONE_MS_MIN = 24 * 60 * 60_000
"""The minimum time, in ms, for which Kafka keeps tombstones of changes: a slower load may keep deleted records."""

KEPT_FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}

VIEW_LOG_MS = 7 * 86_400_000
"""The time for which the log of a view keeps partial states."""

SCHEMA_ENTRY_BYTES_MAX = 16 << 20
"""The largest entry about a schema: its text and its references, as JSON."""

LEFT_ALONE = {"retention.ms", "retention.bytes"}
"""Settings that Sowline gives a log that it creates, and leaves alone on an existing log."""

_MINIMA = {"max.message.bytes", "min.compaction.lag.ms", "delete.retention.ms", "retention.ms"}


def compaction_lag_ms(definition: TopicDefinition) -> int:
    """Return the minimum time, in ms, for which compaction leaves the changes of a topic alone."""
    return max(COMPACTION_LAG_MS_MIN, definition.kafka.change_window_ms)


def kafka_topics(definition: TopicDefinition) -> dict[str, tuple[int, dict[str, str]]]:
    """Return name → (partitions, settings) of the Kafka topics of one SOW topic."""
    log = {
        # The broker's time, regardless of the clocks of producers.
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(definition.kafka.log_bytes_max),
    }
    lag = compaction_lag_ms(definition)
    changes = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(lag),
        "delete.retention.ms": str(max(definition.limits.repeat_window, lag, TOMBSTONE_MS_MIN)),
        "max.message.bytes": str(definition.kafka.log_bytes_max),
    }
    if not definition.has_sow:
        changes = {
            "cleanup.policy": "delete",
            "retention.ms": str(lag),
            "max.message.bytes": str(definition.kafka.log_bytes_max),
        }
    dead = {"max.message.bytes": str(definition.kafka.dead_bytes_max)}
    # The log of a view has no data that its sources lack.
    kept = KEPT_FOREVER if definition.view is None else {"retention.ms": str(VIEW_LOG_MS)}
    wanted = {
        definition.log: (definition.partitions, log | kept),
        definition.changes: (definition.partitions, changes),
        definition.kafka.dead: (1, dead | KEPT_FOREVER),
    }
    if definition.reader is not None:
        # Not compacted: the first entry of a key counts, and compaction keeps the last.
        schemas = {"cleanup.policy": "delete", "max.message.bytes": str(SCHEMA_ENTRY_BYTES_MAX)}
        wanted[definition.kafka.schema_log] = (definition.partitions, schemas | KEPT_FOREVER)
    return wanted


def serves(key: str, found: str, wanted: str) -> bool:
    """Return whether a topic's setting is suitable: at least as large for a limit, else the same."""
    if key == "retention.ms" and "-1" in (found, wanted):
        return found == "-1"
    return int(found) >= int(wanted) if key in _MINIMA else found == wanted
