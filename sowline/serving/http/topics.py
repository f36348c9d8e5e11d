"""What every service answers about a topic, from its definition."""

from typing import Any

from sowline.config.topics import TopicDefinition


def described_definition(definition: TopicDefinition) -> dict[str, Any]:
    """Return the description of a topic in `/v1/topics`, but for its state."""
    return {
        "name": definition.name,
        "message_type": definition.message_type,
        "sow": definition.has_sow,
        "key": definition.key_sent,
        "key_domain": definition.key_domain,
        "preprocessing": list(definition.preprocessing),
        "log": definition.log,
        "partitions": definition.partitions,
        "documents": definition.documents,
        "record_bytes_max": definition.record_bytes_max,
        "changes_kept_seconds": definition.change_window / 1000,
    }
