"""Entitlements to write: a write that is not allowed is refused before it reaches the log."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from query_service.authorization.entitlements import NOT_ENTITLED, Rights, both, check_fields
from query_service.topics.state import TopicState
from query_service.writes.publishing import CheckedCommand
from sowline.errors import SowlineError
from sowline.filter import ALL, Filter, compile_filter
from sowline.model.merge import merge
from sowline.protocol.command import DELTA, DELTA_PUBLISH, SOW_DELETE


def entitled_to_delete(topic: TopicState, fields: Mapping[str, Any], rights: Rights) -> Mapping[str, Any]:
    """Return the headers of a command; a delete by filter is only of records that may be read, and written.

    Raises `not entitled` where nothing may be read: how many it deletes tells what there is.
    """
    if not fields.get("filter"):
        return fields
    name, filter = topic.definition.name, compile_filter(fields["filter"])
    readable = rights.read.of(name)
    check_fields(readable, filter)
    allowed = both(readable.filter, rights.write.of(name).filter)
    return fields if allowed == ALL else {**fields, "filter": both(filter, allowed).text}


def check_write(topic: TopicState, write: CheckedCommand, fields: Mapping[str, Any], rights: Rights) -> None:
    """Raise `not entitled` unless what a command names may be written, as it is and as it will be."""
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
    """Raise `not entitled` unless all of a topic may be written, and read: a delta asks what there is."""
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
    """The SOW keys that a command names."""
    if write.key is None:
        return [key.encode() for key in fields.get("keys") or ()]
    return [topic.definition.key_rule.sow_key(write.key.decode())]


def _check(allowed: Filter, body: bytes, why: str) -> None:
    if not allowed.matches(orjson.loads(body)):
        raise _refused(allowed, why)


def _refused(allowed: Filter, why: str) -> SowlineError:
    return SowlineError(NOT_ENTITLED, f"{why}; you may write only records that match {allowed.text}")
