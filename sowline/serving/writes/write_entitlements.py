"""Enforces the entitlements to write: refuses a write that is not allowed before it reaches the log. Pure.

The record must match the entitlement before and after the write. The record before is the one that a query service
holds; it may lack a write that another client has just made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from sowline.commands.command import DELTA, DELTA_PUBLISH, SOW_DELETE
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.emodb.template import Fields, read_with
from sowline.language.emodb.values import Json
from sowline.language.filter import ALL, Filter, compile_filter
from sowline.serving.authorization.entitlements import NOT_ENTITLED, Rights, both, check_fields
from sowline.serving.writes.checked_command import CheckedCommand


def entitled_to_delete(
    topic: TopicDefinition, fields: Mapping[str, Any], rights: Rights
) -> Mapping[str, Any]:
    """Return the headers of a command; restrict a delete by filter to records that the user may read and write.

    Raise `not entitled` if the user may not read the topic: the number of deleted records would reveal its content.
    """
    if not fields.get("filter"):
        return fields
    filter = compile_filter(fields["filter"])
    readable = rights.read.of(topic.name)
    check_fields(readable, filter)
    allowed = both(readable.filter, rights.write.of(topic.name).filter)
    return fields if allowed == ALL else {**fields, "filter": both(filter, allowed).text}


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """The check of a command against the records that it names, before it is written.

    `key_text` names its one record; else `sow_keys` name several, as a client sent them.
    """

    topic: TopicDefinition
    allowed: Filter
    key_text: str | None
    sow_keys: tuple[str, ...]

    def check(self, write: CheckedCommand, held: Sequence[bytes], template: Fields) -> None:
        """Raise `not entitled` unless the user may write the records, as they are `held` now and after the write.

        A document reads with the fields of the `template` after the write.
        """
        for body in held:
            self._check(orjson.loads(body), "one of a record that does not match")
        if write.body is not None and write.command != SOW_DELETE:
            is_laid_over = write.command == DELTA_PUBLISH and held
            body = self.topic.merged(held[0], write.body) if is_laid_over else write.body
            # Whatever the write has under their names (test_what_is_written_reads_with_the_template).
            self._check(read_with(orjson.loads(body), template), "one after which its record does not match")

    def _check(self, read: dict[str, Json], got: str) -> None:
        if not self.allowed.matches(read):
            raise _refused(self.allowed, got)


def check_of(write: CheckedCommand, fields: Mapping[str, Any], rights: Rights) -> RecordCheck | None:
    """Return the check against the records; None if the user may write any record.

    Raise `not entitled` if no record can make the write allowed.
    """
    topic = write.topic
    allowed = rights.write.of(topic.name).filter
    if write.command == DELTA:
        _check_delta(topic.name, allowed, rights)
    if allowed == ALL or fields.get("filter"):
        return None
    if write.is_unread:
        raise _refused(
            allowed,
            "a message whose schema is not known here: send JSON, or ask for the right to write all of"
            f" {topic.name}",
        )
    if write.key is None and write.body is not None and topic.has_sow:
        raise _refused(
            allowed,
            "a message whose record is known only when it is applied: ask for the right to write all of"
            f" {topic.name}",
        )
    if write.key is None:
        return RecordCheck(topic, allowed, None, tuple(fields.get("keys") or ()))
    return RecordCheck(topic, allowed, write.key.decode(), ())


def _check_delta(name: str, allowed: Filter, rights: Rights) -> None:
    """Raise `not entitled` unless the user may write and read all of a topic: a delta can test its content."""
    if allowed != ALL:
        raise _refused(
            allowed,
            "a delta, whose effect is known only when it is applied: send a publish or a delta_publish",
        )
    rights.read.require_whole(
        name, "a delta can test what a document holds. Send a publish or a delta_publish instead"
    )


def _refused(allowed: Filter, got: str) -> SowlineError:
    return SowlineError(
        NOT_ENTITLED,
        f"expected a write of records that match {allowed.text}, the only ones that you may write, got {got}",
    )
