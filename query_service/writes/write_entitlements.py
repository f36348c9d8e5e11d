"""Enforces the entitlements to write: refuses a write that is not allowed before it reaches the log.

The record must match the entitlement before and after the write. The record before is the one that this replica
holds; it may lack a write that another client has just made.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from query_service.topics.state import TopicState
from query_service.writes.publishing import CheckedCommand
from sowline.errors import SowlineError
from sowline.filter import ALL, Filter, compile_filter
from sowline.model.merge import merge
from sowline.protocol.command import DELTA, DELTA_PUBLISH, SOW_DELETE
from sowline.serving.authorization.entitlements import NOT_ENTITLED, Rights, both, check_fields


def entitled_to_delete(topic: TopicState, fields: Mapping[str, Any], rights: Rights) -> Mapping[str, Any]:
    """Return the headers of a command; restrict a delete by filter to records that the user may read and write.

    Raise `not entitled` if the user may not read the topic: the number of deleted records would reveal its content.
    """
    if not fields.get("filter"):
        return fields
    name, filter = topic.definition.name, compile_filter(fields["filter"])
    readable = rights.read.of(name)
    check_fields(readable, filter)
    allowed = both(readable.filter, rights.write.of(name).filter)
    return fields if allowed == ALL else {**fields, "filter": both(filter, allowed).text}


def check_write(topic: TopicState, write: CheckedCommand, fields: Mapping[str, Any], rights: Rights) -> None:
    """Raise `not entitled` unless the user may write the records of a command, as they are now and after it."""
    name = topic.definition.name
    allowed = rights.write.of(name).filter
    if write.command == DELTA:
        _check_delta(name, allowed, rights)
    if allowed == ALL or fields.get("filter"):
        return
    if write.key is None and write.body is not None and topic.definition.has_sow:
        raise _refused(
            allowed,
            f"the record is known only when the message is applied, so you need the right to write all of {name}",
        )
    held = [body for key in _named(topic, write, fields) if (body := topic.rows.body(key)) is not None]
    for body in held:
        _check(allowed, body, "you may not change this record")
    if write.body is not None and write.command != SOW_DELETE:
        is_laid_over = write.command == DELTA_PUBLISH and held
        _check(
            allowed,
            merge(held[0], write.body) if is_laid_over else write.body,
            "you may not write this record",
        )


def _check_delta(name: str, allowed: Filter, rights: Rights) -> None:
    """Raise `not entitled` unless the user may write and read all of a topic: a delta can test its content."""
    if allowed != ALL:
        raise _refused(
            allowed,
            "the effect of a delta is known only when it is applied; send a publish or a delta_publish",
        )
    if name not in rights.read or not rights.read.of(name).is_whole:
        raise SowlineError(
            NOT_ENTITLED,
            f"a delta can test what a document holds: you need the right to read all of {name}; send a publish or a"
            " delta_publish instead",
        )


def _named(topic: TopicState, write: CheckedCommand, fields: Mapping[str, Any]) -> Iterable[bytes]:
    """Return the SOW keys that a command names."""
    if write.key is None:
        return [key.encode() for key in fields.get("keys") or ()]
    return [topic.definition.key_rule.sow_key(write.key.decode())]


def _check(allowed: Filter, body: bytes, why: str) -> None:
    if not allowed.matches(orjson.loads(body)):
        raise _refused(allowed, why)


def _refused(allowed: Filter, why: str) -> SowlineError:
    return SowlineError(NOT_ENTITLED, f"{why}; you may write only records that match {allowed.text}")
