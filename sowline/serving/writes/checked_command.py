"""A command, checked and ready to be written to the log."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sowline.commands.command import DELTA, Headers, command_headers, read_command
from sowline.config.outgoing_body import outgoing_body
from sowline.config.outgoing_command import (
    ANY_PARTITION,
    check_document,
    check_tagging,
    checked_size,
)
from sowline.config.topic_definition import TopicDefinition
from sowline.model.key import partition_of


class CheckedCommand(NamedTuple):
    """A command, checked and ready to be written.

    `value` goes to the log, in the topic's message type; `body` is the same as JSON, or the text of a delta. A value
    without a body names a schema that is not known here.
    """

    topic: TopicDefinition
    command: str
    body: bytes | None
    key: bytes | None
    partition: int
    headers: Headers
    value: bytes | None

    @property
    def is_for_all(self) -> bool:
        """Whether it is for all partitions: a delete by filter or SOW keys."""
        return self.value is None and self.key is None

    @property
    def is_unread(self) -> bool:
        """Whether its content can't be checked."""
        return self.value is not None and self.body is None

    @classmethod
    def of(
        cls,
        topic: TopicDefinition,
        command: str,
        data: bytes | None,
        fields: Mapping[str, Any],
        *,
        is_typed: bool = False,
    ) -> "CheckedCommand":
        """Check a command; raise if the materializer would refuse its body or headers.

        `data` is JSON, or with `is_typed` a message in the topic's message type. `fields` has the values for its
        headers; `key` is the SOW key that the publisher gives.
        """
        value, body, text, paths = outgoing_body(
            topic,
            command,
            data,
            correlation=fields.get("correlation"),
            key=fields.get("key"),
            fields=fields.get("fields", ()),
            is_typed=is_typed,
        )
        takes_header = topic.has_sow and topic.key_rule.takes_header
        own = {"key": text if takes_header else None, "fields": paths}
        headers = _headers(topic, command, {**fields, **own})
        if text is not None:
            partition = partition_of(text, topic.partitions)
            return cls(topic, command, body, text.encode(), partition, headers, value)
        if value is None:
            return cls(topic, command, None, None, 0, headers, None)
        # The key is not known yet. One partition for all such commands keeps their order: with several, two writes of
        # one record could be applied in reverse.
        partition = partition_of(topic.name, topic.partitions) if topic.has_sow else ANY_PARTITION
        return cls(topic, command, body, None, partition, headers, value)

    @classmethod
    def of_delta(
        cls, topic: TopicDefinition, key: str, delta: bytes, fields: Mapping[str, Any]
    ) -> "CheckedCommand":
        """Check the command for a valid delta text, for the document with this key text."""
        check_document(key, topic)
        body = checked_size(delta, topic)
        headers = _headers(topic, DELTA, {**fields, "key": None})
        return cls(topic, DELTA, body, key.encode(), partition_of(key, topic.partitions), headers, body)


def _headers(topic: TopicDefinition, command: str, fields: Mapping[str, Any]) -> Headers:
    check_tagging(fields, topic)
    headers = command_headers(command, **fields)
    # Read as the materializer does: a command that it would refuse must not reach the log.
    read_command(headers)
    return headers
