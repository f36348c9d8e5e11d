"""A command, checked and ready to be written to the log."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sowline.config.outgoing_command import (
    ANY_PARTITION,
    check_document,
    check_tagging,
    checked_key,
    checked_size,
)
from sowline.config.topics import TopicDefinition
from sowline.model.key import partition_of
from sowline.protocol.command import DELTA, Headers, command_headers, read_command


class CheckedCommand(NamedTuple):
    """A command, checked and ready to be written."""

    topic: TopicDefinition
    command: str
    body: bytes | None
    key: bytes | None
    partition: int
    headers: Headers

    @property
    def is_for_all(self) -> bool:
        """Whether it is for all partitions: a delete by filter or SOW keys."""
        return self.body is None and self.key is None

    @classmethod
    def of(
        cls, topic: TopicDefinition, command: str, body: bytes | None, fields: Mapping[str, Any]
    ) -> "CheckedCommand":
        """Check a command; raise if the materializer would refuse its body or headers.

        `fields` has the values for its headers; `key` is the SOW key that the publisher gives.
        """
        text = checked_key(body, topic, fields.get("correlation"), fields.get("key"))
        takes_header = topic.has_sow and topic.key_rule.takes_header
        headers = _headers(topic, command, {**fields, "key": text if takes_header else None})
        if text is not None:
            return cls(topic, command, body, text.encode(), partition_of(text, topic.partitions), headers)
        if body is None:
            return cls(topic, command, None, None, 0, headers)
        # The key is not known yet. One partition for all such commands keeps their order: with several, two writes of
        # one record could be applied in reverse.
        partition = partition_of(topic.name, topic.partitions) if topic.has_sow else ANY_PARTITION
        return cls(topic, command, body, None, partition, headers)

    @classmethod
    def of_delta(
        cls, topic: TopicDefinition, key: str, delta: bytes, fields: Mapping[str, Any]
    ) -> "CheckedCommand":
        """Check the command for a valid delta text, for the document with this key text."""
        check_document(key, topic)
        body = checked_size(delta, topic)
        headers = _headers(topic, DELTA, {**fields, "key": None})
        return cls(topic, DELTA, body, key.encode(), partition_of(key, topic.partitions), headers)


def _headers(topic: TopicDefinition, command: str, fields: Mapping[str, Any]) -> Headers:
    check_tagging(fields, topic)
    headers = command_headers(command, **fields)
    read_command(headers)
    return headers
