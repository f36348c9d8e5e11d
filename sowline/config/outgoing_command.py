"""Checks a command before it is written to the log, as the materializer would check it."""

from collections.abc import Mapping
from typing import Any

from sowline.config.command_key import preprocessed
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.body import read_object

ANY_PARTITION = -1
"""Kafka's client chooses the partition, by the Kafka key if there is one."""


def checked_key(
    body: bytes | None, definition: TopicDefinition, correlation: str | None, key: str | None = None
) -> str | None:
    """Return the key text of a command, from its preprocessed body or from the `key` that its publisher gives.

    None for a topic without a SOW, for a delete that names no single record, and if the key depends on the log.
    Raises the reason why the command is refused.
    """
    document = {} if body is None else read_object(checked_size(body, definition))
    if not definition.has_sow:
        if key is not None:
            raise SowlineError(
                "bad request", f"expected no SOW key in topic {definition.name}, which has no SOW, got one"
            )
        return None
    if body is None:
        return None if key is None else definition.key_rule.given(document, key)
    # Only for the key, which it may compute. The body goes to the log as it came, and the partition's owner
    # preprocesses it again.
    preprocessed(definition, body, document, correlation)
    return definition.key_rule.given(document, key)


def checked_size(body: bytes, definition: TopicDefinition) -> bytes:
    """Return a body, or a delta's text, that is no larger than the topic allows; raises `too large`."""
    if len(body) > definition.limits.record_bytes_max:
        raise SowlineError(
            "too large",
            f"expected a record of at most {definition.limits.record_bytes_max} bytes, got {len(body)}",
        )
    return body


def check_writable(definition: TopicDefinition) -> None:
    """Raise `view` for a topic that is computed from others."""
    if definition.view is not None:
        raise SowlineError(
            "view",
            f"expected a topic that takes commands, got the view {definition.name}: write to"
            f" {definition.view.source}, which it is computed from",
        )


def check_document(key: str, definition: TopicDefinition) -> None:
    """Raise `view`, `no documents`, or the problem of the key text that names a document."""
    check_writable(definition)
    if not definition.documents:
        raise _no_documents(definition, "a delta")
    definition.key_rule.check(key)


def check_tagging(about: Mapping[str, Any], definition: TopicDefinition) -> bool:
    """Return whether there are tags or a change id; raise `no documents` if the topic has no documents."""
    is_tagged = bool(about.get("tags") or about.get("change_id"))
    if is_tagged and not definition.documents:
        raise _no_documents(definition, "tags and change_id")
    return is_tagged


def _no_documents(definition: TopicDefinition, what: str) -> SowlineError:
    return SowlineError(
        "no documents", f"expected documents: true in the definition of topic {definition.name}, for {what}"
    )
