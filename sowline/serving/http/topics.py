"""The description of a topic that every service answers with, from its definition."""

from typing import Any

from sowline.config.declared_topic import JSON
from sowline.config.topic_definition import TopicDefinition
from sowline.serving.authorization.entitlements import Rights


def described_definition(definition: TopicDefinition, rights: Rights) -> dict[str, Any]:
    """Return the description of a topic in `/v1/topics`, but for its state."""
    return {
        "name": definition.name,
        "message_type": definition.message_type,
        "message_format": None if _sees_some_fields(definition.name, rights) else definition.format,
        "reader_schema": _reader_schema(definition, rights),
        "framing": None if definition.message_type == JSON else definition.framing,
        "view": described_view(definition, rights),
        "sow": definition.has_sow,
        "key": definition.key_sent,
        "key_domain": definition.declared.key_domain,
        "preprocessing": list(definition.declared.preprocessing),
        "log": definition.log,
        "partitions": definition.partitions,
        "documents": definition.documents,
        "record_bytes_max": definition.limits.record_bytes_max,
        "changes_kept_seconds": definition.kafka.change_window_ms / 1000,
    }


def described_view(definition: TopicDefinition, rights: Rights) -> dict[str, Any] | None:
    """Return the definition of a view; None for another topic, or if it is hidden from the user."""
    view = definition.view
    if view is None or _sees_some_fields(definition.name, rights):
        return None
    return view.described()


def _sees_some_fields(name: str, rights: Rights) -> bool:
    """Whether the user may read only some of a topic's fields, and so must not learn of the others."""
    return name not in rights.write and name in rights.read and rights.read.of(name).select is not None


def _reader_schema(definition: TopicDefinition, rights: Rights) -> dict[str, Any] | None:
    """Return the reader schema as a publisher needs it; None if there is none, or if it is hidden from the user."""
    pinned = definition.declared.reader_schema
    is_hidden = _sees_some_fields(definition.name, rights)
    return None if pinned is None or is_hidden else pinned.model_dump()
